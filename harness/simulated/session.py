"""`logquake run --hosts simulated`: prepared, played in virtual time, judged, shown."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from cluster.protocol import Ability, ClusterError, UserError
from cluster.reference.bugs import Bug
from cluster.reference.settings import SettingsError
from cluster.reference.simulator.host import Boot
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.streams import Streams
from harness.conclusion import conclude
from harness.endings import Ending, StageResult, note, noted, noted_unplayed
from harness.interrupt import Answer, Answers, Interrupts, at_once
from harness.judgement import choose_engine
from harness.plans import refuse_impossible
from harness.scenarios.deeds import ScenarioError
from harness.scenarios.telling import story_of, tell
from harness.simulated.clock import VirtualClock
from harness.simulated.files import WALL_CLOCK_S
from harness.simulated.life import SimulatedLife
from harness.simulated.nodes import boots, node_properties, numbers
from harness.simulated.world import SimulatedWorld
from harness.stage import live
from nemesis.overlaps import deal_overlapping
from nemesis.registry import KINDS
from nemesis.schedule import (
    FEW_FAMILIES,
    Schedule,
    deal_schedule,
    played_families,
    without_room,
)
from nemesis.virtual import VIRTUAL_FAMILIES, VIRTUAL_KINDS
from results.environment import collect_environment
from results.record.clock import NS_PER_S, RunClock, stopwatch_s
from results.record.milestones import INTERRUPTED, Milestone
from results.record.paths import RunPaths
from results.record.plan import ALL, REFERENCE, SIMULATED, Plan, dump_plan
from results.record.story import dump_story
from results.record.terms import Mode
from results.record.verdict import Verdict
from results.store import Store, typed

_ABILITIES = frozenset({Ability.CUT, Ability.DISK, Ability.CLOCK})
_ONLY_OVERLAPPING = frozenset(
    family
    for family in VIRTUAL_FAMILIES
    if {name for name, kind in KINDS.items() if kind.family == family}
    != {name for name, kind in VIRTUAL_KINDS.items() if kind.family == family}
)
"""Families whose kinds are others than those of real hosts."""


@dataclass(slots=True)
class SimulatedSession:
    """One `logquake run --hosts simulated`.

    Attributes:
        plan: As asked for.
        store: The folder of runs.
        console: Where to talk.
        answer: Prints what a signal is answered; None: the console does.
    """

    plan: Plan
    store: Path
    console: Console
    answer: Answer | None = None

    def run(self, *, engine: str | None) -> Verdict:
        """Play the run and judge it.

        Raises:
            UserError: Something that cannot be simulated.
        """
        chosen = choose_engine(engine, None, light=True)
        refuse_unsimulated(self.plan)
        plan, schedule = as_simulated(self.plan)
        for sentence in schedule.dropped:
            self._say(sentence)
        with (
            Store(self.store).create(plan.name, plan.seed) as paths,
            Answers(typed(paths), self.answer or at_once(self.console)) as answers,
        ):
            paths.plan.write_text(dump_plan(plan), encoding="utf-8")
            if plan.scenario is not None:
                dump_story(story_of(plan), paths.story)
            collect_simulated(paths)
            self._say(f"run {paths.run_id} in {paths.root} (seed {plan.seed})")
            self._play(plan, schedule, paths, answers)
            return conclude(plan, paths, engine=chosen, answers=answers, console=self.console)

    def describe(self) -> None:
        """Print the plan and its schedule of faults; nothing is played.

        Raises:
            UserError: Something that cannot be simulated.
        """
        refuse_unsimulated(self.plan)
        plan, schedule = as_simulated(self.plan)
        self._say(dump_plan(plan))
        if plan.scenario is not None:
            tell(plan, self.console)
        for fault in schedule.faults:
            held = f"held {fault.hold_s:.1f} s"
            self._say(f"{fault.at_s:8.1f} s  {fault.kind:<14} {fault.target:<22} {held}")
        for sentence in schedule.dropped:
            self._say(sentence)

    def _play(self, plan: Plan, schedule: Schedule, paths: RunPaths, answers: Answers) -> None:
        started_s = stopwatch_s()
        simulation = Simulation(plan.seed)
        clock = VirtualClock(agenda=simulation.agenda)
        answers.simulates()
        if answers.early:
            noted_unplayed(paths, clock)
            return
        stop = answers.finish
        ended = StageResult(ending=Ending.INTERRUPTED, sentence="ended early by Ctrl-C")
        try:
            if plan.scenario is not None:
                simulation = self._tell(plan, paths, stop)
            else:
                play(plan, schedule, paths, simulation=simulation, say=self._say, finish=stop)
        except ClusterError as failed:
            told = stop.is_set() and isinstance(failed, ScenarioError)
            kind = Ending.INTERRUPTED if told else Ending.CLUSTER
            noted(paths, clock, StageResult(ending=kind, sentence=str(failed)))
            self._say(f"the run did not come to its end: {failed}")
        else:
            if stop.is_set():
                noted(paths, clock, ended)
        took_s = stopwatch_s() - started_s
        self._say(f"{simulation.now_ns / 1e9:.0f} s of virtual time took {took_s:.1f} s")

    def _tell(self, plan: Plan, paths: RunPaths, stop: threading.Event) -> Simulation:
        world = SimulatedWorld(plan)
        interrupts, clock = Interrupts(world.event), VirtualClock(agenda=world.simulation.agenda)

        def heed() -> None:
            if stop.is_set():
                note(paths, Milestone(name=INTERRUPTED, at_ns=clock.now_ns()))
                interrupts.finish.set()
            else:
                world.simulation.agenda.after(NS_PER_S // 10, heed)

        heed()
        live(plan, paths, clock, world=world, console=self.console, interrupts=interrupts)
        return world.simulation

    def _say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)


def collect_simulated(paths: RunPaths) -> None:
    """Write `environment.json`, with the start of virtual time on the nodes' wall clocks.

    Raises:
        StoreError: It cannot be written.
    """
    collect_environment(paths, clock=RunClock.starting_now(), started_unix_s=WALL_CLOCK_S)


def play(
    plan: Plan,
    schedule: Schedule,
    paths: RunPaths,
    *,
    simulation: Simulation,
    say: Callable[[str], object],
    finish: threading.Event | None = None,
    nodes: Mapping[int, Boot] | None = None,
) -> None:
    """Play a run into its folder; the same plan gives the same files, unless it is ended early.

    Args:
        plan: The run.
        schedule: Its faults.
        paths: Its folder.
        simulation: Where it takes place.
        say: Tells the user of each phase.
        finish: Set by a Ctrl-C: the run goes on to its end at once.
        nodes: Makes each node of its disk; None: as the plan has them.

    Raises:
        ClusterError: The brokers did not do what was waited for.
    """
    SimulatedLife(
        plan,
        schedule=schedule,
        simulation=simulation,
        boots=nodes or boots(plan, simulation.streams),
        paths=paths,
        properties={number: node_properties(plan, number) for number in numbers(plan)},
        say=say,
        finish=finish,
    ).live()


def refuse_unsimulated(plan: Plan) -> None:
    """Refuse what cannot be simulated.

    Raises:
        UserError: One sentence with the remedy.
    """
    asked = plan.nemesis if "nemesis" in plan.model_fields_set else ()
    others = [family for family in asked if family not in (*VIRTUAL_FAMILIES, ALL)]
    kinds = [fault.kind for fault in plan.faults or () if fault.kind not in VIRTUAL_KINDS]
    refusals = {
        f"only the reference cluster can be simulated, not {plan.system}:"
        f" add --system {REFERENCE}": not plan.is_reference,
        "controllers of their own are not simulated: take --system reference": (
            plan.mode is not Mode.COMBINED and plan.scenario is None
        ),
        f"the workload {plan.workload} is not simulated: take log": (
            plan.workload not in {"log", "script"}
        ),
        "simulated clients do not compress: take compression none": plan.compression != "none",
        "simulated nodes have disks of their own: leave disk_mb out": plan.disk_mb is not None,
        "librdkafka's settings have no meaning for simulated clients: leave [client] out": bool(
            plan.client
        ),
        f"nemesis {', '.join(others)} cannot be simulated; there are"
        f" {', '.join(VIRTUAL_FAMILIES)}": bool(others),
        f"fault {', '.join(kinds)} cannot be simulated; there are {', '.join(VIRTUAL_KINDS)}": bool(
            kinds
        ),
        "simulated faults wait for no state: leave `when` out, and say at_s": any(
            fault.when is not None for fault in plan.faults or ()
        ),
        f"--bug {plan.bug} is none of {', '.join(Bug)}": plan.bug not in {None, *Bug},
    }
    for sentence, holds in refusals.items():
        if holds:
            raise UserError(sentence)
    refuse_impossible(plan, abilities=_ABILITIES)
    unfit = [each for each in asked if each in VIRTUAL_FAMILIES and not _suits(plan, each)]
    if unfit:
        raise UserError(f"nemesis {', '.join(unfit)} needs more nodes than {plan.nodes}")
    try:
        boots(plan, Streams(plan.seed))
    except SettingsError as wrong:
        raise UserError(str(wrong)) from wrong


def _suits(plan: Plan, family: str) -> bool:
    kinds = [kind for kind in VIRTUAL_KINDS.values() if kind.family == family]
    return any(plan.nodes >= kind.least_nodes and kind.suits(plan) for kind in kinds)


def as_simulated(plan: Plan) -> tuple[Plan, Schedule]:
    """Return the plan that is stored, with the families that can be simulated; and its faults."""
    wanted = VIRTUAL_FAMILIES if ALL in plan.nemesis else plan.nemesis
    wanted = tuple(family for family in wanted if family in VIRTUAL_FAMILIES)
    # A default stays one: of it only what the main phase has room for is dealt.
    changed = {} if wanted == plan.nemesis else {"nemesis": wanted}
    asked = plan.model_copy(update={"hosts": SIMULATED, **changed})
    families = tuple(
        family for family in played_families(asked, abilities=_ABILITIES) if _suits(plan, family)
    )
    # Of what was wanted, so that what is left out is said; the same is dealt of what is stored.
    schedule = deal_schedule(asked, abilities=_ABILITIES)
    if plan.faults is None and (len(families) > FEW_FAMILIES or _ONLY_OVERLAPPING & {*families}):
        faults = deal_overlapping(asked, families)
        left_out = tuple(each for each in schedule.dropped if " are left out: " in each) + tuple(
            f"faults of {family} are left out: they need more nodes"
            for family in wanted
            if not _suits(plan, family)
        )
        dropped = (*left_out, *without_room(asked, families, faults))
        schedule = replace(schedule, faults=faults, dropped=dropped)
    return asked.model_copy(update={"nemesis": families}), schedule
