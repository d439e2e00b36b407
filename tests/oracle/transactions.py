"""The checks of transactions in plain Python on lists of dicts, without the kernels."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tests.oracle.definitions import final_log, leader_before_stop

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Place = tuple[str, str, int]


def place_of(row: Row) -> Place:
    return row["topic"], row["topic_id"], row["partition"]


def witnessed(rows: Rows) -> set[int]:
    """Return transactions of unknown outcome whose sends an ok read_committed poll returned."""
    shown = {
        (place_of(row), row["value"])
        for row in rows["polls"]
        if row["isolation"] == "read_committed" and row["outcome"] == "ok"
    }
    return {
        row["op_id"]
        for row in rows["sends"]
        if row["txn_id"] is not None
        and row["outcome"] == "info"
        and (place_of(row), row["value"]) in shown
    }


def aborted_reads(rows: Rows) -> dict[int, set[int]]:
    """Return, by value, the ops that read a failed send of one partition."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for send in rows["sends"]:
        if send["outcome"] != "fail":
            continue
        for poll in rows["polls"]:
            if poll["value"] != send["value"]:
                continue
            plain = send["txn_id"] is None
            others = poll["op_id"] != send["op_id"]
            if plain or (others and poll["isolation"] == "read_committed"):
                found[send["value"]].add(poll["op_id"])
    return dict(found)


def precommitted_reads(rows: Rows) -> set[tuple[int, int]]:
    """Return reads of a transaction's own sends in one partition: (value, op id)."""
    return {
        (send["value"], send["op_id"])
        for send in rows["sends"]
        for poll in rows["polls"]
        if poll["isolation"] == "read_committed"
        and (poll["op_id"], poll["value"]) == (send["op_id"], send["value"])
    }


def torn_transactions(partitions: Iterable[Rows], known: set[int]) -> dict[int, set[int]]:
    """Return, by op, the values of committed transactions that final reads missed.

    The function takes all partitions.
    """
    shown: set[int] = set()
    hidden: defaultdict[int, set[int]] = defaultdict(set)
    for rows in partitions:
        log = final_log(rows, leader_before_stop(rows))
        starts = [row["log_start_offset"] or 0 for row in rows["replica_states"]]
        seen = {
            row["value"]
            for row in rows["polls"]
            if row["phase"] == "final" and row["isolation"] == "read_committed"
        }
        ends = [
            read["target_end"]
            for read in rows["final_reads"]
            if read["complete"] and read["isolation"] == "read_committed"
        ]
        for send in rows["sends"]:
            committed = send["outcome"] == "ok" or send["op_id"] in known
            if send["txn_id"] is None or not committed:
                continue
            if send["value"] in seen:
                shown.add(send["op_id"])
                continue
            offset = send["offset"]
            for at, record in (log or {}).items():
                offset = at if record["value"] == send["value"] else offset
            gone = log is not None and send["value"] not in {row["value"] for row in log.values()}
            start = max([*starts, *([min(log)] if log and not starts else [])], default=0)
            if ends and offset is not None and start <= offset < min(ends) and not gone:
                hidden[send["op_id"]].add(send["value"])
    return {op_id: values for op_id, values in hidden.items() if op_id in shown}


Edges = set[tuple[int, int, str]]


def version_order(rows: Rows, known: set[int]) -> list[int]:
    """Return the values of a partition in the order of offsets, for the contract judge.

    Each value is at its last known place.
    """
    never = {
        row["value"]
        for row in rows["sends"]
        if row["outcome"] == "fail"
        or (row["txn_id"] is not None and row["outcome"] != "ok" and row["op_id"] not in known)
    }
    at: dict[int, int] = {}
    for row in rows["sends"]:
        if row["offset"] is not None and row["acked"] and row["value"] not in never:
            plain = row["txn_id"] is None and row["acks"] != "0"
            if plain or row["txn_id"] is not None:
                at[row["offset"]] = row["value"]
    for row in rows["polls"]:
        if row["value"] is not None and row["value"] not in never:
            at[row["offset"]] = row["value"]
    for offset, row in (final_log(rows, leader_before_stop(rows)) or {}).items():
        if row["value"] is not None and not row["control"] and row["value"] not in never:
            at[offset] = row["value"]
    return [at[offset] for offset in sorted(at)]


def dependencies(rows: Rows, known: set[int]) -> Edges:
    """Return the dependencies of one partition: (source op, target op, kind)."""
    sender = {row["value"]: row for row in rows["sends"] if row["outcome"] != "fail"}
    order = version_order(rows, known)
    edges: Edges = set()
    for one, other in pairwise(order):
        if one in sender and other in sender:
            edges.add((sender[one]["op_id"], sender[other]["op_id"], "write-write"))
    for poll in rows["polls"]:
        send = sender.get(poll["value"])
        if send is None or poll["outcome"] != "ok":
            continue
        if send["txn_id"] is None or poll["isolation"] == "read_committed":
            edges.add((send["op_id"], poll["op_id"], "write-read"))
    return {edge for edge in edges if edge[0] != edge[1]}


Op = tuple[int, int, int | None]
"""The process, the invocation and the completion of an op; None for an unknown completion."""
Found = tuple[str, bool, frozenset[int], int]
"""A cycle: its name, whether it needs write-write edges, the component's ops, the fewest hops."""

FAMILIES = (
    ("G1c", {"write-read"}, "write-read"),
    ("G1c", {"write-write", "write-read"}, "write-read"),
    ("G0", {"write-write"}, "write-write"),
)


def before(one: Op, other: Op, order: str) -> bool:
    if order == "process":
        return one[0] == other[0] and one[1] < other[1]
    return one[2] is not None and one[2] < other[1]


def cycles(edges: Edges, ops: dict[int, Op]) -> list[Found]:
    """Return all cycles, by brute force; orders are compared pair by pair."""
    told: defaultdict[str, set[int]] = defaultdict(set)
    found: list[Found] = []
    for family, kinds, through in FAMILIES:
        for orders in ((), ("process",), ("process", "realtime")):
            name = "-".join([family, *orders[-1:]])
            links = {(one, other) for one, other, kind in edges if kind in kinds}
            links |= {
                (one, other)
                for one in ops
                for other in ops
                for order in orders
                if one != other and before(ops[one], ops[other], order)
            }
            steps = distances(links, set(ops))
            closing = [
                (one, other)
                for one, other, kind in edges
                if kind == through and (other, one) in steps
            ]
            members = {
                frozenset({one} | {op for op in ops if (one, op) in steps and (op, one) in steps})
                for one, _ in closing
            }
            fresh = [each for each in members if not each & told[family]]
            for each in fresh:
                told[family] |= each
                length = min(1 + steps[other, one] for one, other in closing if one in each)
                found.append((name, "write-write" in kinds, each, length))
    return found


def distances(links: set[tuple[int, int]], ops: set[int]) -> dict[tuple[int, int], int]:
    """Return the fewest hops from one op to another, for each pair with a path."""
    onward: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in links:
        onward[one].add(other)
    steps: dict[tuple[int, int], int] = {}
    for start in ops:
        edge, hops, seen = {start}, 0, {start}
        while edge:
            edge = {other for one in edge for other in onward[one]} - seen
            hops += 1
            seen |= edge
            steps |= {(start, other): hops for other in edge}
    return steps
