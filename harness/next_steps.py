"""Suggest commands to type after a run. The verdict decides which commands are useful next."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from harness.reaching import reaching
from nemesis.levels import LEVELS
from results.print_table import say
from results.record.atomic import StoreError
from results.record.level import level_refusal
from results.record.paths import RunPaths
from results.record.plan import MAX_TIME_LIMIT_S, Plan, PlanError, load_plan, plan_from
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.samples import is_sample
from results.store import DEFAULT_STORE, LATEST, Store, typed
from results.wording.inert import inert
from results.wording.reasons import heaviest_reason

PROGRAM = "logquake"
_LONGER_S = 120
_REMEDIES = (
    ("not-enough-traffic", "--time-limit", "gives clients more time"),
    ("fault-without-effect", "--time-limit", "gives faults more time to take effect"),
    ("there was nothing to check for fault-without-effect", "--time-limit",
     "is long enough for faults"),
    ("final-read-incomplete", "--rate", "leaves less to read at the end"),
)  # fmt: skip
"""For each reason: its first words, an option that avoids this reason, and the option's effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A suggested command, and a description of its effect."""

    command: str
    does: str


def named(paths: RunPaths) -> str:
    """Return the shortest name of a run for a command line: `latest` if the run is the latest."""
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
    """Return suggested commands for a judged run.

    Args:
        verdict: The run's verdict.
        plan: The plan that was played.
        paths: The run's folder.
    """
    match verdict.valid:
        case Validity.INVALID:
            return _after_failure(plan, paths)
        case Validity.UNKNOWN:
            return _after_unknown(verdict, plan, paths)
        case Validity.VALID:
            return _after_valid(plan, paths)


def after_night(failed: Sequence[RunPaths], store: Path) -> list[NextStep]:
    """Return suggested commands after a suite's night.

    Args:
        failed: The runs of this night with the verdict `invalid`.
        store: The folder of runs.
    """
    if not failed:
        return [serving(store)]
    run = typed(failed[0])
    steps = [NextStep(command=f"logquake show {run}", does="shows the first failure's evidence")]
    with suppress(PlanError, StoreError):
        plan = plan_from(load_plan(failed[0].plan))
        steps.append(_rerun(run, plan, "reruns it, to see how often it fails"))
    return [*steps, serving(store)]


def _after_failure(plan: Plan, paths: RunPaths) -> list[NextStep]:
    run = named(paths)
    return [
        NextStep(command=f"logquake show {run}", does="shows the evidence, step by step"),
        _rerun(run, plan, "reruns it 10 times, to see how often it fails"),
        *([] if is_sample(paths) else [serving(paths.root.parent.parent)]),
    ]


def _after_unknown(verdict: Verdict, plan: Plan, paths: RunPaths) -> list[NextStep]:
    run, reason = named(paths), heaviest_reason(verdict)
    steps = [NextStep(command=f"logquake show {run}", does="shows all reasons, and the faults")]
    if "interrupted_at_s" in verdict.stats:
        again = NextStep(command=_again(plan, paths), does="reruns it to its end")
        return [again, *steps]
    for start, option, does in _REMEDIES:
        value = _milder(option, plan)
        if plan.scenario is None and reason.startswith(start) and value:
            command = f"{_again(plan, paths)} {option} {value:g}"
            return [NextStep(command=command, does=does), *steps]
    if "host-not-restored" in reason:
        heal = NextStep(command="logquake heal", does="undoes the remaining changes on hosts")
        return [heal, *steps]
    return [*steps, _rerun(run, plan, "shows whether it recurs")]


def _milder(option: str, plan: Plan) -> float:
    """Return a value for the option that may avoid the reason; 0 means that no value may help."""
    if option == "--rate":
        return plan.rate / 2
    longer = min(max(_LONGER_S, round(2 * plan.time_limit_s)), MAX_TIME_LIMIT_S)
    return longer if longer > plan.time_limit_s else 0


def _after_valid(plan: Plan, paths: RunPaths) -> list[NextStep]:
    if plan.scenario is not None:
        listed = NextStep(command="logquake scenario list", does="lists other scenarios")
        return [NextStep(command=f"logquake show {named(paths)}", does="shows each step"), listed]
    harder = plan.level + 1
    at_level = plan.model_copy(update={"level": harder})
    steps = []
    if harder < len(LEVELS) and plan.nemesis and not level_refusal(at_level):
        command = f"{_again(plan, paths)} --level {harder}"
        steps.append(NextStep(command=command, does="schedules harder faults"))
        climbs = f"{_again(plan, paths)} --escalate"
        steps.append(NextStep(command=climbs, does="continues with higher levels until one fails"))
    shown = NextStep(
        command=f"logquake show {named(paths)}", does="shows the comparisons behind the verdict"
    )
    return [*steps, shown]


def _rerun(run: str, plan: Plan, does: str) -> NextStep:
    return NextStep(command=f"logquake repro {run}{_reached(plan)}", does=does)


def _reached(plan: Plan) -> str:
    """Return options that repeat the plan keys which affect more than the run, such as `hosts`."""
    return "".join(f" --{key} {shlex.quote(value)}" for key, value in reaching(plan).items())


def _again(plan: Plan, paths: RunPaths) -> str:
    root = paths.root.resolve()
    run = named(paths)
    folder = DEFAULT_STORE / LATEST if run == LATEST else root
    if folder.is_absolute() and folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    return f"logquake run {shlex.quote(str(folder / paths.plan.name))}{_reached(plan)}"


def _typed(command: str) -> str:
    """Return a command as the user must type it, even if the program is not on the PATH."""
    program, found = Path(sys.argv[0]), shutil.which(PROGRAM)
    if program.name != PROGRAM or (found and Path(found).resolve() == program.resolve()):
        return command
    if program.is_absolute() and program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    return f"{shlex.quote(str(program))}{command.removeprefix(PROGRAM)}"


def print_next(steps: Sequence[NextStep], console: Console) -> None:
    """Print one line for each suggested command: the command and its effect."""
    if not steps:
        return
    say(console, "")
    say(console, "next:", style="bold")
    commands = [f"  {inert(_typed(each.command))}" for each in steps]
    column = 2 + max(map(cell_len, commands))
    fits = all(column + cell_len(inert(each.does)) <= console.width for each in steps)
    for command, each in zip(commands, steps, strict=True):
        gap = " " * (column - cell_len(command)) if fits else "\n      "
        text = Text.assemble(command, gap, (inert(each.does), "dim"))
        console.print(text, soft_wrap=True)  # A command that is cut or broken cannot be copied.
