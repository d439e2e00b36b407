"""What follows the play of a run: it is judged, its verdict shown, and its page drawn."""

from rich.console import Console

from checkers.packing import pack_streams
from harness.interrupt import DRAWING, JUDGING, Answers
from harness.judgement import Engine, judge_stored
from harness.scenarios.telling import compare_with_story
from harness.scratch import scratch_in
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.verdict import Verdict
from results.report import write_report
from results.show import print_verdict
from results.store import typed
from results.wording.naming import names_of


def conclude(
    plan: Plan, paths: RunPaths, *, engine: Engine, answers: Answers, console: Console
) -> Verdict:
    """Judge a run that was played, print its verdict, and write its page.

    Args:
        plan: As it was played.
        paths: The run.
        engine: Who judges.
        answers: Answers signals; the first one ends what goes on.
        console: Where to talk.

    Raises:
        KeyboardInterrupt: A signal came; its message names the command that does the rest.
    """

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False)

    run = typed(paths)
    answers.cut(JUDGING, f"{run} was not judged; logquake check {run} does it")
    say(f"judging ({engine.name})")
    with scratch_in(paths):
        verdict = judge_stored([paths.root], judge=None, engine=engine)[0]
        answers.cut(DRAWING, f"{run} has a verdict; logquake report {run} draws its page")
        pack_streams(paths)
    compared = compare_with_story(plan, paths, verdict) if plan.scenario else ""
    print_verdict(verdict, console, names=names_of(paths))
    if compared:
        say(compared)
    say(f"the page: {write_report(paths)}")
    return verdict
