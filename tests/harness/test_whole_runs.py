"""Whole runs on real Kafka by the command that a user types; the slowest tests of the house."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
ORDINARY_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
RUN_LIMIT_S = 280
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
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ordinary")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o777)
    return folder


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


def test_acknowledged_messages_that_acks_1_lost_are_found(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'time_limit_s = 25\nseed = 5\nacks = "1"\njudge = "strict"\n{LEADERS_CUT}',
        encoding="utf-8",
    )
    done = logquake("run", str(plan), "--json", store=tmp_path)
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
    by_contract = logquake("check", "latest", "--judge", "contract", "--json", store=tmp_path)
    allowed = json.loads(by_contract.stdout)[0]["anomalies"]["lost-write"]
    assert by_contract.returncode == 0, by_contract.stdout[-3000:]
    assert allowed["allowed"] == allowed["count"] == lost["count"]


def test_a_run_of_which_nothing_came_is_unknown(tmp_path: Path) -> None:
    done = logquake(
        "run", "--time-limit", "5", "--warmup", "1", "--rate", "1", "--json", store=tmp_path
    )
    verdict = verdict_of(done)
    assert done.returncode == 2, done.stderr[-3000:]
    assert verdict["valid"] == "unknown"
    assert any("traffic" in reason for reason in verdict["unknown_because"])  # type: ignore[attr-defined]  # JSON


def test_an_ordinary_user_gets_partitions_too(user_store: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("every other run of this user shows it already")
    done = subprocess.run(
        [*ORDINARY_USER, "env", f"HOME={user_store}", *cache_of_this_user(user_store), LOGQUAKE,
         "run", "--time-limit", "20", "--seed", "11", "--store", str(user_store / "runs"), "--json"],
        capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, cwd=user_store,
    )  # fmt: skip
    verdict = verdict_of(done)
    assert done.returncode == 0, done.stderr[-3000:]
    confirmed = verdict["stats"]["faults_confirmed"]  # type: ignore[index]  # JSON
    assert sum(confirmed.values()) >= 1


def cache_of_this_user(folder: Path) -> list[str]:
    """Return the environment that lends our cache of Kafka to a user who cannot read our home."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "logquake"
    if not cache.exists():
        return []
    subprocess.run(["cp", "-r", str(cache), str(folder / "logquake")], check=True)
    subprocess.run(["chmod", "-R", "a+rwX", str(folder / "logquake")], check=True)
    return [f"XDG_CACHE_HOME={folder}"]


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
    checked = logquake("check", "latest", "--json", store=tmp_path)
    assert checked.returncode == 2, checked.stderr[-3000:]
    verdict = json.loads(checked.stdout)[0]
    assert verdict["unknown_because"]
    assert verdict["checked"]["malformed-history"]["rows"] > 100


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
