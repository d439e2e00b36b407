"""Runs that are cut short, of the reference cluster; and an ordinary user's, who keeps a Kafka."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.exit_codes import UNKNOWN
from harness.interrupt import JUDGING, ONCE
from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.verdict_json import read_verdict
from results.wording.headline import headline
from tests.cluster_hosts.hubs import NOBODY, as_ordinary_user
from tests.harness.commands import (
    HERE,
    LOGQUAKE,
    RUN_LIMIT_S,
    logquake,
    newest,
    running,
    verdict_of,
    why_not_valid,
)

LIGHT = (*HERE, "--rate", "150")
"""Where the load is not what a test is about."""
REFERENCE = ("--system", "reference", *LIGHT)
pytestmark = [
    pytest.mark.everything,
    pytest.mark.namespaces,
    pytest.mark.timeout(RUN_LIMIT_S + 20),
]


@pytest.fixture(name="user_store")
def ordinary_users_folder() -> Iterator[Path]:
    """Make a folder of an ordinary user's; pytest closes its own to others at each start."""
    with tempfile.TemporaryDirectory(prefix="logquake-ordinary-") as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


def of_an_ordinary_user(store: Path, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run our command as an ordinary user: root becomes one, others are one."""
    argv, environment = [LOGQUAKE, name, "--store", str(store), *words], {**os.environ}
    if os.geteuid() == 0:
        argv = as_ordinary_user(argv, Path(tempfile.mkdtemp(dir=store)))
        environment |= {"HOME": str(store), "XDG_CACHE_HOME": str(store)}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
        cwd=store,
    )  # fmt: skip


def lend_cache(folder: Path) -> None:
    """Give a copy of Kafka's cache to whoever cannot read root's home."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logquake"
    if os.geteuid() == 0 and cache.exists():
        subprocess.run(["cp", "-r", "--reflink=auto", str(cache), str(folder)], check=True)
        owner = f"{NOBODY}:{NOBODY}"
        subprocess.run(["chown", "-R", owner, str(folder / cache.name)], check=True)


@pytest.mark.kafka
@pytest.mark.night
def test_an_ordinary_user_gets_partitions_too_and_enters_a_kept_node(user_store: Path) -> None:
    lend_cache(user_store)

    def of_user(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return of_an_ordinary_user(user_store, name, *words)

    try:
        words = ("--time-limit", "20", "--nemesis", "partition", "--seed", "3", "--json", "--keep")
        done = of_user("run", *words, *LIGHT)
        entered = of_user("node", "latest", "n2", "--", "ip", "-4", "-o", "address")
    finally:
        of_user("heal")
    verdict = verdict_of(done)
    assert done.returncode == 0, why_not_valid(verdict)
    stats = verdict["stats"]
    assert isinstance(stats, dict)
    families = {kind for kind, counts in stats["faults"].items() if counts["confirmed"]}
    assert families & {"isolate", "halves", "ring", "one-way-in", "one-way-out"}
    assert "10.81.0.2" in entered.stdout, entered.stderr + done.stderr[-3000:]


def start_run(store: Path, *words: str) -> "subprocess.Popen[bytes]":
    with (store / "output.log").open("wb") as log:
        return subprocess.Popen(
            [LOGQUAKE, "run", "--store", str(store), *words], stdout=log, stderr=subprocess.STDOUT
        )


def reached(store: Path, name: str) -> bool:
    if not (store / "latest").exists():
        return False
    return any(each.name == name for each in load_milestones(newest(store).milestones))


def fault_in_force(store: Path) -> bool:
    ledger = newest(store).ledger
    return reached(store, "main") and ledger.exists() and ledger.stat().st_size > 0


def test_kill_9_leaves_a_record_to_check_and_nothing_that_heal_does_not_remove(
    tmp_path: Path,
) -> None:
    run = start_run(tmp_path, *REFERENCE, "--seed", "1")
    try:
        wait_until(lambda: fault_in_force(tmp_path), timeout_s=90, what="the first fault")
        run.send_signal(signal.SIGKILL)
        run.wait()
    finally:
        run.kill()
    root, run_id = newest(tmp_path).root, newest(tmp_path).run_id
    healed = logquake("heal", store=tmp_path)
    assert healed.returncode == 0, healed.stderr
    assert f"{run_id}: the run's command ended in its main phase" in healed.stdout
    assert f"type: logquake check {root}" in healed.stdout
    wait_until(lambda: not running(root), timeout_s=10, what="the end of every process of the run")
    assert "nothing to heal" in logquake("heal", store=tmp_path).stdout
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert "logquake" not in links + tables.stdout
    checked = logquake("check", "latest", *HERE, "--json", store=tmp_path)
    assert checked.returncode == 2, checked.stderr[-3000:]
    verdict = json.loads(checked.stdout)[0]
    assert "the run failed: the run's command ended in its main phase" in verdict["unknown_because"]
    assert verdict["checked"]["malformed-history"]["rows"] > 0


@pytest.mark.night
def test_ctrl_c_is_heard_at_once_heals_and_writes_a_verdict_of_what_there_is(
    tmp_path: Path,
) -> None:
    said = tmp_path / "output.log"
    run = start_run(tmp_path, *REFERENCE, "--seed", "2")
    try:
        wait_until(lambda: fault_in_force(tmp_path), timeout_s=90, what="the first fault")
        run.send_signal(signal.SIGTERM)
        wait_until(lambda: ONCE in said.read_text(), timeout_s=90, what="a word")
        assert not reached(tmp_path, "healed")
        code = run.wait(timeout=150)
    finally:
        run.kill()
    output = said.read_text(encoding="utf-8")
    assert code in {0, 2}, output[-3000:]
    verdict = read_verdict(newest(tmp_path).verdict)
    assert verdict is not None
    at_s = verdict.stats["interrupted_at_s"]
    assert f"\nInterrupted at {at_s} s. " in output
    assert headline(verdict).sentence.startswith(f"Interrupted at {at_s} s. ")
    assert reached(tmp_path, "collected")
    assert not running(newest(tmp_path).root)


@pytest.mark.night
@pytest.mark.spark
def test_a_judgement_that_is_ended_leaves_nothing_behind_and_says_what_judges_the_run(
    tmp_path: Path,
) -> None:
    """Ctrl-C in the middle of Spark: pyspark's own handler would say nothing, and leave its JVM.

    Spark starts beside the end of the run, and is still at it, or has just begun to judge.
    """
    said = tmp_path / "output.log"
    words = ("--hosts", "process", "--time-limit", "10", "--nemesis", "pause", "--engine", "spark")
    run = start_run(tmp_path, "--system", "reference", "--rate", "50", *words)
    try:
        wait_until(
            lambda: (
                list(newest(tmp_path).scratch.glob("*/spark.log"))
                if (tmp_path / "latest").exists()
                else None
            ),
            timeout_s=120,
            what="Spark's start",
        )
        wait_until(lambda: "judging (spark)" in said.read_text(), timeout_s=60, what="its turn")
        run.send_signal(signal.SIGINT)
        wait_until(lambda: JUDGING in said.read_text(), timeout_s=5, what="an answer")
        assert run.wait(timeout=60) == UNKNOWN
    finally:
        run.kill()
    paths = newest(tmp_path)
    assert f"{paths.root} was not judged; type: logquake check {paths.root}" in said.read_text()
    assert "Traceback" not in said.read_text()
    assert not paths.scratch.exists()
    assert not running(paths.root)
    assert read_verdict(paths.verdict) is None
    checked = logquake("check", paths.run_id, *HERE, store=tmp_path)
    assert checked.returncode in {0, 2}, checked.stderr
    assert read_verdict(paths.verdict) is not None
