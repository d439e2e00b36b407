"""The exit codes of commands. Each command declares its codes; the reference lists them."""

from collections.abc import Callable
from typing import Any

import click

from harness.exit_codes import BAD_ARGUMENTS, INTERNAL_ERROR, INVALID, UNKNOWN, VALID

Exit = tuple[int | str, str]
"""An exit code (or words instead of a code), and the meaning."""
DONE: Exit = (VALID, "The command did what you asked for.")
INTERRUPTED: Exit = (UNKNOWN, "Ctrl-C ended the command.")
OF_A_VERDICT: tuple[Exit, ...] = (
    (VALID, "The verdict is `valid`. With several runs, all verdicts are `valid`."),
    (INVALID, "The verdict is `invalid`. With several runs, the worst verdict is `invalid`."),
    (UNKNOWN, "The verdict is `unknown`, or Ctrl-C came before there was a verdict."),
)
_OF_ALL: tuple[Exit, ...] = (
    (BAD_ARGUMENTS, "You can fix the error. One sentence names the error."),
    (INTERNAL_ERROR, "A bug of Logquake."),
)
_DECLARED = "logquake_exits"
_Command = Callable[..., Any]


def exits(*codes: Exit) -> Callable[[_Command], _Command]:
    """Declare a command's own exit codes. All commands also have the common exit codes."""

    def declare(function: _Command) -> _Command:
        setattr(function, _DECLARED, codes)
        return function

    return declare


def exit_codes(command: click.Command) -> tuple[Exit, ...]:
    """Return the exit codes of a command, each with its meaning.

    Raises:
        AttributeError: The command does not declare its exit codes.
    """
    own: tuple[Exit, ...] = getattr(command.callback, _DECLARED)
    return (*own, *_OF_ALL)
