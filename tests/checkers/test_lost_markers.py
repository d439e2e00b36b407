"""A marker that was written and lost again is laid on nobody, and shows no read to be early."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from checkers import aborted_read
from checkers.cycles import CHECKERS as CYCLES
from checkers.facts import Disturbance, UncleanOrder
from checkers.protocol import Proved
from checkers.reigns import Reign
from checkers.unclean_elections import unclean_elections
from checkers.unseen import INCOMPLETE_CHECKER
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
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
    reason,
    state,
)
from tests.checkers.test_reasons_of_transactions import (
    COORDINATED,
    OPEN,
    by,
    circle,
    copies,
    hanging,
    in_a_row,
    in_txn,
    look,
    marker,
    of_txns,
)
from tests.checkers.test_transaction_reads import polled, sent, state_lost, txn


def test_a_marker_may_have_been_written_and_lost() -> None:
    """An unclean leader cuts it off the others' logs, and it is not sent again."""
    line = {"node": "n1", "from_offset": 2, "to_offset": None, "observed_ns": None}
    sent, records = {**OPEN, "invoke_ns": 54 * S}, copies("n1", "n2")
    told = partial(hanging, records, send=sent, reigns=COORDINATED)
    assert isinstance(told(), Proved)
    assert isinstance(told(cuts=[{**line, "observed_ns": 53 * S}]), Proved)
    fell = [{**look(at, 1), "node": "n2", "log_end_offset": end} for at, end in ((70, 9), (80, 3))]
    for lost, why in (
        (told(cuts=[line]), "n1 may have lost its log from offset 2 on"),
        (told(cuts=[{**line, "from_offset": 9}]), "n1 may have lost its log from offset 9 on"),
        (told(looks=fell), "the log end offset of n2 was 9, and later 3"),
        (told(copies_more=1), "not every replica's log was read"),
    ):
        assert not isinstance(lost, Proved)
        assert lost.endswith(f"in epoch 0, did not write one, or the marker was lost: {why}")


@pytest.mark.parametrize("again", [3, 1])
def test_a_marker_of_another_op_does_not_show_that_a_read_was_early(again: int) -> None:
    """That of the writer went with an unclean election, and its producer's next one is there."""
    (g1c,) = (each for each in CYCLES if each.name == "G1c")
    rows = [*in_a_row(0), *by(2, log("n1", (0, C), start=3)), marker("n1", 4, producer=2)]
    if again == 1:  # That of the reader went.
        rows = [*log("n1", (0, A)), *log("n1", (0, C), start=1), *by(2, log("n1", (0, B), start=2)),
                marker("n1", 3), marker("n1", 4, producer=2)]  # fmt: skip
    told = reason(g1c, circle(rows, more=[in_txn(C, again, op=3)]))
    assert told.startswith("a record was served before its transaction was committed")
    assert not isinstance(told, Proved)


def test_where_a_marker_may_have_been_written_twice_no_read_is_called_early() -> None:
    (g1c,) = (each for each in CYCLES if each.name == "G1c")
    line = {"node": "n1", "from_offset": 1, "to_offset": None, "observed_ns": None}
    assert not isinstance(reason(g1c, circle(in_a_row(3), cuts=[line])), Proved)
    # What was cut behind the reader's marker came after it in any case.
    assert isinstance(reason(g1c, circle(in_a_row(3), cuts=[{**line, "from_offset": 2}])), Proved)


def test_the_coordinator_alone_is_not_blamed_for_what_a_log_may_have_lost() -> None:
    records = log("n1", (0, A), (0, B))

    def told(*cuts: Row) -> str:
        on = group(
            of_txns(records), leadership=[leads(1, 0)], replica_records=records,
            replica_states=[state("n1", 2)], sends=[in_txn(A, 0), in_txn(B, 1, op=2)],
            final_reads=[{**final_read(1), "isolation": "read_committed"}],
            truncations=[*cuts],
        )  # fmt: skip
        return reason(INCOMPLETE_CHECKER, on)

    alone = (
        "the transaction of op 2, whose record is at this offset, has no marker after it: its"
        " coordinator did not end it in that log"
    )
    assert told() == alone
    line = {"node": "n1", "from_offset": 2, "to_offset": None, "observed_ns": None}
    assert told(line) == (
        f"{alone}, or the marker was lost: n1 may have lost its log from offset 2 on"
    )


@pytest.mark.parametrize(("read_s", "excuses"), [(14, ()), (15, ("power-loss",))])
@pytest.mark.parametrize("topic", ["log-0", "__transaction_state"])
def test_no_marker_is_missed_before_it_is_lost(
    topic: str, read_s: int, excuses: tuple[str, ...]
) -> None:
    """The first of two readers decides: the other one got the record after the loss."""
    about = state_lost("n1", "n2", "n3", topic=topic)
    if topic == "log-0":
        losses = (replace(each, partition=0) for each in about.disk_losses)
        about = txn(disk_losses=tuple(losses))
    times: Row = {"invoke_ns": 10 * S, "complete_ns": 11 * S}
    reads = [{**polled(A, 0, op=at), "complete_ns": at * S} for at in (40, read_s)]
    on = group(about, sends=[{**sent(A, 0, outcome="fail"), **times}], polls=reads)
    (told,) = aborted_read.CHECKER.check(on).anomalies
    assert told.excuses == excuses


ELECTED = elected(2, 3, 90, unclean=True)
HERE: dict[str, Any] = {"topic": "log-0", "partition": 0}


@pytest.mark.parametrize(("read_s", "excuses"), [(14, ()), (15, ("unclean-election",))])
def test_no_marker_is_missed_before_an_unclean_election(
    read_s: int, excuses: tuple[str, ...]
) -> None:
    about = txn(unclean_orders=(UncleanOrder(**HERE, began_ns=15 * S),))
    times: Row = {"invoke_ns": 10 * S, "complete_ns": 11 * S}
    on = group(
        about, sends=[{**sent(A, 0, outcome="fail"), **times}], leadership=[ELECTED],
        polls=[{**polled(A, 0), "complete_ns": read_s * S}],
    )  # fmt: skip
    (told,) = aborted_read.CHECKER.check(on).anomalies
    assert told.excuses == excuses


@pytest.mark.parametrize(("read_s", "excuses"), [(14, ()), (20, ("unclean-election",))])
@pytest.mark.parametrize("ended", [True, False])
def test_the_coordinator_s_log_lost_no_marker_before_the_first_fault(
    read_s: int, excuses: tuple[str, ...], *, ended: bool
) -> None:
    """The elections for that log are not recorded, so a fault may have caused one."""
    fault = Disturbance(kind="kill", begun_ns=20 * S, ended_ns=30 * S, nodes=frozenset({"n1"}))
    unclean = {"workload": "txn", "broker": {"unclean.leader.election.enable": "true"}}
    about = facts(plan=unclean, disturbances=(fault,))
    times: Row = {"invoke_ns": 10 * S, "complete_ns": 11 * S if ended else None}
    on = group(
        about, sends=[{**sent(A, 0, outcome="fail"), **times}], leadership=[leads(1, 0)],
        polls=[{**polled(A, 0), "complete_ns": read_s * S}],
    )  # fmt: skip
    (told,) = aborted_read.CHECKER.check(on).anomalies
    assert told.excuses == excuses


def test_the_controllers_log_shows_when_an_election_was_not_over_yet() -> None:
    reign = Reign(**HERE, leader=2, epoch=3, from_ns=15 * S, until_ns=90 * S)
    plan = {"workload": "txn", "broker": {"unclean.leader.election.enable": "true"}}
    for reigns, early in (((reign,), False), ((replace(reign, partition=1),), True), ((), True)):
        found = unclean_elections(group(facts(plan=plan, reigns=reigns), leadership=[ELECTED]))
        told = [found.took(np.array([7]), missed_ns=at * S).tolist() for at in (14, 15)]
        assert told == [[early], [True]]
