"""Find and measure the new behaviour of each run in a hunt's journals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.suites.hunting.arms import Pull, gains
from harness.suites.hunting.plans import plan_of
from harness.suites.journal import Planned
from harness.suites.night import Item, NightState, Phase
from nemesis.registry import KINDS
from results.record.plan import SIMULATED, Plan, PlanError
from results.record.plan_parts import PlannedFault

PLAIN_CLIENT = "librdkafka"
COUNT = "families at once"
ORIGIN = "faults"
NEW, CHANGED = "new", "changed"
"""The values of the choice `ORIGIN`: a run has new faults, or another run's faults with changes."""
_TRANSITION, _SUCCESSION = 3, 1
"""How much a new transition adds to the score, and how much a new pair of successive ones."""


@dataclass(frozen=True, kw_only=True)  # No slots, because of the cached property.
class Drawn:
    """A judged run whose plan the hunt chose.

    Attributes:
        item: The run in the journal.
        new_transitions, new_successions: The transitions and successions that no earlier run of the
            hunt reached.
    """

    item: Item
    new_transitions: tuple[str, ...]
    new_successions: tuple[tuple[str, str], ...]

    @cached_property
    def plan(self) -> Plan:
        """The run's plan.

        Raises:
            PlanError: Another version of Logquake wrote the plan.
        """
        return plan_of(self.item.planned)

    @property
    def is_readable(self) -> bool:
        """Whether this version of Logquake can read the run's plan."""
        try:
            return bool(self.plan)
        except PlanError:
            return False

    @property
    def system(self) -> str:
        """The system of the run, also if the rest of the plan cannot be read."""
        return str(self.item.planned.plan.get("system", ""))

    @property
    def faults(self) -> tuple[PlannedFault, ...]:
        """The faults that took effect in the run."""
        return self.item.reached.faults if self.item.reached else ()

    @property
    def score(self) -> float:
        """The score: how much new behaviour the run reached in a minute of its main phase."""
        new = _TRANSITION * len(self.new_transitions) + _SUCCESSION * len(self.new_successions)
        return 60 * new / self.plan.time_limit_s

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """The values that the hunt chose. For a run with changed faults, it chose only this way."""
        if self.item.planned.parent:
            return {ORIGIN: (CHANGED,)}
        return {**choices_of(self.plan), ORIGIN: (NEW,)}


def main_s_of(item: Item) -> float:
    """Return the length of a run's main phase in seconds; 0 if there was no main phase.

    If the run is in virtual time, or is not over yet, return the length in the plan.
    """
    values = item.planned.plan
    if item.phase in {Phase.PLAYED, Phase.JUDGED} and values.get("hosts") != SIMULATED:
        return item.main_s
    try:
        return plan_of(item.planned).time_limit_s
    except PlanError:  # Another version of Logquake wrote the plan.
        return item.planned.lasts_s


def choices_told(planned: Planned) -> Mapping[str, tuple[str, ...]]:
    """Return the value of each choice in a planned run, if this version can read the plan."""
    try:
        return choices_of(plan_of(planned))
    except PlanError:
        values = planned.plan
        families = values.get("nemesis") if values.get("faults") is None else ()
        return {
            "system": (str(values.get("system", "")),),
            "workload": (str(values.get("workload", "")),),
            "client": (str(values.get("client_kind") or PLAIN_CLIENT),),
            "family": tuple(map(str, families)) if isinstance(families, list | tuple) else (),
        }


def choices_of(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """Return a plan's values for each choice of a hunt."""
    kinds = [fault.kind for fault in plan.faults or ()]
    families = plan.nemesis if plan.faults is None else _families(kinds, plan.hosts)
    return {
        "system": (plan.system,),
        "workload": (plan.workload,),
        "client": (plan.client_kind or PLAIN_CLIENT,),
        "family": tuple(families),
        COUNT: (str(len(families)),),
    }


def _families(kinds: Iterable[str], hosts: str) -> tuple[str, ...]:
    return tuple(sorted({KINDS[kind].family_for(hosts) for kind in kinds}))


def history(states: Sequence[NightState]) -> list[Drawn]:
    """Return the judged runs whose plans a hunt chose, in the order of their verdicts.

    Later lines of a journal do not repeat what a run reached. So a run counts even if this version
    of Logquake cannot read its plan.

    Args:
        states: The hunt's parts, the oldest first.
    """
    transitions: set[str] = set()
    successions: set[tuple[str, str]] = set()
    found = []
    for state in states:
        drawn = [each for each in state.planned if each.reached and each.planned.plan]
        for item in sorted(drawn, key=lambda each: (each.judged_at, each.number)):
            assert item.reached is not None
            told = {*item.reached.transitions}, {*item.reached.successions}
            run = Drawn(
                item=item,
                new_transitions=tuple(sorted(told[0] - transitions)),
                new_successions=tuple(sorted(told[1] - successions)),
            )
            found.append(run)
            transitions |= told[0]
            successions |= told[1]
    return found


def readable(runs: Iterable[Drawn]) -> list[Drawn]:
    """Return the runs whose plans this version of Logquake can read. Only these guide a hunt."""
    return [each for each in runs if each.is_readable]


def pulls_of(runs: Sequence[Drawn]) -> list[Pull]:
    """Return runs in the form that the bandits use."""
    compared = gains([run.score for run in runs])
    return [Pull(choices=run.choices, gain=gain) for run, gain in zip(runs, compared, strict=True)]
