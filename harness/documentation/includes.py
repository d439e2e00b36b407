"""Generate the tables for handwritten pages: `<!-- generated: checkers/liveness -->`.

In a page, such a comment stands alone on a line. The line below the comment is for people who read
the page's source. The build replaces both lines with the table.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from checkers.protocol import Chapter, Checker, Promise
from checkers.registry import CHECKERS
from cluster.protocol import OF_SYSTEMS
from harness.cli.topics import says_of
from harness.documentation.markdown_tables import table
from harness.swarm_rows import Value
from harness.swarm_table import ROWS
from nemesis.kind import Kind
from nemesis.levels import LEVELS
from nemesis.registry import KINDS
from results.record.declared import IN_WORDS
from results.record.transitions import ASKED, ERRORS, TRANSITIONS, area_of
from results.wording.glossary import TERMS
from workloads.registry import WORKLOADS

_PLACE = re.compile(r"^<!-- generated: (\S+) -->(?:\n> .*)?$", re.MULTILINE)
PROMISES: Mapping[Promise, str] = {
    Promise.STORED: "acknowledged messages stay",
    Promise.LEADERS: "which replica may become leader",
    Promise.ONCE: "no copies",
    Promise.LOG: "one log that readers read in order",
    Promise.EPOCHS: "one leader each",
    Promise.TRANSACTIONS: "all or nothing",
    Promise.GROUPS: "a group continues at its committed offset",
    Promise.SERVERS: "a broker runs until it is stopped",
    Promise.CLIENTS: "a client does not end its program",
    Promise.RECOVERY: "the plan's budgets",
}


def _names(checkers: Iterable[Checker]) -> str:
    return ", ".join(dict.fromkeys(f"`{each.name}`" for each in checkers))


def promises() -> str:
    """Return the table of promises, with the checks of each promise."""
    return table(
        ("promise", "its checks"),
        (
            (
                f"`{promise.name}`: {means}",
                _names(each for each in CHECKERS if each.promise is promise),
            )
            for promise, means in PROMISES.items()
        ),
    )


def sights() -> str:
    """Return the table of sights: for each sight, the checks that need it.

    A sight is a kind of data that Logquake can observe in a system.
    """
    return table(
        ("sight", "what it is", "checks that need it"),
        (
            (f"`{sight}`", words, _names(each for each in CHECKERS if sight in each.sees))
            for sight, words in IN_WORDS.items()
        ),
    )


def chapter(of: Chapter) -> str:
    """Return the table of a chapter's checks.

    Checks that look for the same violation share a row.
    """
    rows: dict[tuple[str, str], list[Checker]] = {}
    for each in CHECKERS:
        if each.chapter is of:
            rows.setdefault((each.looks_for, each.compares), []).append(each)
    return table(
        ("check", "what it looks for", "`rows`"),
        ((_names(checkers), *cells) for cells, checkers in rows.items()),
    )


def faults() -> str:
    """Return the table of all fault kinds, with the descriptions from their modules."""
    return table(
        ("kind", "family", "what it does", "injected by", "proven by", "undone by", "hosts",
         "system", "may cost"),
        (_fault(name, kind) for name, kind in KINDS.items()),
    )  # fmt: skip


def _fault(name: str, kind: Kind) -> tuple[str, ...]:
    said = says_of(name)
    hosts = ", ".join(sorted(kind.needs - OF_SYSTEMS)) or "any"
    system = ", ".join(sorted(kind.needs & OF_SYSTEMS)) or "any"
    if kind.by_hand:
        hosts += "; by hand"
    families = ", ".join(f"`{family}`" for family in kind.families)
    told = (said.does, said.injected, said.proven, said.undone)
    return (f"`{name}`", families, *told, hosts, system, said.costs)


def workloads() -> str:
    """Return the table of workloads; the first workload is the default."""
    return table(
        ("`--workload`", "What clients do", "What it can find besides losses and duplicates"),
        (
            (f"`{name}`{' (default)' if at == 0 else ''}", each.does, each.finds)
            for at, (name, each) in enumerate(WORKLOADS.items())
        ),
    )


def ops() -> str:
    """Return the table of workloads with the meaning of an op in each."""
    rows = ((f"`{name}`", each.ops) for name, each in WORKLOADS.items())
    return table(("workload", "an op is"), rows)


def swarm() -> str:
    """Return the table of the swarm's settings: each value, and which mechanism it exercises."""
    return table(
        ("what is drawn", "in runs of", "value: the situations that it makes likely"),
        (
            (f"`{row.name}`", row.where, "<br>".join(_value(row.name, each) for each in row.values))
            for row in ROWS
        ),
    )


def _value(name: str, value: Value) -> str:
    """Return a value of the swarm as text, without the name of its row."""
    told = [
        f"`{setting}`" if key.endswith(name) else f"`{key.partition('.')[2] or key} = {setting}`"
        for key, setting in value.settings.items()
    ]
    return f"{', '.join(told)}: {value.why}"


def levels() -> str:
    """Return the table of fault levels. Each row lists only what the level adds."""
    return table(
        ("level", "what is new", "side by side", "a majority stays without faults"),
        (
            (str(number), each.says, str(each.lanes), "yes" if each.spares_majority else "no")
            for number, each in enumerate(LEVELS)
        ),
    )


def reached() -> str:
    """Return the table of transitions, without refused requests."""
    told = ((name, said) for name, said in TRANSITIONS.items() if area_of(name) != "refused")
    return table(("transition", "what happened"), ((f"`{name}`", said) for name, said in told))


def refused() -> str:
    """Return the table of refused requests: for each kind of request, the possible errors."""
    return table(
        ("`refused/…`", "what failed", "errors"),
        (
            (f"`{asked}`", what, ", ".join(f"`{error}`" for error in ERRORS[asked]))
            for asked, what in ASKED.items()
        ),
    )


def glossary() -> str:
    """Return all terms in alphabetical order."""
    rows = sorted(TERMS.items(), key=lambda term: term[0].lower())
    return table(("Word", "Meaning"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "glossary": glossary,
    "workloads": workloads,
    "workloads/ops": ops,
    "faults": faults,
    "faults/levels": levels,
    "swarm": swarm,
    "reached": reached,
    "reached/refused": refused,
    "checkers/promises": promises,
    "checkers/sights": sights,
    **{f"checkers/{each.value}": partial(chapter, each) for each in Chapter},
}
"""The generated tables: the name in the comment, and the function that returns the table."""


def filled(text: str) -> str:
    """Return a page's text in which each comment is replaced by its table.

    Raises:
        KeyError: The page names a table that does not exist.
    """
    return _PLACE.sub(lambda found: TABLES[found[1]](), text)
