"""Twins for single conditions of `duplicate` and `inconsistent_offsets`, which mutants got past."""

import pytest

from checkers import duplicate, inconsistent_offsets
from checkers.facts import RunFacts
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    read,
    state,
)

CUT: list[Row] = [{"node": "n1", "from_offset": 3, "to_offset": 4}]


def inconsistent(on: RunFacts | None = None, /, **rows: list[Row]) -> Anomaly:
    (anomaly,) = found(inconsistent_offsets.CHECKER, group(on, **rows)).anomalies
    return anomaly


def test_the_evidence_has_what_was_acknowledged_and_read_at_that_offset_and_no_more() -> None:
    unsure = {**ack(C, 3, op=4), "acked": False}
    anomaly = inconsistent(
        sends=[ack(A, 3, op=1), ack(C, 4, op=2), ack(C, 2, op=3), unsure],
        polls=[read(B, 3), read(None, 3), read(C, 4), read(C, 2)],
    )
    assert anomaly.offset == 3
    assert anomaly.evidence["acknowledged_values"] == [A]
    assert anomaly.evidence["polled_values"] == [B]


def test_a_record_that_is_not_ours_is_no_second_value() -> None:
    result = found(inconsistent_offsets.CHECKER, group(polls=[read(None, 3), read(A, 3)]))
    assert (result.rows, result.anomalies) == (0, ())


@pytest.mark.parametrize(("held", "excuses"), [(B, ("acks-0-1",)), (A, ())])
def test_acks_1_excuses_what_is_gone_from_the_final_log(
    held: int, excuses: tuple[str, ...]
) -> None:
    """The value that was acknowledged must be gone; of two that stand, none was lost."""
    weak = facts(plan={"acks": "1"})
    rows: dict[str, list[Row]] = {
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", (0, held), (0, B), start=3),
        "replica_states": [state("n1", 5)],
    }
    both = [ack(A, 3, acks="1"), ack(B, 3, op=2, acks="1")]
    assert inconsistent(weak, sends=both, **rows).excuses == excuses


def test_a_story_s_send_may_ask_for_less_than_its_plan() -> None:
    rows = {"polls": [read(B, 3)], "truncations": CUT}
    assert inconsistent(sends=[ack(A, 3, acks="1")], **rows).excuses == ("acks-0-1",)
    other = [ack(A, 3), ack(C, 4, op=2, acks="1")]
    assert inconsistent(sends=other, **rows).excuses == ()


def test_without_a_final_log_acks_1_excuses_what_no_reader_got() -> None:
    weak = facts(plan={"acks": "1"})
    sends = [ack(A, 3, acks="1")]
    assert inconsistent(weak, sends=sends, polls=[read(B, 3)]).excuses == ("acks-0-1",)
    elsewhere = [read(B, 3), read(A, 4)]  # It was not dropped, but acknowledged wrongly.
    assert inconsistent(weak, sends=sends, polls=elsewhere).excuses == ()


def test_acks_all_are_not_excused_by_a_truncation() -> None:
    rows = {"sends": [ack(A, 3)], "polls": [read(B, 3)], "truncations": CUT}
    assert inconsistent(**rows).excuses == ()


def test_two_polls_that_differ_are_excused_by_an_unclean_election_only() -> None:
    plan: dict[str, object] = {"acks": "1", "broker": {"unclean.leader.election.enable": "true"}}
    polls = [read(A, 3, op=1), read(B, 3, op=2)]
    seen = [elected(1, 1, 5, unclean=True)]
    assert inconsistent(facts(plan=plan), polls=polls, truncations=CUT).excuses == ()
    allowed = inconsistent(facts(plan=plan), polls=polls, truncations=CUT, leadership=seen)
    assert allowed.excuses == ("unclean-election",)


@pytest.mark.parametrize(
    ("epochs", "excuses"),
    [
        ((3, 4), ()),
        ((2, 3), ()),
        ((1, 3), ("unclean-election",)),
        ((None, 3), ("unclean-election",)),
    ],
)
def test_an_unclean_election_explains_no_two_values_of_later_epochs(
    epochs: tuple[int | None, int], excuses: tuple[str, ...]
) -> None:
    plan: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
    polls = [{**read(value, 3, op=op), "leader_epoch": epoch}
             for op, (value, epoch) in enumerate(zip((A, B), epochs, strict=True))]  # fmt: skip
    seen = [elected(1, 2, 5, unclean=True)]
    assert inconsistent(facts(plan=plan), polls=polls, leadership=seen).excuses == excuses


def test_an_unclean_election_takes_no_copy_of_a_later_epoch() -> None:
    about = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    for epoch, excuses in ((1, ("unclean-election",)), (2, ())):
        on = group(about, polls=[{**read(A, 0), "leader_epoch": epoch}],
                   leadership=[leads(1, 3), elected(1, 2, 5, unclean=True)],
                   replica_records=log("n1", (3, B), (3, A)), replica_states=[state("n1", 2)],
                   )  # fmt: skip
        (anomaly,) = found(duplicate.CHECKER, on).anomalies
        assert anomaly.excuses == excuses


@pytest.mark.parametrize("value", [0, 2**63 - 1])
def test_the_smallest_and_the_largest_value_are_like_any_other(value: int) -> None:
    twice = [read(value, 1), read(value, 2)]
    (anomaly,) = found(duplicate.CHECKER, group(polls=twice)).anomalies
    assert anomaly.evidence["offsets"] == [1, 2]


def test_a_copy_without_an_offset_is_none() -> None:
    nowhere: Row = {**read(A, 1), "offset": None}
    result = found(duplicate.CHECKER, group(polls=[read(A, 0), nowhere]))
    assert (result.rows, result.anomalies) == (1, ())


def test_copies_are_told_at_the_first_by_who_wrote_each() -> None:
    """By the final log where it has them; a replica that holds another value there tells none."""
    final = [{**row, "producer_id": 5} for row in log("n2", (0, A), (0, C), (0, A))]
    crash = log("n1", (0, C), (0, B), (0, B), snapshot="crash")
    result = found(
        duplicate.CHECKER,
        group(
            leadership=[leads(2, 0)], replica_records=crash + final,
            replica_states=[state("n2", 3)], polls=[read(A, 1)],
        ),
    )  # fmt: skip
    (anomaly,) = result.anomalies
    assert (anomaly.offset, anomaly.evidence["offsets"]) == (0, [0, 1, 2])
    assert anomaly.evidence["writers"] == [
        "producer 5 epoch 0 sequence 0",
        "a producer that no replica's log shows",
        "producer 5 epoch 0 sequence 2",
    ]


def test_the_newest_log_that_has_a_copy_tells_who_wrote_it() -> None:
    """A step's copy is older than the logs at the end; n1 has a smaller value there than n2."""
    final = [*log("n1", (0, A), (0, A)), *wrote(5, *log("n2", (0, B), (0, B)))]
    crash = wrote(4, *log("n2", (0, B), (0, B), snapshot="crash"))
    step = wrote(3, *log("n2", (0, B), (0, B), snapshot="step-01"))
    for logs, producer in ((step, 3), (step + crash, 4), (step + crash + final, 5)):
        on = group(replica_records=logs, polls=[read(B, 0), read(B, 1)])
        (anomaly,) = found(duplicate.CHECKER, on).anomalies
        told = [f"producer {producer} epoch 0 sequence {sequence}" for sequence in (0, 1)]
        assert anomaly.evidence["writers"] == told


def wrote(producer: int, *rows: Row) -> list[Row]:
    return [{**row, "producer_id": producer} for row in rows]


@pytest.mark.parametrize("mine", [ack(B, 1), {**ack(B, 0), "acked": False}])
def test_only_the_acknowledgement_of_a_value_tells_which_copy_was_answered(mine: Row) -> None:
    """Those of smaller and larger ones stand elsewhere; what was not acknowledged tells nothing."""
    records = log("n1", (0, B), (0, B), (0, A), (0, C))
    records[1]["producer_epoch"] = 1
    on = group(
        facts(silences=((0, S),)), replica_records=records, polls=[read(B, 0), read(B, 1)],
        sends=[mine, ack(A, 2, op=2), ack(C, 3, op=3)],
    )  # fmt: skip
    (anomaly,) = found(duplicate.CHECKER, on).anomalies
    assert anomaly.excuses == ("new-producer-epoch",)
