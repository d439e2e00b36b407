"""How long the recovery waits for transactional ids whose last transaction has an unknown end."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from harness import life as life_module
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.life import Life
from harness.world import RealWorld
from nemesis.sweep import HealReport
from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import plan_from

LIMIT_S = 0.6
FREE, IN_DOUBT = frozenset[str](), frozenset({"txn-0"})


@pytest.mark.parametrize(
    ("told", "died", "waits_and_notes"),
    [
        (repeat(FREE), (), (False, [])),
        (chain(repeat(IN_DOUBT, 2), repeat(FREE)), (), (False, [])),
        (repeat(IN_DOUBT), (), (True, ["stacks"])),
        (repeat(IN_DOUBT), ("worker 0 died",), (False, [])),
        # Each id was free in time. Later, while full ISRs were awaited, another op lost its end.
        (chain([FREE], repeat(IN_DOUBT)), (), (False, [])),
    ],
)
def test_the_recovery_waits_until_no_id_is_in_doubt(
    tmp_path: Path,
    told: Iterator[frozenset[str]],
    died: tuple[str, ...],
    waits_and_notes: tuple[bool, list[str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert _recovered(RunPaths(tmp_path), patch, told, died) == waits_and_notes


def _recovered(
    paths: RunPaths,
    patch: pytest.MonkeyPatch,
    told: Iterator[frozenset[str]],
    died: tuple[str, ...],
) -> tuple[bool, list[str]]:
    """Play a recovery; return whether it waited as long as it may, and what it noted."""
    noted, waited_s = [], []

    def await_isrs(*_: object) -> None:
        waited_s.append(stopwatch_s() - began_s)
        pause_until(began_s + LIMIT_S + 0.1)

    patch.setattr(life_module, "IDS_TAKE", 0)
    patch.setattr(life_module, "EDGES_S", LIMIT_S)
    patch.setattr(life_module, "whole", lambda *_: True)
    patch.setattr(Arena, "await_isrs", await_isrs)
    patch.setattr(Arena, "note_stacks", lambda *_: noted.append("stacks"))
    for name in ("note_ended", "look_for_ends", "pass_s", "reach"):
        patch.setattr(Arena, name, lambda *_, **__: None)
    with ExitStack() as undo:
        life = Life(
            plan_from({"workload": "txn"}),
            paths,
            RunClock.starting_now(),
            world=RealWorld(),
            console=Console(quiet=True),
            interrupts=Interrupts(),
            undo=undo,
        )
        made: Any = life
        made._fleet = SimpleNamespace(
            phase=lambda _: None,
            untouched=lambda: FREE,
            unended=lambda: next(told),
            died=lambda: died,
        )
        made._nemesis = SimpleNamespace(left=tuple)
        made._healing = SimpleNamespace(now=lambda **_: HealReport(done=(), failed=()))
        began_s = stopwatch_s()
        made._recover(SimpleNamespace(view=lambda: None))
    assert waited_s[0] < LIMIT_S + 9
    return waited_s[0] >= LIMIT_S, noted
