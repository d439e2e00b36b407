"""What acks=1 excuses: only a loss that an election, a restart or a truncation can explain."""

from dataclasses import replace

import pytest

from checkers import ack_mismatch, inconsistent_offsets, send_order
from checkers.changes import SETTLED_NS, TOLD_LATE_NS
from checkers.facts import DiskLoss, Disturbance, RunFacts
from checkers.lost_write import CHECKER
from checkers.protocol import Checker
from results.record.declared import Declared, Sight
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    state,
)  # fmt: skip

SENT = 30 * S
WEAK = {**ack(A, 0, acks="1", at=SENT + 5)}
CALM = facts()
"""Everybody had known the newest leader for a while when the send began."""


def after(ended_ns: int) -> RunFacts:
    """A run with one fault, which ended then."""
    return facts(disturbances=(Disturbance(kind="kill", begun_ns=S, ended_ns=ended_ns),))


UNSETTLED = after(SENT - SETTLED_NS)


def excused(
    about: RunFacts, *led: Row, states: tuple[Row, ...] = (), cuts: tuple[Row, ...] = ()
) -> bool:
    """Whether the loss is; a final read went past it."""
    on = group(about, sends=[WEAK], leadership=[*led], polls=[read(B, 1)],
               final_reads=[final_read(2)], replica_states=[*states],
               truncations=[*cuts])  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    return anomaly.excuses == ("acks-0-1",)


def life(number: int, *, at: int = S) -> Row:
    return {"node": "n1", "incarnation": number, "observed_ns": at}


def cut(start: int) -> Row:
    return {"node": "n1", "from_offset": start, "to_offset": None, "source": "server-log"}


def test_a_loss_without_any_election_restart_or_truncation_is_no_matter_of_acks() -> None:
    for about in (UNSETTLED, CALM):
        assert not excused(about, leads(1, 4), leads(1, 4, at=40 * S))
        assert not excused(about, leads(1, 4), states=(life(1), life(1, at=50 * S)))
        assert not excused(about, leads(1, 4), cuts=(cut(1),))


@pytest.mark.parametrize("about", [UNSETTLED, CALM])
def test_what_comes_after_the_send_may_be_why(about: RunFacts) -> None:
    assert excused(about, leads(1, 4), leads(2, 5, at=SENT))
    assert excused(about, leads(1, 4), states=(life(1), life(2, at=SENT)))
    assert excused(about, leads(1, 4), cuts=(cut(0),))
    loss = DiskLoss(nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=0, end_before=9,
                    until_ns=SENT, excuse="power-loss")  # fmt: skip
    assert excused(replace(about, disk_losses=(loss,)), leads(1, 4))
    for other in (replace(loss, until_ns=SENT - 1), replace(loss, end_after=1)):
        assert not excused(replace(about, disk_losses=(other,)), leads(1, 4))


def test_what_came_before_may_be_why_until_everybody_knew_the_newest_leader() -> None:
    earlier = (leads(1, 4), leads(1, 5, at=20 * S), leads(1, 5, at=40 * S))
    assert excused(UNSETTLED, *earlier)
    assert not excused(after(SENT - SETTLED_NS - 1), *earlier)
    assert not excused(CALM, *earlier)
    assert excused(CALM, leads(1, 4), leads(2, 5, at=SENT - TOLD_LATE_NS)), "it was told late"
    restarted = (life(1), life(2, at=20 * S), life(2, at=40 * S))
    assert excused(UNSETTLED, leads(1, 4), states=restarted)
    assert not excused(CALM, leads(1, 4), states=restarted)


@pytest.mark.parametrize(
    ("told_ns", "may_be"), [(SENT - S, True), (SENT - 6 * S, False), (None, True)]
)
def test_a_replaced_leader_may_not_have_heard_of_the_epoch_yet(
    told_ns: int | None, *, may_be: bool
) -> None:
    """Another broker may know epoch 6; `n2` acknowledged in epoch 5, and truncated later."""
    on = group(CALM, sends=[WEAK], polls=[read(B, 0), read(C, 1)], final_reads=[final_read(2)],
               leadership=[leads(2, 5), {**leads(1, 6), "observed_ns": told_ns},
                           leads(1, 6 + (told_ns is None), at=40 * S)],
               replica_records=[row for node in ("n1", "n2") for row in log(node, (6, B), (6, C))],
               replica_states=[state(node, 2) for node in ("n1", "n2")],
               truncations=[{**cut(0), "node": "n2"}])  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == ("acks-0-1",) * may_be


def test_an_epoch_without_a_time_may_have_begun_whenever() -> None:
    log_row: Row = {**leads(2, 5, source="metadata-log"), "observed_ns": None}
    assert excused(CALM, leads(1, 4), log_row)
    assert not excused(CALM, leads(1, 4), log_row, leads(1, 5, at=20 * S)), "it was told before"


def test_where_epochs_are_not_told_nobody_knows() -> None:
    assert excused(CALM, leads(1, -1, source="zookeeper"))


BLIND = Declared(sees=frozenset())
SHOWN = Declared(sees=frozenset(Sight) - {Sight.REPLICA_LOGS, Sight.BROKER_LOGS})
"""All but what files tell."""
KILLED = (Disturbance(kind="kill", begun_ns=SENT + 20 * S, ended_ns=SENT + 30 * S),)
WEAKLY = {"acks": "1"}
LOST = {"sends": [WEAK], "polls": [read(B, 1)], "final_reads": [final_read(2)]}
MOVED = {"sends": [WEAK], "polls": [read(A, 1)]}
TOLD_TWICE = {"sends": [WEAK, ack(B, 0, op=2, acks="1", at=SENT + 5)], "polls": [read(B, 0)]}
_LATER = {**ack(B, 1, op=2, acks="1", at=SENT + 9), "process": 1}
BACKWARD = {"sends": [ack(A, 5, acks="1", at=SENT), _LATER]}


@pytest.mark.parametrize(
    ("checker", "rows"),
    [
        (CHECKER, LOST),
        (ack_mismatch.CHECKER, MOVED),
        (inconsistent_offsets.CHECKER, TOLD_TWICE),
        (send_order.NONMONOTONIC_CHECKER, BACKWARD),
    ],
)
def test_without_logs_only_what_happened_excuses_and_what_is_hidden_takes_the_trust(
    checker: Checker, rows: dict[str, list[Row]]
) -> None:
    """A leader that loses what it has would be allowed without any event otherwise."""

    def labels(about: RunFacts, *led: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
        (anomaly,) = found(checker, group(about, **rows, leadership=[*led])).anomalies
        return anomaly.excuses, anomaly.broken_premises

    quiet = (leads(1, 4), leads(1, 4, at=40 * S))
    blind, shown = (facts(plan=WEAKLY, declared=each) for each in (BLIND, SHOWN))
    assert labels(blind) == ((), ("shown-cause",))
    assert labels(replace(blind, disturbances=KILLED)) == (("acks-0-1",), ())
    assert labels(shown, *quiet) == ((), ())
    assert labels(shown, *quiet, leads(2, 5, at=SENT + S)) == (("acks-0-1",), ())
    assert labels(replace(shown, disturbances=KILLED), *quiet) == (("acks-0-1",), ())


def test_without_brokers_own_logs_nobody_records_that_nothing_was_cut() -> None:
    files = Declared(sees=frozenset(Sight) - {Sight.BROKER_LOGS})
    on = group(facts(plan=WEAKLY, declared=files, disturbances=KILLED), **MOVED)
    (anomaly,) = found(ack_mismatch.CHECKER, on).anomalies
    assert anomaly.excuses == ("acks-0-1",)
    on = group(facts(plan=WEAKLY, disturbances=KILLED), **MOVED)
    (anomaly,) = found(ack_mismatch.CHECKER, on).anomalies
    assert anomaly.excuses == ()
