"""Faults and leaders as time spans in lanes. The page draws them above the operations."""

from collections.abc import Iterable
from dataclasses import dataclass

from results.record.clock import NS_PER_S
from results.tables import RunTables
from results.wording.faults import FaultLine, fault_lines
from results.wording.inert import inert

MOST_PARTITIONS = 32
"""Maximum number of partitions with a lane for their leaders. If there are more, only the
partitions with the most leader changes have lanes."""
_LONGEST = 400
_NOBODY = "no leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A fault or a period of leadership, with its duration.

    Attributes:
        lane: Index of the lane.
        start_s, end_s: Seconds since the run's start.
        sure_s: Time of the fault's confirmation; None if it was never confirmed.
        label: One or two words, which are drawn if there is enough space.
        broker: The leader; -1 if there is none, or for a fault.
        lines: All known facts, one line each.
    """

    lane: int
    start_s: float
    end_s: float
    sure_s: float | None
    label: str
    broker: int = -1
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Spans, and the names of their lanes from top to bottom."""

    lanes: tuple[str, ...]
    spans: tuple[Span, ...]
    left_out: int = 0


def fault_spans(tables: RunTables, end_s: float) -> Spans:
    """Return the faults of a run, with one or more lanes for each affected node.

    Args:
        tables: The run's tables.
        end_s: End of a fault that was never healed.
    """
    faults = fault_lines(tables)
    hit = [(node, fault) for fault in faults for node in fault.nodes.split(", ")]
    lanes: list[str] = []
    spans: list[Span] = []
    for node in sorted({node for node, _ in hit}, key=_by_number):
        mine = [_fault_span(fault, end_s) for name, fault in hit if name == node]
        rows = _rows(mine)
        spans += [_moved(span, len(lanes) + row) for span, row in zip(mine, rows, strict=True)]
        lanes += [inert(node), *[""] * max(rows)]
    return Spans(lanes=tuple(lanes), spans=tuple(spans))


def leader_spans(tables: RunTables) -> Spans:
    """Return the leader of each partition in each epoch, up to a maximum number of partitions."""
    rows = tables.statistics("leaders").to_pylist()
    by_place: dict[tuple[str, int], list[Span]] = {}
    for row in rows:
        place = (str(row["topic"]), int(row["partition"] or 0))
        by_place.setdefault(place, []).append(_leader_span(row, f"{place[0]}-{place[1]}"))
    often = sorted(by_place, key=lambda place: -len(by_place[place]))[:MOST_PARTITIONS]
    shown = sorted(often)
    spans = [_moved(span, lane) for lane, place in enumerate(shown) for span in by_place[place]]
    return Spans(
        lanes=tuple(inert(f"{topic}-{partition}") for topic, partition in shown),
        spans=tuple(spans),
        left_out=len(by_place) - len(shown),
    )


def _by_number(node: str) -> tuple[int, str]:
    digits = node.removeprefix("n")
    return (int(digits) if digits.isdecimal() else 1 << 30, node)


def _moved(span: Span, lane: int) -> Span:
    return Span(
        lane=lane,
        start_s=span.start_s,
        end_s=span.end_s,
        sure_s=span.sure_s,
        label=span.label,
        broker=span.broker,
        lines=span.lines,
    )


def _rows(spans: Iterable[Span]) -> list[int]:
    """Return a row for each span, so that spans in one row do not overlap."""
    ends: list[float] = []
    rows = []
    for span in spans:
        row = next((at for at, end_s in enumerate(ends) if end_s <= span.start_s), len(ends))
        ends[row : row + 1] = [span.end_s]
        rows.append(row)
    return rows


def _fault_span(fault: FaultLine, end_s: float) -> Span:
    healed = "never" if fault.healed_s is None else f"{fault.healed_s:.3f} s"
    confirmed = "never" if fault.confirmed_s is None else f"{fault.confirmed_s:.3f} s"
    lines = (
        f"fault {fault.fault_id}: {fault.kind}",
        f"planned for {fault.target}; hit {fault.nodes}",
        fault.roles,
        f"requested {fault.requested_s:.3f} s, confirmed {confirmed}, healed {healed}",
        fault.effect,
        fault.heal_effect,
    )
    return Span(
        lane=0,
        start_s=fault.requested_s,
        end_s=max(fault.requested_s, end_s if fault.healed_s is None else fault.healed_s),
        sure_s=fault.confirmed_s,
        label=inert(fault.kind),
        lines=tuple(_short(line) for line in lines if line),
    )


def _leader_span(row: dict[str, object], place: str) -> Span:
    leader, epoch = _int(row["leader"]), _int(row["leader_epoch"])
    start_s, end_s = _int(row["from_ns"]) / NS_PER_S, _int(row["to_ns"]) / NS_PER_S
    who = f"broker {leader}" if leader >= 0 else _NOBODY
    return Span(
        lane=0,
        start_s=start_s,
        end_s=end_s,
        sure_s=start_s,
        label=f"{leader} · epoch {epoch}" if leader >= 0 else _NOBODY,
        broker=leader,
        lines=(_short(f"{place}: {who} leads" if leader >= 0 else f"{place}: no broker leads"),
               f"leader epoch {epoch}", f"from {start_s:.3f} s to {end_s:.3f} s"),
    )  # fmt: skip


def _int(value: object) -> int:
    return value if isinstance(value, int) else -1


def _short(line: str) -> str:
    shown = inert(line)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
