"""Whole runs on real Kafka by the command that a user types; the slowest tests of the house."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.cluster_hosts.hubs import as_ordinary_user

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 560
HERE = ("--engine", "local")
"""Where Spark's start is not what a test is about: both engines judge alike, as the first shows."""
LIGHT = (*HERE, "--rate", "150")
"""Where the load is not what a test is about, either."""
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(RUN_LIMIT_S + 20)]

LEADERS_CUT = """
[[faults]]
at_s = 3
kind = "isolate"
target = "leader(log-0,0)"
hold_s = 7
[[faults]]
at_s = 14
kind = "kill"
target = "leader(log-0,1)"
hold_s = 5
"""

NOWHERE = """
nemesis = []
[broker]
"advertised.listeners" = "BROKER://10.81.0.200:9092"  # Nobody answers there.
[budgets]
isr_s = 3
"""
NOBODY_CUT = """
[[faults]]
at_s = 1
kind = "isolate"
target = "last-isr(log-0,0)"  # The ISR is full: there is no such broker.
hold_s = 1
"""


def logquake(
    *words: str, store: Path, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, LOGQUAKE, *words, "--store", str(store)],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )


def verdict_of(done: "subprocess.CompletedProcess[str]") -> dict[str, object]:
    assert done.stdout.startswith("{"), done.stdout[-2000:] + done.stderr[-3000:]
    verdict: dict[str, object] = json.loads(done.stdout)
    return verdict


def reasons(verdict: dict[str, object]) -> str:
    said = verdict["unknown_because"]
    assert isinstance(said, list)
    return " ".join(said)


def newest(store: Path) -> RunPaths:
    return RunPaths((store / "latest").resolve())


def belongs_to(process: psutil.Process, root: Path) -> bool:
    """Tell by the command line (brokers, workers) or the mark in the environment (agents)."""
    try:
        words = [*process.cmdline(), *process.environ().values()]
    except psutil.Error:
        return False
    return any(str(root) in word for word in words)


def running(root: Path) -> list[int]:
    """Return the processes whose command line or environment names the run's folder."""
    return [process.pid for process in psutil.process_iter() if belongs_to(process, root)]


@pytest.fixture(name="user_store")
def open_folder() -> Iterator[Path]:
    """Make a folder for everybody; pytest closes its own to others at each start."""
    with tempfile.TemporaryDirectory(prefix="logquake-ordinary-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_a_run_with_faults_is_valid_and_checks_again_the_same_with_either_engine(
    tmp_path: Path,
) -> None:
    done = logquake("run", "--time-limit", "30", "--seed", "3", "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert verdict["valid"] == "valid"
    paths = newest(tmp_path)
    stored = json.loads(paths.verdict.read_text(encoding="utf-8"))
    again = [
        json.loads(logquake("check", "latest", "--engine", engine, "--json", store=tmp_path).stdout)
        for engine in ("spark", "local")
    ]
    anomalies = [json.dumps(each[0]["anomalies"], sort_keys=True) for each in again]
    assert anomalies[0] == anomalies[1] == json.dumps(stored["anomalies"], sort_keys=True)
    assert not running(paths.root)
    page = paths.report.read_text(encoding="utf-8")
    assert "valid" in page
    assert not re.search(r'(src|href)="https?://', page)


@pytest.mark.everything
def test_acknowledged_messages_that_acks_1_lost_are_found(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'warmup_s = 1\ntime_limit_s = 25\nseed = 5\nacks = "1"\njudge = "strict"\n{LEADERS_CUT}',
        encoding="utf-8",
    )
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert done.returncode == 1, done.stderr[-3000:]
    lost = verdict["anomalies"]["lost-write"]  # type: ignore[index]  # JSON
    assert lost["count"] > 0
    assert lost["trusted"] == lost["count"]
    assert lost["allowed"] == 0
    sentence = lost["examples"][0]["sentence"]
    assert re.search(r"value \d+", sentence)
    assert re.search(r"offset \d+ of log-\d+-\d+", sentence)
    assert "epoch" in sentence
    contract = ("--judge", "contract", *HERE)
    by_contract = logquake("check", "latest", *contract, "--json", store=tmp_path)
    allowed = json.loads(by_contract.stdout)[0]["anomalies"]["lost-write"]
    assert by_contract.returncode == 0, by_contract.stdout[-3000:]
    assert allowed["allowed"] == allowed["count"] == lost["count"]


@pytest.mark.everything
def test_a_run_with_hardly_any_traffic_and_a_nemesis_that_could_do_nothing_is_unknown(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"time_limit_s = 5\nwarmup_s = 1\nrate = 1\n{NOBODY_CUT}", encoding="utf-8")
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert done.returncode == 2, done.stderr[-3000:]
    assert verdict["valid"] == "unknown"
    assert "not-enough-traffic" in reasons(verdict)
    assert "fault-without-effect" in reasons(verdict)


@pytest.mark.everything
def test_a_run_whose_brokers_nobody_can_reach_is_never_valid_and_loses_nothing(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"time_limit_s = 5\nwarmup_s = 1\n{NOWHERE}", encoding="utf-8")
    done = logquake("run", str(plan), *HERE, "--json", store=tmp_path)
    verdict = verdict_of(done)
    assert "0 ok sends in the main phase" in reasons(verdict), done.stderr[-3000:]
    # Brokers do not reach each other either: whoever looked long enough knows that the ISR is not
    # restored, otherwise it is a gap.
    seen = {name for name, each in verdict["anomalies"].items() if each["count"]}  # type: ignore[attr-defined]  # JSON
    liveness = seen & {"isr-not-restored"}
    assert seen - liveness <= {"not-enough-traffic", "final-read-incomplete"}
    assert verdict["valid"] == ("invalid" if liveness else "unknown")
    assert done.returncode == (1 if liveness else 2)


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
    """Lend the cache of Kafka to whoever cannot read root's home."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logquake"
    if os.geteuid() == 0 and cache.exists():
        subprocess.run(["cp", "-r", "--reflink=auto", str(cache), str(folder)], check=True)
        subprocess.run(["chmod", "-R", "a+rwX", str(folder / cache.name)], check=True)


@pytest.mark.everything
def test_an_ordinary_user_gets_partitions_too_and_enters_a_kept_node(user_store: Path) -> None:
    lend_cache(user_store)

    def of_user(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return of_an_ordinary_user(user_store, name, *words)

    try:
        done = of_user("run", "--time-limit", "30", "--seed", "3", "--json", "--keep", *LIGHT)
        entered = of_user("node", "latest", "n2", "--", "ip", "-4", "-o", "address")
    finally:
        of_user("heal")
    verdict = verdict_of(done)
    assert done.returncode == 0, done.stderr[-3000:]
    stats = verdict["stats"]
    assert isinstance(stats, dict)
    families = {kind for kind, counts in stats["faults"].items() if counts["confirmed"]}
    assert families & {"isolate", "halves", "one-way-in", "one-way-out"}
    assert {"kill", "pause"} <= families
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


@pytest.mark.everything
def test_kill_9_leaves_a_record_to_check_and_nothing_that_heal_does_not_remove(
    tmp_path: Path,
) -> None:
    run = start_run(tmp_path, "--seed", "1")
    try:
        wait_until(lambda: fault_in_force(tmp_path), timeout_s=90, what="the first fault")
        run.send_signal(signal.SIGKILL)
        run.wait()
    finally:
        run.kill()
    root = newest(tmp_path).root
    healed = logquake("heal", store=tmp_path)
    assert healed.returncode == 0, healed.stderr
    wait_until(lambda: not running(root), timeout_s=10, what="the end of every process of the run")
    assert "nothing to heal" in logquake("heal", store=tmp_path).stdout
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert "logquake" not in links + tables.stdout
    checked = logquake("check", "latest", *HERE, "--json", store=tmp_path)
    assert checked.returncode == 2, checked.stderr[-3000:]
    verdict = json.loads(checked.stdout)[0]
    assert verdict["unknown_because"]
    assert verdict["checked"]["malformed-history"]["rows"] > 100


@pytest.mark.everything
def test_ctrl_c_heals_and_writes_a_verdict_of_what_there_is(tmp_path: Path) -> None:
    run = start_run(tmp_path, "--seed", "2")
    try:
        wait_until(lambda: fault_in_force(tmp_path), timeout_s=90, what="the first fault")
        run.send_signal(signal.SIGINT)
        code = run.wait(timeout=150)
    finally:
        run.kill()
    output = (tmp_path / "output.log").read_text(encoding="utf-8")
    assert code in {0, 2}, output[-3000:]
    assert newest(tmp_path).verdict.exists()
    assert reached(tmp_path, "collected")
    assert not running(newest(tmp_path).root)
