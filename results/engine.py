"""The template engine of pages and drawings. It escapes and shortens values from outside."""

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from results.record.clock import seconds
from results.record.verdict import as_sentence
from results.wording.amounts import size
from results.wording.evidence import EVIDENCE
from results.wording.inert import inert, shortened
from results.wording.naming import said
from results.wording.plural import many

TEMPLATES = Path(__file__).resolve().parent / "templates"
_MAX_LISTED = 24


@cache
def template_engine() -> jinja2.Environment:
    """Return the shared template engine, which caches each compiled template."""
    return new_engine()


def new_engine() -> jinja2.Environment:
    """Return a new template engine. It escapes and shortens each value that it prints."""
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["explained"] = _explained
    engine.filters["listed"] = _listed
    engine.filters["size"] = size
    engine.filters["sentence"] = as_sentence
    engine.filters["said"] = said
    engine.filters["plain"] = inert
    engine.filters["many"] = many
    return engine


def _finalized(value: object) -> object:
    if not isinstance(value, str) or _is_markup(value):
        return value
    return inert(shortened(value), keep="\n")


def _is_markup(value: object) -> bool:
    return isinstance(value, Markup)


def _explained(key: str) -> str:
    """Return a key of evidence; if the key is known, as HTML with its meaning as the tooltip."""
    means = EVIDENCE.get(key)
    return key if means is None else Markup('<abbr title="{}">{}</abbr>').format(means, key)


def _listed(value: object, key: str) -> str:
    """Return an evidence value as text: a time also in seconds, and a long list shortened."""
    if not isinstance(value, list | tuple):
        seconds = isinstance(value, int) and key.endswith("_ns")
        return f"{value} ({_seconds(value)})" if seconds else "-" if value is None else str(value)
    if not value:
        return "none"
    shown = "; ".join(str(each) for each in value[:_MAX_LISTED])
    rest = len(value) - _MAX_LISTED
    return f"{shown}; and {rest} more" if rest > 0 else shown


def _seconds(time_ns: object) -> str:
    return seconds(time_ns) if isinstance(time_ns, int) else "?"
