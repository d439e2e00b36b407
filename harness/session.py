"""Prepare a run, play it (`harness.staging`), judge it, and show the verdict."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cluster.protocol import ClusterError, FullDiskError
from harness.ahead import Ahead
from harness.endings import Ending
from harness.errors import InternalError, UnplayedError
from harness.interrupt import KEEPING, Answer
from harness.judgement import choose_engine
from harness.keep import keep_cluster
from harness.staging import Played, Staging
from harness.timing import Timer
from results.record.plan import Plan
from results.record.verdict import Verdict
from results.store import typed


@dataclass(slots=True)
class Session:
    """One `logquake run`.

    Attributes:
        plan: The plan that the user asks for; `hosts` may still be `auto`.
        store: The folder of runs.
        console: The terminal.
        keep: Whether a cluster with copies of the files runs on after the verdict.
        answer: The function that prints a sentence after a signal. None means that the console and
            the stage print the sentence.
        began_s: When the command started, in seconds of `stopwatch_s`. None if the command also
            plays other runs.
    """

    plan: Plan
    store: Path
    console: Console
    keep: bool = False
    answer: Answer | None = None
    began_s: float | None = None

    def run(self, *, engine: str | None, spark_master: str | None) -> Verdict:
        """Play the run and judge it.

        Raises:
            UserError, PlanError, StoreError: An error that the user can fix; no process is left
                running. The error is an UnplayedError if the run had begun.
            InternalError: A bug of Logquake; the run was judged from its incomplete record.
        """
        chosen = choose_engine(engine, spark_master, light=self.plan.is_reference)
        staging = Staging(self.plan, self.store, self.console, self.keep, self.answer)
        ahead = Ahead(chosen)
        with staging.played(beside=ahead.watching) as played:
            if played.result.ending is Ending.USER:
                full = played.result.disk_full
                raise (FullDiskError if full else UnplayedError)(played.result.sentence)
            if played.result.ending is Ending.CLUSTER:
                self._say(f"the run did not reach its end: {played.result.sentence}")
            if chosen.why:
                self._say(chosen.why)
            from harness.conclusion import conclude  # noqa: PLC0415 - imported while it was played

            verdict = conclude(
                played.plan,
                played.paths,
                ahead=ahead,
                answers=played.answers,
                console=self.console,
                timer=self._timer(played),
            )
            if self.keep:
                self._keep(played)
        if played.result.ending is Ending.INTERNAL:
            raise InternalError(
                f"the run ended because of a bug of Logquake: {played.result.sentence}"
            )
        return verdict

    def _timer(self, played: Played) -> Timer:
        timer = Timer(self.began_s)
        if not played.plan.is_simulated:
            timer.starts(played.clock)
        return timer

    def _keep(self, played: Played) -> None:
        plan, paths = played.plan, played.paths
        played.answers.cut(KEEPING, "no cluster is kept, because Ctrl-C interrupted the command")
        self._say("starting the cluster again on copies of the nodes' files")
        try:
            keep_cluster(plan, paths)
        except (ClusterError, KeyboardInterrupt) as failed:  # The verdict is not affected.
            played.answers.heeded()
            self._say(str(failed))
            return
        self._say(
            f"the cluster is kept: logquake node {typed(paths)} n1 -- COMMAND; end it with"
            f" logquake node {typed(paths)} --end"
        )

    def _say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)
