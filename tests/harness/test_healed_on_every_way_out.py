"""Every fault is undone, and that is noted, on whatever way a run ends."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from cluster.kafka.cluster import KafkaCluster
from cluster.protocol import UserError
from harness import life as life_module
from harness.arena import Arena
from harness.healing import EARLY_LIMIT_S, Healing
from harness.interrupt import Interrupts
from harness.life import Life
from harness.world import RealWorld
from nemesis.ledger import open_entries
from nemesis.life import FaultPhase
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from nemesis.sweep import HealReport
from results.record.clock import RunClock, wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import plan_from
from results.record.terms import F, Outcome
from tests.nemesis.conftest import World
from workloads.fleet import Counts, FleetCounts

HELD_S = 50.0


class _Fleet:
    """Clients that do nothing."""

    def __init__(self, *_args: object, **_kwargs: object) -> None: ...

    def start(self) -> None: ...

    def phase(self, phase: object) -> None: ...

    def died(self) -> tuple[str, ...]:
        return ()

    def counts(self) -> FleetCounts:
        served = Counts(ops={(F.SEND, Outcome.OK): 1})
        return FleetCounts(
            total=served, recent=served, recent_s=1.0, in_flight=0, latency_ms=None, age_s=0.0
        )

    def stop(self, timeout_s: float) -> list[str]:
        assert timeout_s > 0
        return []


class _WithoutClients(RealWorld):
    clients: Any = _Fleet


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    paths = RunPaths(tmp_path / "log" / "20261121T120000Z-0")
    paths.live.mkdir(parents=True)
    made = World(paths=paths)
    yield made
    made.stop.set()


def _end_the_main_phase_by(
    error: Exception, world: World, monkeypatch: pytest.MonkeyPatch, *kinds: str
) -> None:
    """Play a main phase that ends by an error as soon as all faults are in force."""
    faults = tuple(
        ScheduledFault(fault_id=at, at_s=0, kind=kind, target=f"n{at}", hold_s=HELD_S)
        for at, kind in enumerate(kinds, start=1)
    )
    made: list[Nemesis] = []

    def nemesis(**given: Any) -> Nemesis:  # noqa: ANN401 - whatever a nemesis takes
        made.append(Nemesis(**given, state_of=world.cluster.state_of))
        return made[0]

    def fail(_arena: Arena, _seconds: float, **_kwargs: object) -> None:
        if made:
            held = partial(_all_held, made[0], len(faults))
            wait_until(held, timeout_s=60, what="faults in force")
            raise error

    schedule = Schedule(faults=faults, overlapping=True)
    monkeypatch.setattr(life_module, "Nemesis", nemesis)
    monkeypatch.setattr(life_module, "deal_schedule", lambda *_args, **_kwargs: schedule)
    monkeypatch.setattr(Arena, "pass_s", fail)
    with ExitStack() as undo:
        life = Life(
            plan_from({"hosts": "process"}),
            world.paths,
            RunClock.starting_now(),
            world=_WithoutClients(),
            console=Console(quiet=True),
            interrupts=Interrupts(),
            undo=undo,
        )
        life._arena.hosts = world.hosts
        life._shake(cast("KafkaCluster", world.cluster), [])


def _all_held(nemesis: Nemesis, count: int) -> bool:
    phases = [fault.phase for fault in nemesis.in_force()]
    return phases == [FaultPhase.HELD] * count


def test_a_main_phase_that_ends_by_an_error_is_healed_and_tells_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="the disk is full"):
        _end_the_main_phase_by(UserError("the disk is full"), world, monkeypatch, "isolate", "kill")
    assert world.network.cuts == {}
    assert world.cluster.calls == ["kill n2", "start n2"]
    assert open_entries(world.paths.ledger) == ()
    assert [row["healed_ns"] is None for row in world.last_rows()] == [False, False]
    (healed,) = [each for each in load_milestones(world.paths.milestones) if each.name == "healed"]
    assert healed.detail == {}


def test_a_bug_in_one_heal_keeps_no_other_fault_in_force(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.refusals["resume n1"] = ZeroDivisionError("no such thing")
    with pytest.raises(RuntimeError, match="over"):
        _end_the_main_phase_by(RuntimeError("over"), world, monkeypatch, "pause", "isolate")
    assert world.network.cuts == {}
    # What could not be done at first was done when it was tried again.
    assert world.cluster.calls == ["pause n1", "resume n1", "resume n1"]
    assert open_entries(world.paths.ledger) == ()


def _healing(
    heal: Callable[..., HealReport], told: list[tuple[str, str]], *, refuse: bool = False
) -> Healing:
    def reach(name: str, *, failed: str, **detail: str) -> None:
        if refuse:
            raise OSError("no space left on device")
        told.append((name, " ".join((failed, *detail))))

    return Healing(heal, reach)


def test_everything_is_healed_once_and_what_failed_is_told() -> None:
    limits: list[float] = []
    told: list[tuple[str, str]] = []

    def heal(*, limit_s: float) -> HealReport:
        limits.append(limit_s)
        return HealReport(done=(), failed=("n1 is down", "n2 is down"))

    healing = _healing(heal, told)
    healing.now()
    healing.if_not_yet()
    assert told == [("healed", "n1 is down; n2 is down")]
    _healing(heal, told, refuse=True).if_not_yet()  # The run's own error is the one to be told.
    assert limits[-1] == EARLY_LIMIT_S


def test_of_brokers_that_run_and_do_not_register_all_was_undone() -> None:
    told: list[tuple[str, str]] = []

    def heal(*, limit_s: float) -> HealReport:
        return HealReport(done=(), failed=(f"waited {limit_s:g} s",), undone=True)

    _healing(heal, told).now()
    assert told == [("healed", "waited 60 s undone")]


def test_a_heal_that_fails_by_a_bug_is_tried_again_on_the_way_out_and_noted() -> None:
    told: list[tuple[str, str]] = []

    def heal(*, limit_s: float) -> HealReport:
        raise ValueError(json.dumps(limit_s))

    healing = _healing(heal, told)
    with pytest.raises(ValueError, match=r"60\.0"):
        healing.now()
    healing.if_not_yet()
    assert told == [("healed", "ValueError: 20.0")]
