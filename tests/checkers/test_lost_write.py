from dataclasses import replace

import pytest

from checkers import inconsistent_offsets
from checkers.facts import DiskLoss, RunFacts
from checkers.lost_write import CHECKER
from checkers.reigns import Reign
from results.record.declared import Declared
from results.record.milestones import OPEN, Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    RETENTION,
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
    leads,
    log,
    read,
    sentences,
    state,
    timed_out,
)  # fmt: skip

LED = [leads(1, 4, at=S // 2), leads(3, 5, at=2 * S)]
UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}


def test_a_value_that_the_last_leaders_log_holds_is_not_lost() -> None:
    on = group(
        sends=[ack(A, 0)],  # Acknowledged ...
        leadership=LED,
        replica_records=log("n3", (4, A)),  # ... and there.
        replica_states=[state("n3", 1)],
    )
    result = found(CHECKER, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_a_value_that_only_a_deposed_leader_holds_is_lost_and_the_evidence_is_whole() -> None:
    on = group(
        facts(collected_nodes=frozenset({"n1", "n3"})),
        sends=[ack(A, 0), ack(B, 1, op=2)],
        leadership=LED,  # Broker 1 led when B was acknowledged, broker 3 does at the end.
        replica_records=[*log("n1", (4, A), (4, B)), *log("n3", (4, A), (5, C))],
        replica_states=[state("n1", 2), state("n3", 2)],
        truncations=[{"node": "n2", "from_offset": 1, "to_offset": 2, "observed_ns": 31 * S,
                      "reason": "follower of broker 3 in epoch 5"}],
    )  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.offset == 1
    assert anomaly.broken_premises == ()
    evidence = anomaly.evidence
    assert (evidence["value"], evidence["op_id"], evidence["offset"]) == (B, 2, 1)
    assert (evidence["leader_then"], evidence["leader_epoch_then"]) == (1, 4)
    assert (evidence["final_leader"], evidence["final_leader_epoch"]) == (3, 5)
    assert evidence["found_on"] == ["n1"]
    assert evidence["replicas"] == [f"n1: value {B} of epoch 4", f"n3: value {C} of epoch 5"]
    assert "(by n1, leader of epoch 4)" in anomaly.sentence
    assert "n2 truncated offset 1 at 31.000 s (follower of n3 in epoch 5)" in anomaly.sentence


def test_a_value_that_no_log_holds_is_said_to_be_in_none() -> None:
    on = group(sends=[ack(B, 0)], leadership=LED, replica_records=log("n3", (5, C)),
               replica_states=[state("n3", 1)])  # fmt: skip
    (sentence,) = sentences(CHECKER, on)
    assert "), is in no replica's log" in sentence


def test_a_later_leader_that_never_answered_may_have_what_an_earlier_one_lacks() -> None:
    """`n3` answered last, in epoch 5; `n1` led in epoch 6 and may have acknowledged the record."""

    def premises(*records: Row, recovered: bool = False, unread: str = "") -> tuple[str, ...]:
        read = frozenset({"n1", "n2", "n3"}) - {unread}
        about = facts(collected_nodes=read)
        about = about if recovered else replace(about, milestones=())
        states = [state(node, 2 if node == "n1" else 1) for node in sorted(read)]
        rows = [*log("n3", (5, C)), *log("n2", (5, C)), *records]
        on = group(about, sends=[ack(B, 1)], leadership=LED, replica_records=rows,
                   replica_states=states)  # fmt: skip
        (anomaly,) = found(CHECKER, on).anomalies
        return anomaly.broken_premises

    kept, other = log("n1", (5, C), (6, B)), log("n1", (5, C), (6, A))
    assert premises(*kept) == ("recovered",)
    assert premises(*kept, recovered=True) == ()
    assert premises(*log("n1", (5, C), (5, B))) == ()  # No later leader is known.
    assert premises(*other) == ()  # No replica has it.
    assert premises(*other, unread="n2") == ("recovered",)


def test_a_send_that_timed_out_may_be_missing() -> None:
    on = group(sends=[timed_out(A)], leadership=LED, replica_states=[state("n3", 0)])
    assert found(CHECKER, on).anomalies == ()


def test_a_final_read_that_went_past_the_offset_without_the_value_proves_the_loss() -> None:
    rows = {"sends": [ack(A, 0)], "final_reads": [final_read(2)]}
    assert sentences(CHECKER, group(**rows, polls=[read(A, 0), read(B, 1)])) == []
    lost = sentences(CHECKER, group(**rows, polls=[read(C, 0), read(B, 1)]))
    assert ["was not returned by the final read" in sentence for sentence in lost] == [True]


def test_a_final_read_that_did_not_reach_the_offset_proves_nothing() -> None:
    ends_before = group(sends=[ack(B, 1)], polls=[read(A, 0)], final_reads=[final_read(2)])
    assert found(CHECKER, ends_before).anomalies == ()
    unfinished = group(sends=[ack(A, 0)], polls=[read(C, 0), read(B, 1)],
                       final_reads=[final_read(3, complete=False)])  # fmt: skip
    assert found(CHECKER, unfinished).anomalies == ()
    assert found(CHECKER, unfinished).rows == 0


def test_without_an_offset_a_read_before_the_recovery_proves_no_loss() -> None:
    hidden = facts(declared=Declared(sees=frozenset()))
    rows = {"sends": [{**ack(A, 0), "offset": None}], "polls": [read(B, 1)],
            "final_reads": [final_read(2)]}  # fmt: skip
    (trusted,) = found(CHECKER, group(hidden, **rows)).anomalies
    assert trusted.broken_premises == ()
    (doubted,) = found(CHECKER, group(replace(hidden, milestones=()), **rows)).anomalies
    assert doubted.broken_premises == ("recovered",)


def test_what_retention_took_is_not_lost() -> None:
    on = group(
        facts(plan=RETENTION),
        sends=[ack(A, 0), ack(B, 5, op=2)],  # Offset 0 lies below the log start, 5.
        leadership=LED,
        replica_records=log("n3", (5, B), start=5),
        replica_states=[state("n3", 6, start=5)],
    )
    assert found(CHECKER, on).anomalies == ()


def test_a_log_that_was_not_read_to_its_end_is_not_trusted() -> None:
    on = group(sends=[ack(A, 0), ack(B, 1)], leadership=LED, replica_records=log("n3", (4, A)),
               replica_states=[state("n3", 2)])  # It had two records.  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)


def test_a_cut_stream_of_polls_is_not_trusted() -> None:
    rows = {"sends": [ack(A, 0)], "polls": [read(B, 1)], "final_reads": [final_read(2)]}
    (anomaly,) = found(CHECKER, group(facts(cut_streams=True), **rows)).anomalies
    assert anomaly.broken_premises == ("whole-record",)


def test_acks_1_and_a_seen_unclean_election_are_excuses() -> None:
    rows = {"leadership": LED, "replica_states": [state("n3", 0)]}
    (weak,) = found(CHECKER, group(sends=[ack(A, 0, acks="1")], **rows)).anomalies
    assert weak.excuses == ("acks-0-1",)
    (strong,) = found(CHECKER, group(sends=[ack(A, 0)], **rows)).anomalies
    assert strong.excuses == ()
    unclean = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    rows["leadership"] = [*LED, elected(3, 5, 10, unclean=True)]
    (excused,) = found(CHECKER, group(unclean, sends=[ack(A, 0)], **rows)).anomalies
    assert excused.excuses == ("unclean-election",)
    (not_asked,) = found(CHECKER, group(sends=[ack(A, 0)], **rows)).anomalies
    assert not_asked.excuses == ()


EVERYWHERE = DiskLoss(
    nodes=frozenset({"n1", "n2", "n3"}), topic="log-0", partition=0, end_after=0, end_before=9,
    until_ns=3 * S, excuse="power-loss",
)  # fmt: skip


@pytest.mark.parametrize(
    ("about", "acks", "excuses"),
    [
        (facts(plan=UNCLEAN), "all", ("unclean-election",)),
        (facts(disk_losses=(EVERYWHERE,)), "all", ("power-loss",)),
        (facts(), "1", ("acks-0-1",)),
    ],
)
def test_what_may_take_a_record_excuses_no_reader_that_skips_what_the_last_leader_has(
    about: RunFacts, acks: str, excuses: tuple[str, ...]
) -> None:
    """The reads came after the recovery, so all elections since then were clean."""

    def labels(about: RunFacts, *records: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
        on = group(about, sends=[ack(A, 0), ack(B, 1, op=2, acks=acks)],
                   polls=[read(A, 0), read(C, 2)], final_reads=[final_read(3)],
                   leadership=[leads(1, 4), leads(2, 5, at=2 * S), leads(3, 6, at=3 * S),
                               elected(2, 5, 10, unclean=True)],
                   replica_records=[*records], replica_states=[state("n3", 3)])  # fmt: skip
        (anomaly,) = found(CHECKER, on).anomalies
        return anomaly.excuses, anomaly.broken_premises

    stands = log("n3", (4, A), (4, B), (6, C))
    assert labels(about, *stands) == ((), ())
    assert labels(replace(about, milestones=()), *stands) == (excuses, ())
    assert labels(about, *log("n3", (4, A), (6, 77), (6, C))) == (excuses, ())


def test_many_losses_are_counted_though_few_are_described() -> None:
    sends = [ack(A + number, number, op=number) for number in range(150)]
    result = found(CHECKER, group(sends=sends, leadership=LED, replica_states=[state("n3", 0)]))
    assert (len(result.anomalies), sum(result.beyond.values())) == (100, 50)


def test_without_the_last_leaders_log_a_loss_behind_the_last_read_cannot_be_excluded() -> None:
    rows = {"sends": [ack(A, 0)], "polls": [read(A, 0)], "final_reads": [final_read(1)]}
    others = {"replica_records": log("n1", (4, A)), "replica_states": [state("n1", 1)]}
    absent = group(**rows, **others, leadership=LED)
    assert found(CHECKER, absent).gaps == ("the log of log-0-0 on n3, its last leader, is missing",)
    unled = group(**rows, **others)
    assert "no leader of log-0-0 was observed" in found(CHECKER, unled).gaps[0]
    whole = group(**rows, **others, leadership=[leads(1, 4)])
    assert found(CHECKER, whole).gaps == ()
    died = group(facts(milestones=()), **rows)
    assert found(CHECKER, died).gaps == ()


def test_the_leader_that_zookeeper_named_before_the_observer_lost_it_is_not_the_last_one() -> None:
    """Before Kafka 2.1, n2 answers as the leader and names no epoch. n1 lags behind."""
    told = {**leads(1, 0, source="zookeeper"), "observer": "zk"}
    logs = [*log("n1", (0, A)), *log("n2", (0, A), (1, B))]

    def judged(last_s: int) -> tuple[list[str], tuple[str, ...]]:
        answer = {**leads(2, 1, at=last_s * S), "leader_epoch": None}
        on = group(sends=[ack(A, 0), ack(B, 1, op=2)], leadership=[told, answer],
                   replica_records=logs)  # fmt: skip
        return sentences(CHECKER, on), found(CHECKER, on).gaps

    lost, gaps = judged(11)
    assert (len(lost), gaps) == (1, ())
    lost, gaps = judged(12)
    why = "no leader of log-0-0 was observed, so the log to compare with is unknown"
    assert (lost, gaps) == ([], (why,))


def test_what_retention_took_is_not_counted_as_checked() -> None:
    rows = {"leadership": LED, "replica_states": [state("n3", 9, start=9)]}
    assert (
        found(CHECKER, group(facts(plan=RETENTION), sends=[ack(A, 0), ack(B, 8)], **rows)).rows == 0
    )
    assert (
        found(CHECKER, group(facts(plan=RETENTION), sends=[ack(A, 0), ack(B, 9)], **rows)).rows == 1
    )


def test_a_final_read_need_not_return_what_lies_below_any_log_start_that_was_seen() -> None:
    rows = {
        "sends": [ack(A, 1)],
        "polls": [read(B, 2), read(C, 3)],  # Went past offset 1 without A.
        "final_reads": [final_read(4)],
    }
    for start, lost in ((0, [1]), (1, [1]), (2, [])):
        on = group(facts(plan=RETENTION), **rows, replica_states=[state("n3", 4, start=start)])
        assert [each.offset for each in found(CHECKER, on).anomalies] == lost
        assert found(CHECKER, on).rows == len(lost)


def test_without_an_offset_nobody_knows_whether_retention_took_a_record() -> None:
    unplaced = {"sends": [ack(A, None)], "leadership": LED}
    kept = group(**unplaced, replica_states=[state("n3", 0)])
    assert len(found(CHECKER, kept).anomalies) == 1
    assert found(CHECKER, kept).rows == 1
    moved = group(facts(plan=RETENTION), **unplaced, replica_states=[state("n3", 5, start=5)])
    assert (found(CHECKER, moved).rows, found(CHECKER, moved).anomalies) == (0, ())


def test_the_log_start_of_another_replica_excuses_nothing() -> None:
    on = group(
        sends=[ack(A, 0)],
        leadership=LED,  # Broker 3 leads, and has its log from 0 on.
        replica_records=[*log("n3", (4, B)), *log("n1", (4, C), start=5)],
        replica_states=[state("n3", 1), state("n1", 6, start=5)],
    )
    assert [each.offset for each in found(CHECKER, on).anomalies] == [0]


def test_a_log_shorter_than_its_broker_said_after_the_last_send_is_not_trusted() -> None:
    noted = {"node": "n3", "observed_ns": S, "log_end_offset": 2}
    rows = {"sends": [ack(A, 0), ack(B, 1)], "leadership": LED,
            "replica_records": log("n3", (4, A))}  # fmt: skip
    on = group(**rows, replica_states=[state("n3", 1), noted])
    assert found(CHECKER, on).anomalies[0].broken_premises == ("readable-final-logs",)
    agreed = group(**rows, replica_states=[state("n3", 1), {**noted, "log_end_offset": 1}])
    assert found(CHECKER, agreed).anomalies[0].broken_premises == ()
    before_the_end = group(**rows, replica_states=[state("n3", 1), {**noted, "observed_ns": 0}])
    assert found(CHECKER, before_the_end).anomalies[0].broken_premises == ()


def after_stops(how: str = "clean", unread: frozenset[str] = frozenset()) -> RunFacts:
    """A run whose n3 stopped so, and whose files were read."""
    stones = tuple(
        replace(stone, detail={"n3": how}) if stone.name == "stopped" else stone
        for stone in facts().milestones
    )
    return facts(milestones=stones, collected_nodes=frozenset({"n3"}), unreadable_nodes=unread)


HURT = frozenset({"n3"})


@pytest.mark.parametrize(
    ("about", "broken"),
    [
        (after_stops(), ()),
        (after_stops("killed"), ("readable-final-logs",)),
        (after_stops(unread=HURT), ("readable-final-logs",)),
    ],
    ids=["clean", "killed", "unreadable"],
)
def test_what_vanished_after_a_clean_stop_is_proven_by_the_files(
    about: RunFacts, broken: tuple[str, ...]
) -> None:
    noted = {"node": "n3", "observed_ns": S, "log_end_offset": 2}
    on = group(
        about,
        sends=[ack(A, 0), ack(B, 1)],
        leadership=LED,
        replica_records=log("n3", (4, A)),
        replica_states=[state("n3", 1), noted],
    )
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.broken_premises) == (1, broken)


@pytest.mark.parametrize(
    ("about", "lost"),
    [
        (after_stops(), [0]),
        (after_stops("killed"), []),
        (after_stops(unread=HURT), []),
        (replace(after_stops(), collected_nodes=frozenset({"n1"})), []),
    ],
    ids=["clean", "killed", "unreadable", "not-collected"],
)
def test_a_leaders_folder_that_is_gone_where_others_were_read_is_an_empty_log(
    about: RunFacts, lost: list[int]
) -> None:
    on = group(
        about,
        sends=[ack(A, 0)],
        leadership=LED,
        replica_records=log("n1", (4, A)),
        replica_states=[state("n1", 1)],
    )
    assert [each.offset for each in found(CHECKER, on).anomalies] == lost


def test_folders_that_are_gone_on_every_replica_are_empty_logs() -> None:
    died = tuple(each for each in after_stops().milestones if each.name != "stopped")
    for about, lost in ((after_stops(), [0]), (replace(after_stops(), milestones=died), [])):
        on = group(about, sends=[ack(A, 0)], leadership=LED)
        assert [each.offset for each in found(CHECKER, on).anomalies] == lost


def test_the_last_offset_of_a_read_is_not_passed() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(C, 0)], final_reads=[final_read(1)])
    assert found(CHECKER, on).anomalies == ()


def test_a_node_whose_files_are_damaged_is_not_trusted() -> None:
    hurt = facts(unreadable_nodes=frozenset({"n3"}))
    rows = {"sends": [ack(A, 0)], "leadership": LED, "replica_states": [state("n3", 0)]}
    (anomaly,) = found(CHECKER, group(hurt, **rows)).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)


def test_unclean_elections_that_were_allowed_and_not_seen_excuse_nothing() -> None:
    allowed = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    on = group(allowed, sends=[ack(A, 0)], leadership=LED, replica_states=[state("n3", 0)])
    assert found(CHECKER, on).anomalies[0].excuses == ()


def test_without_logs_readers_are_held_back_only_where_a_transaction_was_seen_to_be_open() -> None:
    def missed(*opened: str, early: bool = False) -> list[object]:
        noted = Milestone(name=OPEN, at_ns=9, detail=dict.fromkeys(opened, ""))
        base = facts(plan={"workload": "txn"}, declared=Declared(sees=frozenset()))
        about = replace(base, milestones=(*base.milestones, noted))
        stable = {"isolation": "read_committed"}
        polls = [{**read(A, 0), **stable}]
        polls += [{**read(B, 1, phase="main"), **stable}] if early else []
        sends = [{**ack(each, at, op=at + 1), "txn_id": at + 1} for at, each in enumerate((A, B))]
        on = group(about, sends=sends, polls=polls, final_reads=[{**final_read(1), **stable}])
        return [each.evidence["value"] for each in found(CHECKER, on).anomalies]

    assert missed() == missed("log-0-1") == [B]
    assert missed("log-0-0") == []
    assert missed("log-0-0", early=True) == [B], "what is stable stays so"


@pytest.mark.parametrize(("txn_id", "excuses"), [(1, ("unclean-election",)), (None, ())])
def test_a_plain_send_that_a_read_skips_has_no_marker_that_was_lost(
    txn_id: int | None, excuses: tuple[str, ...]
) -> None:
    """A keyed run has transactions and plain sends; all logs hold both records."""
    stable = {"isolation": "read_committed"}
    about = facts(plan={"workload": "keyed", "keys": 4, **UNCLEAN})
    on = group(
        about,
        sends=[{**ack(A, 0), "txn_id": txn_id}, ack(B, 1, op=2)],
        polls=[{**read(B, 1), **stable}],
        final_reads=[{**final_read(2), **stable}],
        leadership=[*LED, elected(3, 5, 9, unclean=True)],
        replica_records=[row for each in range(1, 4) for row in log(f"n{each}", (4, A), (4, B))],
        replica_states=[state(f"n{each}", 2) for each in range(1, 4)],
    )
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (0, excuses, ())


@pytest.mark.parametrize(
    ("plan", "sent_s", "txn_id", "excuses"),
    [
        ({"sends_per_op": 20}, 1, None, ("power-loss",)),
        ({"sends_per_op": 20}, 4, None, ()),
        ({"workload": "txn"}, 1, 1, ("power-loss",)),
        ({}, 1, None, ()),
    ],
)
def test_the_end_of_an_op_of_several_sends_does_not_date_each_acknowledgement(
    plan: dict[str, object], sent_s: int, txn_id: int | None, excuses: tuple[str, ...]
) -> None:
    """Its first record may have been lost on all disks before the last one was acknowledged."""
    about = facts(plan=plan, disk_losses=(EVERYWHERE,))
    times = {"invoke_ns": sent_s * S, "complete_ns": 9 * S, "txn_id": txn_id}
    sends = [{**ack(A, 0), **times}, {**ack(B, 0, op=2, at=12 * S), "invoke_ns": 10 * S}]
    on = group(about, sends=sends, leadership=LED, replica_records=log("n3", (4, B)),
               replica_states=[state("n3", 1)])  # fmt: skip
    for checker in (CHECKER, inconsistent_offsets.CHECKER):
        (anomaly,) = found(checker, on).anomalies
        assert (anomaly.excuses, anomaly.broken_premises) == (excuses, ())


@pytest.mark.parametrize(
    ("epoch", "began_s", "excuses"), [(6, 5, ()), (6, -1, ("power-loss",)), (4, 5, ("power-loss",))]
)
def test_a_loss_before_a_records_epoch_took_nothing_from_it(
    epoch: int, began_s: int, excuses: tuple[str, ...]
) -> None:
    """Its op began before the loss, and a reader got it from a leader of after the loss."""
    reign = Reign(topic="log-0", partition=0, leader=3, epoch=6, from_ns=began_s * S,
                  until_ns=20 * S)  # fmt: skip
    about = facts(plan={"sends_per_op": 20}, disk_losses=(EVERYWHERE,), reigns=(reign,))
    sends = [{**ack(A, 0, at=9 * S), "invoke_ns": S}, {**ack(B, 0, op=2, at=12 * S)}]
    polls = [{**read(A, 0, phase="main"), "complete_ns": 8 * S, "leader_epoch": epoch}]
    on = group(about, sends=sends, polls=polls, leadership=LED, replica_records=log("n3", (7, B)),
               replica_states=[state("n3", 1)])  # fmt: skip
    for checker in (CHECKER, inconsistent_offsets.CHECKER):
        (anomaly,) = found(checker, on).anomalies
        assert (anomaly.excuses, anomaly.broken_premises) == (excuses, ())


@pytest.mark.parametrize("ended_s", [None, 40])
def test_a_transaction_whose_client_got_no_answer_may_be_lost_on_all_disks(
    ended_s: int | None,
) -> None:
    """A reader got it before the loss, so that it committed; its client gave up long after."""
    about = facts(plan={"workload": "txn"}, disk_losses=(EVERYWHERE,), witnessed=frozenset({1}))
    send = {**ack(A, 0), "outcome": "info", "txn_id": 1, "invoke_ns": S,
            "complete_ns": ended_s and ended_s * S}  # fmt: skip
    on = group(about, sends=[send], leadership=LED, replica_states=[state("n3", 0)])
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == ("power-loss",)


@pytest.mark.parametrize(
    ("unclean_epoch", "acked_s", "began_s", "excuses"),
    [
        (6, 1, 2, ()),
        (5, 1, 2, ("unclean-election",)),
        (6, 3, 2, ("unclean-election",)),  # Perhaps the leader of epoch 6 acknowledged it.
        (6, 1, -1, ("unclean-election",)),
    ],
)
def test_an_unclean_election_takes_no_record_that_the_leader_before_it_lacked(
    unclean_epoch: int, acked_s: int, began_s: int, excuses: tuple[str, ...]
) -> None:
    """The leader of epoch 5 wrote another record at the offset."""
    reign = Reign(topic="log-0", partition=0, leader=2, epoch=5, from_ns=began_s * S,
                  until_ns=9 * S)  # fmt: skip
    on = group(
        facts(plan=UNCLEAN, reigns=(reign,)),
        sends=[ack(A, 0, at=acked_s * S)],
        leadership=[leads(1, 4), leads(2, 5, at=4 * S), leads(3, 6, at=8 * S),
                    elected(3, unclean_epoch, 10, unclean=True)],
        replica_records=log("n3", (5, B), (6, C)),
        replica_states=[state("n3", 2)],
    )  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == (excuses, ())
