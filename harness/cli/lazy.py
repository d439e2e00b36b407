"""A group of commands that imports a command's module only when the command is used.

For example, importing the plots and the checkers takes a second, and `show` works without them.
"""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword

import click

from harness.cli.completing import stored
from harness.cli.output import is_quiet

_BUILT_IN = ("help",)


class LazyGroup(click.Group):
    """A click group that maps each command to the module of `harness.cli` that contains it.

    In the module, the function has the command's name. If that name is a keyword or a built-in
    function of Python, the function's name ends with an underscore: `import_`, `help_`.

    Set `modules` before use: `{"show": "looking"}`.
    """

    modules: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands' names."""
        return sorted(self.modules)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from `commands.json`, because importing them takes seconds."""
        rows = [(name, self._brief(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _brief(self, ctx: click.Context, name: str) -> str:
        """Return a command's short help; import the command if `commands.json` does not have it."""
        found = stored()["commands"].get(name)
        command = None if found else self.get_command(ctx, name)
        return command.get_short_help_str(limit=100) if command else str(found["help"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command and return it; return None if there is no command of that name."""
        if cmd_name not in self.modules:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) or cmd_name in _BUILT_IN else cmd_name
        command = getattr(import_module(f"harness.cli.{self.modules[cmd_name]}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the user named.

        Raises:
            click.UsageError: There is no such command, or the user typed `--quiet` before a command
                that does not support this option.
        """
        found = _, leaf, rest = super().resolve_command(ctx, args)
        words = iter(rest)
        while isinstance(leaf, click.Group):
            leaf = leaf.get_command(ctx, next(words, ""))
        if is_quiet() and leaf and not any("--quiet" in each.opts for each in leaf.params):
            raise click.UsageError(f"{leaf.name} prints no verdict, so leave out --quiet", ctx)
        return found
