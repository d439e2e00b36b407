"""What to type after a run: the commands that a verdict makes likely, each with its purpose."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nemesis.levels import LEVELS
from results.print_table import say
from results.record.level import level_refusal
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.samples import is_sample
from results.store import DEFAULT_STORE, LATEST, Store, typed
from results.wording.inert import inert
from results.wording.reasons import heaviest_reason

_LONGER_S = 120
_REMEDIES = (
    ("not-enough-traffic", "--time-limit {longer}", "gives clients more time"),
    ("fault-without-effect", "--time-limit {longer}", "gives faults more time to take effect"),
    ("there was nothing to check for fault-without-effect", "--time-limit {longer}",
     "is long enough for faults"),
    ("final-read-incomplete", "--rate 100", "leaves less to read at the end"),
)  # fmt: skip
"""How a reason begins, the option that avoids it, and what that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A command to type, and what it does."""

    command: str
    does: str


def named(paths: RunPaths) -> str:
    """Return the shortest word that means a run after a command: `latest` where it is that."""
    if is_sample(paths):
        return typed(paths)
    store = Store(paths.root.parent.parent)
    newest = store.latest()
    in_default = store.root.resolve() == DEFAULT_STORE.resolve()
    if in_default and newest is not None and newest.root.resolve() == paths.root.resolve():
        return LATEST
    return typed(paths)


def serving(store: Path) -> NextStep:
    """Return the command that shows a store's pages."""
    elsewhere = store.resolve() != DEFAULT_STORE.resolve()
    words = ["logquake", "serve", *(["--store", str(store)] if elsewhere else [])]
    return NextStep(command=shlex.join(words), does="shows the pages of all runs in a browser")


def next_steps(verdict: Verdict, plan: Plan, paths: RunPaths) -> list[NextStep]:
    """Return what to type after a run was judged.

    Args:
        verdict: On it.
        plan: As it was played.
        paths: The run.
    """
    match verdict.valid:
        case Validity.INVALID:
            return _after_failure(paths)
        case Validity.UNKNOWN:
            return _after_unknown(verdict, plan, paths)
        case Validity.VALID:
            return _after_valid(plan, paths)


def after_night(failed: Sequence[RunPaths], store: Path) -> list[NextStep]:
    """Return what to type after a night.

    Args:
        failed: Its runs with the verdict `invalid`.
        store: The folder of runs.
    """
    run = next((typed(each) for each in failed), "")
    if not run:
        return [serving(store)]
    return [
        NextStep(command=f"logquake show {run}", does="shows the first failure's evidence"),
        NextStep(command=f"logquake repro {run}", does="reruns it, to see how often it fails"),
        serving(store),
    ]


def _after_failure(paths: RunPaths) -> list[NextStep]:
    run = named(paths)
    return [
        NextStep(command=f"logquake show {run}", does="shows the evidence, step by step"),
        NextStep(
            command=f"logquake repro {run}", does="reruns it 10 times, to see how often it fails"
        ),
        *([] if is_sample(paths) else [serving(paths.root.parent.parent)]),
    ]


def _after_unknown(verdict: Verdict, plan: Plan, paths: RunPaths) -> list[NextStep]:
    run, reason = named(paths), heaviest_reason(verdict)
    steps = [NextStep(command=f"logquake show {run}", does="shows all reasons, and the faults")]
    longer = max(_LONGER_S, round(2 * plan.time_limit_s))
    if "interrupted_at_s" in verdict.stats:
        again = NextStep(command=_again(paths), does="reruns it to its end")
        return [again, *steps]
    for start, option, does in _REMEDIES:
        if plan.scenario is None and reason.startswith(start):
            command = f"{_again(paths)} {option.format(longer=longer)}"
            return [NextStep(command=command, does=does), *steps]
    if "host-not-restored" in reason:
        heal = NextStep(command="logquake heal", does="undoes the remaining changes on hosts")
        return [heal, *steps]
    return [*steps, NextStep(command=f"logquake repro {run}", does="shows whether it recurs")]


def _after_valid(plan: Plan, paths: RunPaths) -> list[NextStep]:
    if plan.scenario is not None:
        listed = NextStep(command="logquake scenario list", does="lists other stories")
        return [NextStep(command=f"logquake show {named(paths)}", does="shows each step"), listed]
    harder = plan.level + 1
    at_level = plan.model_copy(update={"level": harder})
    steps = []
    if harder < len(LEVELS) and plan.nemesis and not level_refusal(at_level):
        command = f"{_again(paths)} --level {harder}"
        steps.append(NextStep(command=command, does="schedules harder faults"))
        climbs = f"{_again(paths)} --escalate"
        steps.append(NextStep(command=climbs, does="continues with higher levels until one fails"))
    shown = NextStep(
        command=f"logquake show {named(paths)}", does="shows the comparisons behind the verdict"
    )
    return [*steps, shown]


def _again(paths: RunPaths) -> str:
    root = paths.root.resolve()
    run = named(paths)
    folder = DEFAULT_STORE / LATEST if run == LATEST else root
    if folder.is_absolute() and folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    return f"logquake run {shlex.quote(str(folder / paths.plan.name))}"


def print_next(steps: Sequence[NextStep], console: Console) -> None:
    """Print the commands below one another, each with what it does."""
    if not steps:
        return
    say(console, "")
    say(console, "next:", style="bold")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for each in steps:
        table.add_row(Text(f"  {inert(each.command)}"), Text(inert(each.does)))
    console.print(table)
