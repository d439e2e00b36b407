"""Options that several commands share."""

from pathlib import Path

import click

STORE = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="The folder of runs.",
)
