"""Draw the period around the main anomaly, with faults, leader, ISR, replicas and clients.

All sizes are computed here in units of the drawing, so the template only prints them. Each log line
of a broker has a mark, which links to the line on the page.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from results.page.broker_logs import LogLine
from results.page.case import Case, Look, Row
from results.page.timeline import BROKER_COLOURS, Bar, fitted
from results.record.clock import NS_PER_S
from results.wording.faults import FaultLine
from results.wording.headline import broker_name
from results.wording.plural import many

WIDTH, LEFT, RIGHT = 1000, 118, 12
LANE, CHART, GAP = 20, 54, 6
MAX_FAULT_LANES = 10
MAX_REPLICAS = 9
MAX_BARS = 80
MAX_POINTS = 250
_SILENT_S = 4.0
"""If a replica is not observed for this many seconds, its line is interrupted, because the state of
the replica is unknown."""
_TICKS = 10
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A mark in the drawing: the time of a broker's log line, with a link to the line."""

    x: float
    anchor: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A replica's log end and high watermark over time, as SVG paths; empty if never observed."""

    end: str
    high_watermark: str
    offset_y: float | None
    top: str
    bottom: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One lane of the drawing."""

    name: str
    y: float
    height: float
    bars: tuple[Bar, ...] = ()
    links: tuple[Link, ...] = ()
    chart: Chart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseUp:
    """The drawing of the period around the main anomaly.

    Attributes:
        moment: Position of the main anomaly on the time axis. None if the anomaly has no time.
        left_out: Sentences about lanes and marks that did not fit.
    """

    height: float
    strips: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    shades: tuple[tuple[float, float], ...]
    moment: float | None
    left_out: tuple[str, ...]
    window: tuple[float, float]
    width: float = WIDTH
    left: float = LEFT
    right: float = WIDTH - RIGHT


@dataclass(slots=True)
class _Sheet:
    """The lanes of the drawing, added from top to bottom."""

    window: tuple[float, float]
    y: float = GAP
    strips: list[Strip] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def x(self, second: float) -> float:
        low, high = self.window
        share = (min(max(second, low), high) - low) / (high - low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def touches(self, first: float, last: float) -> bool:
        return first <= self.window[1] and last >= self.window[0]

    def bar(self, span: tuple[float, float], css: str, *, label: str = "", title: str) -> Bar:
        x, end = self.x(span[0]), self.x(span[1])
        return fitted(x=x, width=round(max(end - x, 2.0), 1), css=css, label=label, title=title)

    def add(
        self,
        name: str,
        *,
        bars: Sequence[Bar] = (),
        links: Sequence[Link] = (),
        chart: Chart | None = None,
    ) -> None:
        height = CHART if chart else LANE
        self.strips.append(
            Strip(
                name=name, y=self.y, height=height, bars=tuple(bars), links=tuple(links),
                chart=chart,
            )
        )  # fmt: skip
        self.y += height + GAP


def close_up(
    case: Case,
    *,
    window: tuple[float, float],
    faults: Sequence[FaultLine],
    lines: Sequence[LogLine] = (),
    named: Callable[[str], str] = str,
) -> CloseUp:
    """Compute the drawing of the period around the main anomaly.

    Args:
        case: The record's facts about the main anomaly.
        window: (from, to) in seconds since the run's start.
        faults: The run's faults.
        lines: Lines of brokers' logs, with their anchors.
        named: A function that returns the short name of a message by its number (value).
    """
    sheet = _Sheet(window=window)
    near = [each for each in faults if sheet.touches(each.requested_s, _end(each, sheet))]
    _add_faults(sheet, near)
    _add_leaders(sheet, case)
    _add_isr(sheet, case)
    _add_replicas(sheet, case)
    _add_ops(sheet, "sent", case.sends, named)
    _add_ops(sheet, "read", case.polls, named)
    _add_lines(sheet, lines)
    moment = _moment(case)
    return CloseUp(
        height=sheet.y + 22,
        strips=tuple(sheet.strips),
        ticks=tuple(_ticks(sheet)),
        shades=tuple(_shades(sheet, near)),
        moment=None if moment is None else sheet.x(moment),
        left_out=tuple(sheet.left_out),
        window=window,
    )


def _end(fault: FaultLine, sheet: _Sheet) -> float:
    return sheet.window[1] if fault.healed_s is None else fault.healed_s


def _moment(case: Case) -> float | None:
    for key in ("acknowledged_ns", "completed_ns", "announced_observed_ns", "from_ns", "seen_ns"):
        if isinstance(at_ns := case.example.evidence.get(key), int):
            return at_ns / NS_PER_S
    return None


def _add_faults(sheet: _Sheet, faults: Sequence[FaultLine]) -> None:
    lanes: dict[tuple[str, int], list[FaultLine]] = {}
    for fault in faults:
        number = 1  # Overlapping faults of one kind have separate lanes.
        while (fault.kind, number) in lanes and (
            _end(lanes[fault.kind, number][-1], sheet) > fault.requested_s
        ):
            number += 1
        lanes.setdefault((fault.kind, number), []).append(fault)
    for (kind, _), mine in list(lanes.items())[:MAX_FAULT_LANES]:
        sheet.add(kind, bars=[bar for each in mine[:MAX_BARS] for bar in _fault_bars(sheet, each)])
    if hidden := sum(len(mine) for mine in list(lanes.values())[MAX_FAULT_LANES:]):
        are = f"{many(hidden, 'more fault')} of that time {'is' if hidden == 1 else 'are'}"
        sheet.left_out.append(f"{are} in the table of faults")


def _fault_bars(sheet: _Sheet, fault: FaultLine) -> list[Bar]:
    title = f"fault {fault.fault_id}: {fault.kind} of {fault.nodes}; {fault.effect}"
    healed = _end(fault, sheet)
    if fault.confirmed_s is None:
        return [sheet.bar((fault.requested_s, healed), "fault unconfirmed", title=title)]
    bars = []
    if fault.confirmed_s >= sheet.window[0]:
        bars.append(sheet.bar((fault.requested_s, fault.confirmed_s), "fault asked", title=title))
    over = healed if fault.over_s is None else fault.over_s
    bars.append(sheet.bar((fault.confirmed_s, over), "fault", label=fault.nodes, title=title))
    if sheet.window[0] <= over < healed:
        bars.append(sheet.bar((over, healed), "fault asked", title=f"{title}; its heal had begun"))
    return bars


def _add_leaders(sheet: _Sheet, case: Case) -> None:
    bars: list[Bar] = []
    for reign in case.reigns:
        span = reign.from_ns / NS_PER_S, reign.to_ns / NS_PER_S
        if not sheet.touches(*span) or len(bars) >= MAX_BARS:
            continue
        if reign.leader < 0:
            title = f"no leader, epoch {reign.epoch}"
            bars.append(sheet.bar(span, "leaderless", title=title))
            continue
        css = f"broker b{reign.leader % BROKER_COLOURS}"
        epoch = "" if reign.epoch is None else f" e{reign.epoch}"
        title = f"{broker_name(reign.leader)} leads in epoch {reign.epoch}, as observed"
        bars.append(sheet.bar(span, css, label=f"n{reign.leader}{epoch}", title=title))
    if bars:
        sheet.add("leader, epoch", bars=bars)


def _add_isr(sheet: _Sheet, case: Case) -> None:
    ends = [*(at_ns for at_ns, _ in case.isr[1:]), int(sheet.window[1] * NS_PER_S)]
    bars: list[Bar] = []
    for (at_ns, isr), end_ns in zip(case.isr, ends, strict=False):
        span = at_ns / NS_PER_S, end_ns / NS_PER_S
        if sheet.touches(*span) and len(bars) < MAX_BARS:
            who = ", ".join(f"n{each}" for each in isr) or "empty"
            title = f"the ISR is {who}, by the metadata from {span[0]:.3f} s on"
            bars.append(sheet.bar(span, f"isr i{min(len(isr), 3)}", label=who, title=title))
    if bars:
        sheet.add("ISR", bars=bars)


def _add_replicas(sheet: _Sheet, case: Case) -> None:
    seen = {
        node: [each for each in looks if sheet.touches(*(2 * (each.at_ns / NS_PER_S,)))]
        for node, looks in case.looks.items()
    }
    shown = {node: looks for node, looks in list(seen.items())[:MAX_REPLICAS] if looks}
    ends = [each.end for looks in shown.values() for each in looks]
    ends += [case.offset, case.offset + 1] if case.offset >= 0 and ends else []
    for node, looks in shown.items():
        chart = _chart(sheet, looks, case.offset, span=(min(ends), max(ends)))
        sheet.add(f"log of {node}", chart=chart)


def _chart(sheet: _Sheet, looks: Sequence[Look], offset: int, *, span: tuple[int, int]) -> Chart:
    low, high = span
    top, bottom = sheet.y + 4, sheet.y + CHART - 4
    scale = (bottom - top) / max(1, high - low)

    def y(value: int) -> float:
        return round(bottom - (min(max(value, low), high) - low) * scale, 1)

    ends = [(each.at_ns / NS_PER_S, y(each.end)) for each in looks]
    marks = [
        (each.at_ns / NS_PER_S, y(each.high_watermark))
        for each in looks
        if each.high_watermark is not None and each.high_watermark >= 0
    ]
    return Chart(
        end=_path(sheet, ends),
        high_watermark=_path(sheet, marks),
        offset_y=y(offset) if offset >= 0 else None,
        top=f"{high:,}",
        bottom=f"{low:,}",
    )


def _path(sheet: _Sheet, points: Sequence[tuple[float, float]]) -> str:
    """Return an SVG path with a step at each observation, and gaps between distant observations."""
    parts: list[str] = []
    before_s = None
    for at_s, y in _thinned(points):
        x = sheet.x(at_s)
        silent = before_s is not None and at_s - before_s > _SILENT_S
        if before_s is None:
            parts.append(f"M{x} {y}")
        elif silent:
            parts.append(f"h3M{x} {y}")
        else:
            parts.append(f"H{x}V{y}")
        before_s = at_s
    return "".join(parts) + ("h3" if parts else "")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return fewer points: the last of each time slot, and every point before a truncation."""
    if len(points) <= MAX_POINTS:
        return list(points)
    step = (points[-1][0] - points[0][0]) / MAX_POINTS or 1.0
    kept = []
    for one, two in pairwise(points):
        # A larger y is a lower offset, i.e. a truncation, which must stay in the drawing.
        if int(one[0] / step) != int(two[0] / step) or two[1] > one[1]:
            kept.append(one)
    return [*kept[-2 * MAX_POINTS :], points[-1]]


def _add_ops(sheet: _Sheet, name: str, rows: Sequence[Row], named: Callable[[str], str]) -> None:
    bars = []
    inside = 0
    for row in rows:
        begun = row["invoke_ns"]
        ended = begun if row["complete_ns"] is None else row["complete_ns"]
        if begun is None or not sheet.touches(begun / NS_PER_S, ended / NS_PER_S):
            continue
        inside += 1
        if inside <= MAX_BARS:
            title = (
                f"op {row['op_id']} of process {row['process']}: value {row['value']} at offset"
                f" {row['offset']}, {row['outcome']}"
            )
            span = begun / NS_PER_S, ended / NS_PER_S
            css = f"op {row['outcome'] if row['outcome'] in {'ok', 'fail', 'info'} else 'info'}"
            bars.append(sheet.bar(span, css, label=named(str(row["value"])), title=title))
    if bars:
        sheet.add(name, bars=bars)
    if inside > MAX_BARS:
        sheet.left_out.append(
            f"{many(inside - MAX_BARS, 'more operation')} that {name} the partition"
        )


def _add_lines(sheet: _Sheet, lines: Sequence[LogLine]) -> None:
    for node in sorted({each.node for each in lines}):
        links = [
            Link(
                x=sheet.x(each.at_s), anchor=each.anchor,
                title=f"{each.node} {each.file} at {each.at_s:.3f} s: {each.text[:160]}",
            )
            for each in lines
            if each.node == node and sheet.window[0] <= each.at_s <= sheet.window[1]
        ]  # fmt: skip
        sheet.add(f"{node} logged", links=links)


def _ticks(sheet: _Sheet) -> Iterable[tuple[float, str]]:
    low, high = sheet.window
    wanted = (high - low) / _TICKS
    step = next((each for each in _STEPS_S if each >= wanted), wanted)
    digits = 0 if step >= 1 else 1
    first = int(low / step) + (low % step > 0)
    for number in range(first, int(high / step) + 1):
        yield sheet.x(number * step), f"{number * step:.{digits}f} s"


def _shades(sheet: _Sheet, faults: Iterable[FaultLine]) -> Iterable[tuple[float, float]]:
    for fault in list(faults)[: 2 * MAX_BARS]:
        if fault.confirmed_s is not None:
            x = sheet.x(fault.confirmed_s)
            yield x, round(sheet.x(_end(fault, sheet)) - x, 1)
