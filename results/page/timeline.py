"""The time line of a run: phases, faults, leaders and availability on one axis of seconds.

All sizes are computed here in units of the drawing, so the template only prints them. If there are
hundreds of partitions, only some are drawn. Partitions with anomalies come first, and then the
partitions with the most leader changes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from results.record.clock import NS_PER_S
from results.record.milestones import Milestone
from results.record.verdict import Example, Verdict
from results.tables import RunTables
from results.wording.faults import FaultLine
from results.wording.headline import broker_name, ranked_anomalies
from results.wording.inert import shortened

WIDTH, LEFT, RIGHT = 1000, 118, 12
LANE, GAP = 20, 5
BROKER_COLOURS = 6
MAX_PARTITIONS = 24
MAX_BARS = MAX_MARKS = 400
_CHARACTER = 6.3
"""Width of a character in a bar's label. A label that does not fit is left out."""
_MAX_TITLE = 400
_TICKS = 12
_STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_PHASES = {
    "started": "start",
    "ready": "topics",
    "warmup": "warm-up",
    "main": "main: clients and faults",
    "main-ended": "healing",
    "healed": "recovery",
    "recovered": "recovered",
    "final-reads": "final reads",
    "noted": "stop",
}
_LAST = "stopped"

_Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A time span in a lane, in units of the drawing."""

    x: float
    width: float
    css: str
    label: str
    title: str
    y: float = 0
    height: float = LANE


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment in a lane."""

    x: float
    css: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One lane of the drawing."""

    name: str
    y: float
    height: float
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The drawing of the time line."""

    height: float
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]
    shades: tuple[tuple[float, float], ...]
    brokers: tuple[tuple[str, int], ...]
    hidden_partitions: int
    width: float = WIDTH
    left: float = LEFT
    right: float = WIDTH - RIGHT


@dataclass(slots=True)
class _Sheet:
    """The lanes of the drawing, added from top to bottom."""

    end_s: float
    y: float = GAP
    lanes: list[Lane] = field(default_factory=list)

    def x(self, second: float) -> float:
        share = min(max(second, 0.0), self.end_s) / self.end_s
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def bar(self, span: tuple[float, float], css: str, *, label: str = "", title: str) -> Bar:
        x, end = self.x(span[0]), self.x(span[1])
        return fitted(x=x, width=round(max(end - x, 1.0), 1), css=css, label=label, title=title)

    def add(
        self, name: str, bars: Sequence[Bar], *, marks: Sequence[Mark] = (), height: float = LANE
    ) -> None:
        lane = Lane(name=name, y=self.y, height=height, bars=tuple(bars), marks=tuple(marks))
        self.lanes.append(lane)
        self.y += height + GAP


def fitted(*, x: float, width: float, css: str, label: str, title: str) -> Bar:
    """Return a bar; if the label does not fit, the bar gets no label."""
    fits = len(label) * _CHARACTER <= width - 4
    shown = shortened(title, _MAX_TITLE)
    return Bar(x=x, width=width, css=css, label=label if fits else "", title=shown)


def timeline(
    tables: RunTables,
    *,
    milestones: Sequence[Milestone],
    faults: Sequence[FaultLine],
    verdict: Verdict | None,
    named: Callable[[str], str] = str,
) -> Timeline | None:
    """Compute the time line, or return None if the record contains no times.

    Args:
        tables: The run's tables.
        milestones: The run's milestones.
        faults: The run's faults.
        verdict: The run's verdict; None if the run was not judged.
        named: A function that replaces the ids of ops and messages in a sentence by short names.
    """
    leaders = tables.statistics("leaders").to_pylist()
    availability = tables.statistics("availability").to_pylist()
    end_s = _end_s(milestones, faults, leaders, availability)
    if end_s <= 0:
        return None
    sheet = _Sheet(end_s=end_s)
    _add_phases(sheet, milestones)
    _add_faults(sheet, faults)
    hidden = _add_partitions(sheet, leaders, marks=_marks(sheet, tables, verdict, named))
    _add_availability(sheet, availability)
    brokers = sorted({row["leader"] for row in leaders if (row["leader"] or -1) >= 0})
    return Timeline(
        height=sheet.y + 22,
        lanes=tuple(sheet.lanes),
        ticks=tuple(_ticks(sheet)),
        shades=tuple(_shades(sheet, faults)),
        brokers=tuple((broker_name(each), each % BROKER_COLOURS) for each in brokers),
        hidden_partitions=hidden,
    )


def _end_s(
    milestones: Sequence[Milestone],
    faults: Sequence[FaultLine],
    leaders: Sequence[Mapping[str, Any]],
    availability: Sequence[Mapping[str, Any]],
) -> float:
    shown = [each.at_ns / NS_PER_S for each in milestones if each.name in {*_PHASES, _LAST}]
    ends = [each.healed_s or each.confirmed_s or each.requested_s for each in faults]
    ends += [row["second"] + 1.0 for row in availability if row["second"] is not None]
    ends += [time_ns / NS_PER_S for row in leaders if (time_ns := row["to_ns"] or row["from_ns"])]
    return max([*shown, *ends], default=0)


def _add_phases(sheet: _Sheet, milestones: Sequence[Milestone]) -> None:
    bars = []
    for number, each in enumerate(milestones):
        if each.name not in _PHASES:
            continue
        after = milestones[number + 1 : number + 2]
        span = each.at_ns / NS_PER_S, after[0].at_ns / NS_PER_S if after else sheet.end_s
        label = _PHASES[each.name]
        css = "phase main" if each.name == "main" else "phase"
        bars.append(sheet.bar(span, css, label=label, title=f"{label}: {_span(span)}"))
    if bars:
        sheet.add("phases", bars)


def _add_faults(sheet: _Sheet, faults: Sequence[FaultLine]) -> None:
    lanes: dict[str, list[FaultLine]] = defaultdict(list)
    for fault in faults:
        # Two overlapping faults of one kind get separate lanes.
        number, name = 1, fault.kind
        while lanes[name] and (lanes[name][-1].healed_s or sheet.end_s) > fault.requested_s:
            number += 1
            name = f"{fault.kind} {number}"
        lanes[name].append(fault)
    for name, line in sorted(lanes.items()):
        if line:
            bars = [bar for fault in line[:MAX_BARS] for bar in _fault_bars(sheet, fault)]
            sheet.add(name, bars)


def _fault_bars(sheet: _Sheet, fault: FaultLine) -> list[Bar]:
    title = (
        f"fault {fault.fault_id}: {fault.kind} of {fault.nodes} ({fault.target}); {fault.effect}"
    )
    healed_s = sheet.end_s if fault.healed_s is None else fault.healed_s
    if fault.confirmed_s is None:
        return [sheet.bar((fault.requested_s, healed_s), "fault unconfirmed", title=title)]
    asked = sheet.bar((fault.requested_s, fault.confirmed_s), "fault asked", title=title)
    over_s = healed_s if fault.over_s is None else fault.over_s
    held = sheet.bar((fault.confirmed_s, over_s), "fault", label=fault.nodes, title=title)
    ending = sheet.bar((over_s, healed_s), "fault asked", title=f"{title}; its heal had begun")
    return [asked, held, *([ending] if over_s < healed_s else [])]


def _add_partitions(
    sheet: _Sheet, leaders: Sequence[Mapping[str, Any]], *, marks: Mapping[_Place, list[Mark]]
) -> int:
    lanes: dict[_Place, list[Mapping[str, Any]]] = defaultdict(list)
    for row in leaders:
        if row["from_ns"] is not None:
            lanes[str(row["topic"]), row["partition"] or 0].append(row)
    ranked = sorted(lanes, key=lambda place: (place not in marks, -len(lanes[place]), place))
    for place in sorted(ranked[:MAX_PARTITIONS]):
        rows = sorted(lanes[place], key=lambda row: (row["from_ns"], row["leader_epoch"] or 0))
        bars = [_leader_bar(sheet, row) for row in rows[:MAX_BARS]]
        sheet.add(f"{place[0]}-{place[1]}", bars, marks=marks.get(place, []))
    return max(0, len(ranked) - MAX_PARTITIONS)


def _leader_bar(sheet: _Sheet, row: Mapping[str, Any]) -> Bar:
    to_ns = row["to_ns"]
    span = row["from_ns"] / NS_PER_S, sheet.end_s if to_ns is None else to_ns / NS_PER_S
    leader, epoch = row["leader"], row["leader_epoch"]
    if leader is None or leader < 0:
        return sheet.bar(span, "leaderless", title=f"no leader, epoch {epoch}: {_span(span)}")
    title = f"{broker_name(leader)} leads in epoch {epoch}: {_span(span)}"
    long = sheet.bar(span, f"broker b{leader % BROKER_COLOURS}", label=f"e{epoch}", title=title)
    full = f"broker {leader}, epoch {epoch}"
    if len(full) * _CHARACTER <= long.width - 4:
        return Bar(x=long.x, width=long.width, css=long.css, label=full, title=title)
    return long


def _marks(
    sheet: _Sheet, tables: RunTables, verdict: Verdict | None, named: Callable[[str], str]
) -> dict[_Place, list[Mark]]:
    marks: dict[_Place, list[Mark]] = defaultdict(list)
    for row in tables.record("truncations").to_pylist():
        place = str(row["topic"]), row["partition"] or 0
        if row["observed_ns"] is not None and place[0][:2] != "__":
            what = f"{row['node']} truncated its log at offset {row['from_offset']}"
            title = f"{what}: {row['reason']}" if row["reason"] else what
            x = sheet.x(row["observed_ns"] / NS_PER_S)
            marks[place].append(Mark(x=x, css="truncated", title=shortened(title, _MAX_TITLE)))
    for name, example in _examples(verdict):
        time_ns = _time_ns(example)
        if time_ns is not None and example.topic:
            title = shortened(f"{name}: {named(example.sentence)}", _MAX_TITLE)
            mark = Mark(x=sheet.x(time_ns / NS_PER_S), css="anomaly", title=title)
            marks[example.topic, example.partition].append(mark)
    for mine in marks.values():
        mine.sort(key=lambda each: each.css != "anomaly")
        del mine[MAX_MARKS:]
    return marks


def _examples(verdict: Verdict | None) -> Iterable[tuple[str, Example]]:
    if verdict is not None:
        for name, summary in ranked_anomalies(verdict):
            yield from ((name, example) for example in summary.examples)


def _time_ns(example: Example) -> int | None:
    for key in ("acknowledged_ns", "complete_ns", "observed_ns", "time_ns"):
        if isinstance(value := example.evidence.get(key), int):
            return value
    return None


def _add_availability(sheet: _Sheet, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add, for each time step, a bar whose height is the share of successful attempts."""
    tried: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    step = max(1, round(sheet.end_s / MAX_BARS))
    for row in rows:
        sums = tried[(row["second"] or 0) // step * step]
        sums[0] += row["attempted"] or 0
        sums[1] += row["ok"] or 0
    bars = []
    for second, (attempted, ok) in sorted(tried.items()):
        if attempted:
            share = min(1.0, ok / attempted)  # A send may succeed in a later second.
            title = f"second {second}: {attempted:,} sends were under way, {ok:,} succeeded"
            bars += _share_bars(sheet, (second, second + step), share=share, title=title)
    if bars:
        sheet.add("succeeded", bars, height=2 * LANE)


def _share_bars(sheet: _Sheet, span: tuple[float, float], *, share: float, title: str) -> list[Bar]:
    base = sheet.bar(span, "succeeded", title=title)
    good = round(2 * LANE * share, 1)
    bad = round(2 * LANE - good, 1)
    parts = (("succeeded", bad, good), ("not-succeeded", 0.0, bad))
    return [
        Bar(x=base.x, width=base.width, css=css, label="", title=title, y=y, height=height)
        for css, y, height in parts
        if height > 0
    ]


def _ticks(sheet: _Sheet) -> Iterable[tuple[float, str]]:
    wanted = sheet.end_s / _TICKS
    step = next((each for each in _STEPS_S if each >= wanted), max(int(wanted), _STEPS_S[-1]))
    for second in range(0, int(sheet.end_s) + 1, step):
        yield sheet.x(second), f"{second} s"


def _shades(sheet: _Sheet, faults: Sequence[FaultLine]) -> Iterable[tuple[float, float]]:
    for fault in faults[:MAX_BARS]:
        if fault.confirmed_s is not None:
            healed_s = sheet.end_s if fault.healed_s is None else fault.healed_s
            x = sheet.x(fault.confirmed_s)
            yield x, round(sheet.x(healed_s) - x, 1)


def _span(span: tuple[float, float]) -> str:
    return f"{span[0]:.1f} s to {span[1]:.1f} s"
