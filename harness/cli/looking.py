"""`logquake runs` and `logquake show`: what is stored, in the terminal."""

from pathlib import Path

import click
from rich.console import Console

from harness.cli.options import STORE
from results.show import list_runs, show_run
from results.show_named import show_named
from results.store import Store


@click.command()
@STORE
def runs(*, store: Path) -> int:
    """List the runs of a store, newest first."""
    list_runs(Store(store), Console(soft_wrap=True))
    return 0


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@click.argument("what", metavar="[OP|VALUE]", required=False)
@STORE
def show(*, name: str, what: str | None, store: Path) -> int:
    """One run in the terminal: verdict, witness, faults, checks.

    With a name, as pages and sentences have it, one op (p22#132) or value (log-0-0:v785) of it; the
    record's own numbers do as well.
    """
    run, console = Store(store).find(name), Console(soft_wrap=True)
    if what is None:
        show_run(run, console)
    else:
        show_named(run, what, console)
    return 0
