"""The texts that `logquake help TOPIC` prints, from the same sources as the pages of `docs/`.

The texts on checks and faults come from the modules of these checks and faults. The texts on plan
keys come from `results.record.plan`, the terms from the glossary, and the texts on commands from
`--help`.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from shutil import get_terminal_size
from textwrap import fill
from types import ModuleType
from typing import Any

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from checkers.protocol import Checker
from checkers.registry import CHECKERS
from cluster.protocol import OF_SYSTEMS, Ability
from harness.cli import logquake
from harness.cli.completing import stored
from harness.cli.keys import default, models, options_of_run, takes, texts, written
from harness.exit_codes import BY_VALIDITY, MEANINGS
from harness.scenarios.registry import SCENARIOS
from harness.suites.suite import Suite
from nemesis import targets
from nemesis.in_words import InWords
from nemesis.levels import LEVELS
from nemesis.registry import KINDS, kinds_of
from results.record.plan import ALL, NEMESIS_KINDS, Plan
from results.record.systems import FORMS
from results.record.transitions import TRANSITIONS
from results.wording.evidence import EVIDENCE
from results.wording.glossary import TERMS
from workloads.registry import WORKLOADS

_MOST_COLUMNS = 100
_NEAR = 4
_HOSTS = {
    "auto": "The best of the following kinds that works on this machine.",
    "namespace": "Each broker has its own network namespace on this machine. It needs no root and"
    " no Docker.",
    "docker": (
        "Each broker is a container. --image names an image with Java, or an official Kafka image."
    ),
    "ssh": "Brokers run on your machines, which ssh:HOSTS.toml names.",
    "process": "All brokers share this machine's loopback, so the network cannot be cut.",
    "simulated": "The reference cluster runs in virtual time. It needs no Java, and a seed repeats"
    " the run.",
}
_JUDGES = {
    "contract": (
        "The default. It allows the anomalies that the configuration does not promise to"
        " prevent, and lists them."
    ),
    "strict": "It allows only what no system promises to prevent, regardless of the configuration.",
    "jepsen": "It allows what Jepsen's Kafka checker allows.",
}
_FILES: Mapping[str, type[BaseModel]] = {"plan": Plan, "suite": Suite}
_ITEM = re.compile(r"[-*] |\d+\. ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of `logquake help`.

    Attributes:
        name: The name that the user types.
        kind: The kind of topic, such as `fault` or `anomaly`; an empty string for a general
            subject.
        brief: A one-line description.
        text: A function that returns the text to print.
    """

    name: str
    kind: str
    brief: str
    text: Callable[[], str]


def all_topics() -> dict[str, list[Topic]]:
    """Return all topics by name.

    Several topics can have the same name: `pause` is both a fault and a family of faults.
    """
    found: dict[str, list[Topic]] = {}
    for each in (*subjects(), *_named(), *_commands()):
        found.setdefault(each.name, []).append(each)
    return found


def explained(name: str) -> str:
    """Return the text that `logquake help` prints for a topic.

    Raises:
        click.UsageError: There is no topic of that name. The message lists the most similar names.
    """
    topics = all_topics()
    wanted = _plain(name).lstrip("-")
    plain: dict[str, list[str]] = {}  # `ISR` is a term, and `isr` is a key of evidence.
    for key in topics:
        plain.setdefault(_plain(key), []).append(key)
    if wanted in plain:
        found = (each for key in plain[wanted] for each in topics[key])
        return "\n\n".join(each.text().rstrip() for each in found)
    near = get_close_matches(wanted, [*plain], n=_NEAR, cutoff=0.5)
    near += [each for each in plain if wanted and wanted in each and each not in near]
    hint = f"; similar topics: {', '.join(dict.fromkeys(plain[each][0] for each in near[:_NEAR]))}"
    listed = "logquake help lists all topics"
    raise click.UsageError(f"there is no topic {name!r}{hint if near else ''}; {listed}")


def _plain(name: str) -> str:
    """Return a name with small letters, and with `-` instead of spaces and of `_`."""
    return "-".join(name.lower().replace("_", " ").split())


def listed() -> str:
    """Return the list that `logquake help` prints: general subjects, then kinds of topics."""
    rows = [(each.name, each.brief) for each in subjects()]
    kinds = {
        "a command": "suite run",
        "a fault": "isolate",
        "an anomaly": "lost-write",
        "a verdict": "unknown",
        "a key of a plan or a suite": "min_insync",
        "an exit code": "2",
        "a term": "'high watermark'",
        "a transition": "election/leader-killed",
        "a key of an anomaly's evidence": "acknowledged_ns",
    }
    names = ((kind, f"logquake help {example}") for kind, example in kinds.items())
    return (
        f"Topics (logquake help TOPIC):\n\n{_rows(rows)}\n\nThese names are topics as"
        f" well:\n\n{_rows(names)}"
    )


def subjects() -> tuple[Topic, ...]:
    """Return the topics on general subjects, such as `verdicts` and `faults`."""
    return tuple(
        Topic(name=name, kind="", brief=brief, text=text)
        for name, brief, text in (
            ("verdicts", "what valid, invalid and unknown mean, and exit codes", _verdicts),
            ("judges", "the judges of a run, and what each allows", lambda: _rows(_JUDGES.items())),
            ("checks", "the anomalies that the checks look for", _checks),
            ("plans", "the keys of a plan", partial(_file, "plan")),
            ("suites", "the keys of a suite or a hunt", partial(_file, "suite")),
            ("faults", "families and kinds of faults", _faults),
            ("targets", "the nodes and roles that a fault can hit", _targets),
            ("levels", "the difficulty of faults", _levels),
            (
                "transitions",
                "protocol events that a run can reach",
                lambda: _rows(TRANSITIONS.items()),
            ),
            ("workloads", "what clients do", _workloads),
            ("hosts", "where brokers run", lambda: _rows(_HOSTS.items())),
            ("systems", "the systems that can be tested", lambda: _wrapped(f"--system: {FORMS}.")),
            ("scenarios", "scripted runs", _scenarios),
            ("terms", "terms of Kafka and of Logquake", lambda: _rows(TERMS.items())),
        )
    )


def _named() -> Iterator[Topic]:
    """Yield a topic for each name of a fault, anomaly, plan key, workload, scenario and so on."""
    for family in (*NEMESIS_KINDS,):
        brief = f"faults: {', '.join(_kinds(family))}"
        yield Topic(name=family, kind="family", brief=brief, text=partial(_family, family))
    for name in KINDS:
        yield Topic(name=name, kind="fault", brief=says_of(name).does, text=partial(_fault, name))
    for check in CHECKERS:
        text = partial(_anomaly, check)
        yield Topic(name=check.name, kind="anomaly", brief=check.looks_for, text=text)
    yield from _keys()
    for kind, words in (
        ("judge", _JUDGES),
        ("kind of hosts", _HOSTS),
        ("term", TERMS),
        ("transition", TRANSITIONS),
        ("key of evidence", EVIDENCE),
    ):
        for name, means in words.items():
            said = f"{name} ({kind}): {means}"
            yield Topic(name=name, kind=kind, brief=means, text=partial(_wrapped, said))
    for name, workload in WORKLOADS.items():
        text = partial(_workload, name)
        yield Topic(name=name, kind="workload", brief=workload.brief, text=text)
    for story in SCENARIOS:
        text = partial(_scenario, story.name, story.title)
        yield Topic(name=story.name, kind="scenario", brief=story.title, text=text)
    for code, means in MEANINGS.items():
        said = f"exit code {code}: {means}"
        yield Topic(name=str(code), kind="exit code", brief=means, text=partial(_wrapped, said))
    for verdict, code in BY_VALIDITY.items():
        said = f"{MEANINGS[code]} (exit code {code})"
        text = partial(_wrapped, said)
        yield Topic(name=verdict.value, kind="verdict", brief=MEANINGS[code], text=text)


def _keys() -> Iterator[Topic]:
    """Yield the keys of plans and of suites, and the tables that contain these keys."""
    for file, top in _FILES.items():
        tables = {title.strip("[]") for title, _ in models(top)}
        for title, model in models(top):
            table, said = title.strip("[]"), texts(model)
            if table:
                text = partial(_table, file, title, model)
                brief = model.__doc__ or ""
                yield Topic(name=table, kind=f"table of a {file}", brief=brief, text=text)
            for key, info in model.model_fields.items():
                name = f"{table}.{key}".lstrip(".")
                text = partial(_key, file, name, said[key], info)
                brief = said[key].partition("\n")[0]
                if key not in tables:
                    yield Topic(name=name, kind=f"key of a {file}", brief=brief, text=text)


def _commands() -> Iterator[Topic]:
    """Yield the commands, including the commands in groups: `run`, `suite`, `suite run`.

    The names come from `commands.json`, because importing all commands takes seconds.
    """
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", stored())]
    for before, within in waiting:
        for name, told in within.get("commands", {}).items():
            full = f"{before}{name}"
            text = partial(_help, tuple(full.split()))
            yield Topic(name=full, kind="command", brief=f"logquake {full}", text=text)
            waiting.append((f"{full} ", told))


def _help(words: Sequence[str]) -> str:
    """Return the text that `--help` prints for a command such as `run` or `suite run`."""
    command: click.Command | None = logquake
    context = click.Context(logquake, info_name="logquake", **logquake.context_settings)
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        assert command is not None, words
        context = click.Context(command, parent=context, info_name=word)
    assert command is not None
    return command.get_help(context)


def _kinds(family: str) -> tuple[str, ...]:
    return kinds_of(family, frozenset(Ability))


def says_of(kind: str) -> InWords:
    """Return the description of a kind of fault from that kind's module."""
    found: InWords = sys.modules[KINDS[kind].make.__module__].SAYS[kind]
    return found


def module_of(checker: Checker) -> ModuleType:
    """Return the module whose docstring defines the anomaly: the module of the check's kernel."""
    kernel = checker.check
    while isinstance(kernel, partial):
        kernel = kernel.func
    return sys.modules[kernel.__module__]


def _width() -> int:
    return min(_MOST_COLUMNS, get_terminal_size((_MOST_COLUMNS, 0)).columns)


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    """Return a text in two columns: each name with its meaning."""
    told = [*rows]
    width = min(max(len(name) for name, _ in told) + 4, _width() // 2)
    return "\n".join(
        _wrapped(means, f"  {name}  ".ljust(width), " " * width) if means else f"  {name}"
        for name, means in told
    )


def _wrapped(text: str, first: str = "", then: str = "") -> str:
    """Wrap a paragraph for the terminal; `first` begins the first line, `then` each other line."""
    return fill(
        text,
        width=_width(),
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _paragraphs(text: str) -> str:
    """Indent and wrap a text, which consists of paragraphs and list items, for the terminal."""
    items = re.split(rf"\n(?=\n|{_ITEM.pattern})", text)
    return "\n".join(map(_item, items))


def _item(text: str) -> str:
    between = "\n" if text.startswith("\n") else ""
    words = " ".join(text.split())
    return between + _wrapped(words, "  ", "    " if _ITEM.match(words) else "  ")


def _verdicts() -> str:
    rows = ((str(code), means) for code, means in MEANINGS.items())
    return f"Exit codes and their verdicts:\n\n{_rows(rows)}"


def _checks() -> str:
    rows = {each.name: each.looks_for for each in CHECKERS}
    more = "logquake help NAME explains what proves an anomaly, and what does not."
    return f"{_rows(rows.items())}\n\n{_wrapped(more)}"


def _file(file: str) -> str:
    """Return a text that lists the keys of a file, table after table."""
    begin = _wrapped(f"A {file} is a TOML file. logquake help KEY explains a key. The file's keys:")
    tables = (_key_rows(title, model) for title, model in models(_FILES[file]))
    return "\n\n".join([begin, *tables])


def _key_rows(title: str, model: type[BaseModel]) -> str:
    said, table = texts(model), title.strip("[]")
    rows = [(f"{table}.{key}".lstrip("."), said[key]) for key in written(model)]
    return "\n\n".join(filter(None, (title, _rows(rows))))


def _table(file: str, title: str, model: type[BaseModel]) -> str:
    says = _wrapped(" ".join((model.__doc__ or "").split()))
    return f"{title.strip('[]')} (table of a {file})\n\n{says}\n\n{_key_rows(title, model)}"


def _faults() -> str:
    rows = ((family, ", ".join(_kinds(family))) for family in NEMESIS_KINDS)
    begin = "--nemesis takes these families, with commas between them. The faults of each family:"
    more = "logquake help NAME explains a family or a fault; logquake doctor shows what works here."
    listed = _rows([*rows, (ALL, "all that work here")])
    return f"{_wrapped(begin)}\n\n{listed}\n\n{_wrapped(more)}"


def _targets() -> str:
    says, _, _ = (inspect.getdoc(targets) or "").partition("\n\nIf a role names no")
    return _paragraphs(says)


def _family(family: str) -> str:
    rows = ((kind, says_of(kind).does) for kind in _kinds(family))
    begin = _wrapped(f"{family} (family of faults): logquake run --nemesis {family}")
    return f"{begin}\n\n{_rows(rows)}"


def _fault(name: str) -> str:
    says, kind = says_of(name), KINDS[name]
    rows = (
        ("does", says.does),
        ("injected by", says.injected),
        ("proven by", says.proven),
        ("undone by", says.undone),
        ("may cost", says.costs),
        ("families", ", ".join(kind.families) or "none: only if written by hand"),
        ("needs of hosts", ", ".join(sorted(kind.needs - OF_SYSTEMS)) or "nothing"),
    )
    return f"{name} (fault)\n\n{_rows(rows)}\n\n{_definition(sys.modules[kind.make.__module__])}"


def _anomaly(check: Checker) -> str:
    looks = f"{check.name} (anomaly): looks for {check.looks_for or check.compares}"
    return f"{_wrapped(looks)}\n\n{_definition(module_of(check))}"


def _definition(module: ModuleType) -> str:
    return _paragraphs(inspect.getdoc(module) or "")


def _key(file: str, key: str, says: str, info: FieldInfo) -> str:
    value, option = default(info), options_of_run().get(key) if file == "plan" else None
    rows = {
        "takes": takes(info).replace("`", ""),
        "default": "none: the key is needed" if value is None else value or "none",
        "option": f"logquake run {option.opts[-1]}" if option else "",
    }
    told = _rows((name, each) for name, each in rows.items() if each)
    return f"{key} (key of a {file})\n\n{_paragraphs(says)}\n\n{told}"


def _levels() -> str:
    return _rows((str(number), each.says) for number, each in enumerate(LEVELS))


def _workloads() -> str:
    return _rows((name, each.does) for name, each in WORKLOADS.items())


def _workload(name: str) -> str:
    workload = WORKLOADS[name]
    rows = (("does", workload.does), ("can find", workload.finds), ("an op is", workload.ops))
    begin = _wrapped(f"{name} (workload): logquake run --workload {name}")
    return f"{begin}\n\n{_rows(rows)}"


def _scenarios() -> str:
    rows = ((each.name, each.title) for each in SCENARIOS)
    more = _wrapped("logquake scenario list has their choices and systems.")
    return f"{_rows(rows)}\n\n{more}"


def _scenario(name: str, title: str) -> str:
    return f"{_wrapped(f'{name} (scenario): {title}')}\n\nlogquake scenario run {name}"
