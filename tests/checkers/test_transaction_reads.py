"""Twin histories: what readers may be shown of transactions, and what not; the reason beside."""

from typing import Any

import pyarrow as pa
import pytest

from checkers import aborted_read, lost_write, precommitted_read, torn_transaction, unseen
from checkers.contract import allowed
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.protocol import Findings
from results.record.terms import Judge
from tests.checkers.faithful import STONES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    PLACE,
    RETENTION,
    A,
    B,
    C,
    S,
    elected,
    facts,
    final_read,
    group,
    leads,
    log,
    read,
    sentences,
    state,
)

COMMITTED = {"isolation": "read_committed"}


def sent(value: int, offset: int | None = None, *, op: int = 1, outcome: str = "ok") -> Row:
    """A send of the transaction that is op `op`."""
    return {"op_id": op, "mop": 0, "value": value, "offset": offset, "txn_id": op, "acks": "all",
            "outcome": outcome, "acked": offset is not None, "process": op, "invoke_ns": 5,
            "complete_ns": 10}  # fmt: skip


def polled(value: int, offset: int, *, op: int = 9, **changes: object) -> Row:
    return {**read(value, offset, op=op), **COMMITTED, **changes}


def txn(**changes: object) -> RunFacts:
    return facts(plan={"workload": "txn"}, **changes)


# G1a


PLAIN: dict[str, Any] = {"txn_id": None, "acked": False}


@pytest.mark.parametrize(
    ("send", "poll", "wrong"),
    [
        ({}, {}, True),  # Aborted, and shown to a read_committed reader.
        ({}, {"isolation": "read_uncommitted"}, False),  # That is what such a reader asked for.
        (PLAIN, {"isolation": "read_uncommitted"}, True),  # It never left the client.
        (PLAIN, {}, True),
        ({"outcome": "info"}, {}, False),  # A commit was asked for.
        ({"outcome": "ok"}, {}, False),
        ({}, {"value": B}, False),
        ({}, {"outcome": "info"}, True),  # The records were given, however the op ended.
        ({}, {"op_id": 1}, False),  # Its own: a precommitted-read.
        ({**PLAIN}, {"op_id": 1}, True),
        ({}, {"op_id": 0}, True),  # Whose op began before the transaction.
    ],
)
def test_reading_what_failed(send: Row, poll: Row, wrong: bool) -> None:  # noqa: FBT001 - a case
    on = group(
        txn(), sends=[{**sent(A, 0, outcome="fail"), **send}], polls=[{**polled(A, 0), **poll}]
    )
    assert bool(aborted_read.CHECKER.check(on).anomalies) is wrong


def test_a_value_that_failed_is_told_once_with_its_readers() -> None:
    sends = [sent(A, 4, outcome="fail"), {**sent(B, op=2, outcome="fail"), **PLAIN}]
    polls = [polled(A, 4, op=8), polled(A, 4, op=9), polled(A, 6, op=9), polled(B, 2, op=9)]
    found = aborted_read.CHECKER.check(group(txn(), sends=sends, polls=polls))
    assert found.rows == 2
    one, other = found.anomalies
    assert one.sentence == (
        f"value {B}, which op 2 sent to log-0-0, was read at offset 2 by op 9,"
        " though the send certainly failed"
    )
    assert other.sentence == (
        f"value {A}, which op 1 sent to log-0-0, was read at offset 4 by op 8 and 1 more,"
        " though the transaction was aborted"
    )
    assert other.evidence == {"value": A, "offset": 4, "writer": 1, "transactional": True,
                              "readers": [8, 9], "count_of_readers": 2, "on": []}  # fmt: skip
    assert (other.offset, other.excuses) == (4, ())


# precommitted-read


@pytest.mark.parametrize(
    ("poll", "wrong"),
    [
        ({}, True),
        ({"isolation": "read_uncommitted"}, False),
        ({"op_id": 2}, False),  # A later op.
        ({"value": B}, False),  # Somebody else's.
        ({"outcome": "fail"}, True),  # It was shown it, whatever came of the transaction.
    ],
)
def test_reading_what_is_not_committed_yet(poll: Row, wrong: bool) -> None:  # noqa: FBT001 - a case
    on = group(txn(), sends=[sent(A, 3), sent(B, 4, op=2)], polls=[{**polled(A, 3, op=1), **poll}])
    found = precommitted_read.CHECKER.check(on)
    assert found.rows == (poll.get("isolation") is None)
    assert bool(found.anomalies) is wrong


def test_a_precommitted_read_is_told_once() -> None:
    polls = [polled(A, 3, op=1), {**polled(A, 3, op=1), "mop": 2}]
    on = group(txn(), sends=[sent(A, 3), {**sent(B), "txn_id": None}], polls=polls)
    (told,) = precommitted_read.CHECKER.check(on).anomalies
    assert told.sentence == (
        f"op 1 read value {A} at offset 3 of log-0-0 before the commit of its own transaction,"
        " which had sent it"
    )
    assert told.evidence == {"value": A, "offset": 3, "op_id": 1}
    assert precommitted_read.CHECKER.check(on).rows == 1


def test_only_runs_with_transactions_can_precommit() -> None:
    assert precommitted_read.CHECKER.applies(txn())
    assert precommitted_read.CHECKER.applies(facts(history=True))
    assert not precommitted_read.CHECKER.applies(facts())
    assert not precommitted_read.CHECKER.applies(facts(judge=Judge.JEPSEN))


# torn-transaction


def torn(*groups: Group) -> Findings:
    shares = pa.concat_tables(torn_transaction.shares(each) for each in groups)
    about = groups[0].facts
    return torn_transaction.CHECKER.check(Group(facts=about, tables={}, derived={"shares": shares}))


def half(about: RunFacts | None = None, /, **rows: list[Row]) -> Group:
    """One transaction wrote A at 0 and B at 1; final reads, to offset 3, returned A only."""
    parts: dict[str, list[Row]] = {
        "sends": [sent(A, 0), sent(B, 1)],
        "polls": [polled(A, 0)],
        "final_reads": [{**final_read(3), **COMMITTED}],
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", (0, A), (0, B)),
    }
    return group(about or txn(), **{**parts, **rows})


def test_half_a_transaction_is_torn() -> None:
    found = torn(half())
    assert found.rows == 1
    (told,) = found.anomalies
    assert told.sentence == (
        f"the transaction of op 1 committed, and final reads show value {A} at offset 0 of log-0-0,"
        f" but not value {B} at offset 1 of log-0-0, below the last stable offset"
    )
    assert told.evidence == {
        "op_id": 1, "shown": [f"value {A} at offset 0 of log-0-0"], "count_of_shown": 1,
        "hidden_values": [B], "hidden_offsets": [1], "hidden_places": ["log-0-0"],
    }  # fmt: skip
    assert (told.excuses, told.broken_premises) == ((), ())


@pytest.mark.parametrize(
    "rows",
    [
        {"polls": [polled(A, 0), polled(B, 1)]},  # Whole.
        {"polls": []},  # None of it: lost, or unseen, each of them.
        {"polls": [polled(A, 0, phase="main")]},  # No final read shows any.
        {"polls": [{**polled(A, 0), "isolation": "read_uncommitted"}]},
        {"sends": [sent(A, 0, outcome="info"), sent(B, 1, outcome="info")]},  # Nobody knows.
        {"sends": [sent(A, 0, outcome="fail"), sent(B, 1, outcome="fail")]},  # A G1a.
        {"sends": [sent(A, 0), sent(B, 1, op=2)]},  # Two transactions.
        {"sends": [{**sent(A, 0), "txn_id": None}, {**sent(B, 1), "txn_id": None}]},  # Plain.
        {"final_reads": [{**final_read(1), **COMMITTED}]},  # B need not be shown: not yet stable.
        {"final_reads": [{**final_read(3, complete=False), **COMMITTED}]},
        {"final_reads": [final_read(3)]},  # No read_committed one.
        {"final_reads": [{**final_read(3), **COMMITTED}, {**final_read(1), **COMMITTED}]},
        {"replica_records": log("n1", (0, A))},  # B is gone: a lost-write.
        {"sends": [sent(A, 0), sent(B, None)], "leadership": []},  # Nobody knows where B stood.
    ],
)
def test_what_is_not_torn(rows: dict[str, list[Row]]) -> None:
    assert torn(half(**rows)).anomalies == ()


def test_only_the_transaction_in_halves_is_told_beside_whole_ones() -> None:
    sends = [sent(A, 0), sent(B, 1), sent(C, 2, op=2), sent(C + 1, 3, op=2)]
    found = torn(half(
        sends=sends, polls=[polled(A, 0), polled(B, 1), polled(C, 2)],
        final_reads=[{**final_read(4), **COMMITTED}],
        replica_records=log("n1", (0, A), (0, B), (0, C), (0, C + 1)),
    ))  # fmt: skip
    (told,) = found.anomalies
    assert (found.rows, told.evidence["op_id"], told.evidence["hidden_values"]) == (2, 2, [C + 1])
    nothing = torn(half(sends=[]))
    assert (nothing.rows, nothing.anomalies) == (0, ())


def test_what_retention_took_of_a_transaction_is_not_hidden() -> None:
    states = [{**state("n1", 2, start=2), "snapshot": "final"}]
    about = facts(plan={"workload": "txn", **RETENTION})
    assert torn(half(about, replica_states=states)).anomalies == ()
    assert len(torn(half(replica_states=states)).anomalies) == 1


def test_a_witnessed_transaction_can_be_torn() -> None:
    unknown = [sent(A, 0, outcome="info"), sent(B, 1, outcome="info")]
    assert torn(half(txn(witnessed=frozenset({1})), sends=unknown)).anomalies


def test_the_log_knows_better_where_a_record_stands() -> None:
    found = torn(half(sends=[sent(A, 0), sent(B, None)]))
    assert found.anomalies[0].evidence["hidden_offsets"] == [1]
    beyond = log("n1", (0, A), (0, C), (0, C), (0, B))  # Not at 1, as the leader had said.
    assert torn(half(replica_records=beyond)).anomalies == ()


def test_without_a_final_log_the_acknowledged_offset_counts() -> None:
    assert torn(half(leadership=[], replica_records=[])).anomalies


def test_halves_may_lie_in_different_partitions() -> None:
    first = half(sends=[sent(A, 0)], replica_records=log("n1", (0, A)))
    second = half(sends=[sent(B, 1)], polls=[])
    assert torn(first).anomalies == torn(second).anomalies == ()
    assert torn(first, second).anomalies


def test_a_torn_transaction_rests_on_whole_records_and_a_recovery() -> None:
    (told,) = torn(half(txn(cut_streams=True, milestones=()))).anomalies
    assert told.broken_premises == ("whole-record", "recovered")
    assert "recovered" in STONES


UNCLEAN = {"workload": "txn", "broker": {"unclean.leader.election.enable": "true"}}


def lost_behind(*nodes: str) -> RunFacts:
    """A run in which nodes lost power, and with it what stood from an offset on."""
    cut = DiskLoss(
        nodes=frozenset(nodes), topic="log-0", partition=0, end_after=2, end_before=3,
        until_ns=99, excuse="power-loss",
    )  # fmt: skip
    return txn(disk_losses=(cut,))


@pytest.mark.parametrize(
    ("about", "led", "excuses"),
    [
        (txn(), [], ()),
        (facts(plan=UNCLEAN), [elected(1, 1, 7, unclean=True)], ("unclean-election",)),
        # Of the coordinators' own log nobody records the elections, and this one was not quiet.
        (facts(plan=UNCLEAN), [elected(1, 1, 7)], ("unclean-election",)),
        (lost_behind("n1", "n2", "n3"), [], ("power-loss",)),
        (lost_behind("n1", "n2"), [], ()),
    ],
)
def test_a_marker_that_went_while_its_records_stayed_excuses_what_comes_of_it(
    about: RunFacts, led: list[Row], excuses: tuple[str, ...]
) -> None:
    leadership = [leads(1, 0, at=1), *led]
    nodes = ("n1", "n2", "n3")
    kept = {"replica_records": [row for node in nodes for row in log(node, (0, A), (0, B), (0, C))],
            "leadership": leadership}  # fmt: skip
    (half_shown,) = torn(half(about, **kept)).anomalies
    assert half_shown.excuses == excuses
    later: Row = {"invoke_ns": 9 * S, "complete_ns": 10 * S}  # When the power was back.
    others = [{**sent(value, 5, op=0, outcome="fail"), **later} for value in (C, A - 1)]
    failed = [*others, sent(A, 0, outcome="fail")]
    aborted = group(about, sends=failed, polls=[polled(A, 0)], **kept)
    (read_,) = aborted_read.CHECKER.check(aborted).anomalies
    assert read_.excuses == excuses
    jumped = group(
        about, sends=[*others, sent(A, 0)], polls=[polled(B, 1)],
        final_reads=[{**final_read(2), **COMMITTED}], **kept,
    )  # fmt: skip
    (lost,) = lost_write.CHECKER.check(jumped).anomalies
    assert lost.excuses == excuses


@pytest.mark.parametrize(
    ("begun_ns", "ended_ns", "excuses"),
    [(5, 2 * S, ("power-loss",)), (5, None, ("power-loss",)), (20 * S, 21 * S, ())],
    ids=["its op goes on after the loss", "its client ended", "it began later"],
)
def test_a_marker_may_go_while_its_client_waits_for_an_answer(
    begun_ns: int, ended_ns: int | None, excuses: tuple[str, ...]
) -> None:
    """The coordinator writes markers before it answers, and the power goes before the answer."""
    nodes = ("n1", "n2", "n3")
    times: Row = {"invoke_ns": begun_ns, "complete_ns": ended_ns}
    on = group(
        lost_behind(*nodes), sends=[{**sent(A, 0, outcome="fail"), **times}], polls=[polled(A, 0)],
        replica_records=[row for node in nodes for row in log(node, (0, A))],
    )  # fmt: skip
    (told,) = aborted_read.CHECKER.check(on).anomalies
    assert told.excuses == excuses


def state_lost(*nodes: str, topic: str = "__transaction_state") -> RunFacts:
    """A run in which nodes lost power between 15 s and 30 s, and with it state of coordinators."""
    return txn(disk_losses=tuple(
        DiskLoss(
            nodes=frozenset({node}), topic=topic, partition=7, end_after=4, end_before=6,
            until_ns=20 * S, began_ns=15 * S, healed_ns=30 * S, excuse="power-loss",
        )
        for node in nodes
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("about", "ended_s", "next_s", "excuses"),
    [
        (state_lost("n1", "n2", "n3"), 16, None, ("power-loss",)),
        (state_lost("n1", "n2", "n3"), 14, 40, ("power-loss",)),
        (state_lost("n1", "n2"), 14, None, ("last-copies",)),
        (state_lost("n1", "n2", "n3", topic="__consumer_offsets"), 14, None, ()),
        (state_lost("n1", "n2", "n3"), 14, 15, ("power-loss",)),
        (state_lost("n1", "n2", "n3"), 13, 14, ()),  # The next transaction began before.
        (state_lost("n1", "n2", "n3"), 50, None, ()),  # It began after the loss.
    ],
)
def test_a_decision_may_go_before_its_markers_are_written(
    about: RunFacts, ended_s: int, next_s: int | None, excuses: tuple[str, ...]
) -> None:
    """The coordinator answers when it has decided. Without that record, it aborts later."""
    times: Row = {"invoke_ns": (ended_s - 4) * S, "complete_ns": ended_s * S}
    sends = [{**sent(A, 0), **times}, {**sent(B, 1), **times, "transactional_id": "t-1"}]
    if next_s is not None:
        later = {"transactional_id": "t-1", "invoke_ns": ended_s * S, "complete_ns": next_s * S}
        sends.append({**sent(C, 2, op=5), **later})
    kept = log("n1", (0, A), (0, B), (0, C))
    on = half(about, sends=sends, polls=[polled(A, 0), polled(C, 2)], replica_records=kept)
    (told,) = torn(on).anomalies
    assert told.excuses == excuses
    (lost,) = lost_write.CHECKER.check(on).anomalies
    assert (lost.offset, lost.excuses) == (1, excuses)


def test_no_marker_explains_a_loss_from_the_log_or_of_a_plain_send() -> None:
    """Power took what stood from offset 2 on, and the record stood at 0."""
    nodes = ("n1", "n2", "n3")
    reads: dict[str, list[Row]] = {
        "polls": [polled(B, 1)], "final_reads": [{**final_read(2), **COMMITTED}],
        "leadership": [leads(1, 0, at=1)],
    }  # fmt: skip
    gone = [row for node in nodes for row in log(node, (0, C), (0, B))]
    kept = [row for node in nodes for row in log(node, (0, A), (0, B))]
    plain: Row = {**sent(A, 0), "txn_id": None}
    about = lost_behind(*nodes)
    untransactional = facts(disk_losses=about.disk_losses)
    for run, send, records in ((about, sent(A, 0), gone), (untransactional, plain, kept)):
        on = group(run, sends=[send], replica_records=records, **reads)
        (lost,) = lost_write.CHECKER.check(on).anomalies
        assert lost.excuses == ()


def test_a_plain_send_that_failed_has_no_marker() -> None:
    send = {**sent(A, None, outcome="fail"), "txn_id": None}
    led = [leads(1, 0, at=1), elected(1, 1, 7, unclean=True)]
    on = group(facts(plan=UNCLEAN), sends=[send], polls=[polled(A, 0)], leadership=led)
    (anomaly,) = aborted_read.CHECKER.check(on).anomalies
    assert anomaly.excuses == ()


def test_every_half_that_is_missing_needs_its_excuse() -> None:
    """One partition had an unclean election, and the other one not."""
    about = facts(plan={**UNCLEAN, "partitions": 2})
    for led, excuses in (([elected(1, 1, 7, unclean=True)], ("unclean-election",)), ([], ())):
        first = half(about, leadership=[leads(1, 0), elected(1, 1, 7, unclean=True)])
        second = half(about, leadership=[leads(1, 0), *led])
        (anomaly,) = torn(first, second).anomalies
        assert anomaly.excuses == excuses


def test_many_records_are_told_in_short() -> None:
    values = list(range(A, A + 8))
    sends = [sent(value, at) for at, value in enumerate(values)]
    on = half(sends=sends, polls=[polled(value, at) for at, value in enumerate(values[:4])],
              final_reads=[{**final_read(8), **COMMITTED}],
              replica_records=log("n1", *((0, value) for value in values)))  # fmt: skip
    (told,) = torn(on).anomalies
    assert told.sentence.count("(and 1 more)") == 2
    assert told.evidence["count_of_shown"] == 4
    assert told.evidence["hidden_offsets"] == [4, 5, 6, 7]
    (few,) = torn(half(sends=sends[:6], polls=[polled(value, at) for at, value in
                                               enumerate(values[:3])],
                       final_reads=[{**final_read(8), **COMMITTED}],
                       replica_records=log("n1", *((0, value) for value in values)))
                  ).anomalies  # fmt: skip
    assert "more" not in few.sentence


def test_who_can_be_torn() -> None:
    assert torn_transaction.CHECKER.applies(txn())
    assert not torn_transaction.CHECKER.applies(facts())
    compacted: dict[str, object] = {"workload": "txn", "broker": {"log.cleanup.policy": "compact"}}
    assert not torn_transaction.CHECKER.applies(facts(plan=compacted))
    assert PLACE["partition"] == 0


# lost-write and unseen


def test_an_aborted_record_is_not_lost_and_need_not_be_seen() -> None:
    for outcome in ("fail", "info"):
        sends = [sent(A, 0), sent(B, 1, op=2, outcome=outcome)]
        on = half(sends=sends, replica_records=log("n1", (0, A)))
        assert sentences(lost_write.CHECKER, on) == []
        assert sentences(unseen.UNSEEN_CHECKER, on) == []


def test_a_committed_record_that_is_gone_is_lost() -> None:
    on = half(replica_records=log("n1", (0, A)))
    assert [one.offset for one in lost_write.CHECKER.check(on).anomalies] == [1]
    witnessed = half(
        txn(witnessed=frozenset({2})),
        sends=[sent(A, 0), sent(B, 1, op=2, outcome="info")],
        replica_records=log("n1", (0, A)),
    )
    assert [one.offset for one in lost_write.CHECKER.check(witnessed).anomalies] == [1]


def test_a_transactions_record_is_seen_by_read_committed_readers_only() -> None:
    """B's transaction committed, but its marker says abort: only a watcher is shown it."""
    watched = {**polled(B, 1), "isolation": "read_uncommitted"}
    on = half(sends=[sent(A, 0), sent(B, 1, op=2)], polls=[polled(A, 0), watched])
    assert [one.offset for one in unseen.UNSEEN_CHECKER.check(on).anomalies] == [1]
    plain = {**sent(B, 1, op=2), "txn_id": None}
    on = half(sends=[sent(A, 0), plain], polls=[polled(A, 0), watched])
    assert unseen.UNSEEN_CHECKER.check(on).anomalies == ()
    watchers = half(sends=[sent(B, 1)], polls=[watched], final_reads=[final_read(3)])
    assert unseen.UNSEEN_CHECKER.check(watchers).anomalies == ()


def test_what_lies_behind_an_open_transaction_need_not_be_seen_yet() -> None:
    ends = [{**final_read(1), **COMMITTED}, {**final_read(1)}]
    open_still = half(sends=[sent(A, 0), sent(B, 1, op=2)], final_reads=ends)
    assert unseen.UNSEEN_CHECKER.check(open_still).anomalies == ()
    (told,) = unseen.INCOMPLETE_CHECKER.check(open_still).anomalies
    assert told.sentence == (
        "the final reads of log-0-0 ended at offset 1, where a transaction stayed open: committed"
        " records follow it"
    )
    assert told.evidence == {"isolation": None, "target_end": 1, "reached": -1}
    watched = half(sends=[sent(A, 0), sent(B, 1, op=2)], final_reads=[ends[0], final_read(2)])
    assert unseen.UNSEEN_CHECKER.check(watched).anomalies == ()  # Others were to go further.
    assert len(unseen.INCOMPLETE_CHECKER.check(watched).anomalies) == 1
    longer = half(sends=[sent(A, 0), sent(B, 1, op=2)],
                  final_reads=[{**final_read(2), **COMMITTED}, ends[1]])  # fmt: skip
    assert [one.offset for one in unseen.UNSEEN_CHECKER.check(longer).anomalies] == [1]
    assert unseen.INCOMPLETE_CHECKER.check(longer).anomalies == ()
    plain = {**sent(B, 1, op=2), "txn_id": None}
    free = half(sends=[sent(A, 0), plain], final_reads=[ends[0], final_read(2)])
    assert [one.offset for one in unseen.UNSEEN_CHECKER.check(free).anomalies] == [1]
    short = half(final_reads=[{**final_read(1, complete=False), **COMMITTED}])
    assert len(unseen.INCOMPLETE_CHECKER.check(short).anomalies) == 1


def test_without_transactions_nothing_acknowledged_may_lie_behind_the_end() -> None:
    """The leader's end went back behind an acknowledgement: nothing is open that could explain."""
    plain = [{**sent(A, 0), "txn_id": None}, {**sent(B, 1), "txn_id": None}]
    on = half(facts(), sends=plain, final_reads=[final_read(1)])
    assert [one.offset for one in unseen.UNSEEN_CHECKER.check(on).anomalies] == [1]
    assert unseen.INCOMPLETE_CHECKER.check(on).anomalies == ()


def test_without_a_final_log_a_record_stands_where_it_was_acknowledged() -> None:
    sends = [sent(A, 0), sent(B, 1, op=2)]
    for end, hidden in ((1, []), (2, [1])):
        reads = [{**final_read(end), **COMMITTED}]
        on = half(sends=sends, leadership=[], final_reads=reads)
        assert [one.offset for one in unseen.UNSEEN_CHECKER.check(on).anomalies] == hidden
        assert len(unseen.INCOMPLETE_CHECKER.check(on).anomalies) == 1 - len(hidden)


def test_a_circle_of_a_case_that_is_always_excused_is_allowed_by_all_judges() -> None:
    for judge in (Judge.CONTRACT, Judge.STRICT):
        assert allowed("G1c", ("always",), judge) == "always"
        assert allowed("G1c", (), judge) is None
