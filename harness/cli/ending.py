"""Print the last lines of a judging command: the verdict's sentence, or the next commands.

With `--quiet`, only the verdict's sentence is printed. Otherwise, the next commands to type are
suggested.
"""

from rich.console import Console

from harness.cli.output import console_of, is_quiet
from harness.interrupt import Answer, at_once
from harness.next_steps import NextStep, next_steps, print_next
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan, plan_from
from results.record.verdict import Verdict
from results.show import print_sentence
from results.store import is_alive, typed
from results.verdict_json import read_verdict
from results.wording.naming import names_of


def answer_of(console: Console) -> Answer | None:
    """If the console prints nothing, return a function that reports signals on standard error.

    If the console prints, return None, because the console itself then reports signals.
    """
    return at_once(console_of(stderr=True)) if console.quiet else None


def conclude(verdict: Verdict, paths: RunPaths) -> None:
    """Print suggestions after a verdict; with `--quiet`, print only the verdict's sentence."""
    console = console_of()
    if is_quiet():
        print_sentence(verdict, console, names=names_of(paths))
    else:
        print_next(next_of(paths, verdict), console)


def next_of(paths: RunPaths, verdict: Verdict | None = None, *, after: str = "") -> list[NextStep]:
    """Return the commands to suggest for a run; none if the run is in progress or has no plan.

    Args:
        paths: The run.
        verdict: The run's verdict. With None, the stored verdict is read.
        after: The command that the user just typed, which is not suggested again.
    """
    try:
        verdict = verdict or read_verdict(paths.verdict)
        if verdict is None:
            judges = NextStep(command=f"logquake check {typed(paths)}", does="judges it")
            return [] if is_alive(paths) else [judges]
        steps = next_steps(verdict, plan_from(load_plan(paths.plan)), paths)
        return [each for each in steps if not each.command.startswith(f"logquake {after} ")]
    except (PlanError, StoreError):
        return []
