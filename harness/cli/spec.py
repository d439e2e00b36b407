"""Writes `commands.json`, which completion and `logquake -h` read: `python -m harness.cli.spec`.

Importing all commands takes seconds, and a shell asks for completions at each Tab. So the names of
commands, options and topics, and the words that they take, are stored beside this module. With
`--check` nothing is written, and the exit code is 1 if the file is old.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from cluster.protocol import Ability
from harness.cli import logquake
from harness.cli.completing import SPEC
from harness.cli.topics import all_topics
from harness.scenarios.registry import SCENARIOS
from nemesis.registry import kinds_of
from results.record.plan import NEMESIS_KINDS, NEWEST, REFERENCE

_VALUES = {
    "--system": "systems",
    "--control": "systems",
    "--nemesis": "families",
    "--hosts": "hosts",
}
"""Options whose words are listed under `values`."""
_METAVARS = {"RUN": "runs", "SCENARIO": "scenarios", "TOPIC": "topics"}
"""How an argument's name in the usage says the same."""


def spec() -> dict[str, Any]:
    """Return what there is to complete, as it is stored."""
    context = click.Context(logquake, info_name="logquake", **logquake.context_settings)
    return {"values": _values(), **_command(logquake, context)}


def _command(command: click.Command, context: click.Context) -> dict[str, Any]:
    told: dict[str, Any] = {
        "help": command.get_short_help_str(limit=100),
        "params": [_param(each) for each in command.get_params(context)],
    }
    if isinstance(command, click.Group):
        told["commands"] = {}
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            inner = click.Context(found, parent=context, info_name=name)
            told["commands"][name] = _command(found, inner)
    return told


def _param(param: click.Parameter) -> dict[str, Any]:
    name = "help" if "--help" in param.opts else param.name  # click names its own as it likes.
    told: dict[str, Any] = {"name": name, "completes": _completes(param)}
    if isinstance(param.type, click.Choice):
        told["choices"] = [str(each) for each in param.type.choices]
    if isinstance(param, click.Option):
        told |= {
            "opts": [*param.opts], "off": [*param.secondary_opts], "help": param.help or "",
            "flag": param.is_flag, "multiple": param.multiple,
        }  # fmt: skip
    else:
        told |= {"nargs": param.nargs}
    return told


def _completes(param: click.Parameter) -> list[str]:
    words = (param.metavar or "").strip("[].").replace("...", "").split("|")
    found = [_METAVARS[word.strip("[].")] for word in words if word.strip("[].") in _METAVARS]
    found += [_VALUES[each] for each in param.opts if each in _VALUES]
    if isinstance(param.type, click.Path):
        found.append("file" if param.type.file_okay else "dir")
    return found


def _values() -> dict[str, dict[str, str]]:
    """Return the words that options and arguments take, each with what it means."""
    systems = dict.fromkeys(each for story in SCENARIOS for each in story.systems)
    families = {name: ", ".join(kinds_of(name, frozenset(Ability))) for name in (*NEMESIS_KINDS,)}
    return {
        "systems": dict.fromkeys([REFERENCE, f"kafka:{NEWEST}", *systems], ""),
        "families": {**families, "all": "all that work here"},
        "hosts": {
            "auto": "the best that works here",
            "namespace": "", "docker": "", "process": "",
            "simulated": "the reference cluster in virtual time",
        },
        "scenarios": {each.name: each.title for each in SCENARIOS},
        "topics": {name: found[0].brief for name, found in all_topics().items()},
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file, or say that it is old."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it is old")
    check = parser.parse_args(argv).check
    text = json.dumps(spec(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if SPEC.exists() and SPEC.read_text(encoding="utf-8") == text:
        return 0
    sys.stdout.write(f"{SPEC}: {'old' if check else 'written'}\n")
    if not check:
        SPEC.write_text(text, encoding="utf-8")
    return int(check)


if __name__ == "__main__":
    sys.exit(main())
