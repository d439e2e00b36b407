"""Draws the runs of a hunt: a pure function of what its journals say.

Each run draws a system, a workload, a client and some families of faults. Guided, bandits prefer
what reached new behaviour of late (`arms.py`), and every second run takes the faults of a run that
reached something new, and changes them (`mutation.py`). Blind, each value is as likely, and all
faults are dealt anew. The settings come from the swarm in both. The level of the faults rises with
each run of a system and a workload that holds (`nemesis/levels.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from harness.plans import completed_plan
from harness.suites.expansion import SEEDS, joined
from harness.suites.hunting.arms import Pull, best
from harness.suites.hunting.failures import owed
from harness.suites.hunting.families import Families
from harness.suites.hunting.history import COUNT, PLAIN_CLIENT, Drawn, history, pulls_of
from harness.suites.hunting.mutation import Mutation
from harness.suites.hunting.seen import reached_by
from harness.suites.journal import Line, Planned
from harness.suites.night import Item, NightState
from harness.suites.suite import Suite, SuiteError
from nemesis.levels import Climbed, next_level
from results.index.reading import lasts_s
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Validity

MUTATES = 0.5
PARENTS = 10
"""So many of the last runs that reached something new may be changed."""
TRIES = 100
"""Not each workload suits each system and client."""


class Hunter:
    """Where the runs of a hunt come from.

    Args:
        suite: With `[hunt]`.
        families: By system: the families of faults that can be played, with their kinds.
        before: The hunt's earlier parts, the oldest first.
    """

    def __init__(self, suite: Suite, families: Families, before: Sequence[NightState]) -> None:
        assert suite.hunt is not None
        self._suite, self._hunt = suite, suite.hunt
        self._families = families
        self._before = list(before)

    def plan(self, planned: Planned) -> Plan:
        """Return the plan of a run.

        Raises:
            PlanError: There can be no such run: the control system cannot do what it asks for.
        """
        return plan_from({**planned.plan, "seed": planned.seed})

    def draw(self, state: NightState) -> Planned | None:
        """Return another run; None: the main phases that were asked for are all drawn.

        Raises:
            SuiteError: No values of the hunt suit each other.
        """
        if self._hunt.main is not None and self._drawn_s(state) >= self._hunt.main:
            return None
        number = max(state.items, default=0) + 1
        rng = Random(f"{state.suite}/{state.night}/{number}")
        runs = history([*self._before, state])
        pulls = pulls_of(runs) if self._hunt.guided else []
        refused: PlanError | None = None
        for _ in range(TRIES):
            try:
                plan, parent = self._drawn(runs, pulls, rng)
            except PlanError as why_not:
                refused = why_not
                continue
            return Planned(
                item=number,
                entry=f"{_name(plan)}#{number}",
                seed=plan.seed,
                lasts_s=lasts_s(plan),
                plan=_values(plan, but={"seed"}),
                parent=parent,
            )
        raise SuiteError(f"the hunt {self._suite.name} can draw no run: {refused}") from refused

    def owed(self, state: NightState) -> list[Planned]:
        """Return the repeats and controls of failures that are not planned yet."""
        hunt = self._hunt
        return owed([*self._before, state], repeats=hunt.repeats, controls=hunt.controls)

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:
        """Return what a run reached first of all drawn runs of this part, and what it broke."""
        before = [each.reached for each in state.planned if each.reached]
        line = reached_by(RunPaths(store / item.run_id), item.number, before=before)
        # What a repeat reaches is no merit of the search.
        none: dict[str, object] = {"transitions": (), "successions": ()} if item.repeated else {}
        return [line.model_copy(update=none)]

    def _drawn_s(self, state: NightState) -> float:
        drawn = [each for each in state.planned if each.planned.plan]
        return sum(self.plan(each.planned).time_limit_s for each in drawn)

    def _drawn(self, runs: Sequence[Drawn], pulls: Sequence[Pull], rng: Random) -> tuple[Plan, str]:
        """Return a plan, and the run whose faults it changes; empty: they are dealt."""
        parents = [
            run for run in runs if run.score and run.item.reached and run.item.reached.faults
        ]
        if self._hunt.guided and parents and rng.random() < MUTATES:
            parent = rng.choice(parents[-PARENTS:])
            return self._changed(parent, rng), parent.item.run_id
        return self._dealt(runs, pulls, rng), ""

    def _dealt(self, runs: Sequence[Drawn], pulls: Sequence[Pull], rng: Random) -> Plan:
        hunt = self._hunt
        (system,) = best("system", hunt.systems, pulls, rng)
        (workload,) = best("workload", hunt.workloads, pulls, rng)
        (client,) = best("client", hunt.clients, pulls, rng)
        (count,) = best(COUNT, [*map(str, range(1, hunt.most_families + 1))], pulls, rng)
        families = best("family", [*self._families[system]], pulls, rng, count=int(count))
        values = {
            "system": system, "workload": workload, "hosts": hunt.hosts, "nemesis": families,
            **({} if client == PLAIN_CLIENT else {"client_kind": client}),
            **({"level": level_of(_alike(runs, system, workload))} if hunt.escalate else {}),
        }  # fmt: skip
        return self._whole(values, rng)

    def _changed(self, parent: Drawn, rng: Random) -> Plan:
        """Return the plan of a run with its faults changed a little, and another seed."""
        plan = parent.plan
        kinds = [kind for each in self._families[plan.system].values() for kind in each]
        faults = Mutation(plan, kinds, rng).of(parent.faults)
        values = _values(plan, but={"seed", "nemesis", "level", "drawn"})
        written = [fault.model_dump(exclude_none=True) for fault in faults]
        return completed_plan(
            {**values, "faults": written}, {"seed": rng.randrange(SEEDS)}, broker={}, client={}
        )

    def _whole(self, values: Mapping[str, object], rng: Random) -> Plan:
        hosts = self._suite.hosts.get(self._hunt.hosts.partition(":")[0], {})
        whole = joined({"swarm": True}, self._suite.plan, hosts, values)
        return completed_plan(whole, {"seed": rng.randrange(SEEDS)}, broker={}, client={})


def _values(plan: Plan, *, but: set[str]) -> dict[str, object]:
    """Return a plan's values, of which nothing is drawn again."""
    values = plan.model_dump(mode="json", exclude_unset=True, exclude=but)
    return {"schema_version": plan.schema_version, **values}


def _alike(runs: Sequence[Drawn], system: str, workload: str) -> Iterator[Climbed]:
    for run in runs:
        dealt = run.plan.faults is None
        if dealt and (run.plan.system, run.plan.workload) == (system, workload):
            yield Climbed(level=run.plan.level, valid=run.item.outcome or Validity.UNKNOWN)


def level_of(runs: Iterable[Climbed]) -> int:
    """Return the level of the next run: it climbs, falls back, and climbs anew from there.

    Args:
        runs: Of one system and one workload, in order.
    """
    first, way = 0, list[Climbed]()
    for run in runs:
        way.append(run)
        if next_level(way, first=first) is None:
            held = [each.level for each in way if each.valid is Validity.VALID]
            first, way = held[-1] if held else max(first - 1, 0), []
    level = next_level(way, first=first)
    assert level is not None
    return level


def _name(plan: Plan) -> str:
    client = [plan.client_kind] if plan.client_kind else []
    faults = "changed" if plan.faults is not None else "+".join(plan.nemesis)
    return "/".join((plan.workload, plan.system, *client, faults))
