"""The life of faults under the runner: what is recorded, and that everything is undone."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from nemesis import life, runner, sweep
from nemesis.claims import Aspect
from nemesis.ledger import Entry, open_entries
from nemesis.life import FaultPhase
from nemesis.protocol import Aim, Fault, Site
from nemesis.registry import KINDS
from nemesis.runner import Nemesis
from nemesis.scheduled import ScheduledFault
from nemesis.undo import Join, Restart
from results.record.clock import NS_PER_S, wait_until
from results.record.plan import Plan
from tests.nemesis.conftest import FakeHostsWithoutCuts, World

LONG_S = 40.0
"""Longer than any test waits, and short enough for a main phase of 60 s."""


def _fault(number: int, kind: str, target: str, hold_s: float = 0.01) -> ScheduledFault:
    return ScheduledFault(fault_id=number, at_s=0, kind=kind, target=target, hold_s=hold_s)


def _spec(row: dict[str, Any]) -> dict[str, Any]:
    spec = json.loads(row["spec"])
    assert isinstance(spec, dict)
    return spec


def _in_thread(
    world: World, *faults: ScheduledFault, overlapping: bool = False
) -> tuple[Nemesis, threading.Thread]:
    nemesis = world.nemesis(*faults, overlapping=overlapping)
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()
    return nemesis, thread


def test_a_fault_lives_from_its_request_to_its_confirmed_heal(world: World) -> None:
    nemesis = world.nemesis(_fault(1, "kill", "leader(log-0,1)"))
    nemesis.run(world.stop)
    (row,) = world.last_rows()
    assert row["kind"] == "kill"
    assert row["targets"] == ["n2"]
    assert 0 < row["requested_ns"] < row["confirmed_ns"] < row["healed_ns"]
    assert json.loads(row["effect"])["kind"] == "kill"
    assert json.loads(row["heal_effect"])["kind"] == "back"
    assert open_entries(world.paths.ledger) == ()
    assert nemesis.in_force() == []


def test_each_step_is_a_row_of_the_same_fault(world: World) -> None:
    world.nemesis(_fault(1, "isolate", "n1")).run(world.stop)
    steps = [
        (row["confirmed_ns"] is not None, row["healed_ns"] is not None) for row in world.rows()
    ]
    assert steps[0] == (False, False)
    assert (True, False) in steps
    assert steps[-1] == (True, True)
    assert {row["fault_id"] for row in world.rows()} == {1}


def test_the_spec_tells_what_the_target_was(world: World) -> None:
    world.nemesis(_fault(1, "one-way-in", "leader(log-0,1)")).run(world.stop)
    spec = _spec(world.last_rows()[0])
    assert spec["target"] == "leader(log-0,1)"
    assert spec["links"] == [["n1", "n2"], ["n3", "n2"]]
    assert spec["roles"]["led"] == ["log-0-1", "log-1-1"]
    assert spec["roles"]["followed"] == 6
    assert spec["roles"]["leaders"]["log-1-2"] == "n3"
    assert spec["without_effect"] is None


def test_the_undo_is_on_disk_before_the_fault(world: World) -> None:
    seen: list[Entry] = []
    kill_node = world.cluster.kill_node

    def watched(node: str) -> None:
        seen.extend(open_entries(world.paths.ledger))
        kill_node(node)

    world.cluster.kill_node = watched  # type: ignore[method-assign] # looks, and does it
    world.nemesis(_fault(1, "kill", "n1")).run(world.stop)
    assert [(entry.fault_id, entry.undo) for entry in seen] == [(1, (Restart(node="n1"),))]


def test_a_crash_between_the_ledger_and_the_fault_leaves_the_undo(world: World) -> None:
    class CrashError(BaseException):
        """What a SIGKILL of the controller is like: nothing runs after it."""

    world.cluster.refusals["pause n1"] = CrashError()  # type: ignore[assignment] # see above
    with pytest.raises(CrashError):
        world.nemesis(_fault(1, "pause", "n1")).run(world.stop)
    (entry,) = open_entries(world.paths.ledger)
    assert entry.undo[0].node == "n1"  # type: ignore[union-attr] # a Resume
    assert world.last_rows()[0]["confirmed_ns"] is None


def test_a_fault_that_fails_is_recorded_without_effect_and_the_next_comes(world: World) -> None:
    world.refuse("kill n1", "the machine is on fire")
    nemesis = world.nemesis(_fault(1, "kill", "n1"), _fault(2, "kill", "n2"))
    nemesis.run(world.stop)
    # The broker was never missed, so its registration is not believed to be new at once.
    nemesis.heal_all()
    first, second = world.last_rows()
    assert first["confirmed_ns"] is None
    assert _spec(first)["without_effect"] == "the machine is on fire"
    assert json.loads(first["effect"]) == {"without_effect": "the machine is on fire"}
    assert second["healed_ns"] is not None
    assert open_entries(world.paths.ledger) == ()


def test_a_cut_without_effect_is_not_held(world: World) -> None:
    world.network.deaf_to_cut = True
    world.nemesis(_fault(1, "isolate", "n1", hold_s=LONG_S)).run(world.stop)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert "no effect could be measured" in _spec(row)["without_effect"]


def test_a_kill_is_held_until_others_lead_what_its_broker_led(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "MIN_HOLD_S", 0.0)
    world.cluster.takes_over = False
    nemesis, thread = _in_thread(world, _fault(1, "kill", "n2"))
    wait_until(lambda: [each.phase for each in nemesis.in_force()] == [FaultPhase.HELD],
               timeout_s=LONG_S, what="the kill")  # fmt: skip
    thread.join(timeout=1.0)  # A hundred times as long as its plan has it.
    assert [each.phase for each in nemesis.in_force()] == [FaultPhase.HELD]
    world.cluster.takes_over = True
    thread.join(timeout=LONG_S)
    assert nemesis.in_force() == []


def test_a_kill_that_nobody_takes_over_from_is_over_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "MIN_HOLD_S", 0.0)
    monkeypatch.setattr(runner, "_BEYOND_S", 0.2 - Plan().budgets.election_s)
    world.cluster.takes_over = False
    world.nemesis(_fault(1, "kill", "n2")).run(world.stop)
    (row,) = world.last_rows()
    assert row["healed_ns"] - row["confirmed_ns"] > 0.2 * NS_PER_S


def test_what_is_to_be_short_is_over_before_anybody_takes_over(world: World) -> None:
    world.cluster.takes_over = False
    nemesis, thread = _in_thread(world, _fault(1, "kill", "n2"))
    thread.join(timeout=LONG_S)
    assert not thread.is_alive()
    assert nemesis.in_force() == []


def test_written_times_stay_whoever_takes_over(world: World) -> None:
    world.cluster.takes_over = False
    nemesis, thread = _in_thread(world, _fault(1, "kill", "n2"), overlapping=True)
    thread.join(timeout=LONG_S)
    assert not thread.is_alive()
    assert nemesis.in_force() == []


def test_a_fault_of_these_hosts_that_cannot_be_is_recorded(world: World) -> None:
    world.hosts = FakeHostsWithoutCuts()
    nemesis = world.nemesis(_fault(1, "halves", "one"))
    nemesis.run(world.stop)
    assert "cannot cut" in _spec(world.last_rows()[0])["without_effect"]
    assert nemesis.heal_all().healed


def test_a_failed_heal_is_said_and_tried_again(world: World) -> None:
    world.refuse("start n1", "no room for another process")
    nemesis = world.nemesis(_fault(1, "kill", "n1"))
    world.cluster.asleep.add("n1")
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()
    wait_until(
        lambda: [row for row in world.rows() if row["heal_effect"]],
        timeout_s=60,
        what="the failed heal",
    )
    world.stop.set()
    thread.join()
    assert len(open_entries(world.paths.ledger)) == 1
    world.cluster.asleep.clear()
    report = nemesis.heal_all()
    assert report.healed, report
    (row,) = world.last_rows()
    assert row["healed_ns"] is not None
    assert _spec(row)["not_healed"] is None


def test_a_broker_that_runs_and_does_not_register_is_late_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "LINKS_LIMIT_S", 0.5)
    world.cluster.asleep.add("n1")
    nemesis, thread = _in_thread(world, _fault(1, "kill", "n1"))
    wait_until(lambda: [row for row in world.rows() if row["confirmed_ns"]],
               timeout_s=LONG_S, what="the kill")  # fmt: skip
    world.stop.set()
    thread.join()
    report = nemesis.heal_all(limit_s=1.5)
    assert report.undone, report
    assert "fault 1 (kill) is not healed" in report.failed[0]
    world.network.cut("left", (("n1", "n2"),))
    world.network.deaf_to_join = True
    assert not nemesis.heal_all(limit_s=1.5).undone


def test_the_end_of_the_main_phase_leaves_the_rest_to_heal_all(world: World) -> None:
    nemesis, thread = _in_thread(world, _fault(1, "isolate", "n3", hold_s=LONG_S))
    wait_until(
        lambda: [each for each in nemesis.in_force() if each.phase is FaultPhase.HELD],
        timeout_s=60,
        what="the fault to be in force",
    )
    (in_force,) = nemesis.in_force()
    assert (in_force.kind, in_force.targets) == ("isolate", ("n3",))
    (entry,) = open_entries(world.paths.ledger)
    assert isinstance(entry.undo[0], Join)
    world.stop.set()
    thread.join()
    assert world.last_rows()[0]["healed_ns"] is None

    assert nemesis.heal_all().done == ("fault 1 (isolate) was healed",)
    assert world.last_rows()[0]["healed_ns"] is not None
    assert open_entries(world.paths.ledger) == ()
    again = nemesis.heal_all()
    assert (again.done, again.failed) == ((), ())


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_bug_of_ours_in_a_fault_is_one_of_the_run(
    world: World,
    overlapping: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    world.cluster.refusals["kill n1"] = ValueError("nobody thought of this")
    nemesis = world.nemesis(_fault(1, "kill", "n1"), overlapping=overlapping)
    with pytest.raises(ValueError, match="nobody thought of this"):
        nemesis.run(world.stop)
    assert nemesis.heal_all().healed


def test_faults_that_overlap_add_up(world: World) -> None:
    nemesis, thread = _in_thread(
        world,
        _fault(1, "isolate", "n1", hold_s=LONG_S),
        _fault(2, "isolate", "n2", hold_s=LONG_S),
        _fault(3, "pause", "n1", hold_s=LONG_S),
        overlapping=True,
    )
    wait_until(
        lambda: [row["confirmed_ns"] is not None for row in world.last_rows()] == [True] * 3,
        timeout_s=60,
        what="all three faults to be confirmed",
    )
    assert sorted(world.network.cuts) == ["fault-1", "fault-2"]
    world.stop.set()
    thread.join()
    report = nemesis.heal_all()
    assert report.healed, report
    assert all(row["healed_ns"] is not None for row in world.last_rows())
    assert world.network.cuts == {}


def test_two_faults_of_processes_on_one_node_exclude_each_other(world: World) -> None:
    first = ScheduledFault(fault_id=1, at_s=0, kind="pause", target="n1", hold_s=LONG_S)
    second = ScheduledFault(fault_id=2, at_s=0.5, kind="kill", target="n1", hold_s=0.01)
    nemesis, thread = _in_thread(world, first, second, overlapping=True)
    wait_until(
        lambda: [row for row in world.last_rows() if _spec(row)["without_effect"]],
        timeout_s=60,
        what="the second to be refused",
    )
    rows = {row["fault_id"]: row for row in world.last_rows()}
    assert _spec(rows[2])["without_effect"] == "fault 1 already holds the broker of n1"
    assert "kill n1" not in world.cluster.calls
    assert rows[1]["confirmed_ns"] is not None
    world.stop.set()
    thread.join()
    nemesis.heal_all()


def test_dealt_faults_wait_while_a_minority_is_down(world: World) -> None:
    world.cluster.asleep.add("n1")
    nemesis, thread = _in_thread(world, _fault(1, "kill", "n1"), _fault(2, "kill", "n2"))
    wait_until(
        lambda: "start n1" in world.cluster.calls, timeout_s=60, what="n1 to be started again"
    )
    assert "kill n2" not in world.cluster.calls
    world.cluster.asleep.clear()
    thread.join()
    assert world.cluster.calls == ["kill n1", "start n1", "kill n2", "start n2"]
    assert nemesis.in_force() == []


def test_lanes_run_side_by_side_and_what_takes_no_node_waits_for_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gentle = replace(KINDS["isolate"], aspect=Aspect.CLUSTER)
    monkeypatch.setitem(KINDS, "isolate", gentle)
    held, behind = _fault(1, "pause", "n1", hold_s=LONG_S), _fault(4, "kill", "n3")
    beside = [replace(_fault(number, "isolate", "n2"), lane=1) for number in (2, 3)]
    _, thread = _in_thread(world, held, *beside, behind)
    wait_until(
        lambda: [row["fault_id"] for row in world.last_rows() if row["healed_ns"]] == [2, 3],
        timeout_s=60,
        what="the other lane to be through",
    )
    assert "kill n3" not in world.cluster.calls
    world.stop.set()
    thread.join()


def test_a_fault_that_asks_its_target_waits_until_it_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "isolate", replace(KINDS["isolate"], aspect=Aspect.CLOCK))
    world.cluster.pause_node("n1")
    _, thread = _in_thread(world, _fault(1, "isolate", "n1"))
    wait_until(world.last_rows, timeout_s=60, what="the request")
    world.cluster.resume_node("n1")
    thread.join()
    assert world.last_rows()[0]["healed_ns"] is not None


def test_a_fault_that_asks_a_target_that_stays_away_is_without_effect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "isolate", replace(KINDS["isolate"], aspect=Aspect.CLOCK))
    monkeypatch.setattr(life, "RESOLVE_LIMIT_S", 0.1)
    world.cluster.kill_node("n1")
    world.nemesis(_fault(1, "isolate", "n1")).run(world.stop)
    (refused,) = world.last_rows()
    assert (
        _spec(refused)["without_effect"] == "the broker of n1 is not available to report the effect"
    )
    assert refused["targets"] == []


def test_what_is_healed_late_is_healed_before_the_next_of_its_lane(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GENTLE_LIMIT_S", 0.1)
    monkeypatch.setitem(KINDS, "isolate", replace(KINDS["isolate"], aspect=Aspect.CLOCK))
    world.network.deaf_to_join = True
    late, beside = _fault(1, "isolate", "n1"), replace(_fault(2, "isolate", "n1"), at_s=1.0)
    nemesis, thread = _in_thread(world, late, beside)
    wait_until(
        lambda: world.last_rows() and _spec(world.last_rows()[0])["not_healed"],
        timeout_s=60,
        what="the first to be found unhealed",
    )
    world.network.deaf_to_join = False
    thread.join()
    # Of one aspect of one node: the second could not be while the first was.
    assert [row["healed_ns"] is not None for row in world.last_rows()] == [True, True]
    assert nemesis.in_force() == []


def test_faults_that_came_too_late_are_recorded(world: World) -> None:
    nemesis, thread = _in_thread(
        world,
        _fault(1, "isolate", "n1", hold_s=LONG_S),
        _fault(2, "kill", "n2"),
        ScheduledFault(fault_id=3, at_s=LONG_S, kind="kill", target="n2", hold_s=1),
    )
    wait_until(lambda: world.network.cuts, timeout_s=60, what="the first fault")
    world.stop.set()
    thread.join()
    nemesis.heal_all()
    rows = {row["fault_id"]: row for row in world.last_rows()}
    assert "main phase ended" in _spec(rows[2])["without_effect"]
    assert 3 not in rows  # It was not due yet.


def test_heal_all_mends_brokers_that_no_fault_hit(world: World) -> None:
    nemesis = world.nemesis()
    world.cluster.kill_node("n1")
    world.cluster.pause_node("n2")
    report = nemesis.heal_all()
    assert report.healed
    assert report.done == (
        "the broker of n1 had ended and was started again",
        "the broker of n2 was paused and was continued",
    )
    assert nemesis.heal_all().done == ()


def test_heal_all_says_what_it_could_not_mend(world: World) -> None:
    nemesis = world.nemesis()
    world.network.cuts["not ours"] = {("n1", "n2"): 0}
    report = nemesis.heal_all()
    assert not report.healed
    assert "every link between nodes" in report.failed[0]


def test_what_a_fault_draws_does_not_hang_on_who_holds_its_role(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []
    isolate = KINDS["isolate"]

    def make(aim: Aim, site: Site) -> Fault:
        drawn.append(aim.rng.random())
        return isolate.make(aim, site)

    monkeypatch.setitem(KINDS, "isolate", replace(isolate, make=make))
    faults = [_fault(number, "isolate", "follower") for number in range(1, 9)]
    world.nemesis(*faults).run(world.stop)
    (world.paths.live / "faults.nemesis.arrows").unlink()
    world.cluster.leaders |= dict.fromkeys((("log-0", 1), ("log-1", 2), ("log-1", 3)))
    world.nemesis(*faults).run(world.stop)
    assert len(drawn) == 16
    assert drawn[:8] == drawn[8:]


def test_the_same_seed_hits_the_same_nodes(world: World) -> None:
    faults = [_fault(number, "isolate", "one") for number in range(1, 9)]
    world.nemesis(*faults).run(world.stop)
    first = [row["targets"] for row in world.last_rows()]
    (world.paths.live / "faults.nemesis.arrows").unlink()
    world.nemesis(*faults).run(world.stop)
    assert [row["targets"] for row in world.last_rows()] == first
    assert len({tuple(targets) for targets in first}) > 1
