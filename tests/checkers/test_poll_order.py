"""What readers were given, twin by twin: the reason beside each op."""

from dataclasses import replace

import pytest

from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.lost_write import CHECKER as LOST_WRITE
from checkers.poll_order import (
    CHECKERS,
    INT_NONMONOTONIC_CHECKER,
    INT_SKIP_CHECKER,
    NONMONOTONIC_CHECKER,
    SKIP_CHECKER,
)
from checkers.protocol import MAX_DESCRIBED
from checkers.reigns import Reign
from checkers.runner import run_checkers
from results.record.values import pack_value
from tests.checkers.partition_rows import (
    RETENTION,
    S,
    ack,
    elected,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    sentences,
    state,
)  # fmt: skip

V = [pack_value(1, number) for number in range(9)]
"""V[n] stands at offset n."""


def got(*offsets: int, op: int, process: int = 1, outcome: str = "ok") -> list[dict[str, object]]:
    """One op's records, in the order in which they came."""
    return [
        {**read(V[offset], offset, op=op, phase="main"), "process": process, "pos": pos,
         "outcome": outcome, "invoke_ns": op * 1_000_000_000}
        for pos, offset in enumerate(offsets)
    ]  # fmt: skip


def move(
    kind: str = "assign", *, op: int, offset: int | None = None, process: int = 1
) -> dict[str, object]:
    return {"op_id": op, "process": process, "kind": kind, "time_ns": op, "offset": offset}


ELSEWHERE = got(*range(6), op=90, process=9)
"""What another reader was given, so that offsets 0 to 5 are known to hold records."""


def anomalies(on: Group) -> dict[str, list[int]]:
    """The offsets of the anomalies that the four checks find."""
    results = run_checkers(on, CHECKERS)
    return {each.name: [found.offset for found in each.anomalies]
            for each in results if each.anomalies}  # fmt: skip


def test_a_reader_that_goes_on_record_by_record_is_right() -> None:
    on = group(polls=[*got(0, 1, op=1), *got(2, op=2), *ELSEWHERE])
    assert anomalies(on) == {}
    assert [found(each, on).rows for each in CHECKERS] == [1, 1, 6, 6]


def test_a_reader_that_leaves_out_a_record_skips_it_and_the_evidence_is_whole() -> None:
    on = group(polls=[*got(0, 1, op=1), *got(4, op=2), *ELSEWHERE])  # 2 and 3 are left out.
    (anomaly,) = found(SKIP_CHECKER, on).anomalies
    assert anomaly.sentence == (
        "process 1, which had read offset 1 of log-0-0 in op 1, got offset 4 next, in op 2 at"
        f" 2.000 s: it skipped 2 committed records: value {V[2]} at offset 2, value {V[3]} at"
        " offset 3"
    )
    assert anomaly.evidence == {
        "process": 1, "op_id": 2, "previous_op_id": 1, "after_offset": 1, "offset": 4,
        "value": V[4], "previous_value": V[1], "read_ns": 2_000_000_000,
        "across_rebalance": False, "skipped": 2, "skipped_offsets": [2, 3],
        "skipped_values": [V[2], V[3]],
    }  # fmt: skip
    assert anomalies(on) == {"poll-skip": [4]}


def test_a_reader_that_is_given_a_record_again_goes_back() -> None:
    on = group(polls=[*got(0, 1, op=1), *got(1, 2, op=2), *ELSEWHERE])
    (anomaly,) = found(NONMONOTONIC_CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.evidence["after_offset"]) == (1, 1)
    assert anomaly.sentence.endswith("got offset 1 next, in op 2 at 2.000 s: a step back of 1")
    assert anomalies(on) == {"nonmonotonic-poll": [1]}


def test_inside_of_one_op_the_same_is_told_as_such_whichever_poll_of_it() -> None:
    assert anomalies(group(polls=[*got(0, 2, op=1), *ELSEWHERE])) == {"int-poll-skip": [2]}
    assert anomalies(group(polls=got(0, 1, 1, op=1))) == {"int-nonmonotonic-poll": [1]}
    later = [{**row, "mop": 1} for row in got(3, op=1)]  # Another poll of the same op.
    assert anomalies(group(polls=[*got(0, op=1), *later, *ELSEWHERE])) == {"int-poll-skip": [3]}


def test_offsets_that_nobody_knows_to_hold_a_committed_record_may_be_left_out() -> None:
    alone = group(polls=[*got(0, op=1), *got(3, op=2)])
    assert anomalies(alone) == {}
    aborted = [{**ack(V[1], 1), "txn_id": 7, "outcome": "fail"}]
    unknown = [{**ack(V[2], 2, op=8), "txn_id": 8, "outcome": "info"}]
    on = group(sends=[*aborted, *unknown], polls=[*got(0, op=1), *got(3, op=2)])
    assert anomalies(on) == {}
    # A read_uncommitted reader may see them, and nobody else has to.
    seen = [*got(1, op=91, process=9), *got(2, op=92, process=9)]
    on = group(
        sends=[*aborted, *unknown], polls=[*got(0, op=1), *got(3, op=2), *seen],
        leadership=[leads(1, 0)], replica_states=[state("n1", 4)],
        replica_records=log("n1", *((0, value) for value in V[:4])),
    )  # fmt: skip
    assert anomalies(on) == {}
    committed = [{**ack(V[1], 1), "txn_id": 7}]
    on = group(sends=committed, polls=[*got(0, op=1), *got(3, op=2)])
    assert anomalies(on) == {"poll-skip": [3]}


def test_markers_and_failed_sends_are_no_records_that_a_reader_could_leave_out() -> None:
    records = log("n1", *((0, value) for value in V[:3]))
    rows = {"leadership": [leads(1, 0)], "replica_states": [state("n1", 3)]}
    polls = [*got(0, op=1), *got(2, op=2)]
    held = group(polls=polls, replica_records=records, **rows)
    assert anomalies(held) == {"poll-skip": [2]}
    records[1]["control"] = True
    assert anomalies(group(polls=polls, replica_records=records, **rows)) == {}
    records[1]["control"] = False
    failed = [{**ack(V[1], None), "outcome": "fail", "acked": False}]
    assert anomalies(group(polls=polls, sends=failed, replica_records=records, **rows)) == {}


def test_a_wrong_acknowledgement_puts_no_record_where_none_is() -> None:
    # V[1] was acknowledged at 3, where nothing is: readers got it at 1.
    polls = [*got(0, 1, 2, op=1), *got(4, op=2)]
    assert anomalies(group(sends=[ack(V[1], 3)], polls=polls)) == {}
    # Nobody got V[3]; that it stands at 3 is all that anybody knows of it.
    assert anomalies(group(sends=[ack(V[3], 3)], polls=polls)) == {"poll-skip": [4]}


def test_a_new_process_starts_anew_and_so_does_one_that_was_assigned_the_beginning() -> None:
    other = group(polls=[*got(4, op=1), *got(0, op=2, process=2), *ELSEWHERE])
    assert anomalies(other) == {}
    again = [*got(0, 1, 2, op=1), *got(0, op=3)]
    assert anomalies(group(polls=again)) == {"nonmonotonic-poll": [0]}
    assert anomalies(group(polls=again, assignments=[move(op=2)])) == {}


def test_an_assignment_places_the_reader_at_the_offset_that_it_names() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE]
    assert anomalies(group(polls=polls, assignments=[move(op=2, offset=4)])) == {}
    short = group(polls=polls, assignments=[move(op=2, offset=3)])
    (anomaly,) = found(SKIP_CHECKER, short).anomalies
    assert anomaly.evidence["previous_op_id"] is None
    assert anomaly.evidence["previous_value"] is None
    assert "process 1, positioned at offset 3 of log-0-0, got offset 4 next" in anomaly.sentence
    assert "a committed record: value" in anomaly.sentence
    beyond = group(polls=polls, assignments=[move(op=2, offset=5)])
    assert anomalies(beyond) == {"nonmonotonic-poll": [4]}


def test_a_first_poll_must_begin_where_its_process_was_placed() -> None:
    polls = [*got(1, op=2), *ELSEWHERE]
    assert anomalies(group(polls=polls)) == {}  # Nobody knows where it began.
    assert anomalies(group(polls=polls, assignments=[move(op=1)])) == {"poll-skip": [1]}
    assert anomalies(group(polls=polls, assignments=[move(op=1, offset=1)])) == {}
    behind = group(polls=polls, assignments=[move(op=1, process=2)])
    assert anomalies(behind) == {}  # That was another process.
    after = group(polls=polls, assignments=[move(op=3)])
    assert anomalies(after) == {}  # That came later.


def test_an_assignment_without_the_partition_and_a_subscription_forget_the_position() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE]
    for kind in ("left-out", "subscribe"):
        assert anomalies(group(polls=polls, assignments=[move(kind, op=2)])) == {}
        early = group(polls=polls, assignments=[move(kind, op=0)])
        assert anomalies(early) == {"poll-skip": [4]}


def test_an_assignment_of_an_op_that_polled_is_behind_what_it_read() -> None:
    polls = [*got(2, 3, op=2), *got(0, op=3), *ELSEWHERE]
    rows = [move(op=1, offset=2), move(op=2, offset=0)]  # The second one within op 2, at its end.
    assert anomalies(group(polls=polls, assignments=rows)) == {}


def test_polls_that_failed_or_nobody_knows_about_do_not_move_the_position() -> None:
    for outcome in ("fail", "info"):
        on = group(polls=[*got(0, op=1), *got(1, 3, op=2, outcome=outcome), *got(1, op=3),
                          *ELSEWHERE])  # fmt: skip
        assert anomalies(on) == {}
        assert found(SKIP_CHECKER, on).rows == 1


def test_a_skip_across_a_rebalance_is_labelled_and_inside_of_such_an_op_nothing_is_told() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE]
    for kind in ("rebalance-revoked", "rebalance-assigned"):
        for op in (1, 2, 3):
            on = group(polls=polls, assignments=[move(kind, op=op)])
            (anomaly,) = found(SKIP_CHECKER, on).anomalies
            assert (anomaly.excuses, anomaly.evidence["across_rebalance"]) == (("rebalance",), True)
        for other in (move(kind, op=0), move(kind, op=4), move(kind, op=2, process=2)):
            on = group(polls=polls, assignments=[other])
            assert found(SKIP_CHECKER, on).anomalies[0].excuses == ()
        inside = [*got(0, 2, 1, op=1), *ELSEWHERE]
        assert anomalies(group(polls=inside, assignments=[move(kind, op=1)])) == {}
        assert len(anomalies(group(polls=inside, assignments=[move(kind, op=2)]))) == 2


def dealt(offset: int, *, op: int, process: int = 1) -> dict[str, object]:
    return {**move("rebalance-assigned", op=op, process=process), "offset": offset}


def test_a_member_goes_on_from_where_its_group_had_committed() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE]
    to_4 = group(polls=polls, assignments=[dealt(4, op=2)])
    assert anomalies(to_4) == {}
    (anomaly,) = found(SKIP_CHECKER, group(polls=polls, assignments=[dealt(3, op=2)])).anomalies
    assert anomaly.excuses == ()
    assert anomaly.evidence["skipped_offsets"] == [3]
    assert "process 1, positioned at offset 3 of log-0-0, got offset 4 next" in anomaly.sentence
    back = group(polls=polls, assignments=[dealt(5, op=2)])
    assert anomalies(back) == {"nonmonotonic-poll": [4]}
    assert found(NONMONOTONIC_CHECKER, back).anomalies[0].excuses == ()


def test_a_member_that_is_new_begins_there_too_and_another_one_does_not() -> None:
    polls = [*got(4, op=3, process=5), *ELSEWHERE]
    assert anomalies(group(polls=polls, assignments=[dealt(0, op=2, process=5)])) == {
        "poll-skip": [4]
    }
    assert anomalies(group(polls=polls, assignments=[dealt(0, op=2, process=4)])) == {}
    first = [dealt(3, op=1, process=5), dealt(4, op=2, process=5)]
    assert anomalies(group(polls=polls, assignments=first)) == {}, "the last one counts"


def test_a_member_that_seeks_reads_on_from_there_and_from_nowhere_else() -> None:
    polls = [*got(0, 1, 2, op=1), *got(1, 2, op=3), *ELSEWHERE]
    assert anomalies(group(polls=polls)) == {"nonmonotonic-poll": [1]}
    for offset, expected in ((1, {}), (0, {"poll-skip": [1]}), (2, {"nonmonotonic-poll": [1]})):
        on = group(polls=polls, assignments=[move("seek", op=2, offset=offset)])
        assert anomalies(on) == expected
        assert [each.excuses for check in CHECKERS for each in found(check, on).anomalies] == [
            ()
        ] * len(expected)
    other = group(polls=polls, assignments=[move("seek", op=2, offset=1, process=2)])
    assert anomalies(other) == {"nonmonotonic-poll": [1]}
    taken = [move("seek", op=2, offset=1), move("rebalance-revoked", op=2)]
    assert anomalies(group(polls=polls, assignments=taken)) == {}


def test_a_seek_behind_what_a_disk_has_left_begins_anew() -> None:
    polls = [*got(0, 1, 2, 3, 4, op=1), *got(0, op=3), *ELSEWHERE]
    lost = DiskLoss(nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=2,
                    end_before=9, until_ns=1, excuse="power-loss")  # fmt: skip
    for losses, excuses in (((lost,), ("rebalance",)), ((), ())):
        on = group(
            facts(disk_losses=losses), polls=polls, assignments=[move("seek", op=2, offset=3)]
        )
        assert found(NONMONOTONIC_CHECKER, on).anomalies[0].excuses == excuses


def test_where_it_was_placed_within_an_op_that_read_nobody_knows() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE]
    for op in (1, 3):
        on = group(polls=polls, assignments=[dealt(3, op=op)])
        assert found(SKIP_CHECKER, on).anomalies[0].excuses == ("rebalance",)


def test_what_comes_behind_the_last_placing_is_not_known() -> None:
    polls = [*got(0, 1, op=1), *got(4, op=4), *ELSEWHERE]
    moves = [dealt(3, op=2), move("rebalance-revoked", op=3)]
    (anomaly,) = found(SKIP_CHECKER, group(polls=polls, assignments=moves)).anomalies
    assert anomaly.excuses == ("rebalance",)
    moves = [move("rebalance-revoked", op=2), dealt(3, op=2)]
    (anomaly,) = found(SKIP_CHECKER, group(polls=polls, assignments=moves)).anomalies
    assert anomaly.excuses == ()


def test_who_was_placed_behind_what_a_disk_has_left_begins_anew() -> None:
    polls = [*got(0, 1, op=1), *got(2, op=3), *ELSEWHERE]
    lost = DiskLoss(nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=2,
                    end_before=9, until_ns=1, excuse="power-loss")  # fmt: skip
    for losses, excuses in (((lost,), ("rebalance",)), ((), ())):
        on = group(facts(disk_losses=losses), polls=polls, assignments=[dealt(7, op=2)])
        assert found(NONMONOTONIC_CHECKER, on).anomalies[0].excuses == excuses
    ahead = group(
        facts(disk_losses=(lost,)),
        polls=[*got(0, 1, op=1), *got(4, op=3), *ELSEWHERE],
        assignments=[dealt(3, op=2)],
    )
    assert found(SKIP_CHECKER, ahead).anomalies[0].excuses == (), "it left out what is there"
    elsewhere = replace(lost, partition=1)
    on = group(facts(disk_losses=(elsewhere,)), polls=polls, assignments=[dealt(7, op=2)])
    assert found(NONMONOTONIC_CHECKER, on).anomalies[0].excuses == ()


def test_who_was_placed_behind_what_an_unclean_leader_has_begins_anew() -> None:
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    polls = [*got(0, 1, op=1), *got(2, op=3), *ELSEWHERE]
    for unclean in (True, False):
        on = group(
            allow,
            polls=polls,
            assignments=[dealt(7, op=2)],
            leadership=[elected(1, 1, 6, unclean=unclean)],
        )
        excuses = ("rebalance",) if unclean else ()
        assert found(NONMONOTONIC_CHECKER, on).anomalies[0].excuses == excuses


GONE_BACK_S, HAPPENED_S = 3, 20
"""A reader goes back before anything happens to the log."""


@pytest.mark.parametrize("moves", [[move("subscribe", op=0)], [move("seek", op=2, offset=4)]])
def test_what_happens_later_sends_no_reader_back(moves: list[dict[str, object]]) -> None:
    """The record at its position is lost in the end, but was there when the reader went back."""
    polls = [
        {**row, "complete_ns": int(str(row["op_id"])) * S}
        for row in (*got(0, 1, 2, 3, op=1), *got(2, op=GONE_BACK_S))
    ]
    allow = {"broker": {"unclean.leader.election.enable": "true"}}
    rows = {
        "polls": polls, "assignments": moves, "replica_states": [state("n1", 2)],
        "replica_records": log("n1", (0, V[0]), (0, V[1]))
    }  # fmt: skip
    for began_s in (1, HAPPENED_S):
        reign = Reign(topic="log-0", partition=0, leader=1, epoch=1, from_ns=began_s * S,
                      until_ns=99 * S)  # fmt: skip
        lost = DiskLoss(
            nodes=frozenset({"n1", "n2", "n3"}), topic="log-0", partition=0, end_after=2,
            end_before=4, until_ns=30 * S, began_ns=began_s * S, excuse="power-loss",
        )  # fmt: skip
        unclean = facts(plan=allow, reigns=(reign,))
        took = [leads(1, 1), elected(2, 0, 5), elected(1, 1, 6, unclean=True)]
        by_election = group(unclean, leadership=took, **rows)
        by_disks = group(facts(disk_losses=(lost,)), leadership=[leads(1, 0)], **rows)
        for on in (by_election, by_disks):
            (anomaly,) = found(NONMONOTONIC_CHECKER, on).anomalies
            assert bool(anomaly.excuses) == (began_s < GONE_BACK_S), (began_s, anomaly.excuses)


def test_what_lies_below_the_log_start_need_not_be_read() -> None:
    polls = [*got(0, op=1), *got(3, op=2), *ELSEWHERE]
    for start, skipped in ((2, {"poll-skip": [3]}), (3, {})):
        states = [state("n1", 6, start=start)]
        on = group(facts(plan=RETENTION), polls=polls, replica_states=states)
        assert anomalies(on) == skipped
    about = facts(plan=RETENTION)
    (anomaly,) = found(
        SKIP_CHECKER, group(about, polls=polls, replica_states=[state("n1", 6, start=2)])
    ).anomalies
    assert anomaly.evidence["skipped_offsets"] == [2]


def test_a_skip_over_lost_records_only_is_the_shadow_of_their_loss() -> None:
    rows = {
        "sends": [ack(V[1], 1), ack(V[2], 2, op=2)],
        "leadership": [leads(1, 0)],
        "replica_records": [*log("n1", (0, V[0])), *log("n1", (0, V[3]), start=3)],
        "replica_states": [state("n1", 4)],
    }
    polls = [*got(0, op=5), *got(3, op=6), *got(0, 3, op=7, process=2)]
    on = group(polls=polls, **rows)
    assert anomalies(on) == {}
    first, second = found(LOST_WRITE, on).anomalies
    assert (first.evidence["skipped_by"], first.evidence["skipping_op_ids"]) == (2, [6, 7])
    assert first.sentence.endswith("2 reads skipped that offset (op 6, 7)")
    assert second.evidence["skipped_by"] == 2
    # One that is not lost lies between, too.
    rows["replica_records"] += log("n1", (0, V[2]), start=2)
    on = group(polls=[*got(0, op=5), *got(3, op=6)], **rows)
    (anomaly,) = found(SKIP_CHECKER, on).anomalies
    assert (anomaly.evidence["skipped"], anomaly.evidence["skipped_values"]) == (1, [V[2]])
    assert sentences(LOST_WRITE, on)[0].endswith("one read skipped that offset (op 6)")


def test_what_a_final_read_left_out_though_the_log_has_it_is_told_as_lost_alone() -> None:
    rows = {
        "sends": [ack(V[1], 1)],
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", *((0, value) for value in V[:3])),
        "replica_states": [state("n1", 3)],
        "polls": [{**row, "phase": "final"} for row in got(0, 2, op=5)],
    }
    on = group(final_reads=[final_read(3)], **rows)
    assert anomalies(on) == {}
    assert found(LOST_WRITE, on).anomalies[0].evidence["skipping_op_ids"] == [5]
    assert anomalies(group(**rows)) == {"int-poll-skip": [2]}


def test_a_reader_that_stopped_at_a_lost_record_casts_no_shadow() -> None:
    on = group(
        sends=[ack(V[1], 1)], polls=[*got(0, op=5), *got(1, op=6)], leadership=[leads(1, 0)],
        replica_records=log("n1", (0, V[0])), replica_states=[state("n1", 1)],
        final_reads=[final_read(1)],
    )  # fmt: skip
    (lost,) = found(LOST_WRITE, on).anomalies
    assert (lost.evidence["skipped_by"], lost.evidence["skipping_op_ids"]) == (0, [])
    assert "jumped" not in lost.sentence


def test_a_member_of_a_group_goes_back_from_what_an_unclean_election_took() -> None:
    """Its position was 4, and the log ended at 3 when another leader had the partition."""
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    took = [leads(1, 1), elected(2, 0, 5), elected(1, 1, 6, unclean=True)]
    taken = log("n1", (0, V[0]), (0, V[1]), (0, V[2]), (1, V[6]))
    kept = log("n1", *((0, V[offset]) for offset in range(4)))
    member = [move("subscribe", op=0)]

    def excuses(
        records: list[dict[str, object]], moves: list[dict[str, object]], *, inside: bool
    ) -> tuple[str, ...]:
        polls = got(2, 3, 2, op=1) if inside else [*got(2, 3, op=1), *got(2, op=2)]
        on = group(
            allow, polls=polls, assignments=moves, leadership=took, replica_records=records,
            replica_states=[state("n1", 4)],
        )  # fmt: skip
        checker = INT_NONMONOTONIC_CHECKER if inside else NONMONOTONIC_CHECKER
        return found(checker, on).anomalies[0].excuses

    for inside in (False, True):
        assert excuses(taken, member, inside=inside) == ("unclean-election",)
        assert excuses(kept, member, inside=inside) == ()  # It stood on a record that is there.
        assert excuses(taken, [move(op=0, offset=0)], inside=inside) == ()  # It would be told.
        assert excuses(taken, [move("subscribe", op=0, process=2)], inside=inside) == ()


def test_an_unclean_election_that_was_seen_labels_skips() -> None:
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    polls = [*got(0, 2, op=1), *got(4, op=2), *ELSEWHERE]
    on = group(allow, polls=polls, leadership=[elected(1, 1, 6, unclean=True)])
    for checker in (SKIP_CHECKER, INT_SKIP_CHECKER):
        assert found(checker, on).anomalies[0].excuses == ("unclean-election",)
    clean = group(allow, polls=polls, leadership=[elected(1, 1, 6)])
    assert found(SKIP_CHECKER, clean).anomalies[0].excuses == ()


UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
ALLOW = facts(plan=UNCLEAN)


def test_an_unclean_election_explains_no_skip_between_records_of_later_leaders() -> None:
    def excuses(*epochs: int | None, about: RunFacts = ALLOW) -> tuple[str, ...]:
        polls = [{**row, "leader_epoch": epoch}
                 for row, epoch in zip(got(0, 2, op=1), epochs, strict=True)]  # fmt: skip
        on = group(about, polls=[*polls, *ELSEWHERE], leadership=[elected(1, 2, 6, unclean=True)])
        (anomaly,) = found(INT_SKIP_CHECKER, on).anomalies
        return anomaly.excuses

    assert excuses(2, 3) == ()
    for earlier in ((1, 3), (3, 1), (None, 3), (3, None)):
        assert excuses(*earlier) == ("unclean-election",)
    # A marker may be at the offset at which another reader got a record from an earlier leader.
    transactions = facts(plan={"workload": "txn", **UNCLEAN})
    assert excuses(2, 3, about=transactions) == ("unclean-election",)
    # This is so even if the reader's own record was sent when all brokers knew the new epoch.
    knew = [{**leads(1, 2, at=S, source="metadata"), "observer": f"n{node}"} for node in (1, 2, 3)]
    on = group(
        transactions, sends=[ack(V[0], 0, at=9 * S)], polls=[*got(0, 2, op=1), *ELSEWHERE],
        leadership=[elected(1, 2, 6, unclean=True), *knew],
    )  # fmt: skip
    assert found(INT_SKIP_CHECKER, on).anomalies[0].excuses == ("unclean-election",)


def test_without_all_assignments_a_jump_cannot_be_trusted_but_one_inside_of_an_op_can() -> None:
    polls = [*got(0, 2, 1, op=1), *got(4, op=2), *got(4, op=3), *ELSEWHERE]
    on = group(facts(cut_streams=True), polls=polls)
    broken = {checker.name: found(checker, on).anomalies[0].broken_premises for checker in CHECKERS}
    assert broken == {
        "poll-skip": ("whole-record",), "nonmonotonic-poll": ("whole-record",),
        "int-poll-skip": (), "int-nonmonotonic-poll": (),
    }  # fmt: skip


@pytest.mark.parametrize(("workload", "broken"), [("log", ()), ("groups", ("whole-record",))])
def test_without_all_assignments_a_member_of_a_group_may_have_moved_inside_of_an_op(
    workload: str, broken: tuple[str, ...]
) -> None:
    about = facts(plan={"workload": workload}, cut_streams=True)
    on = group(about, polls=[*got(0, 2, 1, op=1), *ELSEWHERE])
    for checker in (INT_SKIP_CHECKER, INT_NONMONOTONIC_CHECKER):
        assert found(checker, on).anomalies[0].broken_premises == broken


def test_without_all_sends_nobody_knows_what_was_aborted() -> None:
    """A watcher was shown offset 1 of a transaction that was aborted, whose rows are cut off."""
    committed = [{**row, "isolation": "read_committed"} for row in got(0, 2, op=1)]
    for workload, broken in (("txn", ("whole-record",)), ("log", ())):
        about = facts(plan={"workload": workload}, cut_streams=True)
        on = group(about, polls=[*committed, *got(0, 1, 2, op=90, process=9)])
        assert found(INT_SKIP_CHECKER, on).anomalies[0].broken_premises == broken
        whole = group(facts(plan={"workload": workload}), polls=on.table("polls").to_pylist())
        assert found(INT_SKIP_CHECKER, whole).anomalies[0].broken_premises == ()


def test_rows_without_a_process_or_an_offset_belong_to_no_reader() -> None:
    for missing in ("process", "offset"):
        middle = [{**row, missing: None} for row in got(4, op=2)]
        on = group(polls=[*got(0, op=1), *middle, *got(1, op=3), *ELSEWHERE])
        assert anomalies(on) == {}
        assert found(SKIP_CHECKER, on).rows == 1


def test_records_twice_in_the_record_are_no_step_of_a_reader() -> None:
    assert anomalies(group(polls=[*got(0, 1, op=1), *got(0, 1, op=1)])) == {}


def test_a_compacted_log_has_holes_but_an_order() -> None:
    about = facts(plan={"broker": {"log.cleanup.policy": "compact"}})
    on = group(about, polls=[*got(2, 0, op=1), *got(5, op=2), *got(5, op=3), *ELSEWHERE])
    assert anomalies(on) == {"int-nonmonotonic-poll": [0], "nonmonotonic-poll": [5]}


def test_the_first_skips_are_told_one_by_one_and_the_others_are_counted() -> None:
    count = MAX_DESCRIBED + 5
    values = [pack_value(1, number) for number in range(2 * count + 1)]
    rows = [
        {**read(values[at], at, op=at + 1, phase="main"), "process": 1 + at % 2}
        for at in range(2 * count + 1)
    ]
    result = found(SKIP_CHECKER, group(polls=rows))
    assert [each.offset for each in result.anomalies] == list(range(2, MAX_DESCRIBED + 2))
    assert result.beyond == {((), ()): 2 * count - 1 - MAX_DESCRIBED}
    assert found(INT_NONMONOTONIC_CHECKER, group(polls=rows)).anomalies == ()
