"""Hunts by hand: parts as a conductor would have written them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.suites.journal import Begun, Judged, Line, Planned, Played, Reached, Started
from harness.suites.night import NightState, folded
from harness.suites.suite import Suite
from results.record.night import Why
from results.record.plan_parts import PlannedFault
from results.record.terms import Validity

NIGHT = "20261128T010000Z"
KILL = PlannedFault(at_s=10, kind="kill", target="leader", hold_s=5)
PLAN = {
    "schema_version": 1, "system": "kafka:3.6.1", "workload": "log", "nemesis": ["kill"],
    "time_limit_s": 60, "hosts": "namespace",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a hunt: what was drawn, how it ended, what it reached."""

    plan: dict[str, object] | None = None
    valid: Validity | None = Validity.VALID
    broken: tuple[str, ...] = ()
    transitions: tuple[str, ...] = ()
    successions: tuple[tuple[str, str], ...] = ()
    faults: tuple[PlannedFault, ...] = (KILL,)
    seed: int = 1
    why: Why = Why.PLANNED
    repeats: str = ""
    parent: str = ""
    late_s: float = 0
    """So much later its verdict came."""


def hunted(**settings: object) -> Suite:
    """Return a suite with `[hunt]`."""
    hunt = {"systems": ["kafka:3.6.1"], "workloads": ["log"], "hosts": "namespace", **settings}
    return Suite.model_validate({"name": "made", "budget": "1h", "hunt": hunt})


def part(runs: Sequence[Run], night: str = NIGHT) -> NightState:
    """Return the state of a part in which runs were played one after the other."""
    return folded(lines(runs, night))


def lines(runs: Sequence[Run], night: str = NIGHT) -> Iterator[Line]:
    """Yield its journal."""
    yield Begun(suite="made", night=night, budget_s=3600, at=1_000)
    for item, run in enumerate(runs, 1):
        yield Planned(
            item=item, entry=f"drawn#{item}", seed=run.seed, why=run.why, repeats=run.repeats,
            parent=run.parent, lasts_s=65, plan={**PLAN, **(run.plan or {})}, at=1_000 + item,
        )  # fmt: skip
        if run.valid is not None:
            yield from judged(item, run, run_of(item, night))


def judged(item: int, run: Run, run_id: str) -> Iterator[Line]:
    """Yield what follows a plan."""
    assert run.valid is not None
    at = 1_000 + 100 * item
    yield Started(item=item, run_id=run_id, at=at)
    yield Played(item=item, run_id=run_id, main_s=60, at=at + 80)
    told = "Acknowledged writes were lost." if run.broken else ""
    judged_at = at + 90 + run.late_s
    yield Judged(item=item, run_id=run_id, valid=run.valid, sentence=told, at=judged_at)
    yield Reached(
        item=item, transitions=run.transitions, successions=run.successions, broken=run.broken,
        faults=run.faults, at=judged_at,
    )  # fmt: skip


def run_of(item: int, night: str = NIGHT) -> str:
    """Return a run's id."""
    return f"log/{night}-{item}"
