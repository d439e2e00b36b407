"""Losses of records that a log cleaner must have kept."""

from checkers.group import Group
from checkers.lost_write import CHECKER
from tests.checkers.faithful_clients import Row
from tests.checkers.keyed import Sent, about, changed, partition, value
from tests.checkers.partition_rows import found

DEAD, LOST, OTHER = value(1), value(0), value(2)
SENDS = [Sent(value=DEAD, outcome="fail"), Sent(value=LOST), Sent(value=OTHER)]
WITH, WITHOUT = [(1, LOST), (2, OTHER)], [(2, OTHER)]
REMOVED = (
    "n1's log goes on beyond the offset, and recorded no truncation there, but lacks the record: a"
    " log cleaner removed it"
)


def cause(on: Group) -> str:
    (anomaly,) = found(CHECKER, on).anomalies
    return anomaly.cause or CHECKER.why(on, anomaly)


def group_with(logs: dict[str, list[tuple[int, int]]], **rows: list[Row]) -> Group:
    on = partition(SENDS, logs, read=logs["n1"], on=about(collected_nodes=frozenset(logs)), **rows)
    sends = on.table("sends").to_pylist()
    return changed(on, "sends", [{**each, "transactional_id": "t"} for each in sends])


def test_a_leader_whose_log_lacks_a_record_without_a_truncation_had_it_removed() -> None:
    told = cause(group_with({"n1": WITHOUT, "n2": WITHOUT, "n3": WITH}))
    assert told.startswith("n1 acknowledged it (acks=all); ")
    assert f"{REMOVED}; the producer had aborted a transaction before, at offset 0" in told


def test_without_a_copy_nothing_shows_that_the_leader_wrote_it() -> None:
    told = cause(group_with({"n1": WITHOUT, "n2": WITHOUT, "n3": WITHOUT}))
    assert f"{REMOVED}, or the broker never wrote it; the producer" in told


def test_a_truncation_is_no_work_of_a_cleaner() -> None:
    cut: Row = {"node": "n1", "from_offset": 1, "observed_ns": -1, "reason": ""}
    on = group_with({"n1": WITHOUT, "n2": WITHOUT, "n3": WITH}, truncations=[cut])
    assert "cleaner" not in cause(on)


def test_a_log_that_was_not_read_whole_may_have_it() -> None:
    on = group_with({"n1": WITHOUT, "n2": WITHOUT, "n3": WITH})
    assert "cleaner" not in cause(
        Group(**{**vars(on), "facts": about(collected_nodes=frozenset({"n2", "n3"}))})
    )


def test_a_final_read_that_skips_a_record_names_the_abort_before_it() -> None:
    on = partition(SENDS, dict.fromkeys(("n1", "n2", "n3"), WITH), read=WITHOUT)
    sends = [{**each, "transactional_id": "t"} for each in on.table("sends").to_pylist()]
    told = cause(changed(on, "sends", sends))
    assert "omitted it from the final read" in told
    assert told.endswith("; the producer had aborted a transaction before, at offset 0")
