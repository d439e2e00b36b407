"""Write the page of faults. Each description comes from the fault's module."""

import sys
from collections.abc import Iterator

from cluster.protocol import OF_SYSTEMS
from harness.cli.topics import says_of
from harness.documentation.markdown_tables import code, table
from harness.documentation.prose import markdown, parsed
from nemesis.kind import Kind
from nemesis.registry import KINDS
from results.record.plan import NEMESIS_KINDS

_TOP = """\
# Faults

Every kind of fault, by family. A plan's `nemesis` lists families; a fault that you write by hand
names a kind. The page [Faults](../faults.md) explains how faults are scheduled, and which rules
they follow.
"""


def page() -> str:
    """Return the page of all kinds of faults."""
    return "\n".join([_TOP, *(part for family in NEMESIS_KINDS for part in _family(family))])


def _family(family: str) -> Iterator[str]:
    kinds = {name: kind for name, kind in KINDS.items() if kind.family == family}
    if not kinds:
        return
    yield f"## Family `{family}`\n"
    for name, kind in kinds.items():
        yield _section(name, kind)


def _section(name: str, kind: Kind) -> str:
    said = says_of(name)
    rows = [
        ("What it does", said.does),
        ("Injected by", said.injected),
        ("Proven by", said.proven),
        ("Undone by", said.undone),
        ("What a correct Kafka may lose", said.costs),
        ("Families with this fault", ", ".join(map(code, kind.families))),
        ("Needs of the hosts", ", ".join(map(code, sorted(kind.needs - OF_SYSTEMS))) or "nothing"),
        ("Needs of the system", ", ".join(map(code, sorted(kind.needs & OF_SYSTEMS))) or "nothing"),
        ("Dealt to", ", ".join(map(code, kind.aims)) or "any of the common roles"),
        (
            "On real hosts",
            "only if you write it by hand" if kind.by_hand else "chosen from the seed",
        ),
    ]
    return f"### `{name}`\n\n{described(kind)}\n\n{table(('Property', 'Value'), rows)}"


def described(kind: Kind) -> str:
    """Return the description of a fault kind from its module, without the kind's name."""
    docstring = parsed(sys.modules[kind.make.__module__].__doc__)
    title = docstring.title.partition(": ")[2] or docstring.title
    return f"{title[:1].upper()}{title[1:]}\n\n{markdown(docstring)}".strip()
