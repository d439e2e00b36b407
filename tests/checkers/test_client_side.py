from dataclasses import replace

import pytest

from checkers import duplicate, inconsistent_offsets, phantom
from checkers.changes import SETTLED_NS
from checkers.facts import Disturbance, RunFacts
from results.record.declared import Declared, Sight
from results.record.milestones import Milestone
from results.record.values import pack_value
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

SENT = S - 5
KILLED = Disturbance(kind="kill", begun_ns=S // 2, ended_ns=S)
"""While the one send of a test was under way."""


def test_a_value_read_twice_at_one_offset_is_no_duplicate() -> None:
    on = group(polls=[read(A, 0, op=1), read(A, 0, op=2)])
    assert (found(duplicate.CHECKER, on).rows, found(duplicate.CHECKER, on).anomalies) == (1, ())
    nameless = group(polls=[read(None, 0), read(None, 1)])  # No value is not a value twice.
    assert found(duplicate.CHECKER, nameless).rows == 0


def test_a_value_at_two_offsets_is_a_duplicate_with_its_writers() -> None:
    on = group(
        polls=[read(A, 0)],  # Read at 0 ...
        leadership=[leads(1, 0)],
        replica_records=log("n1", (0, A), (0, B), (0, A)),  # ... and at 2 of the log.
        replica_states=[state("n1", 3)],
    )
    (anomaly,) = found(duplicate.CHECKER, on).anomalies
    assert anomaly.evidence["offsets"] == [0, 2]
    assert anomaly.evidence["writers"] == [
        "producer 1 epoch 0 sequence 0", "producer 1 epoch 0 sequence 2",
    ]  # fmt: skip
    assert anomaly.excuses == ()


def test_retries_without_idempotence_excuse_a_duplicate() -> None:
    rows = {"polls": [read(A, 0), read(A, 1)]}
    on = group(facts(plan={"idempotence": False}), **rows)
    assert found(duplicate.CHECKER, on).anomalies[0].excuses == ("retries-without-idempotence",)
    never = facts(plan={"idempotence": False, "retries": 0})
    assert found(duplicate.CHECKER, group(never, **rows)).anomalies[0].excuses == ()


AGAIN, NO_CAUSE = ("retries-without-idempotence",), ("known-cause",)


@pytest.mark.parametrize(
    ("fault", "labels"),
    [
        (None, ((), NO_CAUSE)),
        (KILLED, (AGAIN, ())),
        (replace(KILLED, begun_ns=S - 4), (AGAIN, ())),
        (replace(KILLED, begun_ns=S + 1), ((), NO_CAUSE)),
        (replace(KILLED, ended_ns=SENT - SETTLED_NS), (AGAIN, ())),
        (replace(KILLED, ended_ns=SENT - SETTLED_NS - 1), ((), NO_CAUSE)),
    ],
)
def test_what_was_sent_again_in_a_quiet_time_is_not_trusted(
    fault: Disturbance | None, labels: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    about = facts(
        plan={"idempotence": False},
        disturbances=() if fault is None else (fault,),
    )
    copies = {"polls": [read(A, 0), read(A, 1)], "sends": [ack(A, 1)]}
    on = group(about, leadership=[leads(1, 0)], **copies)
    (anomaly,) = found(duplicate.CHECKER, on).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == labels


def test_an_election_that_is_shown_may_have_cost_an_answer_whatever_else_is_hidden() -> None:
    for hidden in (Sight.HIGH_WATERMARKS, Sight.ENDS):
        about = facts(
            plan={"idempotence": False}, declared=Declared(sees=frozenset(Sight) - {hidden})
        )
        copies = {"polls": [read(A, 0), read(A, 1)], "sends": [ack(A, 1)]}
        (quiet,) = found(
            duplicate.CHECKER, group(about, leadership=[leads(1, 0)], **copies)
        ).anomalies
        assert (quiet.excuses, quiet.broken_premises) == ((), NO_CAUSE)
        led = [leads(1, 0, at=S - 9), leads(2, 1)]
        (anomaly,) = found(duplicate.CHECKER, group(about, leadership=led, **copies)).anomalies
        assert (anomaly.excuses, anomaly.broken_premises) == (AGAIN, ())


def test_without_logs_a_last_copy_that_is_the_acknowledged_one_is_not_trusted() -> None:
    """A new epoch leaves it, and so does a broker that knows no repetitions."""
    about = facts(declared=Declared(sees=frozenset()), disturbances=(KILLED,))
    polls = [read(A, 0), read(A, 1)]
    (last,) = found(duplicate.CHECKER, group(about, polls=polls, sends=[ack(A, 1)])).anomalies
    assert (last.excuses, last.broken_premises) == ((), ("shown-cause",))
    (first,) = found(duplicate.CHECKER, group(about, polls=polls, sends=[ack(A, 0)])).anomalies
    assert (first.excuses, first.broken_premises) == ((), ())


NODES = ("n1", "n2", "n3")
NOT_SHOWN: tuple[tuple[str, ...], tuple[str, ...]] = ((), ("shown-cause",))


@pytest.mark.parametrize(
    ("nodes", "ended", "unread", "labels"),
    [
        (NODES, 2, "", (("new-producer-epoch",), ())),
        ((), 2, "", NOT_SHOWN),  # The run died before its logs were collected.
        (NODES, 1, "", ((), ())),  # All were read, and none has the second copy.
        (NODES[:2], 1, "", NOT_SHOWN),
        (NODES, 1, "n2", NOT_SHOWN),
        (NODES, -1, "", NOT_SHOWN),  # They end behind what could be read of them.
    ],
)
def test_whether_an_idempotent_client_sent_it_again_only_logs_that_were_read_show(
    nodes: tuple[str, ...], ended: int, unread: str, labels: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    about = facts(disturbances=(KILLED,), unreadable_nodes=frozenset({unread} - {""}))
    records = [row for node in nodes for row in log(node, *[(0, A)] * abs(ended))]
    for row in records:
        row["producer_epoch"] = row["offset"]
    on = group(
        about, polls=[read(A, 0), read(A, 1)], sends=[ack(A, 1)], leadership=[leads(1, 0)],
        replica_records=records,
        replica_states=[state(node, 2 if ended < 0 else ended) for node in nodes],
    )  # fmt: skip
    (anomaly,) = found(duplicate.CHECKER, on).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == labels


def doubtful(about: RunFacts, *sends: Row) -> list[object]:
    """Of which values it is not known why they were sent again: A, B and C were read twice."""
    polls = [read(value, at) for at, value in enumerate((A, A, B, B, C, C))]
    on = group(about, leadership=[leads(1, 0)], sends=[*sends], polls=polls)
    found_ = found(duplicate.CHECKER, on).anomalies
    return [each.evidence["value"] for each in found_ if NO_CAUSE[0] in each.broken_premises]


def test_each_value_has_the_time_of_its_own_send() -> None:
    later = Disturbance(kind="kill", begun_ns=40 * S, ended_ns=50 * S)
    about = facts(plan={"idempotence": False}, disturbances=(later,))
    sends = [ack(A, 1), ack(B, 3, op=2, at=45 * S), ack(C, 5, op=3)]
    assert doubtful(about, *sends) == [A, C]
    assert doubtful(about, *({**send, "complete_ns": None} for send in sends)) == []
    assert doubtful(about, *({**send, "invoke_ns": None} for send in sends)) == []
    assert doubtful(about, sends[0]) == [A], "nobody knows of the others' sends"
    idempotent = facts(disturbances=(later,))
    assert doubtful(idempotent, *sends) == [], "nothing is excused that could be doubted"


def test_a_send_lasts_until_it_ended_or_to_the_end_of_the_run() -> None:
    endless: Row = {**ack(A, 1), "complete_ns": None}
    assert doubtful(facts(plan={"idempotence": False}), endless) == [A]
    later = Disturbance(kind="kill", begun_ns=40 * S, ended_ns=50 * S)
    about = facts(plan={"idempotence": False}, disturbances=(later,),
                  milestones=(Milestone(name="main", at_ns=0),))  # fmt: skip
    assert doubtful(about, endless) == []
    at_once: Row = {**ack(A, 1), "invoke_ns": 0, "complete_ns": 0}
    assert doubtful(about, at_once) == [A]


def test_an_election_a_restart_or_a_machine_asleep_is_a_cause_too() -> None:
    copies = {"polls": [read(A, 0), read(A, 1)], "sends": [ack(A, 1)]}
    led = [leads(1, 0, at=S // 2)]
    lives = [{"node": "n1", "incarnation": at, "observed_ns": at * S // 2} for at in (1, 2)]
    for about, rows in (
        (facts(plan={"idempotence": False}), {"leadership": [*led, leads(2, 1)]}),
        (facts(plan={"idempotence": False}), {"leadership": led, "replica_states": lives}),
        (facts(plan={"idempotence": False}, silences=((0, S),)), {"leadership": led}),
        (facts(plan={"idempotence": False}, milestones=()), {"leadership": led}),
    ):
        (anomaly,) = found(duplicate.CHECKER, group(about, **rows, **copies)).anomalies
        assert anomaly.excuses == ("retries-without-idempotence",)


def test_a_copy_in_an_epoch_of_its_own_is_the_clients() -> None:
    """Brokers recognise what is sent again within one producer epoch only."""

    def excuses(
        *sessions: tuple[int, int] | None, acked: int | None = None, **plan: object
    ) -> tuple[str, ...]:
        rows = log("n1", *[(0, B if each is None else A) for each in sessions])
        for row, each in zip(rows, sessions, strict=True):
            row["producer_id"], row["producer_epoch"] = each or (1, 0)
        polls = [read(A, at) for at in range(len(sessions))]
        on = group(
            facts(plan=plan, disturbances=(KILLED,)),
            sends=[ack(A, acked)],
            polls=polls,
            leadership=[leads(1, 0)],
            replica_records=rows,
            replica_states=[state("n1", len(rows))],
        )
        return found(duplicate.CHECKER, on).anomalies[0].excuses

    assert excuses((7, 0), (7, 1)) == ("new-producer-epoch",)
    assert excuses((7, 0), (8, 0)) == ("new-producer-epoch",)
    assert excuses((7, 0), (7, 1), (7, 2)) == ("new-producer-epoch",)
    assert excuses((7, 0), (7, 0)) == ()
    assert excuses((7, 0), (7, 1), (7, 1)) == ()
    assert excuses((7, 0), None) == ()  # No log has the other copy: nobody knows who wrote it.
    # A client sends again what it has no answer for: no copy but the last can be acknowledged.
    assert excuses((7, 0), (7, 1), acked=1) == ("new-producer-epoch",)
    assert excuses((7, 0), (7, 1), acked=0) == ()
    assert excuses((7, 0), (7, 1), (7, 2), acked=1) == ()
    # A broker that has seen a later epoch of an id refuses an older one.
    assert excuses((7, 1), (7, 0)) == ()
    assert excuses((7, 1), (8, 0), (7, 0)) == ()
    assert excuses((7, 1), (8, 0), (7, 2)) == ("new-producer-epoch",)
    assert excuses((7, 0), (7, 1), workload="txn") == ()
    assert excuses((7, 0), (7, 1), idempotence=False, retries=0) == ()


def test_an_unclean_election_excuses_a_copy_that_was_truncated_and_no_two_that_are_left() -> None:
    unclean = [leads(1, 1), elected(2, 0, 5), elected(1, 1, 6, unclean=True)]
    allow = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    rows = {"leadership": unclean, "replica_states": [state("n1", 3)]}
    # A was read at 0 of the old leader; the new one has B there, and A once more at 2.
    once = group(
        allow, polls=[read(A, 0)], replica_records=log("n1", (1, B), (1, C), (1, A)), **rows
    )
    assert found(duplicate.CHECKER, once).anomalies[0].excuses == ("unclean-election",)
    twice = group(allow, replica_records=log("n1", (1, A), (1, B), (1, A)), **rows)
    assert found(duplicate.CHECKER, twice).anomalies[0].excuses == ()
    # Read at 0 and at 2 of leaders whose records were both truncated: no copy is left.
    gone = group(
        allow, polls=[read(A, 0), read(A, 2)], replica_records=log("n1", (1, B), (1, C)), **rows
    )
    assert found(duplicate.CHECKER, gone).anomalies[0].excuses == ("unclean-election",)
    # Without a log nobody can tell that a copy is gone.
    blind = group(allow, polls=[read(A, 0), read(A, 2)], leadership=unclean)
    assert found(duplicate.CHECKER, blind).anomalies[0].excuses == ()
    clean = [leads(1, 1), elected(2, 0, 5), elected(1, 1, 6)]
    rows["leadership"] = clean
    not_seen = group(allow, polls=[read(A, 0)], replica_records=log("n1", (1, B), (1, A)), **rows)
    assert found(duplicate.CHECKER, not_seen).anomalies[0].excuses == ()


def test_an_offset_that_all_agree_on_is_consistent() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(A, 0), read(B, 1)])
    assert found(inconsistent_offsets.CHECKER, on).anomalies == ()
    assert found(inconsistent_offsets.CHECKER, on).rows == 1


def test_acknowledgements_without_an_offset_agree_on_nothing() -> None:
    on = group(sends=[ack(A, None), ack(B, None, op=2)], polls=[read(None, 3), read(B, 3)])
    result = found(inconsistent_offsets.CHECKER, on)
    assert (result.rows, result.anomalies) == (0, ())


def test_an_offset_acknowledged_for_one_value_and_read_as_another_is_inconsistent() -> None:
    on = group(sends=[ack(A, 0)], polls=[read(B, 0)])
    (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
    assert anomaly.evidence["acknowledged_values"] == [A]
    assert anomaly.evidence["polled_values"] == [B]
    assert "acknowledged by op 1" in anomaly.sentence
    assert "polled by op 9" in anomaly.sentence
    assert anomaly.excuses == ()


def test_acks_1_excuses_an_acknowledgement_at_a_truncated_offset_but_not_two_polls() -> None:
    cut = [{"node": "n1", "from_offset": 0, "to_offset": 1}]
    weak = facts(plan={"acks": "1"})
    on = group(weak, sends=[ack(A, 0, acks="1")], polls=[read(B, 0)], truncations=cut)
    assert found(inconsistent_offsets.CHECKER, on).anomalies[0].excuses == ("acks-0-1",)
    # No log says that it still stands, and nobody read it.
    uncut = group(weak, sends=[ack(A, 0, acks="1")], polls=[read(B, 0)])
    assert found(inconsistent_offsets.CHECKER, uncut).anomalies[0].excuses == ("acks-0-1",)
    twice = group(weak, polls=[read(A, 0, op=1), read(B, 0, op=2)], truncations=cut)
    assert found(inconsistent_offsets.CHECKER, twice).anomalies[0].excuses == ()


def test_a_value_that_was_reserved_is_ours_only_if_its_send_may_be_missing() -> None:
    span = ((A, A + 10),)
    for about, strangers in (
        (facts(reservations=span), 1),
        (facts(reservations=span, cut_streams=True), 0),
        (facts(reservations=span, history=True), 0),
    ):
        on = group(about, polls=[read(A + 9, 0)])
        assert len(found(phantom.CHECKER, on).anomalies) == strangers


def test_a_value_beyond_all_reservations_is_a_phantom() -> None:
    on = group(facts(reservations=((A, A + 10),), cut_streams=True), polls=[read(A + 10, 4, op=7)])
    (anomaly,) = found(phantom.CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.evidence["value"], anomaly.evidence["op_id"]) == (4, A + 10, 7)


def test_a_value_of_another_partition_is_a_phantom_and_its_home_is_named() -> None:
    other = pack_value(2, 1)
    about = facts(plan={"partitions": 2}, reservations=((other, other + 1),))
    (anomaly,) = found(phantom.CHECKER, group(about, polls=[read(other, 0)])).anomalies
    assert anomaly.evidence["belongs_to"] == "log-0-1"


def test_a_record_without_a_value_is_a_phantom() -> None:
    assert len(found(phantom.CHECKER, group(polls=[read(None, 0)])).anomalies) == 1
