"""`logquake suite`: play many runs in a night, within a time budget."""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from harness import examples
from harness.cli.exits import OF_A_VERDICT, exits
from harness.cli.options import JAVA, STORE
from harness.cli.output import NO_COLOR, is_quiet, output_options
from harness.exit_codes import VALID
from harness.next_steps import after_night, print_next
from harness.progress import redraws
from harness.suites.conductor import Change
from harness.suites.expansion import suite_named
from harness.suites.journal import CutShort, Judged, LeftOut, Line, Reached, Started, Unplayed
from harness.suites.leading import Lead, Resumption, opened
from harness.suites.night import NightState
from harness.suites.nights import NightFolder, is_led, nights_of
from harness.suites.preview import print_preview
from harness.suites.reports import causes_until, exit_code, write_results
from harness.suites.status import status_of, verdict_line
from harness.suites.suite import Suite, load_suite
from harness.suites.webhook import post
from results.hunt_page import PAGE, TABLE
from results.print_table import say_page
from results.record.atomic import StoreError
from results.record.clock import pause_until, stopwatch_s, unix_s
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.store import DEFAULT_STORE
from results.wording.amounts import duration
from results.wording.inert import inert
from results.wording.plural import many

REFRESH_S = 1.0
LOG_COLUMNS = 160
FINISHING = (
    "no more runs start; the current runs finish (Ctrl-C again: end their main phases); resume"
    " later with: {again}\n"
)
Handler = Callable[[int, FrameType | None], Any] | int | None
SUITE_FILE = click.argument(
    "suite_file", metavar="SUITE.toml", type=click.Path(path_type=Path),
    callback=lambda _context, _argument, named: examples.suite_file(named),
)  # fmt: skip


@click.group()
def suite() -> None:
    """Play many runs in a night, and report what is new."""


@suite.command()
@SUITE_FILE
@STORE
@JAVA
@click.option(
    "--resume",
    "mode",
    flag_value=Resumption.RESUME.value,
    help=("Resume an unfinished night; never start a new one."),
)
@click.option(
    "--new",
    "mode",
    flag_value=Resumption.NEW.value,
    help=("Start a new night even if an unfinished night exists."),
)
@click.option("--dry-run", is_flag=True, help="Print the entries in order; start nothing.")
@output_options
@exits(*OF_A_VERDICT)
def run(*, suite_file: Path, store: Path, mode: str | None, dry_run: bool) -> int:
    """Play a night, or resume one whose budget is not used up.

    SUITE.toml is a file, or example:NAME; logquake init --list names the examples.

    The exit code is that of the worst verdict: 0 valid, 1 invalid, 2 unknown. After Ctrl-C no more
    runs start, and the command waits for the runs in progress; a second Ctrl-C ends their main
    phases. The results are junit.xml and summary.md in STORE/.suites/NAME/NIGHT. If
    LOGQUAKE_WEBHOOK is set, the result is posted to that address.
    """
    if dry_run:
        print_preview(suite_named(suite_file), store, _log_console())
        return VALID
    return lead_night(("suite", "run"), suite_file, store, mode)


def lead_night(
    command: Sequence[str],
    suite_file: Path,
    store: Path,
    mode: str | None,
    *,
    before: Sequence[Path] = (),
    changed: Suite | None = None,
) -> int:
    """Play a suite's night, to the end or until a signal, and show it; return the exit code.

    Args:
        command: The command that the user typed. The message about resuming repeats it.
        suite_file: The suite's file.
        store: The folder of runs.
        mode: A value of `Resumption`; None means `auto`.
        before: The journals of a hunt's parts in other stores.
        changed: The suite, changed by the user's options. None means the suite in the file.
    """
    console, how = _progress_of(), Resumption(mode or Resumption.AUTO)
    with opened(suite_file, store, mode=how, before=before, changed=changed) as lead:
        with _terminal_may_be_gone():
            _announce(lead, console)
        lead.listeners += [_teller(console), _writer(lead)]
        words = ["logquake", *command, str(suite_file), "--resume"]
        elsewhere = [] if store.resolve() == DEFAULT_STORE.resolve() else ["--store", str(store)]
        handlers = _on_interrupt(lead, FINISHING.format(again=shlex.join([*words, *elsewhere])))
        try:
            state = lead.play()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return _conclude(lead, state, _log_console())


@suite.command()
@SUITE_FILE
@STORE
@click.option("--night", default=None, help="Part of a night's id (default: the newest night).")
@click.option("--name", default=None, help="The name of a hunt that was started with --name.")
@NO_COLOR
@exits(*OF_A_VERDICT)
def status(*, suite_file: Path, store: Path, night: str | None, name: str | None) -> int:
    """Show a night: its runs, what is new, and the time left.

    On a terminal, the view is updated while the night is played. Ctrl-C ends the view, not the
    night.
    """
    folder = _night(name or _suite_name(suite_file, store), store, night)
    console = _log_console()
    shown = status_of(store, folder, now_s=unix_s())
    if not (redraws(console) and shown.led and not shown.state.ended):
        console.print(shown)
        return exit_code(shown.state)
    try:
        with Live(shown, console=console, auto_refresh=False) as live:
            while is_led(store, folder.root.parent.name):
                pause_until(stopwatch_s() + REFRESH_S)
                shown = status_of(store, folder, now_s=unix_s())
                live.update(shown, refresh=True)
    except KeyboardInterrupt:
        pass
    return exit_code(shown.state)


def _suite_name(file: Path, store: Path) -> str:
    """Return the name of the suite in a file, or the given text if it is the name of a suite."""
    is_name = not file.exists() and len(file.parts) == 1 and nights_of(store, str(file))
    return str(file) if is_name else load_suite(file).name


def _log_console() -> Console:
    """Return the console. In the log of a nightly job, its lines are long enough for the table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=LOG_COLUMNS)


def _progress_of() -> Console:
    """Return the console for messages before the night's end; with `--quiet` it prints nothing."""
    return Console(quiet=True) if is_quiet() else _log_console()


def _night(suite: str, store: Path, night: str | None) -> NightFolder:
    nights = nights_of(store, suite)
    meant = [each for each in nights if night is None or night in each.night]
    if not meant:
        wanted = f" like {night!r}" if night else ""
        raise StoreError(f"{store} has no night{wanted} of the suite {suite}")
    return meant[-1]


def _announce(lead: Lead, console: Console) -> None:
    conductor, state = lead.conductor, lead.conductor.state
    if lead.wound_up:
        console.print(lead.wound_up, markup=False, soft_wrap=True)
    begins = "resumes" if lead.resumed else "begins"
    console.print(
        f"{lead.suite.name} {begins} the night {conductor.folder.night}:"
        f" {_planned(lead)}, {conductor.slots.runs} at once,"
        f" {duration(max(0.0, conductor.deadline - unix_s()))} left",
        markup=False,
    )
    for item in state.items.values():
        for run_id in item.cut_short:
            console.print(f"  interrupted, healed and rerun: {item.entry} ({run_id})", markup=False)
        for sentence in item.left:
            _tell_left(sentence, console)


def _planned(lead: Lead) -> str:
    if lead.suite.hunt is not None:
        return f"a hunt on {', '.join(lead.suite.hunt.systems)}"
    return many(len(lead.conductor.state.planned), "entry", "entries")


def _terminal_may_be_gone() -> contextlib.suppress:
    """Ignore errors when printing: after a SIGHUP the terminal is gone, but the night continues."""
    return contextlib.suppress(OSError)


def _teller(console: Console) -> Change:
    def tell(state: NightState, line: Line) -> None:
        with _terminal_may_be_gone():
            told(state, line)

    def told(state: NightState, line: Line) -> None:
        if isinstance(line, Started) and redraws(console):
            begun = f"started {inert(state.items[line.item].entry)}: {line.run_id}"
            console.print(begun, style="dim", markup=False, soft_wrap=True)
        elif isinstance(line, Judged | Unplayed):
            console.print(verdict_line(state.items[line.item]), soft_wrap=True)
        elif isinstance(line, CutShort):
            for sentence in line.left:
                _tell_left(f"{line.run_id}: {sentence}", console)
        elif isinstance(line, LeftOut) and state.items[line.item].planned.repeats == "":
            console.print(
                f"left out {state.items[line.item].entry}: {line.sentence}",
                style="dim",
                markup=False,
                soft_wrap=True,
            )

    return tell


def _tell_left(sentence: str, console: Console) -> None:
    console.print(
        f"  not undone: {inert(sentence)}; see: logquake heal", style="yellow", markup=False,
        soft_wrap=True,
    )  # fmt: skip


def _writer(lead: Lead) -> Change:
    # In a hunt, the journal has `Reached` after `Judged`.
    last = Reached if lead.suite.hunt is not None else Judged

    def write(_state: NightState, line: Line) -> None:
        if isinstance(line, last | Unplayed):
            write_results(lead.store, lead.suite.name, lead.conductor.folder)

    return write


def _on_interrupt(lead: Lead, answer: str) -> dict[signal.Signals, Handler]:
    def finish(_number: int, _frame: FrameType | None) -> None:
        lead.conductor.finish()
        # Do not use the console, because the signal may interrupt a print on it.
        with _terminal_may_be_gone():
            os.write(sys.stderr.fileno(), os.fsencode(answer))

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return {number: signal.signal(number, finish) for number in numbers}


def _conclude(lead: Lead, state: NightState, console: Console) -> int:
    folder = lead.conductor.folder
    causes = causes_until(lead.store, lead.suite.name, folder)
    said = post(state, causes) if state.ended else ""
    with _terminal_may_be_gone():
        console.print()
        console.print(status_of(lead.store, folder, now_s=unix_s()))
        if said:
            console.print(said, markup=False, soft_wrap=True)
        if lead.suite.hunt is not None:
            say_page(console, folder.root / PAGE)
            console.print(f"table: {folder.root / TABLE}", markup=False, soft_wrap=True)
        else:
            files = f"results: {folder.summary} and {folder.junit}"
            console.print(files, markup=False, soft_wrap=True)
        if not is_quiet():
            items = (each for each in state.items.values() if each.outcome is Validity.INVALID)
            failed = [RunPaths(lead.store / each.run_id) for each in items if each.run_id]
            print_next(after_night(failed, lead.store), console)
    return exit_code(state)
