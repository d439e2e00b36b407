"""Render the site's pages with the template engine and the site's own filters."""

from datetime import UTC, datetime
from functools import cache

import jinja2
from flask import Response, url_for

from results.engine import new_engine, size_words
from results.index import RunRow
from results.repeats import RANGE
from results.site.matrix import LETTERS, TONE_WORDS, faults_of, workload_of
from results.wording.naming import interruption, without_verdict

_STAMP = "%Y%m%dT%H%M%SZ"
_MINUTE_S, _HOUR_S = 60, 3600


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
        "size": size_words,
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
    """Return the URL of a run's page; another endpoint gives, for example, its list of files."""
    run_id = row if isinstance(row, str) else row.run_id
    name, _, folder = run_id.partition("/")
    return url_for(endpoint, name=name, folder=folder)


def moment_of(stamp: str) -> datetime | None:
    """Return the time that a text such as `20261122T010000Z` means, or None for other texts."""
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
    """Return a duration as `42 s`, `3 min 5 s` or `2 h 10 min`; a dash for None."""
    if seconds is None:
        return "-"
    if seconds < 10:  # noqa: PLR2004 - one more digit where it tells something
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"


def number(value: float | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.1f}"  # noqa: PLR2004 - as above
