"""The audit: what a run leaves is seen, and what others do is not its business."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cluster.hosts.audit import differences, local_traces
from cluster.hosts.ledger import ProcessLedger, mark
from cluster.hosts.namespace import enter_prefix
from cluster.hosts.signals import process_id
from cluster.protocol import ClusterError
from harness import audit as audit_module
from harness.audit import audit
from harness.endings import Ending, StageResult
from harness.interrupt import BEGINNING, Answers
from harness.staging import Staging
from results.record.clock import RunClock, wait_until
from results.record.milestones import INTERRUPTED, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from


def processes(run: RunPaths) -> Plan:
    """Return the plan of a run whose nodes are processes."""
    run.root.mkdir(parents=True, exist_ok=True)
    return plan_from({"hosts": "process"})


def test_a_process_that_outlives_its_run_is_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "SETTLE_LIMIT_S", 0.2)
    run = RunPaths(tmp_path / "run")
    before = audit(processes(run), run)
    assert before.changes() == {}
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(run.processes)) as left:
        wait_until(lambda: local_traces(run.processes), timeout_s=20, what="it to be seen")
        assert before.changes() == {
            f"process {left.pid}": "exists after the run, but did not exist before (sleep)"
        }
        left.kill()
    assert before.changes() == {}


def test_a_file_that_a_killed_process_left_is_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "SETTLE_LIMIT_S", 0.2)
    run = RunPaths(tmp_path / "run")
    before = audit(processes(run), run)
    with subprocess.Popen(["sleep", "600"]) as child:
        ProcessLedger(run.processes).started("java", "n1", process_id(child.pid))
        child.kill()
    file = Path("/dev/shm") / f"sem.faketime_sem_{child.pid}"  # noqa: S108 - libfaketime's place
    file.write_bytes(b"")
    try:
        (left,) = before.changes()
    finally:
        file.unlink()
    assert left == f"the file {file}"


def test_what_others_start_meanwhile_is_not_the_runs(tmp_path: Path) -> None:
    run, other = RunPaths(tmp_path / "run"), RunPaths(tmp_path / "run-2")
    before = audit(processes(run), run)
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(other.processes)) as foreign:
        wait_until(lambda: local_traces(other.processes), timeout_s=20, what="it to be seen")
        assert before.changes() == {}
        foreign.kill()


def test_hosts_that_nobody_could_look_at_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunPaths(tmp_path / "run")
    plan = processes(run)
    before = audit(plan, run)

    def away(*_: object) -> dict[str, str]:
        raise ClusterError("n1 does not answer")

    monkeypatch.setattr(audit_module, "_traces", away)
    assert before.changes() == {
        "the hosts": "could not be checked after the run: n1 does not answer"
    }
    blind = audit(plan, run)
    assert blind.refused == "n1 does not answer"
    assert blind.changes() == {
        "the hosts": "could not be checked before the run: n1 does not answer"
    }


@pytest.mark.namespaces
def test_a_mount_a_link_and_a_table_are_traces(tmp_path: Path) -> None:
    """In a namespace of its own, where nobody else looks."""
    look = (
        "from cluster.hosts.audit import local_traces; from pathlib import Path;"
        f"print(sorted(local_traces(Path('{tmp_path}/processes.jsonl'))))"
    )
    script = (
        f"mkdir -p '{tmp_path}/a b'; mount -t tmpfs tmpfs '{tmp_path}/a b';"
        " mount -t tmpfs tmpfs /mnt; ip link add lqhub type bridge;"
        " ip link add lqx type veth peer name lqy;"
        f' nft add table ip logquake; exec {sys.executable} -c "{look}"'
    )
    done = subprocess.run(
        [*enter_prefix(), "sh", "-ec", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(
        [f"a mount at {tmp_path}/a b", "the link lqhub", "the nft table logquake"]
    )


def test_what_vanished_and_what_changed_are_differences_too() -> None:
    assert differences({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4"}) == {
        "a": "existed before the run, but no longer exists (1)",
        "c": "was different before the run (3, now 4)",
    }


def test_a_run_that_is_interrupted_before_its_stage_has_none_and_notes_why(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    plan, said = processes(run), Console(file=io.StringIO())
    answered: list[str] = []
    with Answers(run.run_id, answered.append) as answers:
        os.kill(os.getpid(), signal.SIGTERM)
        result = Staging(plan, tmp_path, said)._play_audited(
            plan, run, RunClock.starting_now(), answers
        )
    assert answered == [BEGINNING]
    assert result.ending is Ending.INTERRUPTED
    names = [each.name for each in load_milestones(run.milestones)]
    assert names == ["looked", INTERRUPTED, "failed", "audited"]


@pytest.mark.parametrize("ending", [Ending.PLAYED, Ending.CLUSTER])
def test_a_session_notes_what_a_played_run_left_and_ends_it_all_the_same(
    ending: Ending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the death of the stage left is no surprise, as long as the clean-up ends it."""
    monkeypatch.setattr(audit_module, "SETTLE_LIMIT_S", 0.2)
    run = RunPaths(tmp_path / "run")
    plan = processes(run)
    left: list[subprocess.Popen[bytes]] = []

    def play(*_: object) -> StageResult:
        left.append(subprocess.Popen(["sleep", "600"], env=os.environ | mark(run.processes)))
        wait_until(lambda: local_traces(run.processes), timeout_s=20, what="it to be seen")
        return StageResult(ending=ending, sentence="")

    monkeypatch.setattr(Staging, "_play", play)
    said = Console(file=io.StringIO(), soft_wrap=True)
    with Answers(run.run_id, pytest.fail) as answers:
        Staging(plan, tmp_path, said)._play_audited(plan, run, RunClock.starting_now(), answers)
    assert left[0].wait(timeout=20) == -9
    looked, noted = load_milestones(run.milestones)
    assert (looked.name, noted.name) == ("looked", "audited")
    expected = {f"process {left[0].pid}": "exists after the run, but did not exist before (sleep)"}
    assert noted.detail == (expected if ending is Ending.PLAYED else {})
