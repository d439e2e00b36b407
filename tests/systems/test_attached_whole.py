"""A cluster that somebody else runs: shaken by its owner's commands, and left as it was."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest

from results.record.clock import WaitTimeoutError, wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests import attached_lab
from tests.attached_lab import Lab
from tests.machine import needs

pytestmark = [pytest.mark.night, pytest.mark.kafka, needs("namespaces", "root")]

PLAN = """\
system = "attached:{file}"
topics = 2
partitions = 3
rate = 150
warmup_s = 4
time_limit_s = {limit_s}
workload = "{workload}"
seed = 11

[minimums]
confirmed_faults = 3

[[faults]]
at_s = 2
kind = "kill"
target = "leader(log-0,1)"
hold_s = 5

[[faults]]
at_s = 100
kind = "pause"
target = "one"
hold_s = 8

[[faults]]
at_s = 130
kind = "isolate"
target = "one"
hold_s = 8
"""


MEMORY = "/dev/shm"  # noqa: S108 - the lab makes a folder of its own in it
ROOM_BYTES = 2 << 30


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    # In memory, if there is some: controllers flush each record that they agree on.
    memory = MEMORY if shutil.disk_usage(MEMORY).free > ROOM_BYTES else None
    with TemporaryDirectory(prefix="staging-", dir=memory) as folder:
        Path(folder).chmod(0o755)  # Its nodes run as another user, whom pytest's folder keeps out.
        with attached_lab.running(Path(folder) / "lab") as running:
            yield running


def logquake(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-P", "-c", "from harness.cli import main; main()", *map(str, words)]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=900, stdin=subprocess.DEVNULL
    )


def plan_in(folder: Path, lab: Lab, *, limit_s: int = 175, workload: str = "log") -> Path:
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(file=lab.file, limit_s=limit_s, workload=workload))
    plan.chmod(0o600)
    return plan


def the_run(store: Path) -> RunPaths:
    (plan,) = store.glob("*/*/plan.toml")
    return RunPaths(plan.parent)


def is_as_before(lab: Lab, before: dict[str, object]) -> None:
    """See that all is as before; deleted folders go a second after their topics."""
    changed: dict[str, object] = {}

    def settled() -> bool:
        now = lab.belongings()
        changed.clear()
        changed.update({what: now[what] for what in before if before[what] != now[what]})
        return not changed

    with suppress(WaitTimeoutError):
        wait_until(settled, timeout_s=60, what="all to be as before")
    assert not changed


@pytest.mark.timeout(1200)
def test_a_run_is_valid_and_leaves_all_as_it_was(lab: Lab, tmp_path: Path) -> None:
    before = lab.belongings()
    store = tmp_path / "store"
    said = ["--system", f"attached:{lab.file}"]
    done = logquake("run", plan_in(tmp_path, lab), *said, "--store", store, "--engine", "local")
    assert done.returncode == 0, done.stdout + done.stderr
    run = the_run(store)
    faults = pq.read_table(run.record / "faults.parquet").to_pylist()
    assert [each["kind"] for each in faults] == ["kill", "pause", "isolate"]
    assert all(each["confirmed_ns"] and each["healed_ns"] for each in faults)
    verdict = json.loads(run.verdict.read_text())
    assert verdict["valid"] == "valid"
    assert "cannot be removed" in done.stdout
    assert "as far as" in done.stdout.lower()
    plan = run.plan.read_text()
    assert '"replica.lag.time.max.ms" = "6000"' in plan
    assert "secret" not in plan + "".join(
        file.read_text("utf-8", "replace") for file in run.root.rglob("*") if file.is_file()
    )
    audited = next(it for it in load_milestones(run.milestones) if it.name == "audited")
    assert audited.detail == {}
    is_as_before(lab, before)


@pytest.mark.timeout(900)
def test_what_a_killed_run_left_is_undone_by_its_file(lab: Lab, tmp_path: Path) -> None:
    before = lab.belongings()
    store = tmp_path / "store"
    argv = [sys.executable, "-P", "-c", "from harness.cli import main; main()", "run"]
    words = [plan_in(tmp_path, lab, workload="groups"), "--system", f"attached:{lab.file}"]
    with subprocess.Popen(
        [*argv, *map(str, words), "--store", str(store)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ,
    ) as process:
        wait_until(
            lambda: any(lab.node(n, "status") == "gone" for n in attached_lab.NODES),
            timeout_s=240,
            what="a broker that is killed",
        )
        process.send_signal(signal.SIGKILL)
    assert any(name.startswith("logquake-") for name in lab.belongings()["topics"])  # type: ignore[attr-defined]
    without = logquake("heal", "--store", store)
    assert without.returncode == 1
    assert f"type: logquake heal {lab.file}" in without.stderr
    again = logquake("run", "--system", f"attached:{lab.file}", "--store", tmp_path / "other")
    assert again.returncode == 254
    assert "has topics of another run" in again.stderr
    healed = logquake("heal", lab.file, "--store", store)
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert "started the broker of n" in healed.stdout
    assert "deleted the topic logquake-" in healed.stdout
    is_as_before(lab, before)
    assert "nothing to heal" in logquake("heal", "--store", store).stdout


@pytest.mark.parametrize(
    ("was", "is_now", "why"),
    [
        ("file:password", "file:cluster.toml", "does not accept the user or the password"),
        ('"ca.pem"', '"other-ca.pem"', "the certificate of 10.99.77.11:19193 is not accepted"),
        ("test_cluster = true", "", "does not declare cluster"),
        ("kill = ", "#", "n1 has no command `kill` in other.toml"),
        ("reach = ", "#", "n1 has no command `reach` in other.toml"),
        ("./node {id} status", "./node {id} nothing", "command `status`"),
        ("19193", "19999", "no broker of the cluster answers"),
    ],
)
def test_what_keeps_a_run_from_starting_is_one_sentence(
    *, lab: Lab, tmp_path: Path, was: str, is_now: str, why: str
) -> None:
    before = lab.belongings()
    file = lab.folder / "other.toml"
    file.write_text(lab.file.read_text().replace(was, is_now))
    store, system = tmp_path / "store", f"attached:{file}"
    done = logquake(
        "run", "--system", system, "--store", store, "--nemesis", "kill,partition",
        "--time-limit", "20",
    )  # fmt: skip
    assert done.returncode not in {0, 1}
    assert why in done.stderr
    assert lab.belongings() == before
