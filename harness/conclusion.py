"""The last steps of a run: judge it, print its verdict, and write its page."""

from rich.console import Console

from checkers.packing import pack_streams
from harness.ahead import Ahead
from harness.interrupt import DRAWING, JUDGING, Answers
from harness.judgement import judge_by
from harness.scenarios.telling import compare_with_story
from harness.timing import Timer
from results.print_table import say_page
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.verdict import Verdict
from results.report import write_report
from results.show import print_details, print_sentence
from results.store import typed
from results.tables import RunTables
from results.wording.faults import fault_lines
from results.wording.naming import names_of
from results.wording.plural import many


def conclude(
    plan: Plan,
    paths: RunPaths,
    *,
    ahead: Ahead,
    answers: Answers,
    console: Console,
    timer: Timer | None = None,
) -> Verdict:
    """Judge a run that was played, print its verdict, and write its page.

    Args:
        plan: The plan that was played.
        paths: The run's folder.
        ahead: The provider of the engine that judges.
        answers: The handler of signals. The first signal ends the current step.
        console: The terminal.
        timer: The timer that measures each step.

    Raises:
        KeyboardInterrupt: A signal came. The message of the error names the command for the steps
            that were not done.
    """

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False)

    run = typed(paths)
    answers.cut(JUDGING, f"{run} was not judged; type: logquake check {run}")
    say(f"judging ({ahead.choice.name})")
    timer = timer or Timer()
    with ahead.worker(paths) as worker:
        timer.judging()
        verdict = judge_by(worker, [paths.root])[0]
        timer.judged(paths)
        answers.cut(DRAWING, f"{run} has a verdict but no page; type: logquake report {run}")
    compared = compare_with_story(plan, paths, verdict) if plan.scenario else ""
    print_sentence(verdict, console, names=names_of(paths))
    if compared:
        say(compared)
    page = write_report(paths)
    say_page(console, page)
    if faults := fault_lines(RunTables(paths)):
        confirmed = sum(each.confirmed_s is not None for each in faults)
        say(f"{confirmed} of {many(len(faults), 'fault')} confirmed by measurement")
    print_details(verdict, console, names=names_of(paths))
    timer.drawn(paths)
    pack_streams(paths)
    ahead.wait_gone()
    return verdict
