"""Prepare and play a run, without judging it.

Work outside of the brokers' network (Maven Central, the choice of hosts) happens in this process.
Work that needs the brokers' network happens in `harness.stage`, a child process that dies with this
process. A suite plays each run in a new process. So this module must be fast to import. Therefore
it does not import checkers and plots.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cluster.hosts.abilities import able
from cluster.hosts.choose import Choice, HostKind, choose_hosts
from cluster.hosts.ledger import mark
from cluster.hosts.namespace import enter_prefix
from cluster.reference.simulator.clock import WALL_CLOCK_S
from cluster.systems.attached.mending import mend_run
from cluster.systems.registry import system_of
from cluster.systems.system import System
from harness.audit import audit
from harness.client_library import client_library
from harness.dead_runs import heal_dead_run
from harness.elsewhere import abilities_for, refuse_elsewhere
from harness.endings import Ending, StageResult, note, noted, noted_unplayed
from harness.interrupt import LISTENING, Answer, Answers, at_once, postponed
from harness.java_client import java_client, try_java_client, with_client_version
from harness.permission import permit
from harness.plans import (
    as_played,
    refuse_a_run_without_faults,
    refuse_another_kafka,
    refuse_impossible,
)
from harness.scenarios.choices import doubts, refuse_another_story
from harness.scenarios.telling import story_of
from nemesis.schedule import deal_schedule
from results.environment import collect_environment
from results.record.clock import NS_PER_S, RunClock, stopwatch_s
from results.record.declared import dump_declared
from results.record.milestones import Milestone, load_milestones
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.record.story import dump_story
from results.record.systems import SystemKind
from results.store import Store, typed
from results.wording.amounts import duration
from results.wording.swarm import swarm_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A run that was played, and is not judged yet.

    Attributes:
        plan: The plan that was played.
        paths: The run's folder.
        result: How the run ended.
        clock: The run's clock.
        answers: The handler of signals while the run is locked.
    """

    plan: Plan
    paths: RunPaths
    result: StageResult
    clock: RunClock
    answers: Answers
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that can be played here.

    Attributes:
        plan: The plan that will be played.
        system: The plan's system. It is already prepared.
        dropped: Sentences that say which parts of the plan's nemesis are left out.
    """

    plan: Plan
    system: System
    dropped: tuple[str, ...]


def prepared(plan: Plan, *, keep: bool, say: Callable[[str], None]) -> Prepared:
    """Choose a run's hosts, reject the plan if they cannot play it, and fetch the Kafka version.

    Args:
        plan: The plan that the user asks for.
        keep: Whether the cluster goes on after the run.
        say: The function that prints what was chosen, and warnings.

    Raises:
        UserError, PlanError: An error that the user can fix.
    """
    system, choice = settled(plan, keep=keep, say=say)
    permit(system)
    plan = system.plan
    why_not = abilities_for(system, choice.hosts)
    abilities = able(why_not)
    say(f"hosts: {choice.kind} ({choice.why})")
    refuse_impossible(plan, abilities=abilities, why_not=why_not)
    dropped = deal_schedule(plan, abilities=abilities, why_not=why_not).dropped
    refuse_a_run_without_faults(plan, abilities=abilities, dropped=dropped)
    for sentence in (*doubts(plan), *dropped):
        say(sentence)
    if swarmed := swarm_words(plan.model_dump(mode="json", exclude_none=True)):
        say(f"chosen at random by the swarm: {swarmed}")
    refuse_another_kafka(plan, image_has=choice.kafka)
    if choice.kafka and plan.named.is_yours:
        say(
            "only the Java of the image is used, not its Kafka, because the run tests"
            f" {plan.system}"
        )
    plan = with_client_version(as_played(plan, choice.hosts, abilities=abilities))
    played = system_of(plan)
    played.prepare(say)
    client_library(plan, say)
    try_java_client(plan, java_client(plan, say))
    return Prepared(plan=played.plan, system=played, dropped=dropped)


def settled(plan: Plan, *, keep: bool, say: Callable[[str], None]) -> tuple[System, Choice]:
    """Return a plan's system and hosts. The system's plan has the values that the system reports.

    Args:
        plan: The plan that the user asks for.
        keep: Whether the cluster goes on after the run.
        say: See `prepared`.

    Raises:
        UserError, PlanError: See `prepared`.
    """
    asked = system_of(plan)
    refuse_elsewhere(plan, asked, keep=keep)
    system = system_of(asked.settled(say))
    refuse_another_story(system.plan)  # The version was unknown before.
    choice = choose_hosts(
        system.plan.hosts,
        image=system.plan.image,
        nodes=machines(system.plan),
        own_cuts=system.cuts_by_itself(HostKind.PROCESS),
    )
    return system, choice


def describe_run(
    ready: Prepared,
    paths: RunPaths,
    clock: RunClock,
    *,
    begun: Callable[[RunPaths], None] | None = None,
) -> None:
    """Write the run's plan and its environment into the run's folder.

    Args:
        ready: The run.
        paths: The run's folder, which exists already.
        clock: The run's clock.
        begun: The function that receives the folder as soon as the plan is in it.

    Raises:
        StoreError: The folder cannot be written.
    """
    plan, system = ready.plan, ready.system
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    if plan.named.is_strange:
        dump_declared(system.declared(), paths.system)
    if plan.scenario is not None:
        dump_story(story_of(plan), paths.story)
    if begun is not None:
        begun(paths)
    collect_environment(
        paths,
        clock=clock,
        told=system.told(),
        started_unix_s=WALL_CLOCK_S if plan.is_simulated else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _VirtualTime(RunClock):
    """The clock of a run that another process simulates: the time of the last milestone."""

    milestones: Path

    @classmethod
    def of(cls, paths: RunPaths) -> "_VirtualTime":
        return cls(start_ns=0, milestones=paths.milestones)

    def now_ns(self) -> int:
        return max((each.at_ns for each in load_milestones(self.milestones)), default=0)


@dataclass(frozen=True, slots=True)
class Staging:
    """A session that prepares and plays one run.

    Attributes:
        plan: The plan that the user asks for; `hosts` may still be `auto`.
        store: The folder of runs.
        console: The terminal.
        keep: Whether a cluster goes on after the run. Only some hosts allow this.
        answer: The function that prints a sentence after a signal. None means that the console and
            the stage print the sentence.
    """

    plan: Plan
    store: Path
    console: Console
    keep: bool = False
    answer: Answer | None = None

    @contextmanager
    def played(
        self,
        *,
        begun: Callable[[RunPaths], None] | None = None,
        beside: Callable[[RunPaths], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> Iterator[Played]:
        """Play the run, but do not judge it. The run stays locked until the `with` block ends.

        Args:
            begun: The function that receives the run's folder before any process of the run starts.
            beside: The function that returns a context manager for the run's folder. The context
                begins when the plan is in the folder, and ends with the `with` block.

        Raises:
            UserError, PlanError, StoreError: An error that the user can fix; there is no run.
        """
        try:
            ready = prepared(self.plan, keep=self.keep, say=self._say)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted before the run began, so there is nothing to judge"
            ) from None
        plan = ready.plan
        with (
            Store(self.store).create(plan.name, plan.seed) as paths,
            self._answers(paths) as answers,
        ):
            clock = _VirtualTime.of(paths) if plan.is_simulated else RunClock.starting_now()
            describe_run(ready, paths, clock, begun=begun)
            self._say(f"run {paths.run_id} in {paths.root} (seed {plan.seed})")
            with beside(paths):
                began_s = stopwatch_s()
                result = self._play_audited(plan, paths, clock, answers)
                if plan.is_simulated:
                    took_s = stopwatch_s() - began_s
                    lasted_s = clock.now_ns() / NS_PER_S
                    self._say(
                        f"{duration(round(lasted_s))} of virtual time took {duration(took_s)}"
                    )
                yield Played(
                    plan=plan,
                    paths=paths,
                    result=result,
                    clock=clock,
                    answers=answers,
                    dropped=ready.dropped,
                )

    def _play_audited(
        self, plan: Plan, paths: RunPaths, clock: RunClock, answers: Answers
    ) -> StageResult:
        """Play the run, check that it left its hosts unchanged, and clean up."""
        before = audit(plan, paths)
        # If the run dies before the second check, this milestone shows it.
        note(paths, Milestone(name="looked", at_ns=clock.now_ns()))
        result = self._play(plan, paths, clock, answers)
        if result.ending in {Ending.PLAYED, Ending.INTERRUPTED}:
            changes = before.changes()
            self._clean_up(plan, paths)
        else:  # A stage that died may leave traces, so clean up first.
            self._clean_up(plan, paths)
            changes = before.changes()
        if before.refused and result.ending is Ending.USER:
            return result  # The run failed for the same reason.
        for what, how in changes.items():
            self._say(f"{what} {how}")
        note(paths, Milestone(name="audited", at_ns=clock.now_ns(), detail=changes))
        return result

    def _play(self, plan: Plan, paths: RunPaths, clock: RunClock, answers: Answers) -> StageResult:
        read_fd, write_fd = os.pipe()
        with os.fdopen(read_fd, encoding="utf-8") as pipe:
            try:
                with postponed():
                    if answers.early:
                        return noted_unplayed(paths, clock)
                    stage = self._started(plan, paths, clock, write_fd)
                    answers.begins(stage)
            finally:
                os.close(write_fd)
            # The end of this block closes the stage's standard input, which ends the stage.
            with stage:
                values: dict[str, Any] = {}
                for line in pipe:
                    if line == LISTENING:
                        answers.hand_on()
                    else:
                        values = json.loads(line)
                answers.stage_ended(values.get("heard", 0))
        if not values:
            return _ended_by_itself(stage.returncode, paths, clock)
        result = StageResult(
            ending=Ending(values["ending"]),
            sentence=values["sentence"],
            disk_full=values["disk_full"],
        )
        return result if values["noted"] else noted(paths, clock, result)

    def _started(
        self, plan: Plan, paths: RunPaths, clock: RunClock, result_fd: int
    ) -> "subprocess.Popen[bytes]":
        prefix = enter_prefix() if plan.hosts == "namespace" else []
        # -P: a `results` folder in the working directory must not replace our package.
        argv = [sys.executable, "-P", "-m", "harness.stage", str(paths.root), str(result_fd)]
        # The mark lets `logquake heal` find the stage and its children.
        environment = os.environ | mark(paths.processes)
        environment["LOGQUAKE_STDERR"] = "1" if self.console.stderr else "0"
        with ExitStack() as stack:
            # A suite shows only results, so each run's own output goes to a file.
            aside = stack.enter_context(_said(paths).open("ab")) if self.console.quiet else None
            # In its own session, the stage gets Ctrl-C only once, through `Answers`.
            return subprocess.Popen(  # noqa: S603 - our own program
                [*prefix, *argv, str(clock.start_ns)],
                stdin=subprocess.PIPE,
                stdout=aside,
                stderr=aside,
                pass_fds=(result_fd,),
                env=environment,
                start_new_session=True,
            )

    def _clean_up(self, plan: Plan, paths: RunPaths) -> None:
        healed = [heal_dead_run(paths)]
        if plan.named.kind is SystemKind.ATTACHED:  # A stage that died has undone nothing.
            healed.append(mend_run(Path(plan.named.path), paths))
        for each in healed:
            for sentence in (*each.done, *each.failed):
                self._say(sentence)

    def _say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)

    def _answers(self, paths: RunPaths) -> Answers:
        if self.answer is None:
            return Answers(typed(paths), at_once(self.console))
        return Answers(typed(paths), self.answer, stage_is_heard=False)


def _said(paths: RunPaths) -> Path:
    return paths.root / "stage.log"


def _ended_by_itself(status: int, paths: RunPaths, clock: RunClock) -> StageResult:
    """Record that the stage's process died before it could report how the run ended."""
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    hint = (
        "; the kernel does this when there is too little memory"
        if status == -signal.SIGKILL
        else ""
    )
    sentence = f"the process of the run ended too early ({how}{hint})"
    return noted(paths, clock, StageResult(ending=Ending.CLUSTER, sentence=sentence))
