import pytest

from checkers.facts import RunFacts
from checkers.unseen import INCOMPLETE_CHECKER, UNSEEN_CHECKER
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    RETENTION,
    A,
    B,
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


def test_a_value_that_any_poll_returned_is_seen() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(A, 0, phase="main")], final_reads=[final_read(1)])
    result = found(UNSEEN_CHECKER, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_a_value_in_the_log_that_no_poll_returned_is_unseen() -> None:
    on = group(
        sends=[ack(A, 0), ack(B, 1, op=2)],
        polls=[read(A, 0)],  # The final read is complete, and yet B was not in it.
        final_reads=[final_read(2)],
        leadership=[leads(1, 0)],
        replica_records=log("n1", (0, A), (0, B)),
        replica_states=[state("n1", 2)],
    )
    (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
    assert (anomaly.evidence["value"], anomaly.offset, anomaly.broken_premises) == (B, 1, ())


def test_a_lost_value_is_not_unseen_as_well() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(B, 1)], final_reads=[final_read(2)])
    assert found(UNSEEN_CHECKER, on).anomalies == ()


def test_without_complete_final_reads_nothing_is_unseen() -> None:
    on = group(sends=[ack(A, 0)], final_reads=[final_read(1, complete=False)])
    assert found(UNSEEN_CHECKER, on).rows == 0
    (sentence,) = sentences(INCOMPLETE_CHECKER, on)
    assert sentence == "the final read (read_uncommitted) of log-0-0 reached offset 0 of 1"


def test_a_partition_without_a_final_read_is_incomplete_and_one_with_it_is_not() -> None:
    assert len(sentences(INCOMPLETE_CHECKER, group(sends=[ack(A, 0)]))) == 1
    assert sentences(INCOMPLETE_CHECKER, group(final_reads=[final_read(1)])) == []


def test_a_partition_that_did_not_recover_is_not_trusted() -> None:
    on = group(facts(milestones=()), sends=[ack(A, 0)], final_reads=[final_read(1)])
    (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
    assert anomaly.broken_premises == ("recovered",)


def test_a_cut_stream_of_polls_makes_unseen_untrusted_and_nothing_excuses_it() -> None:
    rows = {"sends": [ack(A, 0)], "final_reads": [final_read(1)]}
    (cut,) = found(UNSEEN_CHECKER, group(facts(cut_streams=True), **rows)).anomalies
    assert (cut.broken_premises, cut.excuses) == (("whole-record",), ())
    weak = group(sends=[ack(A, 0, acks="1")], final_reads=[final_read(1)])
    assert found(UNSEEN_CHECKER, weak).anomalies[0].excuses == ("acks-0-1",)


def test_an_unclean_election_excuses_and_adds_to_weak_acks() -> None:
    allowed = facts(plan={"broker": {"unclean.leader.election.enable": "true"}}, milestones=())
    rows = {"final_reads": [final_read(1)], "leadership": [elected(1, 1, 5, unclean=True)]}
    (strong,) = found(UNSEEN_CHECKER, group(allowed, sends=[ack(A, 0)], **rows)).anomalies
    assert strong.excuses == ("unclean-election",)
    (weak,) = found(UNSEEN_CHECKER, group(allowed, sends=[ack(A, 0, acks="1")], **rows)).anomalies
    assert weak.excuses == ("unclean-election", "acks-0-1")
    assert weak.broken_premises == ("recovered",)


def test_an_unclean_election_does_not_excuse_what_the_last_leader_has_after_a_recovery() -> None:
    """The ISR was full before the final reads: whoever was read from had the record as well."""
    unclean = {"broker": {"unclean.leader.election.enable": "true"}}
    kept = {
        "replica_records": log("n1", (0, A), (0, B)),
        "replica_states": [state("n1", 2)],
    }

    def excuses(about: RunFacts, **rows: list[Row]) -> tuple[str, ...]:
        on = group(about, sends=[ack(A, 0), ack(B, 1, op=2)], polls=[read(A, 0)],
                   final_reads=[final_read(2)],
                   leadership=[leads(1, 1), elected(1, 1, 5, unclean=True)], **rows)  # fmt: skip
        (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
        assert anomaly.evidence["value"] == B
        return anomaly.excuses

    assert excuses(facts(plan=unclean), **kept) == ()
    assert excuses(facts(plan=unclean, milestones=()), **kept) == ("unclean-election",)
    assert excuses(facts(plan=unclean)) == ("unclean-election",)  # Nobody knows what it had.


@pytest.mark.parametrize(
    ("end", "about", "excuses"),
    [(2, facts(), ()), (1, facts(), ("acks-0-1",)), (2, facts(milestones=()), ("acks-0-1",))],
)
def test_acks_1_excuses_only_what_may_not_have_been_committed_when_the_final_reads_began(
    end: int, about: RunFacts, excuses: tuple[str, ...]
) -> None:
    on = group(about, sends=[ack(A, 0, acks="1"), ack(B, 1, op=2, acks="1")], polls=[read(A, 0)],
               final_reads=[final_read(end)], leadership=[leads(1, 1)],
               replica_records=log("n1", (0, A), (0, B)),
               replica_states=[state("n1", 2)])  # fmt: skip
    (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
    assert (anomaly.evidence["value"], anomaly.excuses) == (B, excuses)


def test_an_unclean_election_may_cost_a_transaction_its_marker_and_not_its_records() -> None:
    """Then its producer's next transaction decides of both, and it may have been aborted."""
    unclean = {"workload": "txn", "broker": {"unclean.leader.election.enable": "true"}}

    def excuses(isolation: str) -> tuple[str, ...]:
        on = group(
            facts(plan=unclean),
            sends=[
                {**ack(each, at, op=at + 1), "txn_id": at + 1} for at, each in enumerate((A, B))
            ],
            polls=[{**read(A, 0), "isolation": isolation}],
            final_reads=[{**final_read(2), "isolation": isolation}],
            leadership=[leads(1, 1), elected(1, 1, 5, unclean=True)],
            replica_records=log("n1", (0, A), (0, B)),
            replica_states=[state("n1", 2)],
        )
        (anomaly,) = found(UNSEEN_CHECKER, on).anomalies
        assert anomaly.evidence["value"] == B
        return anomaly.excuses

    assert excuses("read_committed") == ("unclean-election",)
    assert excuses("read_uncommitted") == ()  # Its marker is nothing to such a reader.


def test_what_was_deleted_need_not_be_seen() -> None:
    kept = {"replica_states": [state("n1", 3, start=1)], "final_reads": [final_read(2)]}
    on = group(facts(plan=RETENTION), sends=[ack(A, 0), ack(B, 1, op=2)], **kept)
    result = found(UNSEEN_CHECKER, on)
    assert [each.evidence["value"] for each in result.anomalies] == [B]
    assert result.rows == 1


def test_the_evidence_says_who_led_then() -> None:
    rows = {"sends": [ack(A, 0, at=2 * S)], "final_reads": [final_read(1)]}
    led = [leads(1, 3, at=S), leads(2, 4, at=9 * S)]
    (doubtful,) = found(UNSEEN_CHECKER, group(leadership=led, **rows)).anomalies
    both = ["n1, leader of epoch 3", "n2, leader of epoch 4"]
    assert doubtful.evidence["may_have_acknowledged"] == both
    assert f"(by {both[0]}, or {both[1]})" in doubtful.sentence
    assert doubtful.evidence["leader_then"] is None
    # It knew of the first epoch still when the message had been acknowledged.
    led.append({**leads(1, 3, at=4 * S, source="metadata"), "observer": "n2"})
    (anomaly,) = found(UNSEEN_CHECKER, group(leadership=led, **rows)).anomalies
    told = {"leader_then": 1, "leader_epoch_then": 3}
    assert told.items() <= anomaly.evidence.items()
    (anomaly,) = found(UNSEEN_CHECKER, group(**rows)).anomalies
    assert {"leader_then": None, "leader_epoch_then": None}.items() <= anomaly.evidence.items()


def test_a_final_read_that_is_short_says_where_it_stopped() -> None:
    result = found(INCOMPLETE_CHECKER, group(final_reads=[final_read(5, complete=False)]))
    (anomaly,) = result.anomalies
    assert anomaly.evidence == {"isolation": "read_uncommitted", "target_end": 5, "reached": 4}
    assert (anomaly.offset, result.rows) == (4, 1)
    result = found(INCOMPLETE_CHECKER, group(sends=[ack(A, 0)]))
    (anomaly,) = result.anomalies
    assert anomaly.evidence == {"isolation": None, "target_end": -1, "reached": -1}
    assert (anomaly.sentence, result.rows) == (
        "log-0-0 was not read again at the end of the run", 0,
    )  # fmt: skip


def test_nothing_can_be_unseen_that_is_never_acknowledged_or_may_be_compacted() -> None:
    assert UNSEEN_CHECKER.applies(facts())
    assert not UNSEEN_CHECKER.applies(facts(plan={"acks": "0"}))
    compact = {"broker": {"log.cleanup.policy": "compact"}}
    assert not UNSEEN_CHECKER.applies(facts(plan=compact))


def test_what_lies_below_the_log_start_need_not_be_seen_and_is_not_counted() -> None:
    for start, hidden in ((1, [1, 2]), (2, [2]), (3, [])):
        on = group(
            facts(plan=RETENTION),
            sends=[ack(A, 1), ack(B, 2, op=2)],
            final_reads=[final_read(3)],
            leadership=[leads(1, 0)],
            replica_records=log("n1", (0, A), (0, B), start=1),
            replica_states=[state("n1", 3, start=start)],
        )
        result = found(UNSEEN_CHECKER, on)
        assert [each.offset for each in result.anomalies] == hidden
        assert result.rows == len(hidden)
