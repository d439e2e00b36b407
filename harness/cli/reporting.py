"""`logquake report`: the page of what is stored."""

from pathlib import Path

import click

from harness.cli.options import STORE
from results.report import write_report
from results.store import Store


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@STORE
@click.option("--output", type=click.Path(path_type=Path), default=None, help="Another file.")
def report(*, name: str, store: Path, output: Path | None) -> int:
    """Write the HTML page of a run again."""
    click.echo(write_report(Store(store).find(name), output=output))
    return 0
