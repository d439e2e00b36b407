"""The page of commands: each with its help, its arguments and options, and its exit codes."""

from collections.abc import Iterator

import click

from harness.cli import logquake
from harness.cli.exits import exit_codes
from harness.documentation.markdown_tables import code, table

_PROGRAM = "logquake"
_TOP = """\
# Commands and options

Each command of `logquake`, as `--help` prints it. [Commands](../commands.md) has an overview.
"""


def page() -> str:
    """Return the page of all commands."""
    sections = (_section(name, command) for name, command in all_commands())
    return "\n".join([_TOP, *sections])


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its name: `run`, `suite run`; no groups of commands."""
    yield from _within(logquake, "")


def _within(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _within(command, f"{before}{name} ")
        elif not command.hidden:
            yield f"{before}{name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"{_PROGRAM} {name}")
    usage = f"{_PROGRAM} {name} {' '.join(command.collect_usage_pieces(context))}"
    options = [each for each in command.params if isinstance(each, click.Option)]
    parts = [
        f"## `{_PROGRAM} {name}`\n",
        f"```sh\n{usage}\n```\n",
        f"{_help(command)}\n",
        table(("Option", "Takes", "Default", "What it does"), map(_option, options))
        if options
        else "It has no options.\n",
        f"Exit codes of `{name}`:\n",
        table(("Exit code", "Meaning"), ((str(at), said) for at, said in exit_codes(command))),
    ]
    return "\n".join(parts)


def _help(command: click.Command) -> str:
    """Return a command's help; click keeps the lines of a marked paragraph."""
    text = (command.help or "").partition("\f")[0]
    parts = []
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        kept = bool(lines) and lines[0] == "\b"
        parts.append("```text\n{}\n```".format("\n".join(lines[1:])) if kept else block)
    return "\n\n".join(parts)


def _option(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(code(each) for each in (*option.opts, *option.secondary_opts))
    return names, _takes(option), _default(option), option.help or ""


def _takes(option: click.Option) -> str:
    if option.is_flag:
        return "nothing"
    if option.metavar:
        return code(option.metavar)
    if isinstance(option.type, click.Choice):
        return ", ".join(code(getattr(each, "value", each)) for each in option.type.choices)
    if isinstance(option.type, click.IntRange | click.FloatRange):
        return code(option.type._describe_range())  # noqa: SLF001 - as click's own help has it
    return {"integer": "a number", "float": "a number", "text": "a text"}.get(
        option.type.name, f"a {option.type.name}"
    )


def _default(option: click.Option) -> str:
    return code(option.default) if option.show_default else ""
