"""Each check's rows: 0 where nothing could have failed, and its twin that has something to compare.

What an ordinary run may lack is told as what could not show; without rows and without that the
verdict is unknown.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from checkers import (
    aborted_read,
    ack_mismatch,
    acknowledged_below_min_isr,
    broker_ended,
    commit_ahead,
    commit_lost,
    committed_truncation,
    corrupt_record,
    cycles,
    double_vote,
    duplicate,
    epoch_mismatch,
    epoch_regression,
    faults,
    forbidden_election,
    group_stuck,
    hanging_transaction,
    high_watermark_ahead,
    high_watermark_regression,
    incomplete_leader,
    incomplete_quorum_leader,
    inconsistent_offsets,
    isr_not_restored,
    log_divergence,
    log_end_regression,
    log_start_moved,
    lost_write,
    malformed,
    metadata_divergence,
    not_restored,
    offset_order,
    phantom,
    poll_order,
    precommitted_read,
    remade,
    send_order,
    slow_election,
    torn_transaction,
    traffic,
    two_leaders,
    unavailable,
    uncommitted_read,
    under_replicated,
    unseen,
)
from checkers.contract import allowed
from checkers.dependencies import DEPENDENCIES, PARTICIPANTS, WR, WW
from checkers.facts import RemadeTopic
from checkers.group import Group
from checkers.jepsen import aborted_read as jepsens_aborted_read
from checkers.jepsen import lost_write as jepsens_lost_write
from checkers.jepsen import order as jepsens_order
from checkers.jepsen import places as jepsens_places
from checkers.jepsen import unseen as jepsens_unseen
from checkers.protocol import Checker
from checkers.quorum import QuorumFacts
from checkers.registry import CHECKERS, JEPSENS
from checkers.torn_transaction import SHARES
from results.record.milestones import Milestone
from results.record.terms import AnomalyClass, Judge
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    final_read,
    found,
    group,
    isr,
    leads,
    log,
    read,
    state,
    whole_run,
)
from tests.held import collected

TXN = facts(plan={"workload": "txn"}, calm_from_ns=S)
GROUPS = facts(
    plan={"workload": "groups", "workers": 1},
    calm_from_ns=S,
    milestones=(Milestone(name="final-reads", at_ns=20 * S),),
)
CALM = facts(calm_from_ns=S, milestones=(Milestone(name="final-reads", at_ns=90 * S),))
QUORUM = facts(quorum=QuorumFacts(announced={1: 5}, marks={"n1": 3, "n2": 3}))
ALONE = facts(plan={"min_insync": 1})
WATCHED = facts(milestones=(Milestone(name="noted", at_ns=5, detail={"lives": "3"}),))
LED = [leads(1, 0)]
LOGGED: Row = {"leadership": LED, "replica_records": log("n1", (0, A), (0, B), (0, C))}
ONE, TWO = ack(A, 0, at=2 * S), ack(B, 1, op=2, at=4 * S)
FAILED = {**ack(C, None, op=3), "outcome": "fail", "acked": False}


def committed_read(value: int, offset: int, **changes: object) -> Row:
    return {**read(value, offset), "isolation": "read_committed", **changes}


def marked(mark: int, epoch: int = 0, *, at: int = S) -> Row:
    return {**leads(1, epoch, at=at), "high_watermark": mark}


def low_isr(at_s: int) -> Row:
    return {**isr(1), "asked_ns": at_s * S, "observed_ns": at_s * S + 1, "incarnation": 0}


def across(table: str, *rows: Row) -> Group:
    schemas = {"shares": SHARES, "dependencies": DEPENDENCIES, "participants": PARTICIPANTS}
    people = [{"op_id": op, "process": op, "invoke_ns": op, "complete_ns": op} for op in (1, 2)]
    given = {table: list(rows), "participants": people}
    derived = {
        name: pa.Table.from_pylist(given.get(name, []), schema=schema)
        for name, schema in schemas.items()
    }
    return replace(whole_run(), derived=derived)


def depends(kind: int) -> Row:
    return {"source": 1, "target": 2, "kind": kind, "value": A, "offset": 0, "place": "log-0-0"}


def share(op: int, offset: int) -> Row:
    return {"op_id": op, "value": offset, "offset": offset, "shown": True, "place": "log-0-0"}


def fetched(at_s: int) -> Row:
    return {"op_id": 9, "process": 2, "act": "fetch", "asked_ns": at_s * S, "told_ns": at_s * S + 1,
            "offset": 5, "outcome": "ok"}  # fmt: skip


COMMIT = {"op_id": 1, "process": 0, "act": "commit", "asked_ns": S, "told_ns": 2 * S, "offset": 5,
          "outcome": "ok"}  # fmt: skip
VOTE = {"node": "n1", "role": "voted", "epoch": 1, "voted_for": 1}
LED_QUORUM = {"node": "n1", "role": "leader", "epoch": 1}
POLLED = {**read(A, 0), "complete_ns": 2 * S, "leader_epoch": 0}
LATER = {**read(B, 1, op=10), "process": 9}
TXN_SEND = {**ONE, "txn_id": 1, "op_id": 1}
LOOK = {"node": "n1", "observed_ns": 9 * S, "last_stable_offset": 4, "high_watermark": 4}
ENDS = [
    {"node": "n2", "observed_ns": at * S, "log_end_offset": 5, "high_watermark": 5} for at in (1, 2)
]

MARK = {**ENDS[0], "incarnation": 1, "high_watermark": 3, "high_watermark_source": "fetch"}

REMADE_ONE = facts(remade=(
    RemadeTopic(topic="log-0", topic_id="id-0", replicas={0: ("n1", "n2")}, acked=((0, 0, A),),
                made_ns=1, healed_ns=2),
))  # fmt: skip
REMADE = facts(remade=(replace(REMADE_ONE.remade[0], acked=()),))
LED_IN_METADATA = [leads(1, 0, source="metadata")]
BOTH = {"leadership": [{**isr(1, 2), "asked_ns": 9 * S, "observed_ns": 9 * S}],
        "replica_records": log("n1", (0, A)) + log("n2", (0, A)),
        "replica_states": [state("n1", 1), state("n2", 1)]}  # fmt: skip

Case = tuple[Checker, Group, str, Group, int]
"""A check, rows without anything to compare, why, rows with something, and how much that is."""
ALWAYS = {"not-enough-traffic": 2, "host-not-restored": 1}
"""What every plan asks for; that hosts were never compared is a gap."""
CASES: list[Case] = [
    (malformed.OPS_CHECKER, whole_run(), "", whole_run(ops=[{"op_id": 1}]), 1),
    (malformed.VALUES_CHECKER, group(), "", group(sends=[ONE]), 1),
    (traffic.CHECKER, whole_run(), "", whole_run(faults=[{"confirmed_ns": 5, "healed_ns": 6}]), 5),
    (faults.CHECKER, whole_run(facts(plan={"faults": []})), "",
     whole_run(facts(plan={"faults": [{"kind": "kill", "at_s": 1, "hold_s": 1}]})), 2),
    (not_restored.CHECKER, whole_run(), "", whole_run(), 1),
    (broker_ended.CHECKER, whole_run(), "", whole_run(WATCHED), 3),
    (broker_ended.OUTSIDE_CHECKER, whole_run(), "", whole_run(WATCHED), 3),
    (unseen.INCOMPLETE_CHECKER, group(), "", group(final_reads=[final_read(1)]), 1),
    (lost_write.CHECKER, group(sends=[ONE, TWO], polls=[read(A, 0)], final_reads=[final_read(1)]),
     "", group(sends=[ONE, TWO], polls=[read(A, 0), read(C, 2)], final_reads=[final_read(3)]), 2),
    (remade.CHECKER, group(REMADE, leadership=LED_IN_METADATA, replica_states=[state("n1", 0)]),
     "", group(REMADE_ONE, leadership=LED_IN_METADATA, replica_states=[state("n1", 0)]), 1),
    (remade.COPIES_CHECKER, group(REMADE, **BOTH), "", group(REMADE_ONE, **BOTH), 1),
    (unseen.UNSEEN_CHECKER,
     group(TXN, sends=[{**TXN_SEND, "offset": 5}], final_reads=[final_read(3)]), "",
     group(TXN, sends=[{**TXN_SEND, "offset": 2}], final_reads=[final_read(3)]), 1),
    (duplicate.CHECKER, group(sends=[ONE]), "", group(polls=[read(A, 0)]), 1),
    (inconsistent_offsets.CHECKER, group(sends=[ONE], polls=[read(B, 1)]), "reported twice",
     group(sends=[ONE], polls=[read(A, 0)]), 1),
    (phantom.CHECKER, group(sends=[ONE]), "", group(sends=[ONE], polls=[read(A, 0)]), 1),
    (corrupt_record.CHECKER, group(sends=[ONE], polls=[read(A, 0)]), "",
     group(sends=[ONE], polls=[{**read(A, 0), "damage": 0}]), 1),
    (high_watermark_ahead.CHECKER, group(leadership=[marked(3)], replica_states=[MARK]),
     "no leader was asked after another broker",
     group(leadership=[marked(3, at=9 * S)], replica_states=[MARK]), 1),
    (ack_mismatch.CHECKER, group(sends=[ONE], polls=[read(B, 1)]), "",
     group(sends=[ONE], polls=[read(A, 0)]), 1),
    (aborted_read.CHECKER, group(sends=[ONE], polls=[read(A, 0)]), "no send failed",
     group(sends=[ONE, FAILED], polls=[read(A, 0)]), 1),
    (aborted_read.CHECKER, group(TXN, sends=[TXN_SEND], polls=[read(A, 0)]),
     "no read_committed reader could have got an aborted value",
     group(TXN, sends=[{**FAILED, "txn_id": 3}], polls=[committed_read(A, 0)]), 1),
    (precommitted_read.CHECKER,
     group(TXN, sends=[{**TXN_SEND, "mop": 1}], polls=[committed_read(B, 1, op_id=1, mop=0)]),
     "no transaction read from a partition",
     group(TXN, sends=[TXN_SEND], polls=[committed_read(B, 1, op_id=1, mop=1)]), 1),
    (torn_transaction.CHECKER, across("shares", share(1, 0), share(2, 1)), "partly read",
     across("shares", share(1, 0), share(2, 1), share(1, 2)), 1),
    *(
        (checker, group(polls=[read(A, 0)]), "no reader got a record",
         group(polls=[read(A, 0), LATER]), 1)
        for checker in (poll_order.SKIP_CHECKER, poll_order.NONMONOTONIC_CHECKER)
    ),
    *(
        (checker, group(polls=[read(A, 0), LATER]), "no op got two records",
         group(polls=[read(A, 0), read(B, 1)]), 1)
        for checker in (poll_order.INT_SKIP_CHECKER, poll_order.INT_NONMONOTONIC_CHECKER)
    ),
    (commit_lost.CHECKER, group(GROUPS, commits=[COMMIT, fetched(1)]), "a forgotten position",
     group(GROUPS, commits=[COMMIT, fetched(3)]), 1),
    (commit_ahead.CHECKER, group(GROUPS, commits=[COMMIT]), "",
     group(GROUPS, commits=[COMMIT, fetched(1)]), 1),
    (send_order.NONMONOTONIC_CHECKER, group(sends=[ONE, TWO]), "in two ops",
     group(sends=[ONE, {**TWO, "process": 1}]), 1),
    *(
        (checker, group(sends=[ONE, TWO]), "no op sent two messages",
         group(sends=[ONE, {**TWO, "op_id": 1, "process": 1, "mop": 1}]), 1)
        for checker in (send_order.INT_NONMONOTONIC_CHECKER, send_order.INT_SKIP_CHECKER)
    ),
    (offset_order.CHECKER, group(sends=[ONE, {**TWO, "invoke_ns": S}]), "no send began after",
     group(sends=[ONE, TWO]), 1),
    (log_divergence.CHECKER, group(replica_records=log("n1", (0, A))), "",
     group(replica_records=[*log("n1", (0, A)), *log("n2", (0, A))],
           replica_states=[state("n1", 1, 1), state("n2", 1, 1)]), 1),
    (log_start_moved.CHECKER, group(), "", group(replica_states=[state("n1", 1)]), 1),
    (under_replicated.CHECKER, group(ALONE, sends=[ONE], **LOGGED), "min.insync.replicas is 1",
     group(sends=[ONE], **LOGGED), 1),
    (two_leaders.CHECKER, group(leadership=[leads(1, 0), leads(1, 1)]), "reported twice",
     group(leadership=[leads(1, 0), leads(1, 0, at=2 * S)]), 1),
    (two_leaders.QUORUM_CHECKER, whole_run(quorum_states=[VOTE]), "",
     whole_run(quorum_states=[LED_QUORUM]), 1),
    (epoch_regression.CHECKER, group(replica_records=log("n1", (0, A))), "",
     group(replica_records=log("n1", (0, A), (0, B))), 1),
    (epoch_regression.CHECKER, group(leadership=[leads(1, 0, source="metadata")]),
     "epoch was reported after",
     group(leadership=[leads(1, 0, source="metadata"),
                       leads(1, 1, source="metadata", at=2 * S)]), 1),
    (epoch_regression.CHECKER, group(leadership=[elected(1, 0, 1)]), "epoch was reported after",
     group(leadership=[elected(1, 0, 1), elected(1, 1, 2)]), 1),
    (forbidden_election.CHECKER, group(leadership=[{**elected(-1, 0, 1), "isr": [1]}]), "",
     group(leadership=[{**elected(1, 0, 1), "isr": [1]}]), 1),
    (acknowledged_below_min_isr.CHECKER,
     group(sends=[ack(A, 0, at=15 * S)], leadership=[low_isr(at) for at in range(10, 24, 2)]),
     "no client sent a message while an ISR was too small for more than 13 s",
     group(sends=[ack(A, 0, at=15 * S)], leadership=[low_isr(at) for at in range(10, 26, 2)]), 1),
    (incomplete_leader.CHECKER, group(leadership=[marked(1)], replica_records=log("n1", (0, A))),
     "no leader began an epoch",
     group(leadership=[marked(1)], replica_records=log("n1", (0, A), (1, B))), 1),
    (incomplete_quorum_leader.CHECKER, group(QUORUM, replica_records=log("n1", (1, A))),
     "no controller began to lead",
     group(QUORUM, replica_records=log("n1", (1, A), (2, B))), 1),
    (high_watermark_regression.CHECKER, group(leadership=[marked(3)]), "announced after",
     group(leadership=[marked(3), marked(4, at=3 * S)]), 1),
    (high_watermark_regression.CHECKER, group(CALM, leadership=[marked(3)]), "announced after",
     group(CALM, leadership=[marked(3), marked(5, 1, at=3 * S)]), 1),
    (committed_truncation.CHECKER, group(replica_records=log("n1", (0, A))), "",
     group(leadership=[marked(1)], replica_records=log("n1", (0, A))), 1),
    (log_end_regression.CHECKER, group(replica_states=ENDS[:1]), "no log end was reported after",
     group(replica_states=ENDS), 1),
    (epoch_mismatch.CHECKER, group(polls=[POLLED], leadership=LED), "",
     group(polls=[POLLED], **LOGGED), 1),
    (uncommitted_read.CHECKER, group(polls=[POLLED], leadership=[marked(3)]), "",
     group(polls=[POLLED], leadership=[marked(3, at=9 * S)]), 1),
    *(
        (checker, across("dependencies", depends(WR if checker.name.startswith("G0") else WW)),
         "so a cycle could not be detected",
         across("dependencies", depends(WW if checker.name.startswith("G0") else WR)), 1)
        for checker in cycles.CHECKERS
    ),
    (metadata_divergence.CHECKER, group(QUORUM, replica_records=log("n1", (1, A))), "",
     group(QUORUM, replica_records=[*log("n1", (1, A)), *log("n2", (1, A))]), 3),
    (double_vote.CHECKER, whole_run(quorum_states=[LED_QUORUM]), "",
     whole_run(quorum_states=[VOTE]), 1),
    (unavailable.CHECKER, group(CALM, sends=[{**ONE, "complete_ns": S - 1}]), "",
     group(CALM, sends=[ONE]), 1),
    (slow_election.CHECKER, group(CALM), "", group(CALM, leadership=[leads(1, 0, at=2 * S)]), 1),
    (isr_not_restored.CHECKER, group(CALM, leadership=[isr(1)]), "",
     group(CALM, leadership=[isr(1, 2, 3)]), 1),
    (isr_not_restored.REMADE_CHECKER, group(CALM, leadership=[isr(1)]), "",
     group(CALM, leadership=[isr(1, 2, 3)]), 1),
    (hanging_transaction.CHECKER, group(TXN, leadership=LED, replica_states=[LOOK]),
     "no transaction wrote anything",
     group(TXN, sends=[TXN_SEND], leadership=LED, replica_states=[LOOK]), 1),
    (group_stuck.CHECKER, group(GROUPS, polls=[{**read(A, 0), "process": 0, "complete_ns": 3 * S}]),
     "no message arrived after the last heal",
     group(GROUPS, sends=[ONE], polls=[{**read(A, 0), "process": 0, "complete_ns": 3 * S}]), 1),
    (jepsens_aborted_read.CHECKER, group(sends=[ONE], polls=[read(A, 0)]), "no send failed",
     group(sends=[ONE, FAILED], polls=[read(A, 0)]), 1),
    (jepsens_lost_write.CHECKER, group(sends=[TWO], polls=[read(A, 0)]), "no reader reached",
     group(sends=[ONE], polls=[read(A, 0)]), 1),
    (jepsens_unseen.CHECKER, group(), "", group(sends=[ONE]), 1),
    (jepsens_places.DUPLICATE_CHECKER, group(sends=[ONE], polls=[read(B, 1)]), "reported twice",
     group(sends=[ONE], polls=[read(A, 0)]), 1),
    (jepsens_places.INCONSISTENT_CHECKER, group(sends=[ONE], polls=[read(B, 1)]), "reported twice",
     group(sends=[ONE], polls=[read(A, 0)]), 1),
    *(
        (checker, group(sends=[ONE, TWO], polls=[read(A, 0), read(B, 1, op=8)]),
         "no process handled two records with known log positions one after another",
         group(sends=[ONE, {**TWO, "process": 1}], polls=[read(A, 0), LATER]), 1)
        for checker in jepsens_order.CHECKERS if not checker.name.startswith("int-")
    ),
    *(
        (checker, group(sends=[ONE, TWO], polls=[read(A, 0), read(B, 1, op=8)]),
         "no process handled two records with known log positions one after another",
         group(sends=[ONE, {**TWO, "op_id": 1, "mop": 1}], polls=[read(A, 0), read(B, 1)]), 1)
        for checker in jepsens_order.CHECKERS if checker.name.startswith("int-")
    ),
]  # fmt: skip


ALL_CASES: list[Case] = [*CASES, *collected("ROWS_OF", folder="tests/checkers")]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case[0].name)
def test_rows_are_what_could_have_failed(case: Case) -> None:
    checker, bare, why, armed, rows = case
    nothing, something = found(checker, bare), found(checker, armed)
    assert nothing.rows == ALWAYS.get(checker.name, 0)
    if why:
        (sentence,) = nothing.unshown
        assert why in sentence
        assert sentence.endswith("could not be detected")
        assert ", so " in sentence
    else:
        assert nothing.unshown == ()
    assert something.rows == rows
    assert not any(why and why in each for each in something.unshown)


def test_each_check_is_held_to_its_rows() -> None:
    tested = {id(case[0]) for case in ALL_CASES}
    assert {each.name for each in (*CHECKERS, *JEPSENS) if id(each) not in tested} == set()


@pytest.mark.parametrize("checker", [*CHECKERS, *JEPSENS], ids=lambda each: each.name)
def test_each_check_names_its_promise_and_what_it_compares(checker: Checker) -> None:
    harness = checker.anomaly_class is AnomalyClass.HARNESS
    never_wrong = allowed(checker.name, (), Judge.STRICT) is not None
    assert (checker.promise is None) == (harness or never_wrong)
    assert checker.compares != "rows"


def test_a_kernel_without_what_any_run_has_gives_no_reason() -> None:
    for checker in (aborted_read.CHECKER, *send_order.CHECKERS, *poll_order.CHECKERS):
        assert found(checker, group()).unshown == ()
    no_isr = group(sends=[ONE])
    assert found(acknowledged_below_min_isr.CHECKER, no_isr).unshown == ()


def test_a_look_that_ended_before_the_budget_could_show_no_later_outage() -> None:
    short = replace(CALM, milestones=(Milestone(name="final-reads", at_ns=5 * S),))
    rows: Row = {"sends": [ONE], "leadership": [leads(1, 0, at=2 * S)]}
    told = [
        found(each, group(short, **rows)).unshown[0]
        for each in (unavailable.CHECKER, slow_election.CHECKER)
    ]
    assert told == [
        f"clients continued for 4.0 s after the last heal, and the budget is {budget} s, so"
        f" {what} that began later could not be detected"
        for budget, what in ((30, "an outage"), (15, "a vacancy"))
    ]
    for at_s, silent in ((31, True), (32, False)):
        ended = replace(CALM, milestones=(Milestone(name="final-reads", at_ns=at_s * S),))
        assert bool(found(unavailable.CHECKER, group(ended, **rows)).unshown) is silent
    unstopped = replace(CALM, milestones=())
    assert found(unavailable.CHECKER, group(unstopped, **rows)).unshown == ()


def test_a_gap_is_no_comparison_and_tells_of_nothing_else() -> None:
    stopped = Milestone(name="final-reads", at_ns=9 * S)
    open_ = replace(TXN, milestones=(stopped,))
    stuck = [{**LOOK, "high_watermark": 7}]
    hanging = group(open_, sends=[TXN_SEND], leadership=LED, replica_states=stuck)
    untried = group(replace(CALM, milestones=(stopped,)), leadership=[isr(1)])
    for checker, on in (
        (hanging_transaction.CHECKER, hanging),
        (isr_not_restored.CHECKER, untried),
        (unavailable.CHECKER, untried),
    ):
        result = found(checker, on)
        assert (result.rows, result.unshown, len(result.gaps)) == (0, (), 1), checker.name


def test_transactions_that_clients_ended_say_nothing_of_the_coordinator() -> None:
    rows: Row = {"leadership": LED, "replica_states": [LOOK]}
    ended = found(hanging_transaction.CHECKER, group(TXN, sends=[TXN_SEND], **rows))
    assert (
        "a transaction that its coordinator does not abort could not be detected"
        in ended.unshown[0]
    )
    left = {**TXN_SEND, "outcome": "info"}
    assert found(hanging_transaction.CHECKER, group(TXN, sends=[left], **rows)).unshown == ()
    plain = {**ONE, "outcome": "info"}
    with_plain = group(TXN, sends=[TXN_SEND, {**plain, "op_id": 7}], **rows)
    assert found(hanging_transaction.CHECKER, with_plain).unshown == ended.unshown


def test_what_is_aborted_counts_only_where_somebody_must_not_be_given_it() -> None:
    aborted = {**FAILED, "txn_id": 3}
    watched = group(TXN, sends=[aborted], polls=[read(A, 0)])
    assert found(aborted_read.CHECKER, watched).rows == 0
    read_at_last = {**final_read(3), "isolation": "read_committed"}
    final = group(TXN, sends=[aborted], polls=[read(A, 0)], final_reads=[read_at_last])
    assert found(aborted_read.CHECKER, final).rows == 1


def test_a_failed_send_without_a_value_could_be_read_by_nobody() -> None:
    rows = group(sends=[{**FAILED, "value": None}], polls=[read(A, 0)])
    assert found(aborted_read.CHECKER, rows).unshown == (
        "no send failed, so an aborted read could not be detected",
    )
    unread = found(aborted_read.CHECKER, group(sends=[FAILED]))
    assert (unread.rows, unread.unshown) == (0, ()), "without polls nobody knows"


def test_only_ends_behind_a_mark_of_the_same_replica_count() -> None:
    def counted(*looks: tuple[int | None, int | None]) -> int:
        told = [
            {"node": "n2", "observed_ns": at * S, "log_end_offset": end, "high_watermark": mark}
            for at, (end, mark) in enumerate(looks, start=1)
        ]
        return found(log_end_regression.CHECKER, group(replica_states=told)).rows

    assert counted((0, 0), (0, 0)) == 1, "offset 0 is an end, and a mark"
    assert counted((5, None), (5, None)) == 0
    assert counted((5, None), (5, 3), (6, 3)) == 1
    assert counted((5, 3), (None, 3), (6, None), (7, None)) == 2


def test_only_what_an_op_got_behind_its_own_send_could_be_its_own() -> None:
    def polled(op: int, mop: int) -> Row:
        return committed_read(B, 1, op_id=op, mop=mop)

    sends = [{**TXN_SEND, "op_id": op, "mop": 1} for op in (1, 2, 3, 4)]
    polls = [polled(1, 0), polled(1, 2), polled(2, 0), polled(4, 2), polled(4, 0)]
    assert found(precommitted_read.CHECKER, group(TXN, sends=sends, polls=polls)).rows == 2
    plain = [{**each, "txn_id": None} for each in sends]
    assert found(precommitted_read.CHECKER, group(TXN, sends=plain, polls=polls)).rows == 0
    watcher = [{**each, "isolation": "read_uncommitted"} for each in polls]
    assert found(precommitted_read.CHECKER, group(TXN, sends=sends, polls=watcher)).rows == 0
