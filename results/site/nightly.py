"""Nights, and what changes from one to the next."""

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from results.index import RunQuery
from results.site.browsing import night_cards, shelf
from results.site.charts import bars, line
from results.site.forms import filled
from results.site.matrix import matrix_of
from results.site.pages import day, page
from results.site.series import VERDICTS, figures_of

nightly = Blueprint("nightly", __name__)
_ALL = 100_000
_NIGHTS = 60


@nightly.get("/nights")
def nights() -> Response:
    """All nights, newest first."""
    return page("nights.html", nights=shelf().index().nights())


@nightly.get("/night/<suite>/<night>")
def night(suite: str, night: str) -> Response:
    """One night: what is new, the matrix, and its runs."""
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
    """Verdicts, failures, recovery and throughput over the nights of a suite."""
    index = shelf().index()
    suites = index.facets().suites
    asked = filled(request.args).get("suite", "")
    suite = asked if asked in suites else (suites[0] if suites else "")
    told = figures_of(index.runs(RunQuery(suite=suite, limit=_ALL)))[-_NIGHTS:] if suite else []
    names = [day(each.night) for each in told]
    charts = [
        bars("Runs a night, by verdict", names, [each.verdicts for each in told], tones=VERDICTS),
        bars(
            "Runs a night with an anomaly that counts",
            names,
            [[sum(count for _, count in each.anomalies[:1])] for each in told],
            tones=("invalid",),
        ),
        line("Time to recover, median, s", names, [each.recover_s for each in told], unit="s"),
        line(
            "Operations that succeeded a second, median",
            names,
            [each.throughput for each in told],
            unit="a second",
        ),
    ]
    return page("trends.html", suites=suites, suite=suite, figures=told, charts=charts)
