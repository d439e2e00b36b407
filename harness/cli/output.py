"""The options `--quiet` and `--no-color`, and the consoles on which commands print.

Both options may come before or after the command's name. The environment variable NO_COLOR
(https://no-color.org) passes `--no-color` to child processes.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_QUIET = "harness.cli.output.quiet"
_NO_COLOR = "NO_COLOR"
_Command = Callable[..., Any]


def is_quiet() -> bool:
    """Return whether the user set `--quiet`, to see only the verdict's sentences and errors."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def console_of(*, quiet: bool = False, stderr: bool = False, soft_wrap: bool = True) -> "Console":
    """Return a command's console.

    Args:
        quiet: Whether the console prints nothing.
        stderr: Whether the console prints to standard error. Then standard output contains only the
            command's result.
        soft_wrap: Whether rich leaves it to the terminal to break long lines. Then a long path can
            be copied.
    """
    from rich.console import Console  # noqa: PLC0415 - completion does without

    return Console(quiet=quiet, stderr=stderr, soft_wrap=soft_wrap)


def _be_quiet(context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        context.meta[_QUIET] = True  # Contexts of subcommands have the same `meta`.


def _be_colourless(context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not os.environ.get(_NO_COLOR):
        os.environ[_NO_COLOR] = "1"
        context.find_root().call_on_close(lambda: os.environ.pop(_NO_COLOR, None))


QUIET = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Print only the verdict's sentence and errors.",
)
NO_COLOR = click.option(
    "--no-color",
    is_flag=True,
    expose_value=False,
    callback=_be_colourless,
    help="Print without colors, as NO_COLOR=1 does.",
)


def output_options(command: _Command) -> _Command:
    """Add the options `--quiet` and `--no-color` to a command."""
    return QUIET(NO_COLOR(command))
