"""The evidence for bugs of Kafka's log cleaner. `benchmarks.mechanisms` explains rules."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.node_logs import TIME, Logs, at_s, began_s, place_of
from checkers.facts import FINAL
from results.record.clock import NS_PER_S
from results.record.keys import ABORT_MARKER_KEY, key_number
from results.record.plan import load_plan, plan_from
from results.record.terms import Outcome, Phase
from results.record.verdict import Example


def removes_a_marker(example: Example, _logs: Logs) -> bool:
    """Return whether a cleaner removed the marker of a transaction that was read as committed."""
    removed = (
        r"its marker was written by .* read the record as committed.*: a cleaner removed the marker"
        r" and kept the record; the record at offset \d+ has the key of a commit marker"
    )
    return re.search(removed, example.cause) is not None


Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abort:
    """The last abort of a record's client before the record, in the same partition.

    Attributes:
        offset: The last aborted record.
        until: The client's next record. The marker of the abort is between both.
        ends: The client's next aborted record behind the lost record, or a very high offset. Behind
            it, another marker ends the effect of this abort.
        same_key: Committed records behind the abort's marker that have the key of such a marker.
        others: The client's committed values between `until` and `ends`.
    """

    offset: int
    until: int
    ends: int
    same_key: tuple[int, ...]
    others: frozenset[int]

    def is_kept_by(self, one: tuple[int, int]) -> bool:
        """Return whether a pass removed the abort's marker while it kept the abort itself.

        Args:
            one: The first offset of the pass, and the offset at which the pass ended.
        """
        first, end = one
        return first <= self.offset < end and any(each < end for each in self.same_key)

    def has_no_marker_in(self, log: Sequence[Row], producer: int) -> bool:
        """Return whether a log lacks the marker of the abort."""
        return not any(
            each["control"] and each["producer_id"] == producer
            and self.offset < each["offset"] < self.until
            for each in log
        )  # fmt: skip


def keeps_an_abort(example: Example, logs: Logs) -> bool:
    """Return whether a cleaner removed an abort's marker, but kept the abort in its index.

    The pass that removes aborted records must keep the marker of their abort. With the bug, the
    pass removes the marker, if a later record has the marker's key. Then nothing ends the abort. So
    the next pass takes the later records of the producer for aborted ones, and removes them. Before
    the next pass, readers that begin in front of the abort skip these records.

    At least one log must have the record. In the affected logs, the marker of the abort is missing.
    The rule is met in one of two cases:

    - Some logs lack the record, and have nothing at its offset and no truncation. There, the next
      pass went beyond the record, and none of the client's records is left up to its end or up to
      the client's next abort. In the logs with the record, the next pass did not go beyond it.
    - All logs have the record. The final read returned none of the client's records behind the
      abort, up to its next abort. The last pass of the last leader removed the marker.
    """
    abort, final = _abort_before(example, logs), logs.run.table("replica_records")
    if abort is None or not final.exists():
        return False
    at_the_end = _of_partition(example) & (pc.field("snapshot") == FINAL)
    kept: dict[str, list[Row]] = {}
    for row in pq.read_table(final, filters=at_the_end).to_pylist():
        kept.setdefault(row["node"], []).append(row)
    own = [
        (node, row) for node, log in kept.items() for row in log
        if row["value"] == example.evidence.get("value")
    ]  # fmt: skip
    if not own:
        return False
    having, producer = {node for node, _ in own}, own[0][1]["producer_id"]
    passes = {node: _passes(logs, node, place_of(example)) for node in kept}
    if lacking := kept.keys() - having:
        next_ends = {node: _next_end(abort, mine) for node, mine in passes.items()}
        return all(next_ends[node] <= example.offset for node in having) and all(
            next_ends[node] > example.offset
            and abort.has_no_marker_in(kept[node], producer)
            and not _left(kept[node], producer, abort, end=next_ends[node], offset=example.offset)
            and not _cuts(example, logs, node)
            for node in lacking
        )
    leader = f"n{example.evidence.get('final_leader')}"
    return (
        bool(example.evidence.get("missing_from_final_read"))
        and bool(passes.get(leader))
        and abort.is_kept_by(passes[leader][-1])
        and abort.has_no_marker_in(kept[leader], producer)
        and not _read_at_last(example, logs) & abort.others
    )


def _next_end(abort: _Abort, passes: Sequence[tuple[int, int]]) -> int:
    """Return where the pass ended that followed the removal of the abort's marker; -1 if none."""
    ends = (following[1] for one, following in pairwise(passes) if abort.is_kept_by(one))
    return max(ends, default=-1)


def _left(log: Sequence[Row], producer: int, abort: _Abort, *, end: int, offset: int) -> bool:
    """Return whether a log has a record that the effect of an abort would have removed.

    Another record at the lost record's offset counts, too.
    """
    return any(
        each["offset"] == offset
        or (
            not each["control"] and each["producer_id"] == producer
            and abort.offset < each["offset"] < min(end, abort.ends)
        )
        for each in log
    )  # fmt: skip


def _cuts(example: Example, logs: Logs, node: str) -> bool:
    """Return whether a broker truncated its log at the record's offset or before it."""
    table = logs.run.table("truncations")
    rows = (
        pq.read_table(table, filters=_of_partition(example)).to_pylist() if table.exists() else ()
    )
    return any(each["node"] == node and each["from_offset"] <= example.offset for each in rows)


def _read_at_last(example: Example, logs: Logs) -> set[int]:
    """Return the values of the partition that final reads returned."""
    finally_read = _of_partition(example) & (pc.field("phase") == Phase.FINAL.value)
    rows = pq.read_table(logs.run.table("polls"), columns=["value"], filters=finally_read)
    return {each for each in rows["value"].to_pylist() if each is not None}


def _abort_before(example: Example, logs: Logs) -> _Abort | None:
    """Return the last abort before a record of a transaction.

    The result is None if there is none, or if another abort may have come in between: the outcome
    of one of the client's sends is unknown, or the record has no offset for an aborted send.
    """
    table, reads, plan = logs.run.table("sends"), logs.run.table("polls"), logs.run.plan
    keys = plan_from(load_plan(plan)).keys if plan.exists() else 0
    if not keys or not table.exists() or not reads.exists():
        return None
    here = _of_partition(example)
    sends = [each for each in pq.read_table(table, filters=here).to_pylist() if each["value"]]
    own = next((each for each in sends if each["value"] == example.evidence.get("value")), None)
    client = own["transactional_id"] if own else None
    if own is None or client is None:
        return None
    placed = {each["offset"]: each for each in sends if each["offset"] is not None}
    placed[example.offset] = own
    mine = sorted(at for at, each in placed.items() if each["transactional_id"] == client)
    failed = [at for at in mine if placed[at]["outcome"] == Outcome.FAIL.value]
    aborted = max((at for at in failed if at < example.offset), default=-1)
    if aborted < 0 or _may_abort_between(sends, client, placed[aborted], own):
        return None
    known = {*placed, *pq.read_table(reads, columns=["offset"], filters=here)["offset"].to_pylist()}
    until = min(at for at in mine if at > aborted)
    marker = max((at for at in range(aborted + 1, until) if at not in known), default=until)
    same_key = (
        at for at, each in placed.items()
        if at > marker and each["outcome"] == Outcome.OK.value
        and key_number(each["value"], keys) == ABORT_MARKER_KEY
    )  # fmt: skip
    ends = min((at for at in failed if at > example.offset), default=sys.maxsize)
    return _Abort(
        offset=aborted, until=until, ends=ends, same_key=tuple(sorted(same_key)),
        others=frozenset(placed[at]["value"] for at in mine if aborted < at < ends),
    )  # fmt: skip


def _may_abort_between(sends: Sequence[Row], client: str, aborted: Row, own: Row) -> bool:
    """Return whether a client may have aborted again between two of its sends."""
    return any(
        each["transactional_id"] == client
        and each["op_id"] not in {aborted["op_id"], own["op_id"]}
        and aborted["invoke_ns"] < each["invoke_ns"] < own["invoke_ns"]
        and each["outcome"] != Outcome.OK.value
        for each in sends
    )


def _of_partition(example: Example) -> pc.Expression:
    """Return a filter for the rows of an anomaly's partition."""
    return (pc.field("topic") == example.topic) & (pc.field("partition") == example.partition)


def _passes(logs: Logs, node: str, place: str) -> list[tuple[int, int]]:
    """Return, for each pass of a broker's cleaner over a log, its first offset and its end."""
    pattern = rf"cleaned log {re.escape(place)} \(dirty section = \[(\d+), (\d+)\]"
    return [(int(first), int(end)) for first, end in re.findall(pattern, logs.of(node))]


_CLEANED = re.compile(
    rf"^\[({TIME})\][^\n]*Swapping in cleaned segment [^\n]*/(?P<place>[^/\n]+), topic=[^\n]*"
    r"highWatermark=(?P<mark>\d+)(?:(?!Swapping in)[\s\S])*?"
    r"cleaned log (?P=place) \(dirty section = \[\d+, (?P<end>\d+)\]",
    re.MULTILINE,
)


def cleans_above_the_high_watermark(example: Example, logs: Logs) -> bool:
    """Return whether the leader that served a read had cleaned above its high watermark before."""
    mark, by, epoch, offset, read_ns = (
        example.evidence.get(name)
        for name in (
            "announced_high_watermark", "announced_by", "announced_epoch", "offset", "completed_ns",
        )
    )  # fmt: skip
    if not (isinstance(mark, int) and isinstance(offset, int) and isinstance(read_ns, int)):
        return False
    served = example.cause.startswith(f"n{by}, leader of epoch {epoch}, served the record")
    return served and any(
        each["place"] == place_of(example)
        and int(each["mark"]) == mark <= offset < int(each["end"])
        and at_s(each[1]) <= began_s(logs) + read_ns / NS_PER_S
        for each in _CLEANED.finditer(logs.of(f"n{by}"))
    )


_PARTLY = (
    r"^\[({time})\][^\n]*Building offset map for log {place} for \d+ segments in offset range"
    r" \[\d+, (\d+)\)(?:(?!Building offset map for log)[\s\S])*?"
    r"cleaned log {place} \(dirty section = \[\d+, (\d+)\]"
)


def cleans_a_part_of_a_segment(example: Example, logs: Logs) -> bool:
    """Return whether a broker cleaned a segment only in part, before a record was read from it.

    The offset map was full at an offset below the record, in the same segment. Records that may
    have come late, behind their marker, do not count (KAFKA-14402).
    """
    table, ops = logs.run.table("polls"), example.evidence.get("readers")
    if not isinstance(ops, list) or not table.exists() or "KAFKA-14402" in example.cause:
        return False
    columns = ["op_id", "complete_ns", "value"]
    reads = pq.read_table(table, columns=columns, filters=[("op_id", "in", ops)]).to_pylist()
    ended = [
        each["complete_ns"] for each in reads if each["value"] == example.evidence.get("value")
    ]
    if not ended or None in ended:
        return False
    until_s, offset = began_s(logs) + max(ended) / NS_PER_S, example.offset
    place = re.escape(place_of(example))
    for node in logs.brokers:
        text = logs.of(node)
        rolled = [
            int(each) for each in re.findall(
                rf"partition={place},[^\n]*Rolled new log segment at offset (\d+)", text
            )
        ]  # fmt: skip
        cleaned = re.finditer(_PARTLY.format(time=TIME, place=place), text, re.MULTILINE)
        for each in cleaned:
            full, end = int(each[3]), int(each[2])
            same_segment = not any(full < base <= offset for base in rolled)
            if full <= offset < end and same_segment and at_s(each[1]) <= until_s:
                return True
    return False
