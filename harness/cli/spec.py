"""Write `commands.json`, which Tab completion and `logquake -h` read: `python -m harness.cli.spec`.

Importing all commands takes seconds, and a shell asks for completions at each Tab. So this file
stores the names of commands and topics, and the names and values of options. With `--check` the
script writes nothing, and the exit code is 1 if the file is outdated.
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
from harness.examples import about, example_plans, example_suites
from harness.scenarios.registry import SCENARIOS
from nemesis.registry import kinds_of
from results.record.plan import NEMESIS_KINDS, NEWEST, REFERENCE

_VALUES = {
    "--system": "systems",
    "--control": "systems",
    "--nemesis": "families",
    "--hosts": "hosts",
    "--client-kind": "clients",
}
"""The possible values of each option: a list in the section `values` of the file."""
_METAVARS = {
    "RUN": "runs",
    "SCENARIO": "scenarios",
    "TOPIC": "topics",
    "PLAN.toml": "plans",
    "SUITE.toml": "suites",
}
"""The possible values of each argument, by its metavariable: a list in the section `values`."""


def spec() -> dict[str, Any]:
    """Return the content of `commands.json`: commands, options, and their possible values."""
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
    name = "help" if "--help" in param.opts else param.name  # click's own name for it varies.
    told: dict[str, Any] = {"name": name, "completes": _completes(param)}
    if isinstance(param.type, click.Choice):
        told["choices"] = [str(each) for each in param.type.choices]
    choices = (story.choices.get(str(name)) for story in SCENARIOS)
    if values := [value for choice in choices if choice for value in choice.values]:
        told["choices"] = [*dict.fromkeys(values)]
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
    """Return the possible values of options and arguments, each with its meaning."""
    systems = dict.fromkeys(each for story in SCENARIOS for each in story.systems)
    families = {name: ", ".join(kinds_of(name, frozenset(Ability))) for name in (*NEMESIS_KINDS,)}
    return {
        "systems": dict.fromkeys([REFERENCE, f"kafka:{NEWEST}", *systems], ""),
        "families": {**families, "all": "all that work on these hosts"},
        "hosts": {
            "auto": "the best kind that works on this machine",
            "namespace": "", "docker": "", "process": "",
            "simulated": "the reference cluster in virtual time",
        },
        "clients": {"librdkafka": "the default", "java": "Kafka's own client"},
        "plans": {name: about(path) for name, path in example_plans().items()},
        "suites": {name: about(path) for name, path in example_suites().items()},
        "scenarios": {each.name: each.title for each in SCENARIOS},
        "topics": {name: found[0].brief for name, found in all_topics().items()},
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Write `commands.json`; with `--check`, only report whether the file is outdated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only exit with 1 if the file is old")
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
