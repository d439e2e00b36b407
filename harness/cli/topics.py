"""The texts that `logquake help TOPIC` prints, from the same sources as the pages of `docs/`.

The texts on checks and faults come from their modules, those on plan keys from
`results.record.plan`. Terms come from the glossary, and commands from their `--help`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from textwrap import fill, indent

import click
from pydantic import BaseModel

from checkers.protocol import Checker
from checkers.registry import CHECKERS
from cluster.protocol import OF_SYSTEMS, Ability
from harness.exit_codes import MEANINGS
from harness.scenarios.registry import SCENARIOS
from nemesis.in_words import InWords
from nemesis.levels import LEVELS
from nemesis.registry import KINDS, kinds_of
from results.record.plan import ALL, NEMESIS_KINDS, Plan
from results.record.plan_parts import Budgets, Minimums, PlannedFault
from results.record.systems import FORMS
from results.wording.glossary import GLOSSARY
from workloads.registry import WORKLOADS

_WIDTH = 100
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
    "simulated": "The reference cluster runs in virtual time: no Java, and a seed repeats the run.",
}
_JUDGES = {
    "contract": (
        "The default. It allows violations of promises that the configuration does not"
        " make, and lists them."
    ),
    "strict": "It allows no broken promise, regardless of the configuration.",
    "jepsen": "It allows what Jepsen's Kafka checker allows.",
}
_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", Plan),
    ("budgets.", Budgets),
    ("minimums.", Minimums),
    ("faults.", PlannedFault),
)
"""The tables of a plan, each with the prefix of its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that `logquake help` can explain.

    Attributes:
        name: The name that the user types.
        kind: The kind of topic, such as `fault` or `anomaly`; an empty string for a general
            subject.
        brief: A one-line description.
        text: Returns the text that is printed.
    """

    name: str
    kind: str
    brief: str
    text: Callable[[], str]


def all_topics(group: click.Group) -> dict[str, list[Topic]]:
    """Return all topics by name; a name may have several topics: `pause` is a fault and a family.

    Args:
        group: The command line, whose commands are topics.
    """
    found: dict[str, list[Topic]] = {}
    for each in (*subjects(group), *_named(group), *_commands(group)):
        found.setdefault(each.name, []).append(each)
    return found


def explained(name: str, group: click.Group) -> str:
    """Return the text that `logquake help` prints for a topic.

    Raises:
        click.UsageError: There is no topic of that name; the message has the most similar names.
    """
    topics = all_topics(group)
    wanted = name.strip().lower().lstrip("-")
    plain = {key.lower(): key for key in topics}
    plain |= {key.lower().replace("_", "-"): key for key in topics}
    if wanted in plain:
        return "\n\n".join(each.text().rstrip() for each in topics[plain[wanted]])
    near = get_close_matches(wanted, [*plain], n=_NEAR, cutoff=0.5)
    near += [each for each in plain if wanted and wanted in each and each not in near]
    hint = f"; similar topics: {', '.join(dict.fromkeys(plain[each] for each in near[:_NEAR]))}"
    listed = "logquake help lists all topics"
    raise click.UsageError(f"there is no topic {name!r}{hint if near else ''}; {listed}")


def listed(group: click.Group) -> str:
    """Return the list that `logquake help` prints: general subjects, and kinds of other topics."""
    rows = [(each.name, each.brief) for each in subjects(group)]
    kinds = {
        "a command": "run",
        "a fault": "isolate",
        "an anomaly": "lost-write",
        "a key of a plan": "min_insync",
        "an exit code": "2",
        "a term": "'high watermark'",
    }
    names = ((kind, f"logquake help {example}") for kind, example in kinds.items())
    return (
        f"Topics (logquake help TOPIC):\n\n{_rows(rows)}\n\nThese names are topics as"
        f" well:\n\n{_rows(names)}"
    )


def subjects(group: click.Group) -> tuple[Topic, ...]:
    """Return the topics on general subjects, such as `verdicts` and `faults`."""
    return tuple(
        Topic(name=name, kind="", brief=brief, text=text)
        for name, brief, text in (
            ("verdicts", "what valid, invalid and unknown mean, and exit codes", _verdicts),
            (
                "judges",
                "the judges of a run, and what each judge allows",
                lambda: _rows(_JUDGES.items()),
            ),
            ("checks", "the anomalies that the checks look for", _checks),
            ("plans", "the keys of a plan", lambda: _plans(group)),
            ("faults", "families and kinds of faults", _faults),
            ("levels", "the difficulty of faults", _levels),
            ("workloads", "what clients do", _workloads),
            ("hosts", "where brokers run", lambda: _rows(_HOSTS.items())),
            ("systems", "the systems that can be tested", lambda: _wrapped(f"--system: {FORMS}.")),
            ("scenarios", "scripted runs", _scenarios),
            ("terms", "terms of Kafka and of Logquake", lambda: _rows(GLOSSARY.items())),
        )
    )


def _named(group: click.Group) -> Iterator[Topic]:
    """Yield a topic for each name of a fault, anomaly, plan key, workload, scenario and so on."""
    for family in (*NEMESIS_KINDS,):
        brief = f"faults: {', '.join(_kinds(family))}"
        yield Topic(name=family, kind="family", brief=brief, text=partial(_family, family))
    for name in KINDS:
        yield Topic(name=name, kind="fault", brief=says_of(name).does, text=partial(_fault, name))
    for check in CHECKERS:
        text = partial(_anomaly, check)
        yield Topic(name=check.name, kind="anomaly", brief=check.looks_for, text=text)
    for key, (says, default) in plan_keys(group).items():
        text = partial(_key, key, says, default)
        yield Topic(name=key, kind="key of a plan", brief=says.partition("\n")[0], text=text)
    for name, workload in WORKLOADS.items():
        text = partial(_workload, name)
        yield Topic(name=name, kind="workload", brief=workload.brief, text=text)
    for story in SCENARIOS:
        said = f"{story.name} (scenario): {story.title}\n\nlogquake scenario run {story.name}"
        yield Topic(name=story.name, kind="scenario", brief=story.title, text=partial(str, said))
    for code, means in MEANINGS.items():
        said = f"exit code {code}: {means}"
        yield Topic(name=str(code), kind="exit code", brief=means, text=partial(_wrapped, said))
    for term, means in GLOSSARY.items():
        said = f"{term}: {means}"
        yield Topic(name=term, kind="term", brief=means, text=partial(_wrapped, said))


def _context(group: click.Group) -> click.Context:
    return click.Context(group, info_name="logquake", **group.context_settings)


def _commands(group: click.Group) -> Iterator[Topic]:
    context = _context(group)
    for name in group.list_commands(context):
        if name != "help":
            text = partial(_command, group, name)
            yield Topic(name=name, kind="command", brief=f"logquake {name}", text=text)


def _command(group: click.Group, name: str) -> str:
    context = _context(group)
    command = group.get_command(context, name)
    assert command is not None, name
    return command.get_help(click.Context(command, parent=context, info_name=name))


def plan_keys(group: click.Group) -> dict[str, tuple[str, object]]:
    """Return each plan key with its meaning and its default.

    The meaning of a key is its docstring, followed by the help of the option of `run` that sets the
    key.
    """
    found: dict[str, tuple[str, object]] = {}
    options = _options_of_run(group)
    for prefix, table in _TABLES:
        says = docstrings(table)
        for key, field in table.model_fields.items():
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            told = (says.get(key, ""), "" if prefix else options.get(key, ""))
            found[prefix + key] = ("\n".join(filter(None, told)), default)
    return found


def _options_of_run(group: click.Group) -> dict[str, str]:
    run = group.get_command(_context(group), "run")
    assert run is not None
    return {
        each.name: f"{each.opts[-1]}: {each.help}"
        for each in run.params
        if isinstance(each, click.Option) and each.name
    }


def docstrings(table: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a model, read from the class's source."""
    body = ast.parse(inspect.getsource(sys.modules[table.__module__])).body
    (node,) = (
        each for each in body if isinstance(each, ast.ClassDef) and each.name == table.__name__
    )
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(text.value.value))
    return found


def _kinds(family: str) -> tuple[str, ...]:
    return kinds_of(family, frozenset(Ability))


def says_of(kind: str) -> InWords:
    """Return the description of a fault kind, from the kind's module."""
    found: InWords = import_module(KINDS[kind].make.__module__).SAYS[kind]
    return found


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and their meanings as text in two columns."""
    told = [*rows]
    width = max(len(name) for name, _ in told) + 4
    return "\n".join(
        fill(
            means,
            width=_WIDTH,
            initial_indent=f"  {name}".ljust(width),
            subsequent_indent=" " * width,
            break_on_hyphens=False,
        )
        if means
        else f"  {name}"
        for name, means in told
    )


def _wrapped(text: str) -> str:
    return fill(text, width=_WIDTH, break_on_hyphens=False)


def _verdicts() -> str:
    rows = ((str(code), means) for code, means in MEANINGS.items())
    return f"Exit codes and their verdicts:\n\n{_rows(rows)}"


def _checks() -> str:
    rows = {each.name: each.looks_for for each in CHECKERS}
    more = "logquake help NAME explains what proves the anomaly, and what does not."
    return f"{_rows(rows.items())}\n\n{more}"


def _plans(group: click.Group) -> str:
    # The help of the key's option has the same content in other words.
    told = ((key, says.partition("\n--")[0]) for key, (says, _) in plan_keys(group).items())
    rows = ((key, re.sub(r"^--[a-z-]+: ", "", says).replace("\n", " ")) for key, says in told)
    begin = "A plan is a TOML file; logquake init writes one. Its keys:"
    return f"{begin}\n\n{_rows(rows)}"


def _faults() -> str:
    rows = ((family, ", ".join(_kinds(family))) for family in NEMESIS_KINDS)
    begin = "--nemesis accepts these families, separated by commas; each family has these faults:"
    more = (
        "logquake help NAME explains a family or a fault; logquake doctor shows which faults"
        " work on this machine."
    )
    return f"{begin}\n\n{_rows([*rows, (ALL, 'all that work on these hosts')])}\n\n{more}"


def _family(family: str) -> str:
    rows = ((kind, says_of(kind).does) for kind in _kinds(family))
    return f"{family} (family of faults): logquake run --nemesis {family}\n\n{_rows(rows)}"


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
    return f"{name} (fault)\n\n{_rows(rows)}\n\n{_modulesays_of(kind.make.__module__)}"


def _anomaly(check: Checker) -> str:
    looks = f"{check.name} (anomaly): looks for {check.looks_for or check.compares}"
    return f"{_wrapped(looks)}\n\n{_modulesays_of(check.check.__module__)}"


def _modulesays_of(module: str) -> str:
    return indent(inspect.getdoc(import_module(module)) or "", "  ")


def _key(key: str, says: str, default: object) -> str:
    given = "" if default is None else f" (default: {default!r})"
    return f"{key} (key of a plan){given}\n\n{indent(says, '  ')}".rstrip()


def _levels() -> str:
    return _rows((str(number), each.says) for number, each in enumerate(LEVELS))


def _workloads() -> str:
    return _rows((name, each.does) for name, each in WORKLOADS.items())


def _workload(name: str) -> str:
    workload = WORKLOADS[name]
    rows = (("does", workload.does), ("can find", workload.finds), ("an op is", workload.ops))
    return f"{name} (workload): logquake run --workload {name}\n\n{_rows(rows)}"


def _scenarios() -> str:
    rows = ((each.name, each.title) for each in SCENARIOS)
    return f"{_rows(rows)}\n\nlogquake scenario list has their choices and systems."
