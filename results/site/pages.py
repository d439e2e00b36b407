"""Render the site's pages with the template engine and the site's own filters."""

from datetime import UTC, datetime
from functools import cache

import jinja2
from flask import Response, url_for

from results.engine import new_engine
from results.index import RunRow
from results.repeats import RANGE
from results.site.matrix import LETTERS, TONE_WORDS, faults_of, workload_of
from results.wording.amounts import duration, size
from results.wording.naming import interruption, without_verdict

_STAMP = "%Y%m%dT%H%M%SZ"


def page(template: str, **context: object) -> Response:
    """Return a page of the site, rendered from a template."""
    text = _engine().get_template(f"site/{template}").render(context)
    return Response(text, mimetype="text/html")


@cache
def _engine() -> jinja2.Environment:
    engine = new_engine()
    engine.filters |= {
        "when": when,
        "day": day,
        "lasting": lasting,
        "number": number,
        "size": size,
        "workload": workload_of,
        "faults": faults_of,
        "interruption": interruption,
        "without_verdict": without_verdict,
    }
    engine.globals |= {
        "url_for": url_for,
        "run_url": run_url,
        "letters": LETTERS,
        "tone_words": TONE_WORDS,
        "range": RANGE,
    }
    return engine


def run_url(row: RunRow | str, endpoint: str = "runs.run") -> str:
    """Return the URL of a run's page, or of another endpoint for the run, such as the file list."""
    run_id = row if isinstance(row, str) else row.run_id
    name, _, folder = run_id.partition("/")
    return url_for(endpoint, name=name, folder=folder)


def moment_of(stamp: str) -> datetime | None:
    """Return the time in a text such as `20261122T010000Z`, or None for other texts."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def when(stamp: str) -> str:
    """Return `20261122T010000Z` as `22 Nov 2026, 01:00`; other texts are unchanged."""
    moment = moment_of(stamp)
    return f"{moment.day} {moment:%b %Y, %H:%M}" if moment else stamp


def day(stamp: str) -> str:
    """Return `20261122T010000Z` as `22 Nov`; other texts are unchanged."""
    moment = moment_of(stamp)
    return f"{moment.day} {moment:%b}" if moment else stamp


def lasting(seconds: float | None) -> str:
    """Return a duration as text for people; a dash for None."""
    return "-" if seconds is None else duration(seconds)


def number(value: float | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.1f}"  # noqa: PLR2004 - as above
