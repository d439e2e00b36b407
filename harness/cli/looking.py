"""`logquake runs` and `logquake show`: what is stored, in the terminal."""

from pathlib import Path

import click
from rich.console import Console

from harness.cli.options import STORE
from results.show import list_runs, show_run
from results.store import Store


@click.command()
@STORE
def runs(*, store: Path) -> int:
    """List the runs of a store, newest first."""
    list_runs(Store(store), Console(soft_wrap=True))
    return 0


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@STORE
def show(*, name: str, store: Path) -> int:
    """One run in the terminal: verdict, witness, faults, checks."""
    show_run(Store(store).find(name), Console(soft_wrap=True))
    return 0
