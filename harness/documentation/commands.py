"""Write the page of commands, each with its help, its arguments and options, and its exit codes."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli import logquake
from harness.cli.exits import exit_codes
from harness.documentation.markdown_tables import code, table

_PROGRAM = "logquake"
_TOP = """\
# Commands and options

Each command of `logquake`, as `--help` prints it. The page [Commands](../commands.md) has an
overview.
"""


def page() -> str:
    """Return the page of all commands."""
    sections = (_section(name, command) for name, command in all_commands())
    return "\n".join([_TOP, *_described(_PROGRAM, logquake), *sections])


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command, but no group, with its full name, such as `run` or `suite run`."""
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
    codes = ((str(at), said) for at, said in exit_codes(command))
    return "\n".join([
        *_described(f"{_PROGRAM} {name}", command),
        f"Exit codes of `{name}`:\n",
        table(("Exit code", "Meaning"), codes),
    ])  # fmt: skip


def _described(name: str, command: click.Command) -> Iterator[str]:
    """Yield the usage of a command, its help, its arguments and its options."""
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    params = command.get_params(context)
    arguments = [each for each in params if isinstance(each, click.Argument)]
    options = [each for each in params if isinstance(each, click.Option)]
    yield f"## `{name}`\n"
    yield f"```sh\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield f"{_help(command)}\n"
    if arguments:
        yield table(("Argument", "Takes", "If left out"), map(_argument, arguments))
    yield table(("Option", "Takes", "Default", "What it does"), map(_option, options))


def _help(command: click.Command) -> str:
    """Return a command's help as Markdown. A paragraph after click's mark becomes a code block."""
    text = inspect.cleandoc((command.help or "").partition("\f")[0])
    parts = []
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        kept = bool(lines) and lines[0] == "\b"
        parts.append("```text\n{}\n```".format("\n".join(lines[1:])) if kept else block)
    return "\n\n".join(parts)


def _argument(argument: click.Argument) -> tuple[str, str, str]:
    name = argument.human_readable_name.strip("[]").removesuffix("...").removeprefix("-- ")
    takes = f"{_type(argument)}; several are possible" if argument.nargs == -1 else _type(argument)
    default = argument.default if isinstance(argument.default, str | Path) else ""
    return code(name), takes, "it is needed" if argument.required else code(default)


def _option(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(code(each) for each in (*option.opts, *option.secondary_opts))
    return names, _takes(option), _default(option), option.help or ""


def _takes(option: click.Option) -> str:
    if option.is_flag or option.count:
        return "nothing"
    return code(option.metavar) if option.metavar else _type(option)


def _type(param: click.Parameter) -> str:
    if isinstance(param.type, click.Choice):
        return ", ".join(code(getattr(each, "value", each)) for each in param.type.choices)
    if isinstance(param.type, click.IntRange | click.FloatRange):
        return _range(param.type)
    return {"integer": "a number", "float": "a number", "text": "a text"}.get(
        param.type.name, f"a {param.type.name}"
    )


def _range(bounds: click.IntRange | click.FloatRange) -> str:
    """Return the range of an option's numbers, bounds included. Each option has a lower bound."""
    assert bounds.min is not None
    assert not bounds.min_open, bounds
    return f"at least {bounds.min}" if bounds.max is None else f"{bounds.min} to {bounds.max}"


def _default(option: click.Option) -> str:
    return code(option.default) if option.show_default else ""
