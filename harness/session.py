"""A run as its user sees it: prepared and played (`harness.staging`), judged, shown."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cluster.protocol import ClusterError, UserError
from harness.endings import Ending
from harness.errors import InternalError
from harness.interrupt import DRAWING, JUDGING, KEEPING
from harness.judgement import Engine, choose_engine, judge_stored
from harness.keep import keep_cluster
from harness.scenarios.telling import compare_with_story
from harness.scratch import scratch_in
from harness.staging import Played, Staging
from results.page.naming import names_of
from results.record.plan import Plan
from results.record.verdict import Verdict
from results.report import write_report
from results.show import print_verdict


@dataclass(slots=True)
class Session:
    """One `logquake run`.

    Attributes:
        plan: As asked for; `hosts` may still be `auto`.
        store: The folder of runs.
        console: Where to talk.
        keep: Whether a cluster goes on after the verdict, on copies of the files.
    """

    plan: Plan
    store: Path
    console: Console
    keep: bool = False

    def run(self, *, engine: str | None, spark_master: str | None) -> Verdict:
        """Play the run and judge it.

        Raises:
            UserError, PlanError, StoreError: Something that the user can mend; nothing is running.
            InternalError: A bug of ours; the record was judged for what there is.
        """
        chosen = choose_engine(engine, spark_master, light=self.plan.is_reference)
        staging = Staging(self.plan, self.store, self.console, self.keep)
        with staging.played() as played:
            if played.result.ending is Ending.USER:
                raise UserError(played.result.sentence)
            if played.result.ending is Ending.CLUSTER:
                self._say(f"the run did not come to its end: {played.result.sentence}")
            if chosen.why:
                self._say(chosen.why)
            verdict = self._judge(played, chosen)
            if self.keep:
                self._keep(played)
        if played.result.ending is Ending.INTERNAL:
            raise InternalError(f"the run ended by a bug of Logquake: {played.result.sentence}")
        return verdict

    def _judge(self, played: Played, chosen: Engine) -> Verdict:
        plan, paths, run = played.plan, played.paths, played.paths.run_id
        played.answers.cut(JUDGING, f"{run} was not judged; logquake check {run} does it")
        self._say(f"judging ({chosen.name})")
        with scratch_in(paths):
            verdict = judge_stored([paths.root], judge=None, engine=chosen)[0]
        compared = compare_with_story(plan, paths, verdict) if plan.scenario else ""
        print_verdict(verdict, self.console, names=names_of(paths))
        if compared:
            self._say(compared)
        played.answers.cut(DRAWING, f"{run} has a verdict; logquake report {run} draws its page")
        page = write_report(paths)
        self._say(f"the page: {page}")
        return verdict

    def _keep(self, played: Played) -> None:
        plan, paths = played.plan, played.paths
        played.answers.cut(KEEPING, "no cluster is kept: it was ended by Ctrl-C")
        self._say("starting the cluster again on copies of the nodes' files")
        try:
            keep_cluster(plan, paths)
        except (ClusterError, KeyboardInterrupt) as failed:  # The verdict stands all the same.
            self._say(str(failed))
            return
        self._say(
            f"the cluster is kept: logquake node {paths.run_id} n1 -- COMMAND; end it with"
            f" logquake node {paths.run_id} --end"
        )

    def _say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)
