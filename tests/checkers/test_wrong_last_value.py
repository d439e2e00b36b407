"""wrong-last-value: of a compacted log, a key that ends with an older record, or with none."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import wrong_last_value
from checkers.facts import DiskLoss, Disturbance
from checkers.findings import number_in, texts_in
from checkers.group import Group
from checkers.reigns import Reign
from results.record.keys import is_tombstone, key_number
from results.record.verdict import Anomaly
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record, Row
from tests.checkers.faithful_clients import Row as Given
from tests.checkers.keyed import (
    KEYS,
    NODES,
    RETENTION_S,
    Sent,
    about,
    changed,
    cleaned,
    logged,
    partition,
    read_back,
    told_end,
    value,
)
from tests.checkers.partition_rows import S, elected, facts, found, isr, leads, reason, sentences

CHECKER, NAME = wrong_last_value.CHECKER, wrong_last_value.NAME
OLD, NEW, DEAD = value(0), value(0, 1), value(0, dead=True)
OTHER = value(1)
TWO = [Sent(value=OLD), Sent(value=OTHER), Sent(value=NEW), Sent(value=value(2))]
"""Key 0 at offsets 0 and 2."""
LAST = [(1, OTHER), (2, NEW), (3, value(2))]
_FAR = 1 << 60
DELETED = [Sent(value=OLD), Sent(value=OTHER), Sent(value=DEAD), Sent(value=value(2))]
"""Key 0 at offset 0, its tombstone at 2."""
DEAD_GONE = [(1, OTHER), (3, value(2))]
STALE = [(0, OLD), *DEAD_GONE]
"""Of `DELETED`: the value is back."""
LOST = Sent(value=value(0, 1, dead=True), outcome="info", placed=False)
LOST_TOO = Sent(value=value(1, dead=True), outcome="info", placed=False)
RETENTION = "log.cleaner.delete.retention.ms"
LOSS = DiskLoss(
    nodes=frozenset(NODES), topic="log-0", partition=0, end_after=2, end_before=9,
    until_ns=3 * S, began_ns=2 * S, excuse="power-loss",
)  # fmt: skip
UNHEALED = tuple(
    replace(each, detail={"failed": "no"}) if each.name == "recovered" else each
    for each in about().milestones
)
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"nodes": [], "found_on": [], "offset": 7}, "whether a broker still has it"),
    (NAME, {"nodes": ["n2"], "found_on": ["n1"], "offset": 7}, "a log cleaner removed the record"),
    (NAME, {"nodes": ["n2"], "found_on": [], "offset": 7}, "no log that was read holds it"),
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
ROWS_OF = [
    (
        CHECKER,
        partition(TWO, {"n1": [(at, each.value) for at, each in enumerate(TWO)]}),
        "no log cleaner removed a record",
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
    (gone,) = sentences(CHECKER, partition(TWO, {"n1": [(1, OTHER), (3, value(2))]}))
    assert gone.endswith("; the log of n1 lacks it: no record of that key is there")
    (told,) = sentences(CHECKER, stale)
    assert told == (
        f"the last committed record of key 0 of log-0-0 is value {NEW} at offset 2; the log of n1"
        f" lacks it: the last one there is the older value {OLD} at offset 0"
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
    assert wrong(partition(DELETED, {"n1": DEAD_GONE})) == []
    assert wrong(partition(DELETED, {"n1": [(1, OTHER), (2, DEAD), (3, value(2))]})) == []
    back = partition(DELETED, {"n1": STALE})
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
    logs = {"n1": DEAD_GONE, "n2": STALE}
    assert wrong(partition(DELETED, logs, told=told)) == [(0, 2, 0)] * back


def test_a_replica_that_was_cut_below_the_tombstone_may_have_come_late_again() -> None:
    logs = {"n1": LAST[:1], "n2": [(0, OLD), (1, OTHER)]}
    cut = {"node": "n2", "from_offset": 2, "to_offset": 4, "observed_ns": 2 * S}
    assert wrong(partition(DELETED[:3], logs)) == [(0, 2, 0)]
    assert wrong(partition(DELETED[:3], logs, truncations=[cut])) == []
    assert wrong(partition(DELETED[:3], logs, truncations=[{**cut, "from_offset": 1}])) == []
    for elsewhere in ({"from_offset": 3}, {"node": "n1"}):
        assert wrong(partition(DELETED[:3], logs, truncations=[{**cut, **elsewhere}])) == [
            (0, 2, 0)
        ]


@pytest.mark.parametrize(
    ("led", "copy_of", "back"),
    [
        ((2, 0), (0, 2), True),
        ((2, 1), (1, 2), True),
        ((2, 0), (0, 9), False),  # Another copy, of which nobody knows more.
        ((2, 1), (0, 2), False),  # It led later.
        ((1, 0), (0, 2), False),
        ((2, 0), (None, 2), False),
    ],
)
@pytest.mark.parametrize("by_read", [True, False])
def test_who_wrote_the_tombstone_had_it_however_short_it_stays(
    led: tuple[int, int],
    copy_of: tuple[int | None, int],
    back: bool,  # noqa: FBT001 - a case
    by_read: bool,  # noqa: FBT001 - a case
) -> None:
    on = about({"broker": {RETENTION: "0"}})
    logs = {"n2": STALE, "n3": DEAD_GONE}
    epoch, at = copy_of
    early = {**read_back([(at, DEAD)])[0], "phase": "main", "op_id": 80, "leader_epoch": epoch}
    copy = {**logged("n3", [(at, DEAD)])[0], "snapshot": "step-1", "leader_epoch": epoch}
    given = partition(DELETED, logs, on=on, polls=[early] if by_read else [])
    if not by_read:
        records = given.table("replica_records").to_pylist()
        given = changed(given, "replica_records", [*records, copy])
    rows = [isr(1, 3, 2), leads(*led), leads(3, 5), {**leads(2, 0), "leader_epoch": None}]
    given = changed(given, "leadership", rows)
    assert wrong(given) == [(0, 2, 0)] * back
    cut = {"node": "n2", "from_offset": 2, "to_offset": 4, "observed_ns": 2 * S}
    assert wrong(changed(given, "truncations", [cut])) == []


def test_a_replica_that_was_moved_may_have_been_copied_when_the_tombstone_was_gone() -> None:
    for kind, back in (("reassignment", False), ("kill", True)):
        on = about(disturbances=(Disturbance(kind=kind, begun_ns=2 * S, ended_ns=3 * S),))
        assert wrong(partition(DELETED, {"n1": STALE, "n2": DEAD_GONE}, on=on)) == (
            [(0, 2, 0)] * back
        )
        # A moved replica that lacks the last value is wrong all the same.
        assert wrong(partition(TWO, {"n1": DEAD_GONE}, on=on)) == [(0, 2, -1)]


@pytest.mark.parametrize(
    ("loss", "back"),
    [
        ({}, False),  # It may have fetched it again when the tombstone was gone.
        ({"end_after": 3}, True),
        ({"end_after": 3, "least_after": 2}, False),
        ({"topic": "log-1"}, True),
        ({"nodes": frozenset({"n1"})}, True),
    ],
)
def test_a_replica_that_lost_its_disk_may_have_come_late_again(
    loss: dict[str, Any],
    back: bool,  # noqa: FBT001 - a case
) -> None:
    on = about(disk_losses=(replace(LOSS, **loss),))
    logs = {"n1": DEAD_GONE, "n2": STALE}
    assert wrong(partition(DELETED, logs, on=on)) == [(0, 2, 0)] * back


def test_clocks_that_are_shifted_decide_when_a_tombstone_goes() -> None:
    on = about({"nemesis": ("clock",)})
    assert wrong(partition(DELETED, {"n1": STALE}, on=on)) == []
    assert wrong(partition(TWO, {"n1": [(0, OLD), (1, OTHER)]}, on=on)) == [
        (0, 2, 0),
        (2, 3, -1),
    ]


def claims(on: Group, **marks: int) -> Group:
    """Have nodes claim a high watermark in their final states."""
    rows = [
        {**row, "high_watermark": marks.get(row["node"], row["high_watermark"])}
        for row in on.table("replica_states").to_pylist()
    ]
    return changed(on, "replica_states", rows)


@pytest.mark.parametrize(
    ("isr_of", "recovered", "asked"),
    [
        ([leads(1, 0), isr(1, 2, 3)], True, {"n1", "n2"}),
        ([leads(1, 0), isr(1, 3)], True, {"n1"}),
        ([leads(2, 0), isr(3)], True, {"n2"}),
        ([leads(1, 0), isr(2, 3)], False, {"n1"}),  # Who is in sync is not known.
        ([isr(2, 3)], True, {"n2"}),
        ([], True, set()),
    ],
)
def test_who_led_or_was_in_sync_is_asked_to_its_end(
    isr_of: list[Given],
    recovered: bool,  # noqa: FBT001 - a case
    asked: set[str],
) -> None:
    run = about() if recovered else about(milestones=UNHEALED)
    on = partition(TWO, dict.fromkeys(("n1", "n2"), LAST[:1]), on=run)
    low = changed(claims(on, n1=2, n2=2), "leadership", isr_of)
    nodes = {node for each in found(CHECKER, low).anomalies for node in told_nodes(each)}
    assert nodes == asked


def told_nodes(found: Anomaly) -> list[str]:
    return texts_in(found, "nodes")


def test_a_replica_out_of_sync_is_asked_below_its_high_watermark() -> None:
    logs = {"n1": LAST, "n4": LAST[:1]}
    assert wrong(partition(TWO, logs)) == [(0, 2, -1), (2, 3, -1)]  # Its end, as it says: 4.
    on = partition(TWO, logs)
    assert wrong(claims(on, n4=2)) == []
    assert wrong(claims(on, n4=3)) == [(0, 2, -1)]


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
    records = partition(TWO, {"n1": LAST[:1]}).table("replica_records").to_pylist()
    ends_early = changed(partition(TWO, {"n1": LAST[:1]}), "replica_records", records[:-1])
    assert wrong(ends_early) == []
    short = {"isolation": "read_committed", "target_end": 4, "reached": 3, "complete": False}
    whole = {**short, "complete": True}
    on = partition(TWO, {}, read=[(1, OTHER)])
    assert wrong(on) == [(0, 2, -1), (2, 3, -1)]
    for reads, lacks in (
        ([short], []),
        ([short, {**whole, "isolation": "read_uncommitted"}], []),
        ([{**whole, "target_end": 2}], []),
        ([{**whole, "target_end": 3}], [(0, 2, -1)]),
        ([whole, {**whole, "target_end": 3}], [(0, 2, -1)]),
        ([short, {**whole, "target_end": 3}], [(0, 2, -1)]),
    ):
        assert wrong(changed(on, "final_reads", reads)) == lacks


def test_a_read_that_missed_what_may_be_deleted_proves_nothing() -> None:
    sends = [*TWO[:3], Sent(value=DEAD, outcome="info")]
    log = [(1, OTHER), (2, NEW), (3, DEAD)]
    assert wrong(partition(sends, {"n1": log}, read=[(0, OLD), (1, OTHER)])) == []
    # Without the leader's log nobody knows whether the tombstone was still there.
    assert wrong(partition(DELETED, {}, read=[(0, OLD), (1, OTHER), (3, value(2))])) == []


def test_what_is_above_the_end_of_a_replica_is_not_asked_of_it() -> None:
    back = claims(partition(DELETED, {"n1": DEAD_GONE, "n2": STALE}), n2=2)
    for leadership, lacks in (([leads(1, 0), isr(1)], []), ([leads(1, 0), isr(1, 2)], [(0, 2, 0)])):
        assert wrong(changed(back, "leadership", leadership)) == lacks


def test_a_value_may_be_back_from_anywhere_below_its_tombstone() -> None:
    sends = [Sent(value=OTHER), Sent(value=OLD), Sent(value=DEAD)]
    assert wrong(partition(sends, {"n1": [(0, OTHER), (1, OLD)]})) == [(0, 2, 1)]
    assert f"the last one there is the older value {OLD} at offset 1" in sentences(
        CHECKER, partition(sends, {"n1": [(0, OTHER), (1, OLD)]})
    )[0]  # fmt: skip
    assert wrong(partition(sends, {"n1": [(0, OTHER)]})) == []


def test_a_tombstone_at_the_same_place_deleted_nothing_above_it() -> None:
    """Another replica has it there, where this one had what was acknowledged."""
    sends = [*TWO[:3], Sent(value=DEAD, outcome="info", placed=False)]
    logs = {"n1": [(1, OTHER)], "n2": [(1, OTHER), (2, DEAD)]}
    once = about({"client": {"retries": "0"}})
    assert (0, 2, -1) in wrong(partition(sends, logs, on=once))
    # Sent again, it may have stood at 3 as well.
    assert wrong(partition(sends, logs)) == []


DAY_NS = 86_400 * S


@pytest.mark.parametrize(
    ("plan", "retention_ns"),
    [
        ({}, RETENTION_S * S),
        ({"broker": {RETENTION: "?"}}, DAY_NS),  # As brokers have it by default.
        ({"broker": {RETENTION: "7000"}, "node": {"n2": {RETENTION: "3000"}}}, 3 * S),
        ({"broker": {RETENTION: "3000"}, "node": {"n2": {RETENTION: "7000"}}}, 3 * S),
    ],
)
def test_a_tombstone_stays_for_the_least_retention_that_is_set(
    plan: dict[str, Any], retention_ns: int
) -> None:
    begun_ns, logs = S - 5, {"n1": DEAD_GONE, "n2": STALE}
    for late_ns, back in ((-1, [(0, 2, 0)]), (0, [])):
        told = {**told_end("n2", 3), "observed_ns": begun_ns + retention_ns + late_ns}
        assert wrong(partition(DELETED, logs, told=[told], on=about(plan))) == back


def test_a_tombstone_that_nobody_saw_hides_what_it_may_have_deleted_and_says_so() -> None:
    why = "a tombstone at an unknown offset may have deleted"
    for sends, log, lacks, told in (
        ([Sent(value=OLD), Sent(value=OTHER), LOST], [(1, OTHER)], [], "1 key"),
        ([Sent(value=OLD), Sent(value=OTHER), LOST, LOST_TOO], [], [], "2 keys"),
        # It cannot have deleted what came behind it.
        ([Sent(value=OLD), LOST, Sent(value=OTHER), Sent(value=NEW)], [(2, OTHER)], [(0, 3, -1)],
         ""),
        # Another one may have, which is known.
        ([Sent(value=OLD), Sent(value=DEAD, outcome="info"), LOST], [], [], ""),
        ([Sent(value=DEAD), LOST], [], [], ""),
        ([LOST], [], [], ""),
        # No cleaner took anything.
        ([Sent(value=OLD), Sent(value=OTHER), LOST], [(0, OLD), (1, OTHER)], [], ""),
    ):  # fmt: skip
        on = found(CHECKER, partition(sends, {"n1": log}))
        assert [(each.evidence["key"], each.offset) for each in on.anomalies] == [
            each[:2] for each in lacks
        ]
        unshown = "".join(each for each in on.unshown if why in each)
        assert unshown == ((f"{why} {told}, so a missing last value could not be detected"
                           " there")
                           if told else "")  # fmt: skip


def test_a_tombstone_that_was_read_may_have_stood_above_the_last_value_as_well() -> None:
    dead = Sent(value=DEAD, outcome="info", placed=False)
    gap = Sent(value=value(2), outcome="info", placed=False)
    sends = [dead, Sent(value=OTHER), Sent(value=NEW), gap]
    logs, polls = {"n1": [(1, OTHER)]}, read_back([(0, DEAD)])
    assert wrong(partition(sends, logs, polls=polls)) == []
    once = about({"client": {"retries": "0"}})
    assert wrong(partition(sends, logs, polls=polls, on=once)) == [(0, 2, -1)]


def test_only_compacted_topics_whose_keys_are_known_have_last_values() -> None:
    assert CHECKER.applies(about())
    assert CHECKER.applies(about({"keys": 1}))
    assert not CHECKER.applies(about({"client": {"acks": "0"}}))
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
    why = ("no log cleaner removed a record, so a wrong last value could not be detected",)
    assert (nothing.rows, nothing.unshown) == (0, why)
    assert found(CHECKER, partition(TWO, {})).unshown == ()
    # Without logs nobody knows whether one did; and a read may be wrong without.
    assert found(CHECKER, partition(TWO, {}, read=whole)).rows == 4
    assert found(CHECKER, partition(TWO, {"n1": whole}, read=[*whole[:2], whole[3]])).rows == 8
    few = partition([], {"n1": []})
    assert found(CHECKER, few).unshown == why, "of its one record"
    assert found(CHECKER, changed(few, "sends", [])).unshown == ()
    dead = partition([Sent(value=OLD), Sent(value=DEAD)], {"n1": [(1, DEAD)]}, told=[])
    dead = changed(dead, "leadership", [isr(2, 1, 3)])
    without = changed(dead, "sends", dead.table("sends").to_pylist()[:2])
    assert found(CHECKER, without).unshown == (
        "each key may end with a tombstone, so a wrong last value could not be detected",
    )


def test_keys_of_which_nothing_was_committed_are_not_counted() -> None:
    assert (
        found(CHECKER, partition([Sent(value=OLD), Sent(value=NEW)], {"n1": [(1, NEW)]})).rows == 2
    )


def test_one_wrong_key_is_told_once_with_all_places() -> None:
    logs = dict.fromkeys(NODES, LAST[:1])
    first, _ = found(CHECKER, partition(TWO, logs, read=LAST[:1])).anomalies
    assert (first.evidence["nodes"], first.evidence["read"]) == (list(NODES), True)
    assert "the log of n1 and the log of n2 and the log of n3 and the final read lack it" in (
        first.sentence
    )


def labels(on: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the excuses and broken premises of key 0."""
    first = next(each for each in found(CHECKER, on).anomalies if each.evidence["key"] == 0)
    return first.excuses, first.broken_premises


@pytest.mark.parametrize(
    ("loss", "excuses"),
    [
        ({}, ("power-loss",)),
        ({"end_after": 3}, ()),  # It was left.
        ({"nodes": frozenset(NODES[:2])}, ()),  # One was spared.
        ({"topic": "log-1"}, ()),
        ({"until_ns": S // 2, "began_ns": S // 4}, ()),  # It came later: n1 took it after that.
    ],
)
def test_disks_that_lost_it_everywhere_allow_it(
    loss: dict[str, Any], excuses: tuple[str, ...]
) -> None:
    on = about(disk_losses=(replace(LOSS, **loss),))
    assert labels(partition(TWO, dict.fromkeys(NODES, LAST[:1]), on=on)) == (excuses, ())


def test_when_it_was_acknowledged_decides_and_not_another_one() -> None:
    on = about(disk_losses=(LOSS,))
    for number, at in ((2, 9 * S), (1, S), (3, S)):
        history = [*TWO[:3], Sent(value=value(2, 60))]
        sends = [
            replace(each, at=9 * S if row == number else S) for row, each in enumerate(history)
        ]
        logs = dict.fromkeys(NODES, LAST[:1])
        excuses = () if at > S else ("power-loss",)
        assert labels(partition(sends, logs, on=on)) == (excuses, ())


def test_an_unclean_leader_may_have_lacked_it() -> None:
    logs = dict.fromkeys(NODES, LAST[:1])
    rows = [leads(1, 1), isr(1, 2, 3), elected(1, 1, 9, unclean=True)]
    for enabled, excuses in (("true", ("unclean-election",)), ("false", ())):
        plan = {"broker": {"unclean.leader.election.enable": enabled, RETENTION: "5000"}}
        on = partition(TWO, logs, on=about(plan))
        assert labels(changed(on, "leadership", rows)) == (excuses, ())


def in_transactions(on: Group) -> Group:
    """Have each record belong to a transaction of its own."""
    rows = [{**row, "txn_id": row["op_id"]} for row in on.table("sends").to_pylist()]
    return changed(on, "sends", rows)


def test_a_marker_that_was_lost_excuses_what_a_read_lacks_and_no_log() -> None:
    """The record is left at 2, and the marker behind it went: readers do not get it."""
    on = about(disk_losses=(replace(LOSS, end_after=3),))
    read = partition(TWO, {"n1": LAST}, read=[(1, OTHER), LAST[2]], on=on)
    assert labels(in_transactions(read)) == (("power-loss",), ())
    assert labels(read) == ((), ()), "a plain send has no marker"
    logs = partition(TWO, dict.fromkeys(NODES, LAST[:1]), on=on)
    assert labels(in_transactions(logs)) == ((), ())
    # Of another send nobody asks.
    late = [replace(each, at=9 * S if row == 2 else S) for row, each in enumerate(TWO)]
    read = partition(late, {"n1": LAST}, read=[(1, OTHER), LAST[2]], on=on)
    assert labels(in_transactions(read)) == ((), ())
    others = [replace(each, at=S if row == 2 else 9 * S) for row, each in enumerate(TWO)]
    read = partition(others, {"n1": LAST}, read=[(1, OTHER), LAST[2]], on=on)
    assert labels(in_transactions(read)) == (("power-loss",), ())


@pytest.mark.parametrize(
    ("begun_s", "txn_id", "excuses"), [(1, 7, ("power-loss",)), (1, None, ()), (4, 7, ())]
)
def test_disks_may_have_lost_it_before_its_transaction_ended(
    begun_s: int, txn_id: int | None, excuses: tuple[str, ...]
) -> None:
    logs = partition(TWO, dict.fromkeys(NODES, LAST[:1]), on=about(disk_losses=(LOSS,)))
    times = {"invoke_ns": begun_s * S, "complete_ns": 9 * S, "txn_id": txn_id}
    sends = [{**row, **times} for row in logs.table("sends").to_pylist()]
    assert labels(changed(logs, "sends", sends)) == (excuses, ())


@pytest.mark.parametrize(("began_s", "excuses"), [(4, ()), (-1, ("power-loss",))])
def test_disks_did_not_lose_what_a_later_leader_wrote(
    began_s: int, excuses: tuple[str, ...]
) -> None:
    reign = Reign(topic="log-0", partition=0, leader=1, epoch=0, from_ns=began_s * S,
                  until_ns=20 * S)  # fmt: skip
    on = about(disk_losses=(LOSS,), reigns=(reign,))
    logs = partition(TWO, {"n1": LAST, "n2": LAST[:1], "n3": LAST[:1]}, on=on)
    times = {"invoke_ns": S, "complete_ns": 9 * S, "txn_id": 7}
    sends = [{**row, **times} for row in logs.table("sends").to_pylist()]
    assert labels(changed(logs, "sends", sends)) == (excuses, ())


@pytest.mark.parametrize(
    ("node", "read", "premises"),
    [
        (None, [(1, OTHER), LAST[2]], ("recovered",)),
        ("n1", None, ()),
        ("n1", [(1, OTHER), LAST[2]], ()),  # The log shows it, too.
    ],
)
def test_a_read_of_a_run_that_did_not_recover_proves_nothing_by_itself(
    node: str | None, read: list[tuple[int, int]] | None, premises: tuple[str, ...]
) -> None:
    logs = {"n1": [(1, OTHER), LAST[2]] if node else LAST}
    on = partition(TWO, logs, read=read, on=about(milestones=UNHEALED))
    assert labels(on) == ((), premises)
    assert labels(partition(TWO, logs, read=read)) == ((), ())
    cut = partition(TWO, logs, read=read, on=about(cut_streams=True))
    assert labels(cut) == ((), ("whole-record",))


def test_the_reason_says_who_has_it_and_what_befell_it() -> None:
    gone = [(1, OTHER), (3, value(2))]
    logs = {"n1": LAST, "n2": gone}
    assert reason(CHECKER, partition(TWO, logs)) == (
        "the log of n1 holds it at offset 2, and the log of n2 lacks it; no replica recorded a"
        " truncation there: a log cleaner removed the record, or it was never written"
    )
    cut = {"node": "n2", "from_offset": 2, "to_offset": 4, "observed_ns": 2 * S}
    assert reason(CHECKER, partition(TWO, logs, truncations=[cut])) == (
        "the log of n1 holds it at offset 2, and the log of n2 lacks it; a replica truncated its"
        " log there, so the record was truncated, or a log cleaner removed it"
    )
    assert reason(CHECKER, partition(TWO, {"n2": gone})) == (
        "no log that was read holds it; no replica recorded a truncation there: a log cleaner"
        " removed the record, or it was never written"
    )
    read = reason(CHECKER, partition(TWO, {"n1": LAST}, read=[LAST[0], LAST[2]]))
    assert read.startswith("the log of n1 holds it at offset 2: ")
    assert read.endswith("or the client omitted it")
    assert reason(CHECKER, partition(TWO, {}, read=gone)) == (
        "no log that was read shows whether a broker still has it"
    )


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


def _ends_with_a_tombstone(record: Record, spot: Spot, *, until_ns: int = _FAR) -> tuple[Row, Row]:
    """Have a partition's last tombstone, until then, be the last record of its key, and be gone.

    Returns:
        Its send, and the send before it of the key: what it deleted.
    """
    keys, sends = record.plan["keys"], record.rows("sends", **spot.place)
    sends.sort(key=lambda row: _FAR if row["offset"] is None else int(row["offset"]))
    sure = [row for row in sends if row["outcome"] == "ok" and row["offset"] is not None]
    dead = next(
        row
        for row in reversed(sure)
        if is_tombstone(row["value"]) and row["complete_ns"] < until_ns
    )
    key = key_number(dead["value"], keys)
    mine = [row for row in sends if key_number(row["value"], keys) == key]
    at = mine.index(dead)
    later = {row["value"] for row in mine[at + 1 :]}
    for name in ("sends", "polls", "replica_records"):
        record.drop(name, lambda row: row["value"] in later, **spot.place)
    _take(record, spot, {dead["value"]})
    before = next(
        row for row in reversed(mine[:at]) if row in sure and not is_tombstone(row["value"])
    )
    return dead, before


def _put_back(record: Record, spot: Spot, send: Row, node: str) -> None:
    like = record.rows("replica_records", snapshot="final", node=node, control=False, **spot.place)
    record.add("replica_records", like[0], offset=send["offset"], value=send["value"])


@broken("wrong-last-value", row="compaction", base="keyed")
def what_a_tombstone_deleted_is_back_in_the_log_of_who_wrote_it(record: Record, spot: Spot) -> None:
    _, before = _ends_with_a_tombstone(record, spot)
    _put_back(record, spot, before, _leader(record, spot))


@broken("wrong-last-value", row="compaction", base="keyed")
def what_a_tombstone_deleted_is_back_on_a_follower(record: Record, spot: Spot) -> None:
    _, before = _ends_with_a_tombstone(record, spot)
    _put_back(record, spot, before, "n2")


@innocent(base="keyed")
def a_tombstone_goes_after_all_that_it_deleted(record: Record, spot: Spot) -> None:
    """Nothing of the key is left in any log; final reads began after that."""
    _ends_with_a_tombstone(record, spot)


@innocent(base="keyed")
def who_wrote_a_tombstone_is_moved_away_and_copied_anew(record: Record, spot: Spot) -> None:
    """It takes the old value from a replica that its cleaner has not come by."""
    until_ns = record.stone("main-ended") - S
    dead, before = _ends_with_a_tombstone(record, spot, until_ns=until_ns)
    _put_back(record, spot, before, _leader(record, spot))
    (like,) = record.rows("faults", kind="kill")
    spec = {**json.loads(like["spec"]), "kind": "reassignment", "family": "reassignment"}
    steps = ("requested_ns", "confirmed_ns", "healed_ns")
    times = {name: int(dead["complete_ns"]) + at * S // 10 for at, name in enumerate(steps, 1)}
    told = {"kind": "reassignment", "spec": json.dumps(spec), "effect": None}
    record.add("faults", like, fault_id=3, **told, **times)


@innocent(base="keyed")
def a_follower_comes_when_the_tombstone_is_gone(record: Record, spot: Spot) -> None:
    """It keeps what was deleted: nothing shows that it was beyond the tombstone in time."""
    dead, before = _ends_with_a_tombstone(record, spot)
    _put_back(record, spot, before, "n2")
    record.drop(
        "replica_states",
        lambda row: (
            row["observed_ns"] is not None and row["observed_ns"] < dead["invoke_ns"] + 3 * S
        ),
        node="n2",
        **spot.place,
    )
