"""A group of commands that imports a command's module when it is asked for.

`show` needs neither the plots nor the checkers, and should not wait a second for them.
"""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword

import click

from harness.cli.completing import stored

_BUILT_IN = ("help",)


class LazyGroup(click.Group):
    """Commands by the module of `harness.cli` that they live in; a function has its command's name.

    A name that is a word of Python, or one of its functions, has an underscore behind it there:
    `import_`, `help_`.

    Set `modules` before use: `{"show": "looking"}`.
    """

    modules: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands' names."""
        return sorted(self.modules)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with what each does, as it is stored: importing all takes seconds."""
        rows = [(name, self._brief(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _brief(self, ctx: click.Context, name: str) -> str:
        """Return what a command does; one that is not stored yet is imported."""
        found = stored()["commands"].get(name)
        command = None if found else self.get_command(ctx, name)
        return command.get_short_help_str(limit=100) if command else str(found["help"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command; None if there is none of that name."""
        if cmd_name not in self.modules:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) or cmd_name in _BUILT_IN else cmd_name
        command = getattr(import_module(f"harness.cli.{self.modules[cmd_name]}"), name)
        assert isinstance(command, click.Command)
        return command
