"""Pages about nightly runs, i.e. executions of a suite, and the trends over them."""

from collections.abc import Sequence

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from results.index import RunQuery
from results.site.browsing import night_cards, shelf
from results.site.charts import Chart, Key, bars, line
from results.site.forms import filled
from results.site.matrix import TONE_WORDS, matrix_of
from results.site.pages import day, page
from results.site.series import VERDICTS, NightFigures, figures_of, most_frequent

nightly = Blueprint("nightly", __name__)
_ALL = 100_000
_NIGHTS, _KINDS = 60, 5


@nightly.get("/nights")
def nights() -> Response:
    """Return the page with all nightly runs, newest first."""
    return page("nights.html", nights=shelf().index().nights())


@nightly.get("/night/<suite>/<night>")
def night(suite: str, night: str) -> Response:
    """Return the page of one nightly run: the new failures, the matrix, and the runs."""
    index = shelf().index()
    found = index.night(suite, night)
    if found is None:
        raise NotFound(f"There is no night {night} of a suite {suite} in this store.")
    rows = index.runs(RunQuery(suite=suite, night=night, limit=_ALL))
    new, known = night_cards(index, [found])
    others = index.nights(suite)
    place = [each.night for each in others].index(night)
    return page(
        "night.html",
        night=found,
        rows=rows,
        matrix=matrix_of(rows),
        new=new,
        known=known,
        later=others[place - 1] if place else None,
        earlier=others[place + 1] if place + 1 < len(others) else None,
    )


@nightly.get("/trends")
def trends() -> Response:
    """Return the page with trends of verdicts, failures, recovery and throughput."""
    index = shelf().index()
    suites = index.facets().suites
    asked = filled(request.args).get("suite", "")
    suite = asked if asked in suites else (suites[0] if suites else "")
    told = figures_of(index.runs(RunQuery(suite=suite, limit=_ALL)))[-_NIGHTS:] if suite else []
    return page(
        "trends.html",
        suites=suites,
        suite=suite,
        figures=told,
        charts=_charts(told),
        tones=VERDICTS,
    )


def _charts(told: Sequence[NightFigures]) -> list[Chart]:
    names = [day(each.night) for each in told]
    kinds = most_frequent(told, at_most=_KINDS)
    return [
        bars(
            "Runs of each night by verdict, without reruns",
            names,
            [each.verdicts for each in told],
            keys=[Key(tone=tone, word=TONE_WORDS.get(tone, tone)) for tone in VERDICTS],
        ),
        bars(
            "Runs of each night with an anomaly, by the most serious anomaly, without reruns",
            names,
            [_by_kind(each, kinds) for each in told],
            keys=[
                *(Key(tone=f"c{place}", word=kind) for place, kind in enumerate(kinds)),
                Key(tone="unjudged", word="others"),
            ],
        ),
        line("Time to recover, median, s", names, [each.recover_s for each in told], unit="s"),
        line(
            "Operations that succeeded a second, median",
            names,
            [each.throughput for each in told],
            unit="a second",
        ),
    ]


def _by_kind(night: NightFigures, kinds: Sequence[str]) -> list[int]:
    heads = dict(night.heads)
    known = [heads.pop(kind, 0) for kind in kinds]
    return [*known, sum(heads.values())]
