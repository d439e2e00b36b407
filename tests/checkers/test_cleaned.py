"""What a cleaner may have taken, and what other checks make of it on a compacted topic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkers import duplicate, lost_write, send_order, torn_transaction, unseen
from checkers.cleaned import holes, kept, may_stand, stayed, taken
from checkers.columns import NONE, ints
from checkers.facts import DiskLoss
from checkers.findings import numbers_in
from checkers.group import Group
from checkers.poll_order import CHECKERS as POLL_ORDER
from results.record.terms import Phase
from tests.checkers.keyed import (
    NODES,
    TAIL,
    Sent,
    about,
    changed,
    partition,
    read_back,
    value,
)
from tests.checkers.partition_rows import S, ack, elected, facts, found, isr, leads

OLD, NEW, DEAD, OTHER = value(0), value(0, 1), value(0, dead=True), value(1)
TWO = [Sent(value=OLD), Sent(value=OTHER), Sent(value=NEW)]
LAST = [(1, OTHER), (2, NEW)]
(INT_SKIP,) = (each for each in POLL_ORDER if each.name == "int-poll-skip")
(INT_BACK,) = (each for each in send_order.CHECKERS if each.name == "int-nonmonotonic-send")


def alike(log: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
    """Return the same log on all replicas."""
    return dict.fromkeys(NODES, log)


def values_of(on: Group, mask: Any) -> set[int]:  # noqa: ANN401 - a mask
    return {*ints(on.committed, "value")[mask].tolist()}


def kept_of(on: Group) -> set[int]:
    return values_of(on, kept(on))


def test_the_last_of_each_key_is_kept_and_no_tombstone() -> None:
    on = partition([*TWO, Sent(value=value(2, dead=True))], {"n1": LAST})
    assert kept_of(on) == {OTHER, NEW, TAIL}
    assert {*taken(on).tolist()} == {OLD, value(2, dead=True)}
    assert {*stayed(on).tolist()} == {OTHER, NEW, TAIL}


def test_what_still_stands_was_never_taken() -> None:
    on = partition(TWO, alike([(0, OLD), *LAST]))
    assert (taken(on).tolist(), kept_of(on)) == ([], {OTHER, NEW, TAIL})
    # Another replica may have led, which was cleaned earlier; or whose log nobody read.
    whole = alike([(0, OLD), *LAST])
    for logs in ({**whole, "n3": LAST}, {**whole, "n2": LAST}, {"n1": [(0, OLD), *LAST]}):
        assert taken(partition(TWO, logs)).tolist() == [OLD]
    moved = partition(TWO, {**whole, "n4": [(0, OLD), *LAST]})
    assert taken(moved).tolist() == [], "a replica more than it has"


def test_a_record_whose_place_nobody_knows_may_be_gone() -> None:
    sends = [Sent(value=OLD), Sent(value=OTHER, placed=False)]
    assert kept_of(partition(sends, {"n1": [(0, OLD)]})) == {OLD, TAIL}


def test_a_tombstone_that_stands_somewhere_is_not_elsewhere() -> None:
    lost = Sent(value=value(1, 3), outcome="info", placed=False)
    sends = [Sent(value=DEAD, outcome="info", placed=False), Sent(value=OLD), lost]
    for log in ([(0, DEAD), (1, OLD)], [(1, OLD)]):
        on = partition(sends, {"n1": log})
        assert (OLD in kept_of(on)) == (log[0][0] == 0)


@pytest.mark.parametrize(
    ("dead", "client", "kept_old"),
    [
        ("info", {}, False),  # A client that had no answer may have sent it again.
        ("ok", {}, True),  # It sends nothing again behind its answer.
        ("ok", {"enable.idempotence": "false"}, False),  # An earlier request may come late.
        ("info", {"retries": "0"}, True),
        ("ok", {"enable.idempotence": "false", "retries": "0"}, True),
    ],
)
def test_a_tombstone_that_was_read_may_have_stood_a_second_time(
    dead: str,
    client: dict[str, str],
    kept_old: bool,  # noqa: FBT001 - a case
) -> None:
    """It was read at 0, and is gone; a copy may have stood in the gap at 2 and deleted 1."""
    lost = Sent(value=value(1, 3), outcome="info", placed=False)
    sends = [Sent(value=DEAD, outcome=dead, placed=dead == "ok"), Sent(value=OLD), lost]
    polls, on = read_back([(0, DEAD)]), about({"client": client})
    gone = partition(sends, {"n1": [(1, OLD)]}, polls=polls, on=on)
    assert (OLD in kept_of(gone)) == kept_old
    there = partition(sends, {"n1": [(0, DEAD), (1, OLD)]}, polls=polls, on=on)
    assert OLD in kept_of(there), "a copy that superseded it would have taken it along"


def test_a_send_without_a_value_may_not_stand() -> None:
    on = partition(TWO, {"n1": LAST})
    rows = [{**row, "value": None} for row in on.table("sends").to_pylist()[:1]]
    assert may_stand(changed(on, "sends", rows), np.array([NONE, OLD])).tolist() == [False, False]


@pytest.mark.parametrize(
    ("version", "left"),
    [("3.0.2", {OTHER, TAIL}), ("3.1.0", {OTHER, NEW, TAIL}), ("4.3.1", {OTHER, NEW, TAIL})],
)
def test_cleaners_of_old_versions_may_take_what_was_not_committed(
    version: str, left: set[int]
) -> None:
    """A tombstone of a leader that was alone, cut off again, may have stood anywhere."""
    assert kept_of(adrift(Sent(value=NEW), on=about({"system": f"kafka:{version}"}))) == left


def test_a_cleaner_takes_what_stands_between_the_start_of_a_log_and_its_end() -> None:
    on = partition([*TWO, Sent(value=value(2))], {"n1": [(0, OLD), (2, NEW)]})
    (log,) = on.logs["final"].values()
    assert holes(on, log) == 2
    assert holes(on, replace(log, start=1)) == 2
    assert holes(on, replace(log, start=2)) == 1
    short = replace(log, records=log.records.slice(0, 2))
    assert short.read_end == 3
    assert holes(on, short) == 1, "3 is behind its end"


@pytest.mark.parametrize(
    ("last", "left"),
    [
        (Sent(value=NEW, outcome="fail"), {OLD, OTHER, TAIL}),
        (Sent(value=NEW, outcome="info"), {OLD, OTHER, TAIL}),  # It is not there to stay.
        (Sent(value=DEAD, outcome="info"), {OTHER, TAIL}),
        (Sent(value=DEAD, outcome="info", placed=False), {OTHER, TAIL}),
        (Sent(value=DEAD, outcome="fail", placed=False), {OLD, OTHER, TAIL}),
    ],
)
def test_who_may_have_superseded_a_record(last: Sent, left: set[int]) -> None:
    on = partition([*TWO[:2], last], {"n1": [(0, OLD), (1, OTHER)]})
    assert kept_of(on) == left


def test_without_the_leaders_log_whatever_was_told_or_read_counts() -> None:
    sends = [*TWO[:2], Sent(value=NEW, outcome="info")]
    on = partition(sends, {})
    assert kept_of(on) == {OTHER, TAIL}
    assert OLD in taken(on)


STRANGE = value(2, 50)
"""Of no send."""
LOSS = DiskLoss(
    nodes=frozenset({"n3"}), topic="log-0", partition=0, end_after=9, end_before=9, until_ns=3 * S,
    excuse="power-loss",
)  # fmt: skip


def adrift(*later: Sent, at: int = S, **changes: Any) -> Group:  # noqa: ANN401 - of `partition`
    """Key 0 at 0, something at 1, at 2 a tombstone of key 0 perhaps, of which nobody knows."""
    dead = Sent(value=DEAD, outcome="info", placed=False, at=at)
    sends = [*TWO[:2], dead, *later]
    stand = [(0, OLD), (1, OTHER), *((at, each.value) for at, each in enumerate(later, start=3))]
    return partition(sends, **{"logs": {"n1": stand}, **changes})


def test_a_tombstone_that_nobody_saw_may_stand_in_a_gap_and_nowhere_else() -> None:
    assert kept_of(adrift()) == {OTHER, TAIL}
    # Behind the last gap all is known.
    assert kept_of(adrift(Sent(value=NEW))) == {OTHER, NEW, TAIL}
    all_kept = {OLD, OTHER, TAIL}
    assert kept_of(adrift(logs={"n1": [(0, OLD), (1, OTHER), (2, STRANGE)]})) == all_kept
    assert kept_of(adrift(polls=read_back([(2, STRANGE)]))) == all_kept
    assert kept_of(adrift(polls=read_back([(9, STRANGE)]))) == {OTHER, TAIL}, "behind the log's end"
    on = adrift()
    told = [*on.table("sends").to_pylist(), ack(STRANGE, 2)]
    assert kept_of(changed(on, "sends", told)) == {*all_kept, STRANGE}
    # What its key is decides, and that it is a tombstone.
    assert kept_of(adrift(Sent(value=value(1, dead=True), outcome="info", placed=False))) == {TAIL}
    alive = [*TWO[:2], Sent(value=NEW, outcome="info", placed=False)]
    assert kept_of(partition(alive, {"n1": [(0, OLD), (1, OTHER)]})) == all_kept


@pytest.mark.parametrize(("at", "left"), [(S + 5, {OTHER, TAIL}), (S + 6, {OLD, OTHER, TAIL})])
def test_a_tombstone_stands_above_what_was_acknowledged_before_it_was_sent(
    at: int, left: set[int]
) -> None:
    on = adrift(at=at)
    assert kept_of(on) == left


@pytest.mark.parametrize(
    ("tail", "old_is_kept"),
    [
        ({"complete_ns": S - 1}, True),
        ({"complete_ns": S - 1, "offset": 1}, False),  # Below the gap.
        ({"complete_ns": S - 1, "offset": None}, False),
        ({"complete_ns": None}, False),
        (
            {"complete_ns": 0, "offset": 3},
            True,
        ),  # Another one was acknowledged later, further down.
    ],
)
def test_the_highest_one_that_was_acknowledged_before_counts(
    tail: dict[str, Any],
    old_is_kept: bool,  # noqa: FBT001 - a case
) -> None:
    on = adrift(at=S + 5)
    *rows, last = on.table("sends").to_pylist()
    on = changed(on, "sends", [*rows, {**last, **tail}])
    assert (OLD in kept_of(on)) == old_is_kept


@pytest.mark.parametrize(
    "facts_of",
    [
        {"disk_losses": (LOSS,)},
        {"plan": {"client": {"acks": "1"}}},
        {"plan": {"broker": {"unclean.leader.election.enable": "true"}}},
        {"unreadable_nodes": frozenset({"n1"})},
    ],
)
def test_what_was_committed_and_cut_off_again_may_have_been_a_tombstone(
    facts_of: dict[str, Any],
) -> None:
    rows = [isr(1, 2, 3), leads(1, 1), elected(1, 1, 9, unclean=True)]
    for facts_here, left in (({}, {OTHER, NEW, TAIL}), (facts_of, {OTHER, TAIL})):
        on = adrift(Sent(value=NEW), on=about(facts_here.get("plan"), **{
            name: each for name, each in facts_here.items() if name != "plan"}))  # fmt: skip
        on = changed(on, "leadership", rows)
        assert kept_of(on) == left


def test_a_log_that_was_not_read_to_its_end_has_gaps_that_nobody_knows() -> None:
    on = adrift(Sent(value=NEW))
    cut = changed(on, "replica_records", on.table("replica_records").to_pylist()[:-1])
    assert kept_of(cut) == {OTHER, TAIL}
    unled = changed(on, "leadership", [])
    assert kept_of(unled) == {OTHER, TAIL}


def test_of_other_runs_all_is_kept_or_nothing_is_known() -> None:
    for on, all_kept in (
        (facts(), True),
        (facts(plan={"broker": {"log.cleanup.policy": "compact"}}), False),
        (about(cut_streams=True), False),
    ):
        assert set(kept(partition(TWO, {"n1": LAST}, on=on)).tolist()) == {all_kept}


def test_a_lost_write_is_the_last_of_its_key() -> None:
    check = lost_write.CHECKER
    assert check.applies(about())
    assert not check.applies(facts(plan={"broker": {"log.cleanup.policy": "compact"}}))
    sound = found(check, partition(TWO, {"n1": LAST}))
    assert (sound.rows, sound.anomalies) == (3, ())
    (lost,) = found(check, partition(TWO, {"n1": [(1, OTHER)]})).anomalies
    assert lost.evidence["value"] == NEW
    read = partition(TWO, alike([(0, OLD), *LAST]), read=[(1, OTHER)])
    assert [each.offset for each in found(check, read).anomalies] == [0, 2], "both were there"
    gone = partition(TWO, {"n1": LAST}, read=[(1, OTHER)])
    assert [each.offset for each in found(check, gone).anomalies] == [2]


def test_what_stands_in_the_log_has_to_be_read() -> None:
    check = unseen.UNSEEN_CHECKER
    assert check.applies(about())
    sound = found(check, partition(TWO, {"n1": LAST}, read=LAST))
    assert (sound.rows, sound.anomalies) == (3, ())
    there = partition(TWO, alike([(0, OLD), *LAST]), read=[(0, OLD), *LAST])
    assert found(check, there).rows == 4
    # Nothing behind it was read, so that no reader is known to have gone past it.
    unread = changed(there, "polls", there.table("polls").to_pylist()[:1])
    assert [each.offset for each in found(check, unread).anomalies] == [1, 2, 3]


def test_a_reader_may_jump_over_what_may_be_gone_and_nothing_else() -> None:
    jump = [{**row, "phase": "main", "op_id": 80} for row in read_back([(0, OLD), (2, NEW)])]
    gone, there = LAST[1:], LAST
    sends = [*TWO, Sent(value=value(1, 1))]
    last = (3, value(1, 1))
    cleaned = partition(sends, alike([*gone, last]), read=[*gone, last], polls=jump)
    assert found(INT_SKIP, cleaned).anomalies == ()
    standing = partition(sends, alike([*there, last]), read=[*there, last], polls=jump)
    over = found(INT_SKIP, standing).anomalies
    assert [each.evidence["skipped_values"] for each in over] == [[OTHER]]


COPIES = [(0, OLD), (1, OTHER), (2, OTHER)]


def jumped_over(log: list[tuple[int, int]], *skipped: int, last: int = OTHER) -> list[int]:
    """Return the offsets that count as skipped, if a second read lacks some copies."""
    copies = [*COPIES[:2], (2, last)]
    early = [{**row, "phase": "main", "op_id": 80} for row in read_back([*copies, (3, TAIL)])]
    late = [
        {**row, "op_id": 81, "phase": "recovery"}
        for row in read_back([*copies, (3, TAIL)])
        if row["offset"] not in skipped
    ]
    failed = Sent(value=value(2), outcome="fail", placed=False)
    sends = [Sent(value=OLD), failed, Sent(value=OTHER)]
    on = partition(sends, alike(log), read=log, polls=[*early, *late])
    return [
        at for each in found(INT_SKIP, on).anomalies for at in numbers_in(each, "skipped_offsets")
    ]


def test_a_reader_may_jump_over_a_copy_if_a_log_has_only_a_later_copy() -> None:
    cleaned = [(0, OLD), (2, OTHER)]
    assert jumped_over(cleaned, 1) == []
    assert jumped_over(cleaned, 1, 2) == [2]


def test_a_reader_may_not_jump_over_a_copy_that_is_in_all_logs() -> None:
    assert jumped_over(COPIES, 1) == [1]


def test_a_copy_that_only_a_reader_got_supersedes_none() -> None:
    without = [(0, OLD), (1, OTHER)]  # Somebody answered a reader that it is at offset 2, too.
    assert 1 in jumped_over(without, 1)


def test_half_a_transaction_is_shown_only_if_the_other_half_is_there() -> None:
    assert torn_transaction.CHECKER.applies(about())
    on = partition(TWO, {"n1": LAST}, read=LAST)
    rows = [{**row, "txn_id": 7, "op_id": 7} for row in on.table("sends").to_pylist()]
    on = changed(on, "sends", rows)
    shares = torn_transaction.shares(on).to_pylist()
    assert {row["value"]: row["shown"] for row in shares} == {OTHER: True, NEW: True, TAIL: True}
    shares = torn_transaction.shares(changed(on, "leadership", [])).to_pylist()
    assert OLD not in {row["value"] for row in shares}


@pytest.mark.parametrize(("log", "premises"), [(LAST, ("shown-cause",)), ([(0, OLD), *LAST], ())])
def test_a_copy_that_was_cleaned_away_does_not_tell_who_wrote_it(
    log: list[tuple[int, int]], premises: tuple[str, ...]
) -> None:
    early = {**read_back([(0, NEW)])[0], "phase": Phase.MAIN.value, "op_id": 80}
    sends = [Sent(value=OTHER), Sent(value=value(2)), Sent(value=NEW)]
    on = partition(sends, {"n1": [(at, each if at else NEW) for at, each in log]}, polls=[early])
    (twice,) = found(duplicate.CHECKER, on).anomalies
    assert (twice.evidence["value"], twice.broken_premises) == (NEW, premises)


@pytest.mark.parametrize(
    ("sequence", "at", "told"),
    [
        (1, 0, (("new-producer-epoch",), ())),  # Its epoch began behind 0.
        (0, 0, ((), ("shown-cause",))),  # It began behind both.
        (2, 0, ((), ("shown-cause",))),  # It began in front of both.
        (1, 2, ((), ("shown-cause",))),  # Both were told at one place.
    ],
)
def test_an_order_inside_of_an_op_is_told_by_a_record_that_is_left(
    sequence: int, at: int, told: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    rows = [
        {**ack(OLD, 2, op=5, at=9 * S), "invoke_ns": S, "mop": 0, "process": 1},
        {**ack(OTHER, at, op=5, at=9 * S), "invoke_ns": S, "mop": 1, "process": 1},
        {**ack(TAIL, 3, op=6, at=9 * S), "process": 1},
    ]
    on = changed(partition([*TWO], {"n1": []}), "sends", rows)
    (left,) = on.table("replica_records").to_pylist()
    on = changed(on, "replica_records", [{**left, "sequence": sequence}])
    (back,) = found(INT_BACK, on).anomalies
    assert (back.excuses, back.broken_premises) == told
    (lost,) = found(INT_BACK, changed(on, "replica_records", [])).anomalies
    assert lost.broken_premises == ("shown-cause",)
