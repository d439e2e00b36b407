"""What `logquake help TOPIC` prints, from the same sources as the pages of `docs/`.

Checks and faults explain themselves in their modules, keys of plans in `results.record.plan`, terms
in the glossary, commands in their `--help`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from textwrap import fill, indent
from types import ModuleType

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
    "auto": "The best of the following kinds that works here.",
    "namespace": "Each broker has its own network namespace on this machine. It needs no root and"
    " no Docker.",
    "docker": "Each broker is a container. --image names an image with Java, or one of Kafka.",
    "ssh": "Brokers run on your machines, which ssh:HOSTS.toml names.",
    "process": "All brokers share this machine's loopback, so the network cannot be cut.",
    "simulated": "The reference cluster runs in virtual time: no Java, and a seed repeats the run.",
}
_JUDGES = {
    "contract": "The default. It allows what the configuration never promised, and lists it.",
    "strict": "It allows nothing that breaks a promise, whatever the configuration says.",
    "jepsen": "It allows what Jepsen's Kafka checker allows.",
}
_TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", Plan),
    ("budgets.", Budgets),
    ("minimums.", Minimums),
    ("faults.", PlannedFault),
)
"""Tables of a plan, with how their keys begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Something that can be explained.

    Attributes:
        name: As it is typed.
        kind: What it is: `fault`, `anomaly`; empty: a subject of its own.
        brief: One line on it.
        text: Returns what is printed.
    """

    name: str
    kind: str
    brief: str
    text: Callable[[], str]


def all_topics(group: click.Group) -> dict[str, list[Topic]]:
    """Return all topics by name; one name may have several, as the fault and the family `pause`.

    Args:
        group: The command line, whose commands are topics.
    """
    found: dict[str, list[Topic]] = {}
    for each in (*subjects(group), *_named(group), *_commands(group)):
        found.setdefault(each.name, []).append(each)
    return found


def explained(name: str, group: click.Group) -> str:
    """Return what is printed on a topic.

    Raises:
        click.UsageError: There is none of that name; the message has the nearest ones.
    """
    topics = all_topics(group)
    wanted = name.strip().lower().lstrip("-")
    plain = {key.lower(): key for key in topics}
    plain |= {key.lower().replace("_", "-"): key for key in topics}
    if wanted in plain:
        return "\n\n".join(each.text().rstrip() for each in topics[plain[wanted]])
    near = get_close_matches(wanted, [*plain], n=_NEAR, cutoff=0.5)
    near += [each for each in plain if wanted and wanted in each and each not in near]
    hint = f"; near it: {', '.join(dict.fromkeys(plain[each] for each in near[:_NEAR]))}"
    listed = "logquake help lists the topics"
    raise click.UsageError(f"there is no topic {name!r}{hint if near else ''}; {listed}")


def listed(group: click.Group) -> str:
    """Return the list of topics: those of their own, and which kinds of names are topics."""
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
        f"Topics (logquake help TOPIC):\n\n{_rows(rows)}\n\n"
        f"These names are topics, too:\n\n{_rows(names)}"
    )


def subjects(group: click.Group) -> tuple[Topic, ...]:
    """Return the topics that are lists."""
    return tuple(
        Topic(name=name, kind="", brief=brief, text=text)
        for name, brief, text in (
            ("verdicts", "what valid, invalid and unknown mean, and exit codes", _verdicts),
            ("judges", "who judges a run, and what that allows", lambda: _rows(_JUDGES.items())),
            ("checks", "which anomalies are looked for", _checks),
            ("plans", "the keys of a plan", lambda: _plans(group)),
            ("faults", "families and kinds of faults", _faults),
            ("levels", "how hard faults come", _levels),
            ("workloads", "what clients do", _workloads),
            ("hosts", "where brokers run", lambda: _rows(_HOSTS.items())),
            ("systems", "what can be tested", lambda: _wrapped(f"--system: {FORMS}.")),
            ("scenarios", "scripted runs", _scenarios),
            ("terms", "words of this field", lambda: _rows(GLOSSARY.items())),
        )
    )


def _named(group: click.Group) -> Iterator[Topic]:
    """Yield what has a name of its own."""
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
    """Return each key of a plan with what it means, and its default.

    A key means what its docstring says, and the help of the option of `run` that sets it.
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
    """Return the text that follows each field in the class's source."""
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
    """Return what the module of a kind of fault says of it."""
    found: InWords = sys.modules[KINDS[kind].make.__module__].SAYS[kind]
    return found


def module_of(checker: Checker) -> ModuleType:
    """Return the module that holds a check's kernel, and whose docstring defines its anomaly."""
    kernel = checker.check
    while isinstance(kernel, partial):
        kernel = kernel.func
    return sys.modules[kernel.__module__]


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    """Return names with what they mean, in two columns."""
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
    return f"Exit codes, and the verdicts that they stand for:\n\n{_rows(rows)}"


def _checks() -> str:
    rows = {each.name: each.looks_for for each in CHECKERS}
    more = "logquake help NAME says what proves it, and what does not."
    return f"{_rows(rows.items())}\n\n{more}"


def _plans(group: click.Group) -> str:
    # What the option of a key says is the same in other words.
    told = ((key, says.partition("\n--")[0]) for key, (says, _) in plan_keys(group).items())
    rows = ((key, re.sub(r"^--[a-z-]+: ", "", says).replace("\n", " ")) for key, says in told)
    begin = "A plan is a TOML file; logquake init writes one. Its keys:"
    return f"{begin}\n\n{_rows(rows)}"


def _faults() -> str:
    rows = ((family, ", ".join(_kinds(family))) for family in NEMESIS_KINDS)
    begin = "--nemesis takes these families, with commas between them; each deals these faults:"
    more = "logquake help NAME explains a family or a fault; logquake doctor tells what works here."
    return f"{begin}\n\n{_rows([*rows, (ALL, 'all that work here')])}\n\n{more}"


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
        ("families", ", ".join(kind.families) or "none: by hand alone"),
        ("needs of hosts", ", ".join(sorted(kind.needs - OF_SYSTEMS)) or "nothing"),
    )
    return f"{name} (fault)\n\n{_rows(rows)}\n\n{_definition(sys.modules[kind.make.__module__])}"


def _anomaly(check: Checker) -> str:
    looks = f"{check.name} (anomaly): looks for {check.looks_for or check.compares}"
    return f"{_wrapped(looks)}\n\n{_definition(module_of(check))}"


def _definition(module: ModuleType) -> str:
    return indent(inspect.getdoc(module) or "", "  ")


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
