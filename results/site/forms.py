"""Parse the parameters of forms and URLs; invalid parameters are ignored."""

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
    """Return the query for runs that the parameters of a form describe."""
    told = {name: _text(arguments, name) for name in FIELDS if name != "seed"}
    page = page_from(arguments)
    return RunQuery(
        **told,
        seed=_number(arguments, "seed"),
        limit=PAGE_RUNS,
        offset=(page - 1) * PAGE_RUNS,
    )


def page_from(arguments: Mapping[str, str]) -> int:
    """Return the requested page number, counted from 1."""
    return min(max(1, _number(arguments, "page") or 1), MAX_PAGE)


def filled(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the form's fields that are not empty."""
    return {name: text for name in FIELDS if (text := _text(arguments, name))}


def _text(arguments: Mapping[str, str], name: str) -> str:
    return arguments.get(name, "").replace("\0", "").strip()[:MAX_CHARACTERS]


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    text = _text(arguments, name)
    # Other writing systems have digits, too, and int() accepts underscores.
    return int(text) if text.isascii() and text.isdigit() else None
