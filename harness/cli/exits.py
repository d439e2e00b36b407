"""The exit codes of commands. Each command declares its codes; the reference lists them."""

from collections.abc import Callable
from typing import Any

import click

from harness.exit_codes import BAD_ARGUMENTS, INTERNAL_ERROR, INVALID, UNKNOWN, VALID

Exit = tuple[int | str, str]
"""An exit code, or words in place of one, with its meaning."""
DONE: Exit = (VALID, "The command did what you asked for.")
INTERRUPTED: Exit = (UNKNOWN, "Ctrl-C ended the command.")
OF_A_VERDICT: tuple[Exit, ...] = (
    (VALID, "The verdict is `valid`. With several runs, all verdicts are."),
    (INVALID, "The verdict is `invalid`. With several runs, the worst verdict is."),
    (UNKNOWN, "The verdict is `unknown`, or Ctrl-C came before there was one."),
)
_OF_ALL: tuple[Exit, ...] = (
    (BAD_ARGUMENTS, "You can fix the error. One sentence names it."),
    (INTERNAL_ERROR, "A bug of Logquake."),
)
_DECLARED = "logquake_exits"
_Command = Callable[..., Any]


def exits(*codes: Exit) -> Callable[[_Command], _Command]:
    """Declare the exit codes of a command, besides those that all commands have."""

    def declare(function: _Command) -> _Command:
        setattr(function, _DECLARED, codes)
        return function

    return declare


def exit_codes(command: click.Command) -> tuple[Exit, ...]:
    """Return the exit codes of a command, each with its meaning.

    Raises:
        AttributeError: The command does not declare them.
    """
    own: tuple[Exit, ...] = getattr(command.callback, _DECLARED)
    return (*own, *_OF_ALL)
