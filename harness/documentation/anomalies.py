"""Write the page of anomalies. Each definition comes from the module of the anomaly's check."""

from types import ModuleType

from checkers.contract import REASONS
from checkers.protocol import Chapter, Checker
from checkers.registry import CHECKERS
from harness.cli.topics import module_of
from harness.documentation.includes import PROMISES
from harness.documentation.markdown_tables import code, table
from harness.documentation.prose import labelled, parsed

_TOP = """\
# Anomalies

Every anomaly that a check can report: what it means, why it is a proof, and what is no proof.
The page [Checkers](../checkers.md) explains how the checks work together, and the page
[Evidence](evidence.md) explains the keys of an anomaly's evidence.
"""
CHAPTERS = {
    Chapter.CLIENTS: "What clients saw",
    Chapter.ORDER: "Order",
    Chapter.GROUPS: "Groups",
    Chapter.TRANSACTIONS: "Transactions",
    Chapter.REPLICAS: "Replicas",
    Chapter.CONTROLLERS: "Controllers",
    Chapter.LIVENESS: "Liveness",
    Chapter.HARNESS: "Logquake itself",
}


def page() -> str:
    """Return the page of all anomalies, in chapters."""
    parts = [_TOP]
    for chapter, title in CHAPTERS.items():
        parts.append(f"## {title}\n")
        names = dict.fromkeys(each.name for each in CHECKERS if each.chapter is chapter)
        parts += (_section(name) for name in names)
    return "\n".join(parts)


def definition(module: ModuleType) -> str:
    """Return the definition of an anomaly as Markdown, from the module of the check."""
    docstring = parsed(module.__doc__)
    return f"**{docstring.title}**\n\n{labelled(docstring.text)}"


def _section(name: str) -> str:
    checkers = [each for each in CHECKERS if each.name == name]
    modules = dict.fromkeys(map(module_of, checkers))
    words = next((each.words for each in checkers if each.words), None)
    parts = [f"### `{name}`\n"]
    if words:
        parts.append(f"{words.means}\n")
    parts.append(table(("Property", "Value"), _facts(checkers)))
    parts += (f"{definition(each)}\n" for each in modules)
    return "\n".join(parts)


def _facts(checkers: list[Checker]) -> list[tuple[str, str]]:
    first = checkers[0]
    promise = first.promise
    words = next((each.words for each in checkers if each.words), None)
    excuses = sorted({excuse for each in checkers for excuse in each.excuses})
    allowed = [f"{code(each)}: {REASONS.get(each, 'the reason is not known')}" for each in excuses]
    always = any(each.always_allowed for each in checkers)
    compares = dict.fromkeys(each.compares for each in checkers)
    looks = dict.fromkeys(each.looks_for for each in checkers)
    rows = [
        ("Class", first.anomaly_class.value),
        ("Promise", f"{code(promise.value)}: {PROMISES[promise]}" if promise else "none"),
        ("Promised", words.promise if words else ""),
        ("What the check looks for", "<br>".join(looks)),
        ("What the check counts as `rows`", "<br>".join(compares)),
        ("Allowed", "always" if always else "<br>".join(allowed) or "never"),
        ("Needs to see", ", ".join(map(code, sorted(first.sees))) or "only what clients saw"),
    ]
    return [row for row in rows if row[1]]
