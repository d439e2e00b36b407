"""The checks of replicas and leaders in plain Python on lists of dicts, without the kernels.

Each function takes the rows of one partition by table, and returns the anomalies.
"""

from collections import defaultdict
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def told(rows: Rows) -> list[Row]:
    """Return the leaders' answers that contain an epoch and a high watermark."""
    return [
        row for row in rows["leadership"]
        if row["source"] == "list-offsets"
        and row["leader"] is not None and row["leader"] >= 0
        and row["leader_epoch"] is not None and row["leader_epoch"] >= 0
        and row["high_watermark"] is not None and row["high_watermark"] >= 0
    ]  # fmt: skip


def logs(rows: Rows) -> dict[tuple[str, str], dict[int, Row]]:
    """Return the records of each log by (snapshot, node) and offset.

    A replica with a row in `replica_states` has a log, which may be empty.
    """
    found: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows["replica_states"]:
        if row["snapshot"] is not None and row["snapshot"] != "noted":
            found[row["snapshot"], row["node"]] = {}
    for row in rows["replica_records"]:
        found[row["snapshot"], row["node"]][row["offset"]] = row
    return dict(found)


def checkpoints(rows: Rows, clean: set[str]) -> dict[str, list[tuple[int, int]]]:
    return {
        row["node"]: sorted((line["epoch"], line["start_offset"]) for line in row["epochs"])
        for row in rows["replica_states"]
        if row["snapshot"] == "final" and row["epochs"] and row["node"] in clean
    }


def incomplete_leaders(rows: Rows, clean: set[str]) -> set[tuple[int, int, int]]:
    """Return incomplete leaders: (epoch, first offset, highest high watermark announced before)."""
    starts: dict[int, int] = {}
    for log in logs(rows).values():
        for offset, record in log.items():
            epoch = record["leader_epoch"]
            if epoch >= 0:
                starts[epoch] = min(starts.get(epoch, offset), offset)
    for lines in checkpoints(rows, clean).values():
        for epoch, start in lines:
            starts[epoch] = min(starts.get(epoch, start), start)
    found = set()
    for epoch, start in starts.items():
        marks = [row["high_watermark"] for row in told(rows) if row["leader_epoch"] < epoch]
        if marks and start < max(marks):
            found.add((epoch, start, max(marks)))
    return found


def marks_ahead(rows: Rows) -> dict[str, tuple[int, int]]:
    """Return, by node, high watermarks of its replica that are above a later leader's.

    Each node has its first such high watermark, and their number. The function is for KRaft. It
    does not cover high watermarks that a clean stop wrote.
    """
    epochs = [row["leader_epoch"] for row in rows["leadership"] + rows["replica_records"]]
    last = max((epoch for epoch in epochs if epoch is not None), default=-1)
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for mark in rows["replica_states"]:
        if mark["high_watermark_source"] != "fetch" or mark["high_watermark"] is None:
            continue
        since, node = mark["observed_ns"], mark["node"]
        believed = sorted(
            (row["asked_ns"], row["leader_epoch"], row["incarnation"])
            for row in rows["leadership"]
            if row["source"] == "metadata" and row["observer"] == node and row["asked_ns"] >= since
        )
        known = believed and believed[0][2] == mark["incarnation"]
        ceiling = believed[0][1] if known else last
        if any(
            row["leader_epoch"] >= ceiling
            and row["asked_ns"] >= since
            and row["high_watermark"] < mark["high_watermark"]
            for row in told(rows)
        ):
            found[node].append((since, mark["high_watermark"]))
    return {node: (min(marks)[1], len(marks)) for node, marks in found.items()}


def high_watermark_regressions(rows: Rows) -> dict[int | None, tuple[int, int]]:
    """Return, by the epoch of the lower answer, the deepest fall, and the number of low answers."""
    falls: dict[int, list[int]] = defaultdict(list)
    for later in told(rows):
        before = [
            row["high_watermark"]
            for row in told(rows)
            if row["leader_epoch"] < later["leader_epoch"] or _ended_before(row, later)
        ]
        fall = max(before, default=0) - later["high_watermark"]
        if fall > 0:
            falls[later["leader_epoch"]].append(fall)
    return {epoch: (max(each), len(each)) for epoch, each in falls.items()}


def short_targets(rows: Rows, asked_ns: int) -> dict[int | None, tuple[int, int]]:
    """Return the distance from an earlier high watermark down to the lowest end of final reads."""
    ends = [row["target_end"] for row in rows["final_reads"]]
    before = [row for row in told(rows) if -1 < (row["observed_ns"] or -1) <= asked_ns]
    highest = max((row["high_watermark"] for row in before), default=0)
    fall = highest - min(ends, default=highest)
    return {None: (fall, 1)} if fall > 0 else {}


def _ended_before(row: Row, later: Row) -> bool:
    if row["leader_epoch"] != later["leader_epoch"]:
        return False
    return row["observed_ns"] is not None and row["observed_ns"] < (later["asked_ns"] or -1)


def uncommitted_reads(rows: Rows, seen_within_ns: int) -> dict[int, int]:
    """Return, by offset, the number of polls that returned the record before its commit."""
    found: dict[int, int] = defaultdict(int)
    for poll in rows["polls"]:
        ended = poll["complete_ns"]
        if ended is None or poll["offset"] is None:
            continue
        answers = sorted(
            (row["asked_ns"], row["leader_epoch"], row["high_watermark"])
            for row in told(rows)
            if row["asked_ns"] is not None and row["asked_ns"] > ended
        )
        first = next(iter(answers), None)
        until = (first[0] if first else ended) + seen_within_ns
        epochs = [
            row["leader_epoch"] for row in rows["leadership"]
            if row["source"] in {"list-offsets", "metadata", "zookeeper"}
            and row["leader_epoch"] is not None
            and row["observed_ns"] is not None and row["observed_ns"] <= until
        ]  # fmt: skip
        newest = max([*epochs, poll["leader_epoch"] or 0], default=0)
        current = next((answer for answer in answers if answer[1] >= newest), None)
        if first and current and first[2] <= poll["offset"] and current[2] <= poll["offset"]:
            found[poll["offset"]] += 1
    return dict(found)


def epoch_regressions(
    rows: Rows, quorum_high_watermark: int, clean: set[str]
) -> set[tuple[str, str, int, int | None]]:
    """Return epochs that are too small: (source, node, epoch, offset of the first such record)."""
    found: set[tuple[str, str, int, int | None]] = set()
    for (_snapshot, node), log in logs(rows).items():
        highest = -1
        for offset in sorted(log):
            epoch = log[offset]["leader_epoch"]
            if 0 <= epoch < highest:
                found.add(("log", node, epoch, offset))
                break
            highest = max(highest, epoch)
    for node, lines in checkpoints(rows, clean).items():
        log = logs(rows).get(("final", node), {})
        outside = [
            (record["leader_epoch"], offset)
            for offset, record in log.items()
            if record["leader_epoch"] >= 0 and not _inside(record["leader_epoch"], offset, lines)
        ]
        for epoch in {epoch for epoch, _ in outside}:
            found.add(("checkpoint", node, epoch, min(at for e, at in outside if e == epoch)))
    return found | _told_regressions(rows) | _metadata_regressions(rows, quorum_high_watermark)


def _inside(epoch: int, offset: int, lines: list[tuple[int, int]]) -> bool:
    for at, (known, start) in enumerate(lines):
        if known == epoch:
            ends = lines[at + 1][1] if at + 1 < len(lines) else None
            return start <= offset and (ends is None or offset < ends)
    return False


def _told_regressions(rows: Rows) -> set[tuple[str, str, int, int | None]]:
    found: set[tuple[str, str, int, int | None]] = set()
    for source in ("metadata", "zookeeper"):
        lives: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows["leadership"]:
            if row["source"] == source and row["leader_epoch"] is not None:
                lives[row["observer"], row["incarnation"]].append(row)
        for (node, _), life in lives.items():
            fallen = [
                (row["asked_ns"], row["leader_epoch"])
                for row in life
                if any(
                    other["observed_ns"] < row["asked_ns"]
                    and other["leader_epoch"] > row["leader_epoch"]
                    for other in life
                )
            ]
            if fallen:
                found.add((source, node, min(fallen)[1], None))
    return found


def _metadata_regressions(rows: Rows, end: int) -> set[tuple[str, str, int, int | None]]:
    found: set[tuple[str, str, int, int | None]] = set()
    by_node: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows["leadership"]:
        if row["source"] == "metadata-log" and row["log_offset"] < end:
            by_node[row["observer"]].append((row["log_offset"], row["leader_epoch"]))
    for node, written in by_node.items():
        epochs = [epoch for _, epoch in sorted(written)]
        fallen = [epoch for at, epoch in enumerate(epochs) if any(e > epoch for e in epochs[:at])]
        if fallen:
            found.add(("metadata-log", node, fallen[0], None))
    return found


def committed_truncations(rows: Rows, steps: list[str]) -> dict[str, set[int]]:
    """Return, by node, the committed offsets that the node's log lost."""
    copies = logs(rows)
    asked = {
        step: max(
            (row["observed_ns"] for row in rows["replica_states"]
             if row["snapshot"] == step and row["observed_ns"] is not None),
            default=-1,
        )
        for step in steps
    }  # fmt: skip
    asked["final"] = 2**62
    order = [*steps, "final"]
    found: dict[str, set[int]] = defaultdict(set)
    for node in sorted({node for _, node in copies}):
        mine = [name for name in order if (name, node) in copies]
        for before, after in pairwise(mine):
            for offset, record in copies[before, node].items():
                gone = _content(copies[after, node].get(offset)) != _content(record)
                cut = any(
                    row["node"] == node and row["from_offset"] <= offset
                    and (row["to_offset"] is None or offset < row["to_offset"])
                    for row in rows["truncations"]
                )  # fmt: skip
                held = any(
                    _content(copies[name, leader].get(offset)) == _content(record)
                    for name, leader in _holders(rows, copies, asked, before=before, offset=offset)
                )
                if gone and cut and held:
                    found[node].add(offset)
        own = [row for row in told(rows) if f"n{row['leader']}" == node]
        for name in sorted({name for name, other in copies if other == node}):
            for offset, record in copies[name, node].items():
                if any(
                    row["leader_epoch"] < record["leader_epoch"] and row["high_watermark"] > offset
                    for row in own
                ):
                    found[node].add(offset)
        if ("final", node) in copies:
            end = max(copies["final", node], default=-1) + 1
            highest = max((row["high_watermark"] for row in own), default=0)
            found[node] |= set(range(end, highest))
    return {node: offsets for node, offsets in found.items() if offsets}


def _holders(
    rows: Rows,
    copies: dict[tuple[str, str], dict[int, Row]],
    asked: dict[str, int],
    *,
    before: str,
    offset: int,
) -> list[tuple[str, str]]:
    """Return copies of leaders that reported a high watermark above an offset.

    For each such report, this is the leader's first copy after the report.
    """
    found = []
    for row in told(rows):
        leader = f"n{row['leader']}"
        later = [
            name for name in asked
            if (name, leader) in copies and row["observed_ns"] <= asked[name]
        ]  # fmt: skip
        if row["high_watermark"] > offset and row["observed_ns"] <= asked[before] and later:
            found.append((later[0], leader))
    return found


def _content(record: Row | None) -> tuple[Any, ...] | None:
    names = ("leader_epoch", "record_hash", "control")
    return None if record is None else tuple(record[name] for name in names)
