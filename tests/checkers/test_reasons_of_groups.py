"""Why groups, transactions and partitions failed: each clause of a reason, and what unsays it."""

from dataclasses import replace

import pytest

from checkers import (
    commit_ahead,
    commit_lost,
    group_stuck,
)
from checkers.facts import Disturbance, RunFacts
from checkers.protocol import Proved
from checkers.reigns import GROUPS, Cut, Reign, lasting
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    group,
    leads,
    log,
    read,
    reason,
    reasons,
)
from tests.checkers.test_reigns import reign

OF_GROUPS: Row = {"workload": "groups", "workers": 1, "concurrency": 16, "nodes": 3}
"""Every other one of eight threads is a member of `groups-0`."""
ONE = reign(3, 0, 0, 100)
"""The only leader of the only partition of the groups' topic."""


def of_groups(*reigns: Reign, **changes: object) -> RunFacts:
    return facts(plan=OF_GROUPS, reigns=reigns, **changes)


def commit(offset: int, at: int, *, op: int, process: int = 0, outcome: str = "ok") -> Row:
    told = at * S + S // 2 if outcome == "ok" else None
    return {"op_id": op, "process": process, "act": "commit", "asked_ns": at * S, "told_ns": told,
            "offset": offset, "outcome": outcome}  # fmt: skip


def fetch(offset: int | None, at: int, *, by: int | None = None, op: int = 99) -> Row:
    return {"op_id": op, "process": 2, "act": "fetch", "asked_ns": at * S,
            "told_ns": at * S + S // 2, "offset": offset, "outcome": "ok",
            "committed_by": by}  # fmt: skip


# commit-lost


FORGOTTEN = [commit(5, 10, op=1), commit(9, 20, op=2), fetch(5, 30, by=1)]


def lost(about: RunFacts, rows: list[Row]) -> str:
    return reasons(commit_lost.CHECKER, group(about, commits=rows))[0]


def test_the_only_coordinator_answered_with_an_older_position() -> None:
    told = lost(of_groups(ONE), FORGOTTEN)
    assert isinstance(told, Proved)
    assert told == (
        "n3, leader of __consumer_offsets-0 in epoch 0, was the coordinator during the whole"
        " time: it acknowledged op 2, and 10.0 s later it answered with the older position of op"
        " 1, without an election in between"
    )


def test_the_answer_may_be_no_position_or_nobodys() -> None:
    assert "with no position at all," in lost(of_groups(ONE), [*FORGOTTEN[:2], fetch(None, 30)])
    assert "with another position," in lost(of_groups(ONE), [*FORGOTTEN[:2], fetch(5, 30)])


def test_a_fault_of_the_only_coordinator_is_named() -> None:
    power = Disturbance(
        kind="power-loss", begun_ns=22 * S, confirmed_ns=23 * S, ended_ns=25 * S,
        nodes=frozenset({"n3"}),
    )  # fmt: skip
    told = lost(of_groups(ONE, disturbances=(power,)), FORGOTTEN)
    assert "acknowledged op 2 and was hit by power-loss at 23.000 s, and 10.0 s later" in told
    other = replace(power, nodes=frozenset({"n1"}))
    assert "power-loss" not in lost(of_groups(ONE, disturbances=(other,)), FORGOTTEN)


def test_a_position_that_was_given_later_was_stored() -> None:
    later = fetch(9, 40, by=2, op=100)
    assert lost(of_groups(ONE), [*FORGOTTEN, later]).endswith(
        "; at 40.500 s another answer had this position, so the commit had been stored"
    )
    other = fetch(9, 40, by=7, op=100)
    assert "stored" not in lost(of_groups(ONE), [*FORGOTTEN, other])


def test_a_coordinator_that_was_elected_later_lacked_it() -> None:
    two = (reign(3, 0, 0, 25), reign(2, 1, 24, 100))
    told = lost(of_groups(*two), FORGOTTEN)
    assert not isinstance(told, Proved)
    assert told == (
        "n3, leader of __consumer_offsets-0 in epoch 0, acknowledged op 2, and n2, elected later"
        " (epoch 1), answered with the older position of op 1: it lacked the acknowledged commit,"
        " or had not loaded it"
    )
    again = fetch(9, 40, by=2, op=100)
    assert "lacked" not in lost(of_groups(*two), [*FORGOTTEN, again]), "it had it"


def test_a_coordinator_that_was_cut_off_before_it_learned_of_its_end_may_have_answered() -> None:
    two = lasting([reign(2, 0, 0, 25), reign(3, 1, 24, 200)], [("n2", 23 * S, 60 * S)])
    told = lost(of_groups(*two), FORGOTTEN)
    assert not isinstance(told, Proved)
    assert "n2, leader of __consumer_offsets-0 in epoch 0, or n3 in epoch 1" in told


def test_the_fault_between_acknowledgement_and_answer_is_named() -> None:
    two = (reign(3, 0, 0, 25), reign(2, 1, 24, 100))
    fault = Disturbance(
        kind="isolate", begun_ns=21 * S, confirmed_ns=22 * S, ended_ns=40 * S,
        nodes=frozenset({"n3"}),
    )  # fmt: skip
    told = lost(of_groups(*two, disturbances=(fault,)), FORGOTTEN)
    assert "acknowledged op 2 and was hit by isolate at 22.000 s, and n2" in told
    for other in (
        replace(fault, nodes=frozenset({"n1"})),
        replace(fault, confirmed_ns=19 * S),
        replace(fault, confirmed_ns=31 * S),
        replace(fault, confirmed_ns=-1),
    ):
        assert "was hit" not in lost(of_groups(*two, disturbances=(other,)), FORGOTTEN)


def test_a_cut_of_the_old_coordinators_copy_is_named() -> None:
    two = (reign(3, 0, 0, 25), reign(2, 1, 24, 100))
    cut = Cut(topic=GROUPS, partition=0, node="n3", from_offset=27)
    told = lost(of_groups(*two, inner_cuts=(cut,)), FORGOTTEN)
    when = ", at a time that is not recorded"
    assert told.endswith(f"; n3 truncated its copy from offset 27 on{when}")
    more = (cut, replace(cut, from_offset=3))
    both = lost(of_groups(*two, inner_cuts=more), FORGOTTEN)
    assert both.endswith(f"; n3 truncated its copy from offset 3, or from 27 on{when}")
    for other in (replace(cut, node="n2"), replace(cut, partition=1), replace(cut, topic="t")):
        assert "truncated its copy" not in lost(of_groups(*two, inner_cuts=(other,)), FORGOTTEN)


def test_an_election_close_to_the_answer_leaves_two() -> None:
    two = (reign(3, 0, 0, 29), reign(2, 1, 24, 100))
    told = lost(of_groups(*two), FORGOTTEN)
    assert "n3, leader of __consumer_offsets-0 in epoch 0, or n2 in epoch 1" in told
    assert "an election may have happened at about that time" in told


def test_without_leaders_of_the_groups_topic_no_broker_is_named() -> None:
    told = lost(of_groups(), FORGOTTEN)
    assert told == (
        "the coordinator had acknowledged op 2, and answered with the older position of op 1; the"
        " run's record does not have the leader of __consumer_offsets, so the coordinator's"
        " broker is unknown"
    )
    assert "does not have" in lost(of_groups(reign(3, 0, 0, 5)), FORGOTTEN), "that was before"
    assert "does not have" in lost(of_groups(reign(-1, 0, 0, 100)), FORGOTTEN), "nobody led"


# commit-ahead


def ahead(about: RunFacts, rows: list[Row]) -> str:
    return reason(commit_ahead.CHECKER, group(about, commits=rows))


def test_an_answer_with_an_ops_mark_is_that_ops_position_changed() -> None:
    rows = [commit(15, 10, op=1), fetch(16, 20, by=1)]
    told = ahead(of_groups(ONE), rows)
    assert isinstance(told, Proved)
    assert told == (
        "the answer has the commit metadata of op 1, which committed 15 here, so nothing was"
        " mixed up: the coordinator (n3, leader of __consumer_offsets-0 in epoch 0) or the"
        " client's library stored or reported a position that is 1 too high"
    )


def test_an_answer_with_another_groups_or_partitions_mark_was_mixed_up() -> None:
    other = [commit(16, 10, op=1, process=8), fetch(16, 20, by=1)]
    told = ahead(of_groups(ONE), other)
    assert "another group: the coordinator" in told
    assert "library" not in told, "a client has the marks of its own group only"
    elsewhere = [commit(15, 10, op=1), fetch(16, 20, by=7)]
    told = ahead(of_groups(ONE), elsewhere)
    assert "op 7, which committed nothing of log-0-0" in told
    assert told.endswith("or the client's library mixed up partitions")


def test_an_answer_without_a_mark_is_no_commit_of_ours() -> None:
    told = ahead(of_groups(ONE), [fetch(2, 20)])
    assert told.startswith("the answer has no member's commit metadata")
    assert told.endswith("or the client's library made it up"), "no log of positions is recorded"
    two = (reign(3, 0, 0, 20), reign(2, 1, 19, 100))
    assert ahead(of_groups(*two), [fetch(2, 20)]).endswith(
        "; more than one broker may have been the coordinator"
    )
    assert ahead(of_groups(), [fetch(2, 20)]).endswith(
        "the leader of __consumer_offsets is not recorded"
    )


# group-stuck


CALM = 100
MEMBER, OTHER_GROUPS, OF_NONE = 2, 8, 3


def move(kind: str, process: int, at: int, offset: int | None = None) -> Row:
    return {"op_id": 900, "process": process, "kind": kind, "time_ns": at * S, "offset": offset}


def got(process: int, at: int, offset: int = 0) -> Row:
    return {**read(A, offset, op=500 + at, phase="recovery"), "process": process,
            "complete_ns": at * S}  # fmt: skip


def calm(*reigns: Reign, more: Row | None = None) -> RunFacts:
    return facts(
        plan={**OF_GROUPS, "budgets": {"group_s": 10}, **(more or {})},
        calm_from_ns=CALM * S,
        milestones=(Milestone(name="final-reads", at_ns=140 * S),),
        reigns=reigns,
    )


def stuck(on: RunFacts, moves: list[Row], /, *polls: Row, **rows: list[Row]) -> str:
    judged = group(
        on, assignments=moves, sends=[ack(B, 1, at=105 * S)],
        polls=[got(OTHER_GROUPS, 110), *polls], **rows,
    )  # fmt: skip
    return reason(group_stuck.CHECKER, judged)


DEALT, REVOKED = "rebalance-assigned", "rebalance-revoked"


def test_a_partition_that_was_given_back_was_assigned_to_nobody() -> None:
    moves = [move(DEALT, MEMBER, 90, 0), move(REVOKED, MEMBER, 95)]
    alone = (
        "process 2, the last member with the partition, lost it at 95.000 s, and no later"
        " rebalance assigned it to a member"
    )
    assert stuck(calm(), moves) == alone
    assert stuck(calm(reign(3, 0, 0, 92)), moves) == alone, "that was before"
    assert stuck(calm(reign(3, 0, 0, 200)), moves) == (
        f"{alone}; its coordinator was n3, leader of __consumer_offsets-0 in epoch 0"
    )
    two = (reign(3, 0, 0, 100), reign(2, 1, 99, 200))
    assert stuck(calm(*two), moves).endswith(
        "; its coordinator was n3, leader of __consumer_offsets-0 in epoch 0, then n2 in epoch 1"
    )


@pytest.mark.parametrize(
    "other",
    [
        move(REVOKED, MEMBER, 80),
        move(REVOKED, 4, 95),
        move(REVOKED, MEMBER, 145),
        move("subscribe", MEMBER, 95),
        move("subscribe", MEMBER + 15, 95),
    ],
)
def test_what_came_before_after_or_to_others_takes_nothing(other: Row) -> None:
    told = stuck(calm(), [move(DEALT, MEMBER, 90, 0), other])
    assert told.startswith("process 2 has been assigned the partition since 90.000 s")


def test_who_gave_it_back_last_without_an_assignment_is_named() -> None:
    moves = [move(DEALT, MEMBER, 90, 0), move(REVOKED, MEMBER, 95), move(REVOKED, 4, 97)]
    tail = (
        "process 4 lost the partition at 97.000 s, although no assignment to that process is"
        " recorded, and no later rebalance assigned it to a member"
    )
    assert stuck(calm(), moves) == f"process 2 lost it at 95.000 s, and {tail}"
    assert stuck(calm(), moves[2:]) == tail
    for other in (move(REVOKED, OTHER_GROUPS, 97), move(REVOKED, 4, 145), move(REVOKED, 4, 94)):
        told = stuck(calm(), [*moves[:2], other])
        assert told.startswith("process 2, the last member with the partition, lost it at 95")


def test_a_member_whose_thread_goes_on_as_another_process_is_gone() -> None:
    told = stuck(calm(), [move(DEALT, MEMBER, 90, 0), move("subscribe", MEMBER + 16, 95)])
    assert "had ended at 95.000 s, when process 18 replaced it" in told


def test_a_partition_that_was_never_assigned() -> None:
    assert stuck(calm(), []) == "no rebalance assigned the partition to a member"
    assert stuck(calm(reign(3, 0, 0, 200)), []).endswith(
        "; its coordinator was n3, leader of __consumer_offsets-0 in epoch 0"
    )


HELD = [*log("n1", (0, A), (0, B), (0, C))]
LED = [leads(1, 0, at=at * S) for at in (1, 2, 50, 90, 100, 110, 120, 130, 139)]


def test_a_member_whose_position_has_records_was_served_nothing() -> None:
    moves = [move(DEALT, MEMBER, 90, 1)]
    told = stuck(calm(), moves, got(OF_NONE, 120, 2), replica_records=HELD, leadership=LED)
    assert told == (
        "process 2 has been assigned the partition since 90.000 s and its position was offset 1,"
        " where n1's log has records, and other readers got 1 from there on: so n1, its leader in"
        " epoch 0, or its client returned empty polls"
    )
    anyone = calm(more={"broker": {"replica.selector.class": "a.Selector"}})
    told = stuck(anyone, moves, got(OF_NONE, 120, 2), replica_records=HELD, leadership=LED)
    assert told.endswith(" from there on: so a broker or its client returned empty polls")


@pytest.mark.parametrize(
    "poll", [got(OF_NONE, 120, 0), got(OF_NONE, 104, 2), got(OF_NONE, 141, 2)], ids=str
)
def test_others_were_given_nothing_from_there_on_in_that_time(poll: Row) -> None:
    moves = [move(DEALT, MEMBER, 90, 1)]
    assert "readers outside" not in stuck(calm(), moves, poll, replica_records=HELD, leadership=LED)


def test_the_groups_last_record_before_that_is_named() -> None:
    rows = {"replica_records": HELD, "leadership": LED}
    told = stuck(calm(), [move(DEALT, MEMBER, 80, 0)], got(MEMBER, 90), **rows)
    assert "its position was offset 1," in told, "it had read offset 0"
    assert told.endswith("; the group got its last record of the partition at 90.000 s")
    failed = {**got(MEMBER, 90), "outcome": "info"}
    assert "last record" not in stuck(calm(), [move(DEALT, MEMBER, 80, 0)], failed, **rows)


def test_a_position_outside_of_the_log_is_the_reason() -> None:
    rows = {"replica_records": HELD, "leadership": LED}
    told = stuck(calm(), [move(DEALT, MEMBER, 90, 3)], **rows)
    assert told.endswith("was offset 3, but the log goes from 0 to 3")
    assert "so n1, its leader in epoch 0, or" in stuck(calm(), [move(DEALT, MEMBER, 90, 2)], **rows)
    assert stuck(calm(), [move(DEALT, MEMBER, 90, 2)]).endswith("; no log shows that offset")
    assert stuck(calm(), [move(DEALT, MEMBER, 90)]).endswith("its position is not recorded")


def test_commits_without_an_answer_are_counted_from_the_last_answer_on() -> None:
    silent = [commit(1, 80, op=1, process=2), commit(2, 95, op=2, process=2, outcome="info")]
    assert stuck(calm(), [], commits=silent).endswith(
        "; none of the group's 1 commits here was answered from 95.000 s on"
    )
    for other in (
        commit(3, 96, op=3, process=2),
        commit(3, 96, op=3, process=2, outcome="fail"),
    ):
        assert "answered none" not in stuck(calm(), [], commits=[*silent, other])
    assert "answered none" not in stuck(
        calm(), [], commits=[{**silent[1], "process": OTHER_GROUPS}]
    )
    assert "answered none" not in stuck(calm(), [], commits=[{**silent[1], "asked_ns": 141 * S}])
