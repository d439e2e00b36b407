"""Options that several commands share."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from cluster.java import JAVA_VARIABLE
from results.store import DEFAULT_STORE

STORE = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_STORE,
    show_default=True,
    help="The folder that holds the runs.",
)


def _use_java(_context: click.Context, _option: click.Parameter, path: str | None) -> None:
    """Set the Java that runs brokers, for this command and for all its child processes."""
    if path:  # Absolute, because processes of a run have other working folders.
        os.environ[JAVA_VARIABLE] = str(Path(path).expanduser().absolute())


JAVA = click.option(
    "--java",
    metavar="PATH",
    expose_value=False,
    callback=_use_java,
    help="The Java that runs the brokers: a program or a Java home. Default: JAVA_HOME, then PATH.",
)

KEEP = click.option(
    "--keep",
    is_flag=True,
    help=("Keep the cluster running after the verdict (see: logquake node)."),
)

ENGINE = click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default=None,
    help=(
        "The engine that runs the checks. Default: Spark if Java is installed, otherwise"
        " local. For the reference cluster, the default is local."
    ),
)

SETTING = "KEY=VALUE"


def settings(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    """Parse a repeatable option into a dict; each value of the option is `KEY=VALUE`.

    Raises:
        click.UsageError: A value has another form.
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{flag} needs {SETTING}, not {pair!r}")
        found[key.strip()] = value.strip()
    return found
