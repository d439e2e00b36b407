"""Find when, and on which nodes, the log was truncated at or below the main anomaly's offset.

The evidence comes from observations of each log's end, and from lines in the brokers' own logs. If
a log ended at 25 and later at 24, it was truncated at 24 or lower, and may have grown again. Such
an observation is assigned to a recorded truncation only if no other recorded truncation fits.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from results.page.case import Case, Look, Row
from results.page.truncations import SAME_CUT_S, Line, Logged, with_nodes
from results.record.clock import NS_PER_S, seconds
from results.wording.faults import TAKERS, FaultLine

LATE_S = 2.0
"""At its recorded time, an observation may be this many seconds old: two request timeouts."""
LOSING = {*TAKERS, "reassignment"}
"""Fault kinds that remove the end of a log without a line in the broker's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A truncation that removed a record at the main anomaly's offset.

    Attributes:
        at_s: Seconds since the run's start; None if not known.
        node: The node with the truncated log.
        what: The truncation and its evidence, as text.
        cut: The log end offset after the truncation. None if only observations show the truncation.
        logged: Whether the time comes from the broker's own log. Otherwise the truncation happened
            before this time.
        another: Whether the truncation removed an earlier record at the offset instead of the main
            anomaly's message.
    """

    at_s: float | None
    node: str
    what: str
    cut: int | None = None
    logged: bool = False
    another: bool = False


_Drop = tuple[Look, Look]


def cuts_of(case: Case, faults: Sequence[FaultLine], logged: Logged) -> Iterator[Told]:
    """Yield the truncations that removed a record at the main anomaly's offset.

    Args:
        case: The record's facts about the main anomaly.
        faults: The run's faults.
        logged: The truncations that brokers' own logs report.
    """
    if case.offset < 0:
        return
    rows: dict[str, list[Row]] = {}
    for row in case.truncations:
        rows.setdefault(str(row["node"]), []).append(row)
    for node in dict.fromkeys([*case.looks, *rows]):
        drops = [
            (one, two)
            for one, two in pairwise(case.looks.get(node, ()))
            if one.end > case.offset and two.end < one.end
        ]
        mine = rows.get(node, [])
        if lines := _deeds(logged.get(node, ()), mine):
            told = _by_lines(node, mine, drops, lines, offset=case.offset)
        else:
            disk = [
                each for each in faults if each.kind in LOSING and node in each.nodes.split(", ")
            ]
            told = _by_looks(node, mine, drops, disk, offset=case.offset)
        since_s = begun_s(case)
        told = (each for each in told if each.at_s is None or each.at_s >= since_s)
        if _held_another(case, faults, node, mine):
            before = _before(case)
            told = (
                replace(
                    each,
                    another=True,
                    what=(
                        f"{each.what}; the truncation removed earlier records at that"
                        f" offset{before}"
                    ),
                )
                for each in told
            )
        yield from told


def _held_another(case: Case, faults: Sequence[FaultLine], node: str, rows: Sequence[Row]) -> bool:
    """Return whether a log's only truncation at the offset removed an earlier record.

    If so, the log already had a record at the offset before the main anomaly's first send. To
    receive and lose the anomaly's message at this offset, the log would need two truncations.
    """
    sent_ns = _sent_ns(case)
    before = [each.end for each in case.looks.get(node, ()) if each.at_ns <= sent_ns]
    hit = [
        row for row in rows
        if row["from_offset"] <= case.offset
        and (row["to_offset"] is None or row["to_offset"] > case.offset)
    ]  # fmt: skip
    taken = any(each.begun and each.kind in LOSING for each in faults)
    return len(hit) == 1 and before[-1:] > [case.offset] and not taken


def _sent_ns(case: Case) -> int:
    own = [row["invoke_ns"] for row in case.sends if row["value"] in case.values]
    return min((each for each in own if each is not None), default=-1)


def _before(case: Case) -> str:
    """Return a phrase with the value that was acknowledged at the same offset before the send.

    The phrase is "" if there is no such value, or more than one.
    """
    values = {
        row["value"] for row in case.sends
        if row["acked"] and row["offset"] == case.offset and row["value"] not in case.values
        and row["complete_ns"] is not None and row["complete_ns"] <= _sent_ns(case)
    }  # fmt: skip
    return f" (value {values.pop()})" if len(values) == 1 else ""


def begun_s(case: Case) -> float:
    """Return the start of the first send at the main anomaly's offset.

    Truncations before this time are not about the main anomaly.
    """
    own = [row for row in case.sends
           if row["value"] in case.values or row["offset"] == case.offset]  # fmt: skip
    begun = [row["invoke_ns"] for row in own if row["invoke_ns"] is not None]
    return min(begun, default=-NS_PER_S) / NS_PER_S


def _deeds(lines: Sequence[Line], rows: Sequence[Row]) -> list[Line]:
    """Return one log line for each recorded truncation. A broker may log it repeatedly."""
    known, told = {row["from_offset"] for row in rows}, list[Line]()
    for at_s, offset in sorted(lines):
        if offset in known and not any(
            offset == each[1] and at_s - each[0] <= SAME_CUT_S for each in told
        ):
            told.append((at_s, offset))
    return told


def _by_lines(
    node: str, rows: Sequence[Row], drops: Sequence[_Drop], lines: list[Line], *, offset: int
) -> Iterator[Told]:
    """Yield the truncations that a broker logged, and observed ones that are not in its log."""
    left = list(lines)
    for one, two in drops:
        mine = [each for each in left if _s(one) - LATE_S <= each[0] <= _s(two)]
        if not mine and two.end <= offset:
            yield _unexplained(node, one, two)
        elif len(mine) == 1 and mine[0][1] <= min(offset, two.end):
            ((at_s, cut),) = mine
            left.remove(mine[0])
            then = f"at {seconds(two.at_ns)}; the time is from its own log"
            what = f"{_words(cut, rows)}: {_seen(one, two, then)}"
            yield Told(at_s=at_s, node=node, what=what, cut=cut, logged=True)
    for at_s, cut in left:
        if cut <= offset:
            what = f"{_words(cut, rows)}, by its own log"
            yield Told(at_s=at_s, node=node, what=what, cut=cut, logged=True)
    yield from _untimed(node, _without(rows, [cut for _, cut in lines]), offset)


def _by_looks(
    node: str,
    rows: Sequence[Row],
    drops: Sequence[_Drop],
    disk: Sequence[FaultLine],
    *,
    offset: int,
) -> Iterator[Told]:
    """Yield the truncations that observations show, and the recorded ones without a known time."""
    kept = Counter(row["from_offset"] for row in rows)
    fitting = [{cut for cut in kept if cut <= two.end} for _, two in drops]
    wanted = Counter(cut for each in fitting for cut in each)
    for (one, two), cuts in zip(drops, fitting, strict=True):
        cut = min(cuts, default=-1)
        sure = len(cuts) == 1 and wanted[cut] <= kept[cut] and not _taken(disk, one, two)
        if sure and cut <= offset:
            what = f"{_words(cut, rows)}: {_seen(one, two, 'here')}"
            yield Told(at_s=_s(two), node=node, what=what, cut=cut)
            rows = _without(rows, [cut])
        elif two.end <= offset:
            yield _unexplained(node, one, two)
    yield from _untimed(node, rows, offset)


def _without(rows: Sequence[Row], cuts: Sequence[int]) -> list[Row]:
    """Remove one row for each given offset, and return the remaining rows."""
    gone, left = Counter(cuts), []
    for row in rows:
        if gone[row["from_offset"]] > 0:
            gone[row["from_offset"]] -= 1
        else:
            left.append(row)
    return left


def _taken(disk: Sequence[FaultLine], one: Look, two: Look) -> bool:
    """Return whether a disk fault may have removed the log's end between two observations."""
    return any(
        each.requested_s <= _s(two) and (each.healed_s is None or each.healed_s >= _s(one) - LATE_S)
        for each in disk
    )


def _untimed(node: str, rows: Sequence[Row], offset: int) -> Iterator[Told]:
    for row in rows:
        end = row["to_offset"]
        if row["from_offset"] <= offset and (end is None or end > offset):
            what = f"{_words(row['from_offset'], [row])}, by its own log"
            yield Told(at_s=None, node=node, what=what, cut=row["from_offset"])


def _unexplained(node: str, one: Look, two: Look) -> Told:
    return Told(
        at_s=_s(two),
        node=node,
        what=(f"lost the end of its log: {_seen(one, two, 'at this time')}"),
    )


def _seen(one: Look, two: Look, then: str) -> str:
    return f"its log end offset was {one.end} at {seconds(one.at_ns)}, then {two.end} {then}"


def _words(cut: int, rows: Sequence[Row]) -> str:
    """Return a truncation as text. Add the reason if all rows of this offset have the same one."""
    why = {row["reason"] for row in rows if row["from_offset"] == cut}
    reason = with_nodes(why.pop()) if len(why) == 1 else ""
    return f"truncated its log at offset {cut}" + (f" ({reason})" if reason else "")


def _s(look: Look) -> float:
    return look.at_ns / NS_PER_S
