"""What a fault does in the background fails as it would in the foreground: as said, or a bug."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from cluster.protocol import ClusterError
from nemesis.flapping import Flapping
from nemesis.ledger import open_entries
from nemesis.protocol import Aim, Patience
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import new_event, start
from tests.nemesis.conftest import World
from tests.nemesis.test_fault_disputed_election import Lab, in_lab, row_of

ON_HOSTS = {"clock-offset": "set_clock", "clock-strobe": "set_clock", "flapping": "cut"}
ON_CLUSTER = {"topic-churn": "create_topic", "disputed-election": "kill_node", "kill": "kill_node"}
"""What each of them does; one of its likes, the first of each, does it in the foreground."""
KINDS = (*ON_HOSTS, *ON_CLUSTER)


def refusing(error: Exception) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise error

    return refuse


def played(
    folder: Path, kind: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Play a fault where what it does raises an error; return its last row."""

    def deed(lab: Lab) -> dict[str, Any]:
        target = "quorum-voters" if kind == "disputed-election" else "n2"
        fault = ScheduledFault(fault_id=1, at_s=0, kind=kind, target=target, hold_s=2)
        nemesis = lab.nemesis_of(Schedule(faults=(fault,), overlapping=True))
        where = lab.hosts if kind in ON_HOSTS else lab.cluster
        with monkeypatch.context() as patched:
            patched.setattr(where, {**ON_HOSTS, **ON_CLUSTER}[kind], refusing(error))
            try:
                nemesis.run(new_event())
            finally:
                patched.undo()
                assert nemesis.heal_all().healed
                nemesis.close()
        return row_of(lab.paths)

    return in_lab(folder, deed)


@pytest.mark.parametrize(
    "error",
    [ClusterError("no way"), OSError("no way"), subprocess.SubprocessError("no way")],
    ids=["cluster", "system", "program"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_its_hosts_refuse_is_why_it_had_no_effect(
    tmp_path: Path, kind: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = played(tmp_path, kind, error, monkeypatch)
    assert "no way" in json.loads(row["effect"])["without_effect"]
    assert row["confirmed_ns"] is None
    assert row["healed_ns"] is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_in_it_is_one_of_the_run(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug"):
        played(tmp_path, kind, ZeroDivisionError("a bug"), monkeypatch)


def test_a_bug_in_it_while_it_is_held_is_told_and_it_is_healed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(lab: Lab) -> tuple[str, ...]:
        fault = ScheduledFault(fault_id=1, at_s=0, kind="flapping", target="n2", hold_s=60)
        nemesis, stop = lab.nemesis_of(Schedule(faults=(fault,), overlapping=True)), new_event()
        task = start(lambda: nemesis.run(stop), "nemesis", awaited=True)
        pause_until(stopwatch_s() + 20)
        with monkeypatch.context() as patched:
            patched.setattr(lab.hosts, "cut", refusing(ZeroDivisionError("a bug")))
            pause_until(stopwatch_s() + 20)
        stop.set()
        task.result()
        report = nemesis.heal_all()
        nemesis.close()
        assert open_entries(lab.paths.ledger) == ()
        return report.failed

    (failed,) = in_lab(tmp_path, deed)
    assert failed == (
        "fault 1 (flapping) was healed, but an earlier attempt failed: ZeroDivisionError: a bug"
    )


def test_a_bug_in_a_thread_is_raised_where_the_effect_is_looked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Flapping(Aim(fault_id=1, targets=("n2",), rng=Random(1)), world.site())
    with monkeypatch.context() as patched:
        patched.setattr(world.network, "cut", refusing(ZeroDivisionError("a bug")))
        fault.inject()
        with pytest.raises(ZeroDivisionError, match="a bug"):
            fault.confirm(Patience(limit_s=5))
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=5)) is not None


@pytest.mark.parametrize("error", [None, ClusterError("no controller is known")])
def test_topics_of_its_own_that_the_cluster_keeps_are_no_fault_in_force(
    error: ClusterError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed(lab: Lab) -> None:
        fault = ScheduledFault(fault_id=1, at_s=0, kind="topic-churn", target="n2", hold_s=2)
        nemesis = lab.nemesis_of(Schedule(faults=(fault,), overlapping=True))
        with monkeypatch.context() as patched:
            does = refusing(error) if error else lambda _: None
            patched.setattr(lab.cluster, "delete_topics", does)
            over = new_event()
            played = start(lambda: nemesis.run(over), "nemesis")
            pause_until(stopwatch_s() + 5)
            over.set()
            played.join()
            report = nemesis.heal_all(limit_s=3)
            assert "fault 1 (topic-churn) is not healed" in str(report.failed)
            assert report.undone
        assert nemesis.heal_all().healed
        nemesis.close()

    in_lab(tmp_path, deed)
