"""Twins for single bounds of what is asked of a whole run, and of what came back in time."""

from dataclasses import replace

import pyarrow as pa
import pytest

from checkers import (
    aborted_read,
    double_vote,
    faults,
    isr_not_restored,
    malformed,
    precommitted_read,
    slow_election,
    traffic,
    unavailable,
)
from checkers.ack_mismatch import CHECKER as ACK_MISMATCH
from checkers.facts import RunFacts
from checkers.left_out import left_out
from checkers.poll_order import NONMONOTONIC_CHECKER, SKIP_CHECKER
from checkers.protocol import Checker
from checkers.transactions import unknown_sends
from results.record.milestones import Milestone
from results.record.tables import LIVE, TABLES
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    S,
    ack,
    facts,
    found,
    group,
    leads,
    read,
    sentences,
    timed_out,
    whole_run,
)  # fmt: skip

V = [pack_value(1, number) for number in range(30)]


def op(number: int, end: int, **changes: object) -> Row:
    return {"op_id": number, "process": 1, "f": "send", "phase": "main", "invoke_ns": 0,
            "complete_ns": end, "outcome": "ok", "messages": 1, **changes}  # fmt: skip


def quiet(*ops: Row, **fault: int | None) -> list[str]:
    """What is missed around one fault, where one op before, during and after it is enough."""
    minimums = {"ok_sends": 1, "ok_polls": 1, "around_faults": 1}
    row: Row = {"fault_id": 1, "kind": "kill", "requested_ns": 0, **fault}
    on = whole_run(facts(plan={"minimums": minimums}), ops=list(ops), faults=[row])
    told = (sentence.split(" the faults") for sentence in sentences(traffic.CHECKER, on))
    return [what for what, *rest in told if rest]


BEFORE, AFTER = op(1, 4), op(2, 21)


@pytest.mark.parametrize(
    ("end", "missed"),
    [(9, True), (10, False), (15, False), (20, False), (21, True)],
)
def test_a_fault_lasts_from_its_confirmation_to_its_heal(end: int, *, missed: bool) -> None:
    told = quiet(BEFORE, AFTER, op(3, end), confirmed_ns=10, healed_ns=20)
    assert told == (["0 ok ops during"] if missed else [])


def test_what_ended_when_the_fault_began_or_healed_is_neither_before_nor_after_it() -> None:
    during = op(3, 15)
    assert quiet(op(1, 10), during, AFTER, confirmed_ns=10, healed_ns=20) == ["0 ok ops before"]
    assert quiet(BEFORE, during, op(2, 20), confirmed_ns=10, healed_ns=20) == ["0 ok ops after"]


def test_after_a_fault_that_was_not_healed_there_is_no_afterwards() -> None:
    assert quiet(BEFORE, op(3, 15), confirmed_ns=10, healed_ns=None) == []
    at_once = quiet(op(3, 15), confirmed_ns=0, healed_ns=0)
    assert at_once == ["0 ok ops before", "0 ok ops during"]


def test_polls_and_sends_count_in_the_main_phase_only() -> None:
    minimums = {"ok_sends": 1, "ok_polls": 1}
    about = facts(plan={"minimums": minimums})
    for phase, missed in (("main", 0), ("warmup", 2), ("final", 2)):
        ops = [op(1, 4, phase=phase), op(2, 5, phase=phase, f="poll")]
        assert len(sentences(traffic.CHECKER, whole_run(about, ops=ops))) == missed
    ops = [op(1, 4, outcome="info"), op(2, 5, f="poll", messages=0), op(3, 6, f="assign")]
    assert len(sentences(traffic.CHECKER, whole_run(about, ops=ops))) == 2
    txn = [op(1, 4, f="txn"), op(2, 5, f="poll")]
    assert sentences(traffic.CHECKER, whole_run(about, ops=txn)) == []


def vote(
    candidate: int | None, *, epoch: int | None = 0, node: str = "n1", folder: str = ""
) -> Row:
    return {"node": node, "epoch": epoch, "voted_for": candidate,
            "voted_directory": folder or None}  # fmt: skip


def test_two_votes_of_the_first_epoch_are_two() -> None:
    votes = [vote(1), vote(2), vote(1, node="n2"), vote(2, epoch=1, node="n2")]
    result = found(double_vote.CHECKER, whole_run(quorum_states=votes))
    (anomaly,) = result.anomalies
    assert (result.rows, anomaly.evidence["node"], anomaly.evidence["epoch"]) == (4, "n1", 0)
    unknown = [vote(1, epoch=None), vote(2, epoch=None), vote(None), vote(3)]
    assert found(double_vote.CHECKER, whole_run(quorum_states=unknown)).anomalies == ()


def failed(value: int | None, op_id: int = 1) -> Row:
    return {**timed_out(A, op=op_id), "value": value, "outcome": "fail"}


def test_a_failed_send_without_a_value_was_read_by_nobody() -> None:
    on = group(sends=[failed(None), failed(A, 2)], polls=[read(None, 0), read(B, 1)])
    assert found(aborted_read.CHECKER, on).anomalies == ()


def test_at_most_ten_readers_of_what_failed_are_named() -> None:
    polls = [read(A, 4, op=op_id) for op_id in range(20, 32)]
    (many,) = found(aborted_read.CHECKER, group(sends=[failed(A)], polls=polls)).anomalies
    assert many.evidence["readers"] == list(range(20, 30))
    assert "by op 20 and 11 more" in many.sentence
    (one,) = found(aborted_read.CHECKER, group(sends=[failed(A)], polls=polls[:1])).anomalies
    assert "by op 20, though" in one.sentence


def test_a_send_of_unknown_outcome_counts_if_it_is_a_transactions_and_has_a_value() -> None:
    rows: list[Row] = [
        {**timed_out(A), "value": value, "txn_id": txn}
        for value, txn in ((A, 1), (None, 1), (B, None))
    ]
    told = unknown_sends(group(sends=rows).table("sends"))
    assert told["value"].to_pylist() == [A]


def acknowledged(*pairs: tuple[int, int]) -> list[Row]:
    return [ack(V[number], offset, op=at) for at, (number, offset) in enumerate(pairs, start=1)]


def test_one_record_that_was_read_is_enough_to_compare() -> None:
    on = group(sends=acknowledged((1, 4)), polls=[read(V[1], 4)])
    assert (found(ACK_MISMATCH, on).rows, found(ACK_MISMATCH, on).anomalies) == (1, ())


def test_values_and_offsets_are_told_apart_whatever_their_numbers() -> None:
    """V[1] stands at 2, not at 9; V[2] stands at 0."""
    on = group(sends=acknowledged((1, 9)), polls=[read(V[2], 0), read(V[1], 2)])
    (anomaly,) = found(ACK_MISMATCH, on).anomalies
    assert anomaly.evidence["offsets"] == [2]
    assert anomaly.evidence["also"] == []
    later = group(sends=acknowledged((1, 1)), polls=[read(V[1], 2), read(V[2], 7)])
    assert found(ACK_MISMATCH, later).anomalies[0].evidence["holds_instead"] is None


def polled(*offsets: int, op_id: int) -> list[Row]:
    return [{**read(V[at], at, op=op_id, phase="main"), "process": 1, "pos": pos}
            for pos, at in enumerate(offsets)]  # fmt: skip


def test_at_most_ten_records_that_a_reader_jumped_over_are_named() -> None:
    others = [{**row, "process": 9} for row in polled(*range(14), op_id=90)]
    polls = [*polled(0, op_id=1), *polled(13, op_id=2), *others]
    (anomaly,) = found(SKIP_CHECKER, group(polls=polls)).anomalies
    assert anomaly.evidence["skipped"] == 12
    assert anomaly.evidence["skipped_offsets"] == list(range(1, 11))
    assert anomaly.evidence["previous_op_id"] == 1
    assert "and 9 more" in anomaly.sentence


def test_the_first_row_of_all_may_be_where_a_reader_stood() -> None:
    polls = [*polled(5, op_id=1), *polled(3, op_id=2)]
    (anomaly,) = found(NONMONOTONIC_CHECKER, group(polls=polls)).anomalies
    assert anomaly.evidence["previous_value"] == V[5]
    assert anomaly.sentence.endswith(": a step back of 3")


CALM = 100 * S


def peace(**plan: object) -> RunFacts:
    values = {"nodes": 3, "replication": 3, **plan}
    return facts(plan=values, calm_from_ns=CALM)


def answer(at_s: float, *, leader: int | None = 1, epoch: int = 0, source: str = "list-offsets",
           **more: object) -> Row:  # fmt: skip
    at = CALM + int(at_s * S)
    row = leads(leader or 0, epoch, at=at, source=source)
    return {**row, "leader": leader, "asked_ns": at, **more}


def vacant(*rows: Row, **clients: list[Row]) -> list[tuple[float, float]]:
    """From when to when nobody led, in seconds since the last heal."""
    told = slow_election.vacancies(group(peace(), leadership=list(rows), **clients))
    return [((each.from_ns - CALM) / S, (each.to_ns - CALM) / S) for each in told]


BUDGET = int(facts().plan.budgets.election_s)
LOOK = answer(2 * BUDGET + 10, leader=None, source="metadata")


def test_the_budget_of_an_election_is_for_the_time_without_any_leader() -> None:
    end = 2 * BUDGET + 10
    assert vacant(LOOK) == [(0, end)]
    assert vacant(LOOK, answer(BUDGET), answer(end)) == [(BUDGET, end)]
    assert vacant(LOOK, answer(BUDGET, leader=0), answer(end, leader=0)) == [(BUDGET, end)]


def test_brokers_that_were_last_asked_before_the_heal_or_at_it_tell_of_nothing() -> None:
    for at_s in (-1, 0):
        on = group(peace(), leadership=[answer(at_s, leader=None, source="metadata")])
        result = found(slow_election.CHECKER, on)
        assert (result.rows, result.anomalies) == (0, ())


def test_zookeeper_names_a_leader_until_it_names_another_and_broker_0_is_one() -> None:
    end = 2 * BUDGET + 10
    named = [answer(0, leader=0, source="zookeeper"), answer(end, leader=0, source="zookeeper")]
    assert vacant(LOOK, *named) == []
    none = [answer(0, leader=-1, source="zookeeper"), answer(end, leader=-1, source="zookeeper")]
    assert vacant(LOOK, *none) == [(0, end)]


def test_who_was_served_when_the_last_fault_healed_was_served() -> None:
    def served(at_s: int) -> list[tuple[float, float]]:
        at = CALM + at_s * S
        return vacant(LOOK, sends=[ack(A, 0, at=at)])

    end = 2 * BUDGET + 10
    assert served(BUDGET + 5) == [(0, BUDGET + 5), (BUDGET + 5, end)]
    assert served(0) == [(0, end)]


def test_an_isr_is_full_again_when_it_first_was() -> None:
    budget = int(facts().plan.budgets.isr_s)
    rows = [answer(at, source="metadata", isr=brokers) for at, brokers in (
        (1, [1]), (budget - 1, [1, 2]), (budget + 5, [1, 2, 3]), (budget + 9, [1, 2, 3]),
    )]  # fmt: skip
    (anomaly,) = found(isr_not_restored.CHECKER, group(peace(), leadership=rows)).anomalies
    assert f"and full again at {100 + budget + 5}.000 s" in anomaly.sentence
    assert anomaly.evidence["full_ns"] == CALM + (budget + 5) * S
    short = [*rows[:2], answer(budget + 9, source="metadata", isr=[1])]
    (never,) = found(isr_not_restored.CHECKER, group(peace(), leadership=short)).anomalies
    assert never.evidence["full_ns"] is None


PLACE = {"topic": "log-0", "topic_id": "id-0"}


def left(ops: list[Row], moves: list[Row], sends: list[Row] | None = None) -> list[Row]:
    table = left_out(
        pa.Table.from_pylist(ops, schema=TABLES["ops"]),
        pa.Table.from_pylist(moves, schema=LIVE["assignments"]),
        pa.Table.from_pylist(sends or [], schema=TABLES["sends"]),
    )
    return sorted(table.to_pylist(), key=lambda row: (row["op_id"], row["topic"], row["partition"]))


def assigns(op_id: int, process: int | None) -> Row:
    return {"op_id": op_id, "process": process, "f": "assign", "outcome": "ok", "invoke_ns": 1}


def moved(op_id: int, process: int | None, partition: int, topic: int = 0) -> Row:
    return {"op_id": op_id, "process": process, "kind": "assign", "topic": f"log-{topic}",
            "topic_id": f"id-{topic}", "partition": partition}  # fmt: skip


def test_process_0_leaves_out_what_it_does_not_name_and_nobody_leaves_out_nothing() -> None:
    rows = left([assigns(1, 0), assigns(2, 0)], [moved(1, 0, 3)])
    assert [(row["op_id"], row["process"], row["partition"]) for row in rows] == [(2, 0, 3)]
    assert left([assigns(1, None), assigns(2, None)], [moved(1, None, 3)]) == []


def test_partitions_are_told_apart_by_topic_and_number() -> None:
    places = [(topic, partition) for topic in (0, 1, 2) for partition in (0, 1, 2)]
    moves = [moved(1, 1, partition, topic) for topic, partition in places]
    for kept in places:
        again = [*moves, moved(2, 1, kept[1], kept[0])]
        rows = left([assigns(1, 1), assigns(2, 1)], again)
        told = [(int(row["topic"][-1]), row["partition"]) for row in rows]
        assert told == [place for place in places if place != kept]


def test_an_assignment_of_a_later_process_leaves_out_nothing_of_an_earlier_one() -> None:
    assert left([assigns(1, 1), assigns(2, 5)], [moved(1, 1, 3), moved(2, 5, 4)]) == []


def lacking(*rows: tuple[str, bool], **plan: object) -> list[Row]:
    told: list[Row] = [
        {
            "fault_id": at,
            "kind": kind,
            "requested_ns": 1,
            "targets": ["n1"],
            "confirmed_ns": 2 if done else None,
        }
        for at, (kind, done) in enumerate(rows, start=1)
    ]
    on = whole_run(facts(plan=plan), faults=told)
    return [each.evidence for each in found(faults.CHECKER, on).anomalies]


def test_a_kind_without_a_confirmed_fault_is_told_with_its_numbers() -> None:
    kill, pause = ("kill", True), ("pause", False)
    assert lacking(kill, pause, nemesis="kill,pause") == [
        {"kind": "pause", "confirmed": 0, "minimum": 1, "started": 1}
    ]


def test_the_plan_may_ask_for_another_number_of_faults() -> None:
    for least, missed in ((1, False), (2, False), (3, True)):
        told = lacking(("kill", True), ("kill", True), ("kill", False),
                       nemesis="kill", minimums={"confirmed_faults": least})  # fmt: skip
        assert [each["minimum"] for each in told] == ([least] if missed else [])


def test_one_node_has_no_links_to_cut_and_two_have() -> None:
    alone = lacking(("kill", True), nemesis="partition,kill", nodes=1, replication=1, min_insync=1)
    assert alone == []
    two = lacking(("kill", True), nemesis="partition,kill", nodes=3)
    assert [each["kind"] for each in two] == ["partition"]


@pytest.mark.parametrize("checker", [unavailable.CHECKER, slow_election.CHECKER,
                                     isr_not_restored.CHECKER], ids=lambda it: it.name)  # fmt: skip
def test_a_run_that_was_calm_from_its_first_moment_on_is_told_so(checker: Checker) -> None:
    end = Milestone(name="collected", at_ns=1_000 * S)
    about = facts(plan={"nodes": 3, "replication": 3}, calm_from_ns=0,
                  milestones=(*facts().milestones, end))  # fmt: skip
    looks: list[Row] = [
        {**leads(-1, 0, at=at * S, source="metadata"), "leader": None, "isr": [1]}
        for at in (0, 1, 200, 400)
    ]
    vain = [{**timed_out(A), "invoke_ns": at * S, "complete_ns": at * S + S} for at in range(100)]
    (anomaly,) = found(checker, group(about, leadership=looks, sends=vain)).anomalies
    assert anomaly.evidence["calm_from_ns"] == 0
    assert "from the last heal, at 0.000 s" in anomaly.sentence
    assert anomaly.broken_premises == ()
    cut = replace(about, cut_streams=True)
    (unsure,) = found(checker, group(cut, leadership=looks, sends=vain)).anomalies
    assert unsure.broken_premises == ("whole-record",)


def test_an_isr_that_was_full_when_the_last_fault_healed_was_restored() -> None:
    budget = int(facts().plan.budgets.isr_s)
    for at_s, brokers, shrunk in ((0, [1, 2, 3], 0), (-1, [1, 2, 3], 0), (0, [1, 2], 1)):
        rows = [answer(at_s, source="metadata", isr=brokers),
                answer(budget + 9, source="metadata", isr=[1])]  # fmt: skip
        result = found(isr_not_restored.CHECKER, group(peace(), leadership=rows))
        assert len(result.anomalies) == shrunk, (at_s, brokers)
    before = [answer(-2, source="metadata", isr=[1, 2, 3]), answer(0, source="metadata", isr=[1]),
              answer(budget + 9, source="metadata", isr=[1])]  # fmt: skip
    assert len(found(isr_not_restored.CHECKER, group(peace(), leadership=before)).anomalies) == 1


def test_ops_of_different_processes_may_overlap_whichever_comes_first() -> None:
    for one, other in ((1, 2), (2, 1)):
        ops = [op(1, 9, process=one), op(2, 8, process=other, invoke_ns=3)]
        assert sentences(malformed.OPS_CHECKER, whole_run(ops=ops)) == []


def test_a_transaction_that_reads_its_own_send_of_any_row_is_told() -> None:
    sends: list[Row] = [{**ack(A, 1, op=1), "txn_id": 1}, {**ack(B, 2, op=2), "txn_id": 2}]

    def reads(value: int | None, op_id: int, isolation: str = "read_committed") -> int:
        polls = [{**read(value, 2, op=op_id), "isolation": isolation}]
        about = facts(plan={"workload": "txn"})
        on = group(about, sends=sends, polls=polls)
        return len(found(precommitted_read.CHECKER, on).anomalies)

    assert (reads(A, 1), reads(B, 2)) == (1, 1)
    assert (reads(A, 2), reads(B, 1), reads(V[9], 1)) == (0, 0, 0)
    assert reads(A, 1, "read_uncommitted") == 0


def test_a_value_that_nobody_sent_was_not_sent_by_a_reader_of_whatever_number() -> None:
    about = facts(plan={"workload": "txn"})
    for op_id in (0, 1, 2):
        polls = [{**read(B, 2, op=op_id), "isolation": "read_committed"}]
        on = group(about, sends=[{**ack(A, 1, op=7), "txn_id": 7}], polls=polls)
        assert found(precommitted_read.CHECKER, on).anomalies == ()
