"""Choose the runs of a hunt at random, as a pure function of the hunt's journals.

Each run gets a random system, a random workload, a random client, and some random families of
faults. In a guided hunt, a bandit prefers values that recently led to new behaviour (`arms.py`).
Some runs change the faults of an earlier run that reached something new (`mutation.py`). Another
bandit chooses how many. In a blind hunt, all values are equally likely, and no faults are reused.
In both kinds of hunts, the swarm chooses the settings. The fault level rises after each valid run
of a system, and falls after any other run (`nemesis/levels.py`).
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
from harness.suites.hunting.arms import Effects, Pull, best, sampled
from harness.suites.hunting.failures import first_that_broke, owed
from harness.suites.hunting.families import Families, families_of
from harness.suites.hunting.history import (
    CHANGED,
    COUNT,
    NEW,
    ORIGIN,
    PLAIN_CLIENT,
    Drawn,
    history,
    main_s_of,
    pulls_of,
    readable,
)
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

REDRAWS = 0.5
DOUBTFUL = {(ORIGIN, CHANGED): -0.15}
"""The effect that is expected of changed faults at the start. Measured 2026-11 after the first five
runs of each hunt: 57 runs with changed faults had 1.0 new transitions and 6.4 new pairs on average.
In the same hunts, 61 runs with new faults had 4.2 and 15.6."""
PARENTS = 10
"""How many runs, at most, have faults that can be reused: the latest runs with new behaviour."""
MOST_REFUSED = 20
"""After this number of runs in a row that could not be played, a hunt ends."""
VIRTUAL_SPEED = 5
"""The assumed speed of virtual time, until a run in this part of the hunt was measured. Measured
2026-11 on 2 cores, two at once: 8 runs of 305 s took 25 s to 61 s."""
TRIES = 100
"""How often the hunter tries to find a plan, because not every workload fits every system and
client."""


class Hunter:
    """The source of the runs of a hunt.

    Args:
        suite: A suite with `[hunt]`.
        families: The function that returns, for each system, the playable families of faults with
            their kinds. It is called when the first run is chosen.
        before: The hunt's earlier parts, the oldest first.

    Attributes:
        before: The hunt's earlier parts, the oldest first.
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
            PlanError: The plan cannot be read, or the control system cannot play it.
        """
        return plan_of(planned)

    def draw(self, state: NightState) -> Planned | None:
        """Return another random run; None if the hunt is complete.

        Raises:
            SuiteError: No valid combination of the hunt's values was found.
        """
        if self._is_over(state):
            return None
        number = max(state.items, default=0) + 1
        begun = state.night if self._hunt.seed is None else self._hunt.seed
        rng = Random(f"{begun}/{number}")
        runs = readable(history([*self.before, state]))
        pulls = pulls_of(runs) if self._hunt.guided else []
        refused: PlanError | None = None
        for _ in range(TRIES):
            try:
                plan, parent = self._drawn(runs, pulls, rng)
            except SuiteError:  # A system has no faults here, whatever is chosen.
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
        raise SuiteError(
            f"the hunt {self._suite.name} cannot find valid settings for a run: {refused}"
        ) from refused

    def owed(self, state: NightState) -> list[Planned]:
        """Return the reruns and control runs that failures still need."""
        return owed([*self.before, state], self._hunt)

    def seen(self, item: Item, state: NightState, store: Path) -> list[Line]:
        """Return a journal line with the run's new transitions and its broken promises."""
        before = [each.reached for each in state.planned if each.reached]
        line = reached_by(RunPaths(store / item.run_id), item.number, before=before)
        # A rerun is not part of the search.
        none: dict[str, object] = {"transitions": (), "successions": ()} if item.repeated else {}
        return [line.model_copy(update=none)]

    def _is_over(self, state: NightState) -> bool:
        """Return whether the hunt is complete."""
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
        """Return a plan. If it changes an earlier run's faults, also return the id of that run."""
        parents = self._parents(runs)[-PARENTS:] if self._hunt.guided else []
        if parents and self._changes(pulls, rng):
            ((parent, _),) = rng.choices(parents, weights=[likely for _, likely in parents])
            return self._changed(parent, rng), parent.item.run_id
        effects = sampled([each for each in pulls if each.choices[ORIGIN] == (NEW,)], {}, rng)
        return self._dealt(runs, effects, rng), ""

    def _changes(self, pulls: Sequence[Pull], rng: Random) -> bool:
        """Return whether the next run changes the faults of an earlier run."""
        origins = [replace(each, choices={ORIGIN: each.choices[ORIGIN]}) for each in pulls]
        return best(ORIGIN, (NEW, CHANGED), sampled(origins, DOUBTFUL, rng), rng) == (CHANGED,)

    def _parents(self, runs: Sequence[Drawn]) -> list[tuple[Drawn, float]]:
        """Return the runs whose faults may be changed, each with its weight.

        Each time the faults of a run are reused, the weight of this run falls. Otherwise most runs
        would reuse the faults of the first run, because early runs reach much new behaviour.
        """
        children = Counter(run.item.planned.parent for run in runs)
        return [
            (run, pull.gain / (1 + children[run.item.run_id]))
            for run, pull in zip(runs, pulls_of(runs), strict=True)
            if pull.gain and self._is_parent(run)
        ]

    def _is_parent(self, run: Drawn) -> bool:
        """Return whether a run reached new behaviour, and this hunt may play the run's faults."""
        hunt, plan = self._hunt, run.plan
        client = plan.client_kind or PLAIN_CLIENT
        if plan.system not in hunt.systems or plan.workload not in hunt.workloads:
            return False
        kinds = {kind for each in self._families[plan.system].values() for kind in each}
        known = {each.kind for each in run.faults} <= kinds
        return bool(run.score and changeable(run.faults)) and known and client in hunt.clients

    def _dealt(self, runs: Sequence[Drawn], effects: Effects, rng: Random) -> Plan:
        hunt = self._hunt
        (system,) = best("system", hunt.systems, effects, rng)
        (workload,) = best("workload", hunt.workloads, effects, rng)
        (client,) = best("client", hunt.clients, effects, rng)
        (count,) = best(COUNT, [*map(str, range(1, hunt.most_families + 1))], effects, rng)
        families = best("family", [*self._families[system]], effects, rng, count=int(count))
        values = {
            "system": system, "workload": workload, "hosts": hunt.hosts, "nemesis": families,
            **({} if client == PLAIN_CLIENT else {"client_kind": client}),
            **({"level": level_of(_verdicts_on(runs, system))} if hunt.escalate else {}),
        }  # fmt: skip
        return self._whole(values, rng)

    def _changed(self, parent: Drawn, rng: Random) -> Plan:
        """Return the plan of a run with slightly changed faults and another seed.

        Half of these plans also get new settings.
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
    """Raise an error if a hunt, or one of its control systems, can play no run here.

    Args:
        suite: A suite with `[hunt]`.

    Raises:
        SuiteError: The hunt cannot be played.
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
                f"the control of {system}: {control} has the mode {there.mode}, but {system} has"
                f" the mode {plan.mode}; {_same_mode(there, plan.mode)}"
            )


def _same_mode(control: Plan, mode: Mode) -> str:
    """Return advice about the name of the control system with the right mode."""
    same = replace(control.named, mode=mode).text
    try:
        plan_from({"system": same})
    except PlanError:  # No version has all modes.
        return "choose a release with the same mode"
    return f"type {same}"


def level_of(verdicts: Iterable[Validity]) -> int:
    """Return the fault level of a system's next run.

    Each valid run raises the level by one, and any other run lowers it by one.

    Args:
        verdicts: The verdicts of the system's runs, including runs with changed faults.
    """
    level = 0
    for verdict in verdicts:
        step = 1 if verdict is Validity.VALID else -1
        level = min(max(level + step, 0), TOP_LEVEL)
    return level


def _verdicts_on(runs: Sequence[Drawn], system: str) -> Iterator[Validity]:
    for run in runs:
        if run.system == system:
            yield run.item.outcome or Validity.UNKNOWN


def _name(plan: Plan) -> str:
    client = [plan.client_kind] if plan.client_kind else []
    faults = "changed" if plan.faults is not None else "+".join(plan.nemesis)
    return "/".join((plan.workload, plan.system, *client, faults))
