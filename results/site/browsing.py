"""The site's front page, the list of runs, the failures, and the comparison of two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import NotFound

from results.index import Ending, Index, NightRow, RunQuery, RunRow, Seen
from results.record.atomic import StoreError
from results.record.plan import PlanError, load_plan
from results.record.transitions import TRANSITIONS
from results.record.verdict import Verdict
from results.repeats import Repeats
from results.site.comparing import (
    anomaly_pairs,
    figure_pairs,
    latency_pairs,
    plan_differences,
    shown,
)
from results.site.forms import filled, page_from, query_from
from results.site.matrix import LETTERS, workload_of
from results.site.pages import moment_of, page
from results.site.shelf import Shelf
from results.verdict_json import read_verdict

browsing = Blueprint("browsing", __name__)
_NEWEST_RUNS, _NEWEST_NIGHTS, _CARDS, _OCCURRENCES, _OFFERED = 12, 8, 12, 200, 12
_ALL = 100_000
_ONE_NIGHT = timedelta(hours=20)
_GRAVITY = {"safety": 0, "liveness": 1, "unknown": 2, "harness": 3}
"""The rank of each class of failures; the most serious class has the lowest rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A failure as a card on the front page.

    Attributes:
        seen: All runs and nightly runs that had the failure.
        row: The newest run with the failure.
        where: Workloads that had the failure.
        runs: Number of runs with the failure: in the nightly run if the card belongs to one,
            otherwise in the store.
        repeats: How often the failure recurred in reruns: in the suite's nightly runs up to this
            one, or in the whole store.
    """

    seen: Seen
    row: RunRow
    where: tuple[str, ...]
    runs: int
    repeats: Repeats


def shelf() -> Shelf:
    """Return the store object of the Flask application that handles this request."""
    found = current_app.extensions["shelf"]
    assert isinstance(found, Shelf)
    return found


@browsing.get("/")
def front() -> Response:
    """Return the front page: the last night's new failures, nightly runs, failures, and runs."""
    index = shelf().index()
    nights = index.nights()
    tonight = _last_night(nights)
    new, known = night_cards(index, tonight)
    old = {card.seen.key for card in (*new, *known)}
    others = [each for each in index.signatures() if each.key not in old][:_CARDS]
    elsewhere = [
        _card(seen, rows, runs=seen.times, repeats=seen.repeats)
        for seen in others
        if (rows := index.runs(RunQuery(signature=seen.key)))
    ]
    return page(
        "front.html",
        store=shelf().store.root,
        tonight=tonight,
        tone=min((each.tone for each in tonight), key=[*LETTERS].index, default=""),
        new=new,
        known=known,
        told=_as_told(index, tonight),
        others=sorted(elsewhere, key=_gravity),
        nights=nights[:_NEWEST_NIGHTS],
        running=index.runs(RunQuery(state="running", limit=_NEWEST_RUNS)),
        runs=index.runs(RunQuery(limit=_NEWEST_RUNS)),
        total=index.count(),
    )


def _as_told(index: Index, nights: Sequence[NightRow]) -> list[RunRow]:
    """Return the given nights' scripted runs that ended as expected; without nights, the newest."""
    if not nights:
        return list(index.runs(RunQuery(ending=Ending.AS_TOLD, limit=_CARDS)))
    asked = [RunQuery(ending=Ending.AS_TOLD, suite=each.suite, night=each.night) for each in nights]
    return [row for each in asked for row in index.runs(each)]


def _last_night(nights: Sequence[NightRow]) -> list[NightRow]:
    """Return each suite's newest nightly run, if it belongs to the most recent night."""
    newest: dict[str, NightRow] = {}
    for each in nights:
        newest.setdefault(each.suite, each)
    first = next(iter(newest.values()), None)
    return [each for each in newest.values() if first and _together(first.night, each.night)]


def _together(one: str, other: str) -> bool:
    """Return whether two suites ran in the same night, by the ids of their nightly runs.

    If less than a fixed time lies between the two starts, it was the same night.
    """
    moments = [moment_of(each) for each in (one, other)]
    if moments[0] is None or moments[1] is None:
        return one == other
    return abs(moments[0] - moments[1]) < _ONE_NIGHT


def night_cards(index: Index, nights: Sequence[NightRow]) -> tuple[list[Card], list[Card]]:
    """Return (new failures, failures seen before) of the given nightly runs."""
    new, known = list[Card](), list[Card]()
    all_new = {key for night in nights for key in night.new}
    for night in nights:
        rows = index.runs(RunQuery(suite=night.suite, night=night.night, limit=_ALL))
        for key in night.signatures:
            seen = index.seen(key)
            ours = [row for row in rows if row.signature == key]
            if seen is not None and ours:
                back = index.repeats(key, suite=night.suite, until=night.night)
                card = _card(seen, ours, runs=len(ours), repeats=back)
                if key in night.new:
                    new.append(card)
                elif key not in all_new:  # Otherwise it is new in another suite.
                    known.append(card)
    for cards in (new, known):
        cards.sort(key=lambda card: (_gravity(card), -card.runs))
    return new, known


def _gravity(card: Card) -> int:
    return _GRAVITY.get(card.row.verdict_class, len(_GRAVITY))


def _card(seen: Seen, rows: Sequence[RunRow], *, runs: int, repeats: Repeats) -> Card:
    planned = [row for row in rows if not row.repeats]
    return Card(
        seen=seen,
        row=(planned or list(rows))[0],
        where=tuple(sorted({workload_of(row) for row in rows})),
        runs=runs,
        repeats=repeats,
    )


@browsing.get("/runs")
def runs() -> Response:
    """Return the page with the list of runs, filtered by the request's query."""
    index, asked = shelf().index(), query_from(request.args)
    found = index.count(asked)
    return page(
        "runs.html",
        rows=index.runs(asked),
        total=found,
        facets=index.facets(),
        asked=filled(request.args),
        page=page_from(request.args),
        pages=max(1, -(-found // asked.limit)),
    )


@browsing.get("/failures")
def failures() -> Response:
    """Return the page with all failure signatures."""
    return page("failures.html", failures=shelf().index().signatures())


@browsing.get("/reached")
def reached() -> Response:
    """Return the page of transitions: reached transitions, and transitions never reached."""
    found = shelf().index().reaches()
    return page(
        "reached.html",
        reached=[each for each in found if each.times],
        never=[each for each in found if not each.times],
        sentences=TRANSITIONS,
    )


@browsing.get("/failure/<key>")
def failure(key: str) -> Response:
    """Return the page of one failure signature: its runs, and how often it recurs."""
    index = shelf().index()
    seen = index.seen(key)
    if seen is None:
        raise NotFound(f"No run in this store has the failure signature {key}.")
    rows = index.runs(RunQuery(signature=key, limit=_OCCURRENCES))
    return page("failure.html", seen=seen, rows=rows, rates=index.rates(key))


@browsing.get("/compare")
def compare() -> Response:
    """Return the page that compares two runs."""
    index = shelf().index()
    left = _named(index, request.args.get("left", ""))
    right = _named(index, request.args.get("right", ""))
    context: dict[str, object] = {
        "left": left,
        "right": right,
        "asked": {side: request.args.get(side, "")[:200] for side in ("left", "right")},
        "offered": _offered(index, left or right),
    }
    if left and right:
        verdicts = (_verdict(left), _verdict(right))
        context |= {
            "anomalies": shown(anomaly_pairs(*verdicts)),
            "plans": shown(plan_differences(_plan(left), _plan(right))),
            "figures": shown([*figure_pairs(left, right), *latency_pairs(*verdicts)]),
        }
    return page("compare.html", **context)


def _named(index: Index, run_id: str) -> RunRow | None:
    return index.run(run_id.replace("\0", "").strip()) if run_id else None


def _offered(index: Index, row: RunRow | None) -> tuple[RunRow, ...]:
    """Return runs that can be compared with a run; runs with the same settings are preferred."""
    if row is None:
        return index.runs(RunQuery(limit=_OFFERED))
    alike = RunQuery(setting=row.setting, limit=_OFFERED) if row.setting else RunQuery(limit=0)
    same_kind = RunQuery(workload=row.workload, scenario=row.scenario, limit=_OFFERED)
    for asked in (alike, same_kind, RunQuery(limit=_OFFERED)):
        if others := [each for each in index.runs(asked) if each.run_id != row.run_id]:
            return tuple(others)
    return ()


def _verdict(row: RunRow) -> Verdict | None:
    try:
        return read_verdict(shelf().file(row, "verdict.json"))
    except (NotFound, StoreError, RecursionError):
        return None


def _plan(row: RunRow) -> dict[str, object]:
    try:
        return load_plan(shelf().file(row, "plan.toml"))
    except (NotFound, PlanError):
        return {}
