"""Offer completions to a shell when the user presses Tab.

This module imports no command. The file `commands.json` has the names of commands and options. The
names of stored runs are not in this file, so each request reads them from the store.
"""

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from harness.cli.shells import BASH, FISH, ZSH
from results.record.atomic import StoreError
from results.samples import sample_names
from results.store import DEFAULT_STORE, LATEST, Store

SPEC = Path(__file__).with_name("commands.json")
"""The data for completion. The command `python -m harness.cli.spec` writes this file."""
COMPLETE = "_LOGQUAKE_COMPLETE"
"""The environment variable with which a shell asks for completions."""
_MOST_RUNS = 200
"""At most so many runs are offered, the newest runs first. A terminal shows fewer runs."""
_SPLITS_WORDS = ":="
"""Bash splits words at these characters (COMP_WORDBREAKS), and replaces only the last piece."""


class _Bash(BashComplete):
    """Completion for bash. Words with a colon work, too: `sample:valid`, `kafka:4.3.1`."""

    source_template = BASH

    @staticmethod
    def _check_version() -> None:
        """Skip click's check of the bash version, because bash 4.4 was released in 2016."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the incomplete word at the cursor."""
        return _words_of_line()

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the text that replaces the last piece of the word at the cursor in bash."""
        _, word = self.get_completion_args()
        kept = max(word.rfind(sign) for sign in _SPLITS_WORDS) + 1
        value = str(item.value)
        if kept and value.startswith(word[:kept]):
            value = value[kept:]
        return f"{item.type},{value}"


class _Zsh(ZshComplete):
    """Completion for zsh. The script calls the program as the user typed it, e.g. by its path."""

    source_template = ZSH


class _Fish(FishComplete):
    """Completion for fish. The script calls the program as the user typed it, e.g. by its path."""

    source_template = FISH


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _name, _class in SHELLS.items():
    add_completion_class(_class, _name)


def _words_of_line() -> tuple[list[str], str]:
    line = os.environ["COMP_WORDS"]
    words = split_arg_string(line)
    ended = not line or line[-1].isspace()
    return (words[1:], "") if ended else (words[1:-1], words[-1])


@cache
def stored() -> dict[str, Any]:
    """Return the content of `commands.json`."""
    found: dict[str, Any] = json.loads(SPEC.read_text(encoding="utf-8"))
    return found


def complete(instruction: str) -> int:
    """Answer a completion request of a shell; return the exit code.

    Args:
        instruction: `bash_complete` for completions, or `bash_source` for the completion script.
    """
    return shell_complete(_mirrored(stored(), "logquake"), {}, "logquake", COMPLETE, instruction)


def script(shell: str) -> str:
    """Return the script that a shell must load for Tab completion."""
    return SHELLS[shell](click.Command("logquake"), {}, "logquake", COMPLETE).source()


def _mirrored(command: Mapping[str, Any], name: str) -> click.Command:
    """Return a click command with the stored options.

    The command only completes words; it is never run.
    """
    params = [_param(each) for each in command["params"]]
    said = {"params": params, "short_help": command["help"], "add_help_option": False}
    if "commands" not in command:
        return click.Command(name, **said)
    inner = {key: _mirrored(each, key) for key, each in command["commands"].items()}
    return click.Group(name, commands=inner, **said)


def _param(told: Mapping[str, Any]) -> click.Parameter:
    def offered(
        context: click.Context, _param: click.Parameter, word: str
    ) -> list[CompletionItem[str]]:
        return [*_offers(told, context, word)]

    if "opts" not in told:
        return click.Argument(
            [told["name"]], nargs=told["nargs"], required=False, shell_complete=offered
        )
    names = [told["name"], "/".join([told["opts"][-1], *told["off"]]), *told["opts"][:-1]]
    if told["flag"]:
        return click.Option(names, is_flag=True, help=told["help"])
    return click.Option(names, multiple=told["multiple"], help=told["help"], shell_complete=offered)


def _offers(
    told: Mapping[str, Any], context: click.Context, word: str
) -> Iterator[CompletionItem[str]]:
    kinds = told["completes"]
    files = [kind for kind in kinds if kind in {"file", "dir"}]
    for kind in files:  # First, because bash drops the completions before them.
        yield CompletionItem(word, type=kind)
    found = list(_matching(dict.fromkeys(told.get("choices", ()), ""), word))
    for kind in kinds:
        if kind == "runs":
            found += _matching(_runs(context), word)
        elif kind == "families":  # With commas.
            before, comma, last = word.rpartition(",")
            for each in _matching(stored()["values"][kind], last):
                found.append(CompletionItem(f"{before}{comma}{each.value}", help=each.help))
        elif kind == "topics":  # Of several words.
            before = "".join(f"{each} " for each in context.params.get(told["name"]) or ())
            for each in _matching(stored()["values"][kind], f"{before}{word}"):
                found.append(CompletionItem(each.value.removeprefix(before), help=each.help))
        elif kind not in files and (word or not files):  # Bash shows files if nothing else fits.
            found += _matching(stored()["values"][kind], word)
    if "runs" in kinds and not found:
        yield CompletionItem(word, type="dir")
    yield from found


def _matching(words: Mapping[str, str], start: str) -> Iterator[CompletionItem[str]]:
    for word, means in words.items():
        if word.startswith(start):
            yield CompletionItem(word, help=means or None)


def _runs(context: click.Context) -> dict[str, str]:
    store = Store(Path(context.params.get("store") or DEFAULT_STORE).expanduser())
    try:
        found = store.runs()[:_MOST_RUNS]
    except StoreError:
        found = []
    newest = {LATEST: found[0].run_id} if found else {}
    runs = dict.fromkeys((each.run_id for each in found), "")
    return {**newest, **runs, **dict.fromkeys(sample_names(), "comes with Logquake")}
