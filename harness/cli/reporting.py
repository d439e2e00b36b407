"""`logquake report`: write the HTML page of a stored run."""

from pathlib import Path

import click

from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from results.drawings import write_drawings
from results.report import write_report
from results.samples import is_sample
from results.store import Store
from results.trust import refuse_to_write

ELSEWHERE = "use --output FILE to write the page to another place"


@click.command()
@click.argument("name", metavar="[RUN]", default="latest")
@STORE
@click.option(
    "--output", type=click.Path(path_type=Path), default=None, help="Write the page to this file."
)
@click.option(
    "--drawings",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    metavar="DIR",
    help=(
        "Write the drawings of a scenario's steps to this folder as SVG files, instead of a page."
    ),
)
@exits(DONE, INTERRUPTED)
def report(*, name: str, store: Path, output: Path | None, drawings: Path | None) -> int:
    """Write the HTML page of a run."""
    run = Store(store).find(name)
    if output is None and drawings is None and not is_sample(run):
        refuse_to_write(run, otherwise=ELSEWHERE)
    written = write_drawings(run, drawings) if drawings else [write_report(run, output=output)]
    for path in written:
        click.echo(path)
    return 0
