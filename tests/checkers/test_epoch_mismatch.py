"""epoch-mismatch: the epochs that readers were given, and those of the last leader's log."""

from dataclasses import replace

import pytest

from checkers.epoch_mismatch import CHECKER
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
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
    sentences,
)  # fmt: skip

UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}


def polled(offset: int, epoch: int | None, *, op: int = 9, value: int = A) -> Row:
    return {**read(value, offset, op=op), "leader_epoch": epoch, "complete_ns": 3 * S}


def of(
    *polls: Row,
    about: RunFacts | None = None,
    leadership: tuple[Row, ...] = (),
    sends: tuple[Row, ...] = (),
) -> Group:
    nodes = ("n1", "n2", "n3")
    records = [row for node in nodes for row in log(node, (0, A), (0, B), (4, C))]
    led = [leads(1, 0), leads(3, 4, at=2 * S), *leadership]
    return group(
        about, sends=list(sends), polls=list(polls), leadership=led, replica_records=records
    )


def test_what_was_read_as_the_log_has_it_is_right() -> None:
    on = of(polled(0, 0), polled(1, 0), polled(2, 4))
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (3, [])


def test_a_reader_may_know_a_later_leader_that_never_answered() -> None:
    """`n3` answered last, in epoch 4. In a run without a recovery, another broker may have led."""
    for epoch, about, broken in (
        (5, facts(milestones=()), ("recovered",)),
        (5, facts(), ()),
        (3, facts(milestones=()), ()),
    ):
        (anomaly,) = found(CHECKER, of(polled(2, epoch, value=C), about=about)).anomalies
        assert anomaly.broken_premises == broken


def test_the_same_value_of_another_epoch_is_another_record() -> None:
    on = of(polled(2, 3, op=8, value=C), polled(2, 3, op=7, value=C), polled(2, 4))
    (sentence,) = sentences(CHECKER, on)
    assert sentence == (
        "op 7 got offset 2 of log-0-0 as a record of epoch 3 at 3.000 s, but in the log of the"
        " last leader, n3, it is a record of epoch 4 (2 polled records differ there)"
    )
    assert found(CHECKER, on).rows == 3


def test_a_later_epoch_than_the_logs_is_another_record_too() -> None:
    assert len(sentences(CHECKER, of(polled(1, 4, value=B)))) == 1


def test_formats_without_epochs_and_brokers_that_tell_none_are_left_out() -> None:
    old: dict[str, object] = {"log.message.format.version": "0.10.2"}
    for plan, applies in (
        ({"system": "kafka:4.3.1"}, True),
        ({"system": "kafka:2.1.1"}, False),
        ({"system": "kafka:2.8.2", "broker": old, "acks": "1"}, False),
    ):
        assert CHECKER.applies(facts(plan=plan)) is applies


def test_without_epochs_offsets_or_a_log_there_is_nothing_to_compare() -> None:
    on = of(polled(2, None), polled(9, 3), {**polled(2, 3), "offset": None})
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (0, [])
    assert found(CHECKER, group(polls=[polled(2, 3)])).rows == 0


def test_later_unclean_elections_and_disks_that_all_lost_it_explain_it() -> None:
    lost = DiskLoss(
        nodes=frozenset({"n1", "n2", "n3"}), topic="log-0", partition=0, end_after=2, end_before=9,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    later, older = elected(3, 4, 7, unclean=True), elected(3, 2, 7, unclean=True)
    for about, leadership, excuses in (
        (facts(plan=UNCLEAN), (later,), ("unclean-election",)),
        (facts(plan=UNCLEAN), (older,), ()),
        (facts(disk_losses=(lost,)), (), ("power-loss",)),
        (facts(disk_losses=(replace(lost, until_ns=S),)), (), ()),
        (facts(), (), ()),
    ):
        on = of(polled(2, 3, value=C), about=about, leadership=leadership)
        (anomaly,) = found(CHECKER, on).anomalies
        assert anomaly.excuses == excuses
    # Clients read ahead of their polls: it was acknowledged before the power was lost.
    about = facts(disk_losses=(replace(lost, until_ns=S),))
    (anomaly,) = found(
        CHECKER, of(polled(2, 3, value=A + 9), about=about, sends=(ack(A + 9, 2, at=S),))
    ).anomalies
    assert anomaly.excuses == ("power-loss",)


@pytest.mark.parametrize(
    ("read_epoch", "offset", "began", "excused"),
    [(3, 2, 4, True), (3, 2, 5, False), (3, 2, 3, False),
     (3, 1, 4, True), (3, 1, 2, False), (3, 1, 3, False)],
)  # fmt: skip
def test_only_an_unclean_election_after_the_read_epoch_and_up_to_a_later_logged_one_counts(
    read_epoch: int, offset: int, began: int, *, excused: bool
) -> None:
    """Offset 1 has epoch 0 and offset 2 has epoch 4; the read came with epoch 3."""
    on = of(polled(offset, read_epoch), about=facts(plan=UNCLEAN),
            leadership=(elected(3, began, 7, unclean=True),))  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == ("unclean-election",) * excused


def test_an_excused_read_hides_no_later_read_of_another_epoch() -> None:
    on = of(polled(2, 1, op=7), polled(2, 3, op=8), about=facts(plan=UNCLEAN),
            leadership=(elected(3, 2, 7, unclean=True),))  # fmt: skip
    anomalies = found(CHECKER, on).anomalies
    assert [each.excuses for each in anomalies] == [("unclean-election",), ()]


@pytest.mark.parametrize(
    ("value", "send", "excused"),
    [
        (C, {}, True),
        (C, {"invoke_ns": S, "complete_ns": S + S // 20}, False),
        (C, {"invoke_ns": S, "complete_ns": S + S // 5}, True),
        (C, {"invoke_ns": S, "complete_ns": None}, True),
        (A + 9, {"invoke_ns": S, "complete_ns": S + S // 20}, True),
    ],
    ids=["unknown", "sent once", "maybe sent again", "never answered", "another value"],
)
def test_an_unclean_election_explains_no_second_epoch_of_what_was_sent_once(
    value: int, send: Row, *, excused: bool
) -> None:
    sends = ({**ack(value, 2), **send},) if send else ()
    later = elected(3, 4, 7, unclean=True)
    on = of(polled(2, 3, value=value), about=facts(plan=UNCLEAN), leadership=(later,), sends=sends)
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == (("unclean-election",) if excused else ())
