"""Draws the runs of a hunt: a pure function of what its journals say.

Each run draws a system, a workload, a client and some families of faults. Guided, bandits prefer
what reached new behaviour of late (`arms.py`), and every second run takes the faults of a run that
reached something new, and changes them (`mutation.py`). Blind, each value is as likely, and all
faults are dealt anew. The settings come from the swarm in both. The level of the faults rises with
each valid run of a system, and falls with each other (`nemesis/levels.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from random import Random

from harness.another_system import moved
from harness.plans import completed_plan
from harness.suites.expansion import SEEDS, hunted_plan, joined
from harness.suites.hunting.arms import Pull, best
from harness.suites.hunting.failures import first_that_broke, owed
from harness.suites.hunting.families import Families, families_of
from harness.suites.hunting.history import COUNT, PLAIN_CLIENT, Drawn, history, main_s_of, pulls_of
from harness.suites.hunting.mutation import Mutation, changeable
from harness.suites.hunting.plans import plan_of, values_of
from harness.suites.hunting.seen import reached_by
from harness.suites.journal import Line, Planned
from harness.suites.night import Item, NightState, Phase
from harness.suites.suite import Suite, SuiteError
from results.index.reading import lasts_s
from results.record.level import TOP_LEVEL
from results.record.paths import RunPaths
from results.record.plan import SIMULATED, Plan, PlanError, plan_from
from results.record.terms import Mode, Validity

MUTATES, REDRAWS = 0.5, 0.5
PARENTS = 10
"""So many of the last runs that reached something new may be changed."""
MOST_REFUSED = 20
"""After so many runs that could not be played a hunt draws no more."""
VIRTUAL_SPEED = 5
"""So much faster than time is a run in virtual time, as long as none of this part tells. Measured
2026-11 on 2 cores, two at once: 8 runs of 305 s took 25 s to 61 s."""
TRIES = 100
"""Not each workload suits each system and client."""


class Hunter:
    """Where the runs of a hunt come from.

    Args:
        suite: With `[hunt]`.
        families: Gives by system the families of faults that can be played, with their kinds; is
            asked once something is drawn.
        before: The hunt's earlier parts, the oldest first.

    Attributes:
        before: As above.
    """

    def __init__(
        self, suite: Suite, families: Callable[[], Families], before: Sequence[NightState]
    ) -> None:
        assert suite.hunt is not None
        self._suite, self._hunt = suite, suite.hunt
        self._find_families = families
        self.before = list(before)

    @cached_property
    def _families(self) -> Families:
        return self._find_families()

    def plan(self, planned: Planned) -> Plan:
        """Return the plan of a run.

        Raises:
            PlanError: There can be no such run: the control system cannot do what it asks for.
        """
        return plan_of(planned)

    def draw(self, state: NightState) -> Planned | None:
        """Return another run; None: the hunt has all the runs that it asked for.

        Raises:
            SuiteError: No values of the hunt suit each other.
        """
        if self._is_over(state):
            return None
        number = max(state.items, default=0) + 1
        begun = state.night if self._hunt.seed is None else self._hunt.seed
        rng = Random(f"{begun}/{number}")
        runs = history([*self.before, state])
        pulls = pulls_of(runs) if self._hunt.guided else []
        refused: PlanError | None = None
        for _ in range(TRIES):
            try:
                plan, parent = self._drawn(runs, pulls, rng)
            except SuiteError:  # Whatever is drawn: a system has no faults here.
                raise
            except PlanError as why_not:
                refused = why_not
                continue
            return Planned(
                item=number,
                entry=f"{_name(plan)}#{number}",
                seed=plan.seed,
                lasts_s=lasts_s(plan),
                takes_s=lasts_s(plan) / VIRTUAL_SPEED if plan.hosts == SIMULATED else 0,
                plan=values_of(plan),
                parent=parent,
            )
        raise SuiteError(f"the hunt {self._suite.name} can draw no run: {refused}") from refused

    def owed(self, state: NightState) -> list[Planned]:
        """Return the repeats and controls of failures that are not planned yet."""
        return owed([*self.before, state], self._hunt)

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:
        """Return what a run reached first of all drawn runs of this part, and what it broke."""
        before = [each.reached for each in state.planned if each.reached]
        line = reached_by(RunPaths(store / item.run_id), item.number, before=before)
        # What a repeat reaches is no merit of the search.
        none: dict[str, object] = {"transitions": (), "successions": ()} if item.repeated else {}
        return [line.model_copy(update=none)]

    def _is_over(self, state: NightState) -> bool:
        """Tell whether no run is to be drawn any more."""
        hunt, drawn = self._hunt, [each for each in state.planned if each.planned.plan]
        refused = [each.phase is Phase.UNPLAYED for each in drawn[-MOST_REFUSED:]]
        if len(refused) == MOST_REFUSED and all(refused):
            return True  # None of them can be played.
        if hunt.until_failure:
            promise = hunt.until_failure if isinstance(hunt.until_failure, str) else ""
            if first_that_broke([state], promise):
                return True
        played = [each for each in drawn if each.phase not in {Phase.UNPLAYED, Phase.LEFT_OUT}]
        took_s = sum(map(main_s_of, played))
        return hunt.main is not None and took_s >= hunt.main

    def _drawn(self, runs: Sequence[Drawn], pulls: Sequence[Pull], rng: Random) -> tuple[Plan, str]:
        """Return a plan, and the run whose faults it changes; empty: they are dealt."""
        parents = self._parents(runs)[-PARENTS:] if self._hunt.guided else []
        if parents and rng.random() < MUTATES:
            ((parent, _),) = rng.choices(parents, weights=[likely for _, likely in parents])
            return self._changed(parent, rng), parent.item.run_id
        return self._dealt(runs, pulls, rng), ""

    def _parents(self, runs: Sequence[Drawn]) -> list[tuple[Drawn, float]]:
        """Return the runs that may be changed, and how likely each is.

        What a run gained counts less with each change of it: all runs have much that is new where
        little was reached before, and the first run would stay the parent of most others.
        """
        children = Counter(run.item.planned.parent for run in runs)
        return [
            (run, pull.gain / (1 + children[run.item.run_id]))
            for run, pull in zip(runs, pulls_of(runs), strict=True)
            if pull.gain and self._is_parent(run)
        ]

    def _is_parent(self, run: Drawn) -> bool:
        """Tell whether a run reached something new by faults that this hunt may play."""
        hunt, plan = self._hunt, run.plan
        client = plan.client_kind or PLAIN_CLIENT
        if plan.system not in hunt.systems or plan.workload not in hunt.workloads:
            return False
        kinds = {kind for each in self._families[plan.system].values() for kind in each}
        known = {each.kind for each in run.faults} <= kinds
        return bool(run.score and changeable(run.faults)) and known and client in hunt.clients

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
            **({"level": level_of(_verdicts_on(runs, system))} if hunt.escalate else {}),
        }  # fmt: skip
        return self._whole(values, rng)

    def _changed(self, parent: Drawn, rng: Random) -> Plan:
        """Return the plan of a run with its faults changed a little, and another seed.

        Half of them have settings of their own, too.
        """
        plan = parent.plan
        kinds = [kind for each in self._families[plan.system].values() for kind in each]
        faults = Mutation(plan, kinds, rng).of(parent.faults)
        written = {"faults": [fault.model_dump(exclude_none=True) for fault in faults]}
        if rng.random() < REDRAWS:
            chosen = {key: getattr(plan, key) for key in ("system", "workload", "hosts")}
            client = {"client_kind": plan.client_kind} if plan.client_kind else {}
            return self._whole({**chosen, **client, **written}, rng)
        values = values_of(plan, but={"nemesis", "level", "drawn"})
        return completed_plan(
            {**values, **written}, {"seed": rng.randrange(SEEDS)}, broker={}, client={}
        )

    def _whole(self, values: Mapping[str, object], rng: Random) -> Plan:
        hosts = self._suite.hosts.get(self._hunt.hosts.partition(":")[0], {})
        whole = joined({"swarm": True}, self._suite.plan, hosts, values)
        return completed_plan(whole, {"seed": rng.randrange(SEEDS)}, broker={}, client={})


def refuse_unplayable(suite: Suite) -> None:
    """Refuse a hunt that could draw no run here, or that has a control on which none can be played.

    Args:
        suite: With `[hunt]`.

    Raises:
        SuiteError: It is one.
    """
    assert suite.hunt is not None
    Hunter(suite, partial(families_of, suite), []).draw(NightState())
    for system, control in suite.hunt.controls.items():
        try:
            plan = hunted_plan(suite, system)
            there = moved(plan, control, run_id=f"the hunt {suite.name}").plan
        except PlanError as refused:
            raise SuiteError(f"the control of {system}: {refused}") from refused
        if plan.mode != there.mode and not there.named.is_strange:
            raise SuiteError(
                f"the control of {system}: {control} is in the mode {there.mode}, and {system} in"
                f" the mode {plan.mode}; {_same_mode(there, plan.mode)}"
            )


def _same_mode(control: Plan, mode: Mode) -> str:
    """Return what to type for a control in another mode."""
    same = replace(control.named, mode=mode).text
    try:
        plan_from({"system": same})
    except PlanError:  # No version has all modes.
        return "choose a release that has that mode"
    return f"type {same}"


def level_of(verdicts: Iterable[Validity]) -> int:
    """Return the level of the next run of a system.

    Each valid run leads one level up, and each other run one level down.

    Args:
        verdicts: Of the system's runs, also of those whose faults were changed.
    """
    level = 0
    for verdict in verdicts:
        step = 1 if verdict is Validity.VALID else -1
        level = min(max(level + step, 0), TOP_LEVEL)
    return level


def _verdicts_on(runs: Sequence[Drawn], system: str) -> Iterator[Validity]:
    for run in runs:
        if run.plan.system == system:
            yield run.item.outcome or Validity.UNKNOWN


def _name(plan: Plan) -> str:
    client = [plan.client_kind] if plan.client_kind else []
    faults = "changed" if plan.faults is not None else "+".join(plan.nemesis)
    return "/".join((plan.workload, plan.system, *client, faults))
