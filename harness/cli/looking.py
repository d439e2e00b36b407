"""`logquake runs` and `logquake show`: show stored runs in the terminal."""

from pathlib import Path

import click

from harness.cli.ending import next_of
from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from harness.cli.output import NO_COLOR, console_of, is_quiet, output_options
from harness.next_steps import print_next
from results.show import list_runs, print_sentence, show_run
from results.show_named import show_named
from results.store import Store
from results.verdict_json import read_verdict
from results.wording.naming import names_of


@click.command()
@STORE
@NO_COLOR
@exits(DONE, INTERRUPTED)
def runs(*, store: Path) -> int:
    """List the runs of a store, newest first."""
    list_runs(Store(store), console_of())
    return 0


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@click.argument("what", metavar="[OP|VALUE]", required=False)
@STORE
@output_options
@exits(DONE, INTERRUPTED)
def show(*, name: str, what: str | None, store: Path) -> int:
    """Show a run in the terminal: verdict, evidence, faults, checks.

    With a second argument, show one op (p22#132) or one value (log-0-0:v785). Use the name that
    pages and sentences show, or the number that the record has.
    """
    run, console = Store(store).find(name), console_of()
    if what is None and is_quiet():
        print_sentence(read_verdict(run.verdict), console, names=names_of(run))
    elif what is None:
        show_run(run, console)
        print_next(next_of(run, after="show"), console)
    else:
        show_named(run, what, console)
    return 0
