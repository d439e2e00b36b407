"""Losses of records that a log cleaner must have kept."""

from dataclasses import replace

import pytest

from checkers.group import Group
from checkers.lost_write import CHECKER
from tests.checkers.faithful_clients import Row
from tests.checkers.keyed import NODES, Sent, about, changed, partition, told_end, value
from tests.checkers.partition_rows import found

DEAD, LOST, OTHER = value(1), value(0), value(2)
SENDS = [Sent(value=DEAD, outcome="fail"), Sent(value=LOST), Sent(value=OTHER)]
WITH, WITHOUT = [(1, LOST), (2, OTHER)], [(2, OTHER)]
REMOVED = (
    "n1's log goes on beyond the offset, and recorded no truncation there, but lacks the record: a"
    " log cleaner must have removed it"
)
ABORT = "n1's log lacks the marker of an earlier abort of its producer, behind offset 0"
LOGS = {"n1": WITHOUT, "n2": WITHOUT, "n3": WITH}


def cause(on: Group) -> str:
    (anomaly,) = found(CHECKER, on).anomalies
    return anomaly.cause or CHECKER.why(on, anomaly)


def group_with(
    logs: dict[str, list[tuple[int, int]]],
    *,
    sends: list[Sent] = SENDS,
    read: list[tuple[int, int]] | None = None,
    **rows: list[Row],
) -> Group:
    on = partition(sends, logs, read=read or logs["n1"],
                   on=about(collected_nodes=frozenset(logs)), **rows)  # fmt: skip
    by_one = [{**each, "transactional_id": "t"} for each in on.table("sends").to_pylist()]
    return changed(on, "sends", by_one)


def test_a_leader_whose_log_lacks_a_record_without_a_truncation_had_it_removed() -> None:
    told = cause(group_with(LOGS))
    assert told.startswith("n1 acknowledged it (acks=all); ")
    assert f"{REMOVED}; {ABORT}" in told


def test_without_a_copy_nothing_shows_that_the_leader_wrote_it() -> None:
    told = cause(group_with(dict.fromkeys(NODES, WITHOUT)))
    assert f"{REMOVED}, or the broker never wrote it" in told
    assert "abort" not in told


def test_without_an_abort_before_it_none_is_named() -> None:
    sends = [Sent(value=DEAD), *SENDS[1:]]
    logs = {node: [(0, DEAD), *log] for node, log in LOGS.items()}
    told = cause(group_with(logs, sends=sends))
    assert REMOVED in told
    assert "abort" not in told


CUT: Row = {"node": "n1", "from_offset": 1, "observed_ns": -1, "reason": ""}
SHRUNK = [told_end(node, 4) for node in NODES] + [told_end("n1", 0, 1.6), told_end("n1", 4, 1.7)]
LATER = [*SENDS, Sent(value=value(0, 1), outcome="info", placed=False)]


@pytest.mark.parametrize(
    "on",
    [
        group_with(LOGS, truncations=[CUT]),
        group_with(LOGS, told=SHRUNK),
        group_with(LOGS, sends=LATER),  # Its later message may have been there, and was lost.
        replace(group_with(LOGS), facts=about(collected_nodes=frozenset({"n2", "n3"}))),
    ],
    ids=["truncated", "shrank", "later message", "not read"],
)
def test_where_something_else_may_have_removed_it_no_cleaner_is_blamed(on: Group) -> None:
    assert "cleaner" not in cause(on)


def test_a_final_read_that_skips_a_record_names_the_abort_without_a_marker() -> None:
    on = group_with(dict.fromkeys(NODES, WITH), read=WITHOUT)
    assert "omitted it from the final read" in cause(on)
    assert cause(on).endswith(f"; {ABORT}")


def test_an_abort_whose_marker_is_there_is_not_named() -> None:
    sends = [SENDS[0], Sent(value=value(3), outcome="fail", placed=False), *SENDS[1:]]
    log = [(2, LOST), (3, OTHER)]
    on = group_with(dict.fromkeys(NODES, log), sends=sends, read=log[1:])
    rows = on.table("replica_records").to_pylist()
    marker = {**rows[0], "node": "n1", "offset": 1, "value": None, "control": True}
    assert ABORT in cause(on)
    assert "abort" not in cause(changed(on, "replica_records", [marker, *rows]))
