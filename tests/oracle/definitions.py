"""The anomalies' definitions in plain Python on lists of dicts, without the checkers' kernels.

Tests compare the checkers with this code. It is slow, simple, and follows the definitions
literally. Each function takes the rows of one partition (or of a run) by table, and returns the
places with an anomaly.
"""

from collections import defaultdict
from itertools import combinations
from typing import Any

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def keeper_lost(rows: Rows) -> bool:
    """Return whether ZooKeeper's reports end more than ten seconds before the last report."""
    seen = [row for row in rows["leadership"] if row["observed_ns"] is not None]
    named = [row["observed_ns"] for row in seen if row["source"] == "zookeeper"]
    last_ns = max((row["observed_ns"] for row in seen), default=0)
    return bool(named) and last_ns - max(named) > 10_000_000_000


def leader_before_stop(rows: Rows) -> str | None:
    """Return the node that last claimed the highest leader epoch.

    If no node claimed to lead, return the leader that ZooKeeper named, if it was not lost.
    """
    for source in ("list-offsets", "zookeeper")[: 1 if keeper_lost(rows) else 2]:
        claims = [
            (row["leader_epoch"], row["observed_ns"], row["leader"])
            for row in rows["leadership"]
            if row["source"] == source
            and row["leader"] is not None
            and row["leader"] >= 0
            and row["leader_epoch"] is not None
            and row["leader_epoch"] >= 0
        ]
        if claims:
            return f"n{max(claims)[2]}"
    return None


def last_isr(rows: Rows) -> set[str]:
    if keeper_lost(rows):
        return set()
    for source in ("zookeeper", "metadata"):
        known = [
            (row["leader_epoch"] or 0, row["observed_ns"], row["isr"])
            for row in rows["leadership"]
            if row["source"] == source and row["isr"] is not None
        ]
        if known:
            return {f"n{broker}" for broker in max(known)[2]}
    return set()


def final_log(rows: Rows, node: str | None) -> dict[int, Row] | None:
    """Return a node's records in the final snapshot, by offset.

    The result is None if the node was not collected.
    """
    collected = {row["node"] for row in rows["replica_records"] if row["snapshot"] == "final"}
    collected |= {row["node"] for row in rows["replica_states"] if row["snapshot"] == "final"}
    if node not in collected:
        return None
    return {
        row["offset"]: row
        for row in rows["replica_records"]
        if row["snapshot"] == "final" and row["node"] == node
    }


def certainly_committed(rows: Rows) -> list[Row]:
    return [
        row for row in rows["sends"]
        if row["acked"] and row["acks"] != "0" and row["txn_id"] is None
    ]  # fmt: skip


def log_start(rows: Rows, node: str | None = None) -> int:
    """Return the start of a node's final log.

    Without a node, return the highest log start in any snapshot of any node.
    """
    stated = [
        row["log_start_offset"]
        for row in rows["replica_states"]
        if row["log_start_offset"] is not None
        and node in {None, row["node"] if row["snapshot"] == "final" else ""}
    ]
    leader = leader_before_stop(rows)
    log = final_log(rows, leader if node is None else node)
    return max(stated, default=min(log or {0: {}}))


def lost_writes(rows: Rows) -> set[int]:
    leader = leader_before_stop(rows)
    log = final_log(rows, leader)
    lost = set()
    for send in certainly_committed(rows):
        offset = send["offset"]
        start = log_start(rows, leader) if log is not None else 0
        retained = offset >= start if offset is not None else start == 0
        if log is not None and send["value"] not in {row["value"] for row in log.values()}:
            lost |= {send["value"]} if retained else set()
        for read in rows["final_reads"]:
            if not read["complete"]:
                continue
            returned = [
                row for row in rows["polls"]
                if row["phase"] == "final" and row["isolation"] == read["isolation"]
            ]  # fmt: skip
            highest = max((row["offset"] for row in returned), default=-1)
            passed = offset is not None and log_start(rows) <= offset < highest
            if passed and send["value"] not in {row["value"] for row in returned}:
                lost.add(send["value"])
    return lost


def unseen(rows: Rows) -> set[int]:
    if not rows["final_reads"] or not all(read["complete"] for read in rows["final_reads"]):
        return set()
    read = {row["value"] for row in rows["polls"]}
    sent = {send["value"] for send in certainly_committed(rows)}
    return sent - read - lost_writes(rows)


def incomplete_final_reads(rows: Rows) -> int:
    if not rows["final_reads"]:
        return 1
    return sum(not read["complete"] for read in rows["final_reads"])


def duplicates(rows: Rows) -> dict[int, list[int]]:
    at: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows["polls"]:
        at[row["value"]].add(row["offset"])
    for offset, row in (final_log(rows, leader_before_stop(rows)) or {}).items():
        at[row["value"]].add(offset)
    return {
        value: sorted(offsets)
        for value, offsets in at.items()
        if value is not None and len(offsets) > 1
    }


def inconsistent_offsets(rows: Rows) -> dict[int, list[int]]:
    at: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows["polls"]:
        at[row["offset"]].add(row["value"])
    for row in rows["sends"]:
        if row["acked"] and row["offset"] is not None:
            at[row["offset"]].add(row["value"])
    doubled = {offset: values - {None} for offset, values in at.items()}
    return {offset: sorted(values) for offset, values in doubled.items() if len(values) > 1}


def phantoms(rows: Rows, number: int, reservations: list[tuple[int, int]]) -> set[tuple[int, int]]:
    sent = {row["value"] for row in rows["sends"]}
    strange = set()
    for row in rows["polls"]:
        value = row["value"]
        announced = value is not None and (
            value in sent or any(start <= value < end for start, end in reservations)
        )
        if not announced or value // 2**32 != number:
            strange.add((row["offset"], value))
    return strange


def corrupt_records(
    rows: Rows, number: int, reservations: list[tuple[int, int]]
) -> dict[tuple[int | None, int], tuple[int, frozenset[str], int]]:
    """Return the corrupt records, by offset and value.

    Each has the bits of its damage, the nodes whose final logs have it, and the number of polls
    that returned it.
    """
    foreign = phantoms({**rows, "polls": rows["polls"] + rows["replica_records"]}, number,
                       reservations)  # fmt: skip
    found = {}
    finals = [row for row in rows["replica_records"] if row["snapshot"] == "final"]
    hurt = [row for row in rows["polls"] + finals if row["damage"]]
    for place in {(row["offset"], row["value"]) for row in hurt} - foreign:
        here = [row for row in hurt if (row["offset"], row["value"]) == place]
        bits = 0
        for row in here:
            bits |= row["damage"]
        nodes = frozenset(row["node"] for row in here if "node" in row)
        found[place] = (bits, nodes, sum("node" not in row for row in here))
    return found


def log_divergences(
    rows: Rows, *, recovered: bool
) -> set[tuple[str, str, frozenset[str], frozenset[int]]]:
    """Return differences between two nodes' logs: (node, node, snapshots, first offsets).

    In a step's snapshot, only offsets that both copies contain are compared.
    """
    logs: defaultdict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows["replica_records"]:
        logs[row["snapshot"], row["node"]][row["offset"]] = row
    states: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows["replica_states"]:
        if row["snapshot"] is not None:
            states[row["snapshot"], row["node"]].append(row)
    isr = last_isr(rows)
    looks: defaultdict[tuple[str, str], dict[str, set[int]]] = defaultdict(dict)
    for (snapshot, one), (other_snapshot, other) in combinations(sorted(states), 2):
        if snapshot != other_snapshot:
            continue
        a, b = states[snapshot, one], states[snapshot, other]
        bound = min(_claimed(a), _claimed(b))
        if snapshot == "final" and recovered and {one, other} <= isr:
            ends = [_largest(a, "log_end_offset"), _largest(b, "log_end_offset")]
            bound = max(bound, min(ends))
        if snapshot not in {"final", "crash"}:
            ends = [max(logs[snapshot, node], default=-1) + 1 for node in (one, other)]
            bound = min(bound, *ends)
        start = max(_largest(a, "log_start_offset"), _largest(b, "log_start_offset"))
        mine, others = logs[snapshot, one], logs[snapshot, other]
        differing = {
            offset
            for offset in range(start, bound)
            if _content(mine.get(offset)) != _content(others.get(offset))
        }
        if differing:
            looks[one, other][snapshot] = differing
    return {
        (one, other, together, frozenset(min(seen[name]) for name in together))
        for (one, other), seen in looks.items()
        for together in _connected(seen)
    }


def _connected(seen: dict[str, set[int]]) -> set[frozenset[str]]:
    """Return groups of snapshots; the differing offsets of each overlap with another one's."""
    together = {name: {name} for name in seen}
    for one, other in combinations(seen, 2):
        if seen[one] & seen[other]:
            union = together[one] | together[other]
            for name in union:
                together[name] = union
    return {frozenset(names) for names in together.values()}


def _claimed(states: list[Row]) -> int:
    """Return the high watermark that a broker reported, otherwise the one in its file."""
    said = [row for row in states if row["high_watermark_source"] == "fetch"]
    return _largest(
        [row for row in said if row["high_watermark"] is not None] or states, "high_watermark"
    )


def _largest(states: list[Row], name: str) -> int:
    return max((row[name] for row in states if row[name] is not None), default=-1)


def _content(record: Row | None) -> tuple[Any, ...] | None:
    names = ("leader_epoch", "record_hash", "control")
    return None if record is None else tuple(record[name] for name in names)


def two_leaders(rows: Rows, quorum_high_watermark: int) -> set[tuple[str, int, tuple[str, ...]]]:
    """Return epochs with two leaders: (source, epoch, nodes)."""
    found: set[tuple[str, int, tuple[str, ...]]] = set()
    for source in ("list-offsets", "metadata-log", "zookeeper"):
        by_epoch: defaultdict[int, set[int]] = defaultdict(set)
        for row in rows["leadership"]:
            if row["source"] != source:
                continue
            below = source != "metadata-log" or row["log_offset"] < quorum_high_watermark
            if row["leader"] >= 0 and row["leader_epoch"] is not None and below:
                by_epoch[row["leader_epoch"]].add(row["leader"])
        found |= {
            (source, epoch, tuple(f"n{leader}" for leader in sorted(leaders)))
            for epoch, leaders in by_epoch.items()
            if len(leaders) > 1
        }
    for one, other in combinations(rows["replica_records"], 2):
        keys = ("snapshot", "offset", "leader_epoch")
        same = all(one[key] == other[key] for key in keys) and one["leader_epoch"] >= 0
        if same and one["node"] != other["node"] and _content(one) != _content(other):
            nodes = tuple(sorted((one["node"], other["node"])))
            found.add(("replica-records", one["leader_epoch"], nodes))
    return found


def malformed_ops(ops: list[Row]) -> set[int]:
    flawed = set()
    for one in ops:
        if (
            sum(each["op_id"] == one["op_id"] for each in ops) > 1
            or one["invoke_ns"] is None
            or (one["complete_ns"] is not None and one["complete_ns"] < one["invoke_ns"])
        ):
            flawed.add(one["op_id"])
    by_process: defaultdict[int, list[Row]] = defaultdict(list)
    for op in ops:
        if op["process"] is not None and op["invoke_ns"] is not None:
            by_process[op["process"]].append(op)
    for mine in by_process.values():
        mine.sort(key=lambda op: (op["invoke_ns"], op["op_id"]))
        for at, op in enumerate(mine[1:], start=1):
            before = mine[at - 1]
            ended_late = before["complete_ns"] is None or before["complete_ns"] > op["invoke_ns"]
            if ended_late or any(each["outcome"] == "info" for each in mine[:at]):
                flawed.add(op["op_id"])
    return flawed
