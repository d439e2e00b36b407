"""wrong-last-value: of a compacted log, a key that ends with an older record, or with none."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import wrong_last_value
from checkers.facts import DiskLoss
from checkers.findings import number_in
from checkers.group import Group
from results.record.keys import is_tombstone, key_number
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record, Row
from tests.checkers.keyed import (
    KEYS,
    NODES,
    RETENTION_S,
    Sent,
    about,
    cleaned,
    partition,
    told_end,
    value,
)
from tests.checkers.partition_rows import S, facts, found, reason, sentences

CHECKER, NAME = wrong_last_value.CHECKER, wrong_last_value.NAME
OLD, NEW, DEAD = value(0), value(0, 1), value(0, dead=True)
OTHER = value(1)
TWO = [Sent(value=OLD), Sent(value=OTHER), Sent(value=NEW), Sent(value=value(2))]
"""Key 0 at offsets 0 and 2."""
LAST = [(1, OTHER), (2, NEW), (3, value(2))]
DELETED = [Sent(value=OLD), Sent(value=OTHER), Sent(value=DEAD), Sent(value=value(2))]
"""Key 0 at offset 0, its tombstone at 2."""
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"nodes": [], "found_on": [], "offset": 7}, "whether a broker still has it"),
    (NAME, {"nodes": ["n2"], "found_on": ["n1"], "offset": 7}, "a cleaner took it"),
    (NAME, {"nodes": ["n2"], "found_on": [], "offset": 7}, "no log that was read holds it"),
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
ROWS_OF = [
    (
        CHECKER,
        partition(TWO, {"n1": [(at, each.value) for at, each in enumerate(TWO)]}),
        "no cleaner took a record",
        partition(TWO, {"n1": LAST}),
        4,
    )
]


def wrong(on: Group) -> list[tuple[int, int, int]]:
    """Return keys, with the offset of each one's last record, and of the record there instead."""
    return [
        (number_in(each, "key"), each.offset, number_in(each, "shown_offset"))
        for each in found(CHECKER, on).anomalies
    ]


def test_what_is_superseded_may_go_and_the_last_one_may_not() -> None:
    assert wrong(partition(TWO, {"n1": LAST})) == []
    assert wrong(partition(TWO, {"n1": [(1, OTHER), (3, value(2))]})) == [(0, 2, -1)]
    stale = partition(TWO, {"n1": [(0, OLD), (1, OTHER), (3, value(2))]})
    assert wrong(stale) == [(0, 2, 0)]
    (told,) = sentences(CHECKER, stale)
    assert told == (
        f"key 0 of log-0-0 ends with value {NEW} at offset 2, the last that was"
        f" committed of it; the log of n1 lacks it: the older value {OLD} at"
        " offset 0 is the last one there"
    )


@pytest.mark.parametrize("node", NODES)
def test_each_replica_keeps_the_last_one(node: str) -> None:
    logs = {**dict.fromkeys(NODES, LAST), node: [(1, OTHER), (3, value(2))]}
    (anomaly,) = found(CHECKER, partition(TWO, logs)).anomalies
    assert anomaly.evidence["nodes"] == [node]
    assert anomaly.evidence["found_on"] == [each for each in NODES if each != node]


def test_an_aborted_record_supersedes_nothing() -> None:
    sends = [Sent(value=OLD), Sent(value=OTHER), Sent(value=NEW, outcome="fail")]
    assert wrong(partition(sends, {"n1": [(0, OLD), (1, OTHER)]})) == []
    assert wrong(partition(sends, {"n1": [(1, OTHER), (2, NEW)]})) == [(0, 0, -1)]


def test_a_record_that_may_have_committed_supersedes_if_it_stayed() -> None:
    sends = [Sent(value=OLD), Sent(value=OTHER), Sent(value=NEW, outcome="info")]
    assert wrong(partition(sends, {"n1": [(1, OTHER), (2, NEW)]})) == []
    # It was not cleaned away itself, since nothing superseded it: so it never stayed there.
    assert wrong(partition(sends, {"n1": [(1, OTHER)]})) == [(0, 0, -1)]


@pytest.mark.parametrize("placed", [True, False])
def test_a_tombstone_that_may_have_committed_may_be_gone(placed: bool) -> None:  # noqa: FBT001 - drawn
    sends = [Sent(value=OLD), Sent(value=OTHER), Sent(value=DEAD, outcome="info", placed=placed)]
    assert wrong(partition(sends, {"n1": [(1, OTHER)]})) == []
    failed = [*sends[:2], Sent(value=DEAD, outcome="fail", placed=placed)]
    assert wrong(partition(failed, {"n1": [(1, OTHER)]})) == [(0, 0, -1)]


def test_a_tombstone_may_go_and_what_it_deleted_may_not_be_back() -> None:
    assert wrong(partition(DELETED, {"n1": [(1, OTHER), (3, value(2))]})) == []
    assert wrong(partition(DELETED, {"n1": [(1, OTHER), (2, DEAD), (3, value(2))]})) == []
    back = partition(DELETED, {"n1": [(0, OLD), (1, OTHER), (3, value(2))]})
    assert wrong(back) == [(0, 2, 0)]
    assert "the tombstone value" in sentences(CHECKER, back)[0]


@pytest.mark.parametrize(
    ("told", "back"),
    [
        ([told_end("n2", 3, RETENTION_S + 0.9)], True),
        ([told_end("n2", 3, RETENTION_S + 1.1)], False),  # It may have come too late.
        ([told_end("n2", 2, 1.5)], False),
        ([told_end("n1", 4, 1.5)], False),
    ],
)
def test_a_replica_that_came_late_never_heard_of_the_tombstone(
    told: list[dict[str, Any]],
    back: bool,  # noqa: FBT001 - a case
) -> None:
    stale = [(0, OLD), (1, OTHER), (3, value(2))]
    logs = {"n1": [(1, OTHER), (3, value(2))], "n2": stale}
    assert wrong(partition(DELETED, logs, told=told)) == [(0, 2, 0)] * back


def test_a_replica_that_was_cut_below_the_tombstone_may_have_come_late_again() -> None:
    logs = {"n1": LAST[:1], "n2": [(0, OLD), (1, OTHER)]}
    cut = {"node": "n2", "from_offset": 2, "to_offset": 4, "observed_ns": 2 * S}
    assert wrong(partition(DELETED[:3], logs)) == [(0, 2, 0)]
    assert wrong(partition(DELETED[:3], logs, truncations=[cut])) == []
    above = {**cut, "from_offset": 3}
    assert wrong(partition(DELETED[:3], logs, truncations=[above])) == [(0, 2, 0)]


def test_clocks_that_are_shifted_decide_when_a_tombstone_goes() -> None:
    on = about({"nemesis": ("clock",)})
    stale = [(0, OLD), (1, OTHER), (3, value(2))]
    assert wrong(partition(DELETED, {"n1": stale}, on=on)) == []
    assert wrong(partition(TWO, {"n1": [(0, OLD), (1, OTHER)]}, on=on)) == [
        (0, 2, 0),
        (2, 3, -1),
    ]


def test_a_replica_out_of_sync_is_asked_below_its_high_watermark() -> None:
    logs = {"n1": LAST, "n4": LAST[:1]}
    assert wrong(partition(TWO, logs)) == [(0, 2, -1), (2, 3, -1)]  # Its end, as it says: 4.
    on = partition(TWO, logs)
    states = [row for row in on.table("replica_states").to_pylist() if row["node"] != "n4"]
    low = {**states[0], "node": "n4", "high_watermark": 2, "log_end_offset": 2}
    schema = on.table("replica_states").schema
    tables = {**on.tables, "replica_states": type(on.table("sends")).from_pylist(
        [*states, low], schema=schema)}  # fmt: skip
    assert wrong(replace(on, tables=tables)) == []


def test_a_final_read_ends_with_the_last_value() -> None:
    logs = {"n1": LAST}
    assert wrong(partition(TWO, logs, read=LAST)) == []
    assert wrong(partition(TWO, logs, read=[(0, OLD), *LAST])) == [], "it was cleaned meanwhile"
    (missed,) = found(CHECKER, partition(TWO, logs, read=[(0, OLD), (1, OTHER), LAST[2]])).anomalies
    assert (missed.evidence["read"], missed.evidence["nodes"]) == (True, [])
    assert "the final read lacks it" in missed.sentence


def test_a_reader_may_come_too_late_for_a_tombstone_that_is_gone() -> None:
    late = [(0, OLD), (1, OTHER), (3, value(2))]
    gone = {"n1": [(1, OTHER), (3, value(2))]}
    assert wrong(partition(DELETED, gone, read=late)) == []
    there = {"n1": [(1, OTHER), (2, DEAD), (3, value(2))]}
    assert wrong(partition(DELETED, there, read=late)) == [(0, 2, 0)]
    maybe = [*TWO, Sent(value=DEAD, outcome="info", placed=False)]
    assert wrong(partition(maybe, {"n1": [(1, OTHER), (3, value(2))]}, read=late)) == []


def test_a_read_that_did_not_reach_its_end_and_a_log_that_was_not_read_prove_nothing() -> None:
    on = partition(TWO, {"n1": LAST[:1]}, on=about(unreadable_nodes=frozenset({"n1"})))
    assert wrong(on) == []
    reads = [{"isolation": "read_committed", "target_end": 4, "reached": 3, "complete": False}]
    on = partition(TWO, {}, read=[(1, OTHER)])
    schema = on.table("final_reads").schema
    tables = {**on.tables, "final_reads": type(on.table("sends")).from_pylist(reads, schema)}
    assert wrong(on) == [(0, 2, -1), (2, 3, -1)]
    assert wrong(replace(on, tables=tables)) == []


def test_only_compacted_topics_whose_keys_are_known_have_last_values() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan={"broker": {"log.cleanup.policy": "compact"}}))


def test_keys_are_counted_that_could_end_otherwise() -> None:
    assert found(CHECKER, partition(TWO, {"n1": LAST})).rows == 4
    assert found(CHECKER, partition(TWO, {"n1": LAST, "n2": LAST}, read=LAST)).rows == 12
    # In a read a tombstone that is gone proves nothing; in a log what it deleted does.
    gone = [(1, OTHER), (3, value(2))]
    assert found(CHECKER, partition(DELETED, {"n1": gone}, read=gone)).rows == 7
    assert found(CHECKER, partition(DELETED, {"n1": gone}, told=[])).rows == 3


def test_a_run_in_which_no_cleaner_came_by_says_so() -> None:
    whole = [(at, each.value) for at, each in enumerate(TWO)]
    nothing = found(CHECKER, partition(TWO, {"n1": whole, "n2": whole}, read=whole))
    assert (nothing.rows, nothing.unshown) == (
        0,
        ("no cleaner took a record, so a wrong last value could not show",),
    )
    assert found(CHECKER, partition(TWO, {})).unshown == ()


def test_disks_that_lost_it_everywhere_allow_it() -> None:
    loss = DiskLoss(
        nodes=frozenset(NODES), topic="log-0", partition=0, end_after=2, end_before=9,
        until_ns=3 * S, began_ns=2 * S, excuse="power-loss",
    )  # fmt: skip
    logs = dict.fromkeys(NODES, LAST[:1])
    (first, _) = found(CHECKER, partition(TWO, logs, on=about(disk_losses=(loss,)))).anomalies
    assert first.excuses == ("power-loss",)
    (first, _) = found(CHECKER, partition(TWO, logs, on=about(cut_streams=True))).anomalies
    assert first.broken_premises == ("whole-record",)


def test_the_reason_says_who_has_it_and_what_befell_it() -> None:
    logs = {"n1": LAST, "n2": [(1, OTHER), (3, value(2))]}
    told = reason(CHECKER, partition(TWO, logs))
    assert (
        told
        == (
            "n1's log holds it at 2, and n2's log lacks it; no replica recorded a truncation there:"
            " a cleaner took it, or it was never written"
        )
        or "a cleaner took it" in told
    )
    cut = {"node": "n2", "from_offset": 2, "to_offset": 4, "observed_ns": 2 * S}
    assert "truncated its log there" in reason(CHECKER, partition(TWO, logs, truncations=[cut]))
    read = reason(CHECKER, partition(TWO, {"n1": LAST}, read=[LAST[0], LAST[2]]))
    assert "or the client left it out" in read


RECORDS = st.lists(
    st.builds(
        lambda key, number, dead, outcome: (key, number, dead, outcome),
        st.integers(0, KEYS - 2),  # The last one is that of the tail.
        st.integers(0, 40),
        st.booleans(),
        st.sampled_from(["ok", "ok", "ok", "fail", "info"]),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda each: each[:3],
)


@given(RECORDS, st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=3, max_size=3))
def test_a_faithful_cleaner_is_accepted_and_one_that_takes_a_last_value_is_not(
    drawn: list[tuple[int, int, bool, str]], work: list[tuple[int, bool]]
) -> None:
    """An oracle in plain Python: replicas are cleaned at moments of their own."""
    sends = [
        Sent(value=value(key, number, dead=dead), outcome=outcome)
        for key, number, dead, outcome in drawn
    ]
    logs = {
        node: cleaned(sends, upto, without_tombstones=without)
        for node, (upto, without) in zip(NODES, work, strict=True)
    }
    assert wrong(partition(sends, logs, read=logs["n1"])) == []
    last = {
        key_number(each.value, KEYS): at
        for at, each in enumerate(sends)
        if each.outcome in {"ok", "info"}
    }
    for key, at in last.items():
        if is_tombstone(sends[at].value) or sends[at].outcome != "ok":
            continue
        taken = [record for record in logs["n2"] if record[0] != at]
        told = wrong(partition(sends, {**logs, "n2": taken}))
        assert [each[:2] for each in told] == [(key, at)]


def _keyed(record: Record, spot: Spot) -> list[Row]:
    """Return the records of its partition's final logs that are messages, by offset."""
    rows = record.rows("replica_records", snapshot="final", control=False, **spot.place)
    return sorted(rows, key=lambda row: int(row["offset"]))


def _last(record: Record, spot: Spot) -> int:
    """Return the last value of the spot's key."""
    keys = record.plan["keys"]
    mine = key_number(spot.value, keys)
    return [int(row["value"]) for row in _keyed(record, spot)
            if key_number(row["value"], keys) == mine][-1]  # fmt: skip


def _take(record: Record, spot: Spot, values: set[int], *nodes: str) -> None:
    record.drop(
        "replica_records",
        lambda row: row["value"] in values and (not nodes or row["node"] in nodes),
        snapshot="final",
        **spot.place,
    )


def _leader(record: Record, spot: Spot) -> str:
    led = record.rows("leadership", source="list-offsets", **spot.place)
    return f"n{max(led, key=lambda row: (row['leader_epoch'], row['observed_ns']))['leader']}"


@broken("wrong-last-value", row="compaction", base="keyed")
def a_followers_cleaner_takes_the_last_value_of_a_key(record: Record, spot: Spot) -> None:
    leader = _leader(record, spot)
    follower = next(node for node in NODES if node != leader)
    _take(record, spot, {_last(record, spot)}, follower)


@broken("wrong-last-value", row="compaction", base="keyed")
def the_leaders_cleaner_takes_it_after_all_was_read(record: Record, spot: Spot) -> None:
    _take(record, spot, {_last(record, spot)}, _leader(record, spot))


@broken("wrong-last-value", row="compaction", base="keyed")
def every_cleaner_takes_it_after_all_was_read(record: Record, spot: Spot) -> None:
    _take(record, spot, {_last(record, spot)})


def _superseded(record: Record, spot: Spot) -> set[int]:
    keys = record.plan["keys"]
    last = {key_number(row["value"], keys): row["value"] for row in _keyed(record, spot)}
    return {row["value"] for row in _keyed(record, spot)} - {*last.values()}


@innocent(base="keyed")
def a_followers_cleaner_came_by_once_more(record: Record, spot: Spot) -> None:
    """Each replica is cleaned at moments of its own; the last value of each key is left."""
    leader = _leader(record, spot)
    follower = next(node for node in NODES if node != leader)
    _take(record, spot, _superseded(record, spot), follower)


@innocent(base="keyed")
def all_cleaners_came_by_after_the_final_reads(record: Record, spot: Spot) -> None:
    """Final reads still got what was superseded, and the logs have it no more."""
    _take(record, spot, _superseded(record, spot))
