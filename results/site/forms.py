"""What readers ask for in forms and URLs, as values; nonsense asks for nothing."""

from collections.abc import Mapping

from results.index import RunQuery
from results.index.query import PAGE_RUNS

FIELDS = (
    "system", "version", "workload", "hosts", "scenario", "nemesis", "suite", "night", "entry",
    "signature", "setting", "verdict", "fault", "anomaly", "seed", "repeats", "text",
)  # fmt: skip
MAX_CHARACTERS = 300
MAX_PAGE = 1_000_000


def query_from(arguments: Mapping[str, str]) -> RunQuery:
    """Return the query of a form."""
    told = {name: _text(arguments, name) for name in FIELDS if name != "seed"}
    page = page_from(arguments)
    return RunQuery(
        **told,
        seed=_number(arguments, "seed"),
        limit=PAGE_RUNS,
        offset=(page - 1) * PAGE_RUNS,
    )


def page_from(arguments: Mapping[str, str]) -> int:
    """Return the number of the page, counted from 1."""
    return min(max(1, _number(arguments, "page") or 1), MAX_PAGE)


def filled(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that ask for something."""
    return {name: text for name in FIELDS if (text := _text(arguments, name))}


def _text(arguments: Mapping[str, str], name: str) -> str:
    return arguments.get(name, "").replace("\0", "").strip()[:MAX_CHARACTERS]


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    text = _text(arguments, name)
    # Other scripts have digits, too, and int() takes underscores.
    return int(text) if text.isascii() and text.isdigit() else None
