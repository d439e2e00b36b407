"""The evidence for bugs of Kafka's log cleaner. `benchmarks.mechanisms` explains rules."""

import re
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.node_logs import TIME, Logs, at_s, began_s, place_of
from checkers.facts import FINAL
from results.record.clock import NS_PER_S
from results.record.keys import ABORT_MARKER_KEY, key_number
from results.record.plan import load_plan, plan_from
from results.record.terms import Outcome
from results.record.verdict import Example


def removes_a_marker(example: Example, _logs: Logs) -> bool:
    """Return whether a cleaner removed the marker of a transaction that was read as committed."""
    removed = (
        r"its marker was written by .* read the record as committed.*: a cleaner removed the marker"
        r" and kept the record; the record at offset \d+ has the key of a commit marker"
    )
    return re.search(removed, example.cause) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abort:
    """The last abort of a record's producer before the record, in the same partition.

    Attributes:
        offset: The last aborted record.
        same_key: Committed records behind the abort's marker that have the key of such a marker.
    """

    offset: int
    same_key: tuple[int, ...]

    def is_kept_by(self, one: tuple[int, int]) -> bool:
        """Return whether a pass removed the abort's marker while it kept the abort itself.

        Args:
            one: The first offset of the pass, and the offset at which the pass ended.
        """
        first, end = one
        return first <= self.offset < end and any(each < end for each in self.same_key)


def keeps_an_abort(example: Example, logs: Logs) -> bool:
    """Return whether a cleaner removed an abort's marker, but kept the abort in its index.

    The pass that removes aborted records must keep the marker of their abort. With the bug, the
    pass removes the marker, if a later record has the marker's key. Then nothing ends the abort. So
    the next pass takes the later records of the producer for aborted ones, and removes them. Before
    the next pass, readers skip these records. The rule is met in one of two cases:

    - Some logs lack the record. There, the next pass went beyond the record. In the logs with the
      record, the next pass did not.
    - All logs have the record. The final read skipped the record, and the last pass of the last
      leader was the one that removed the marker.
    """
    abort, final = _abort_before(example, logs), logs.run.table("replica_records")
    if abort is None or not final.exists():
        return False
    at_the_end = _of_partition(example) & (pc.field("snapshot") == FINAL)
    rows = pq.read_table(final, filters=at_the_end).to_pylist()
    nodes = {each["node"] for each in rows}
    having = {each["node"] for each in rows if each["value"] == example.evidence.get("value")}
    passes = {node: _passes(logs, node, place_of(example)) for node in nodes}
    if lacking := nodes - having:
        goes_beyond = {
            node for node, mine in passes.items()
            if any(abort.is_kept_by(one) and example.offset < following[1]
                   for one, following in pairwise(mine))
        }  # fmt: skip
        return goes_beyond == lacking
    last = passes.get(f"n{example.evidence.get('final_leader')}") or [(0, 0)]
    return bool(example.evidence.get("missing_from_final_read")) and abort.is_kept_by(last[-1])


def _abort_before(example: Example, logs: Logs) -> _Abort | None:
    """Return the last abort before a record of a transaction; None if there is none."""
    table, reads, plan = logs.run.table("sends"), logs.run.table("polls"), logs.run.plan
    keys = plan_from(load_plan(plan)).keys if plan.exists() else 0
    if not keys or not table.exists() or not reads.exists():
        return None
    here = _of_partition(example)
    sends = [each for each in pq.read_table(table, filters=here).to_pylist() if each["value"]]
    own = [each for each in sends if each["value"] == example.evidence.get("value")]
    placed = {each["offset"]: each for each in sends if each["offset"] is not None}
    client = own[0]["transactional_id"] if own else None
    mine = sorted(at for at, each in placed.items() if each["transactional_id"] == client)
    failed = [at for at in mine if placed[at]["outcome"] == Outcome.FAIL.value]
    before = [at for at in failed if at < example.offset]
    if client is None or not before:
        return None
    known = {*placed, *pq.read_table(reads, columns=["offset"], filters=here)["offset"].to_pylist()}
    aborted = before[-1]
    until = next(at for at in mine if at > aborted)
    marker = max((at for at in range(aborted + 1, until) if at not in known), default=until)
    same_key = (
        at for at, each in placed.items()
        if at > marker and each["outcome"] == Outcome.OK.value
        and key_number(each["value"], keys) == ABORT_MARKER_KEY
    )  # fmt: skip
    return _Abort(offset=aborted, same_key=tuple(sorted(same_key)))


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
