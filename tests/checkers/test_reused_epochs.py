"""A leader that lost its disk and was not missed may write twice in its epoch, before Kafka 2.2."""

import pytest

from checkers import log_divergence, two_leaders
from checkers.facts import DiskLoss, RunFacts
from checkers.protocol import Checker
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, facts, found, group, isr, leads, log, state
from tests.checkers.test_disk_losses import cut

OLD = "kafka:2.1.1:zookeeper"
FOUND_BY = pytest.mark.parametrize("checker", [two_leaders.CHECKER, log_divergence.CHECKER])


def about(*cuts: DiskLoss, system: str = OLD) -> RunFacts:
    plan = {"system": system, "replication": 2, "nodes": 2}
    return facts(plan=plan, disk_losses=cuts)


def labels(
    checker: Checker, on: RunFacts, *leaders: Row, records: list[Row] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what excuses that n1 and n2 have other records at offset 1, in the ISR at the end."""
    (anomaly,) = found(
        checker,
        group(
            on,
            leadership=[*leaders, isr(1, 2, epoch=4)],
            replica_records=records or [*log("n1", (3, A), (3, B)), *log("n2", (3, A), (3, C))],
            replica_states=[state("n1", 2, 2), state("n2", 2, 2)],
        ),
    ).anomalies
    return anomaly.excuses, anomaly.broken_premises


LED = leads(1, 3, source="zookeeper")
"""n1 led in epoch 3, one second before its power was lost."""
LOST = cut("n1", after=1, before=2)
NOT_CONFIRMED = cut("n1", before=2**62, until=2**63 - 1, excuse="unconfirmed-fault")


@FOUND_BY
def test_what_a_leader_lost_and_wrote_anew_in_its_epoch_is_excused(checker: Checker) -> None:
    assert labels(checker, about(LOST), LED) == (("reused-epoch",), ())
    assert labels(checker, about(LOST), leads(1, 3)) == (("reused-epoch",), ())
    wiped = cut("n1", before=2, excuse="wipe")
    assert labels(checker, about(wiped), LED) == (("reused-epoch",), ())


@FOUND_BY
@pytest.mark.parametrize(
    "system", ["kafka:2.2.2:zookeeper", "kafka:3.9.1:zookeeper", "kafka:4.3.1"]
)
def test_who_tells_the_lives_of_a_broker_apart_is_not_excused(
    checker: Checker, system: str
) -> None:
    assert labels(checker, about(LOST, system=system), LED) == ((), ())


@FOUND_BY
@pytest.mark.parametrize(
    ("loss", "led"),
    [
        (cut("n2", after=1, before=2), LED),  # The leader's disk was spared.
        (cut("n1", after=2, before=3), LED),  # It had flushed the record.
        (cut("n1", after=0, before=1), LED),  # It had not got so far.
        (cut("n1", after=1, before=2, partition=1), LED),
        (LOST, leads(1, 3, at=3 * S, source="zookeeper")),  # It led in the epoch only later.
        (LOST, leads(1, 2, source="zookeeper")),
        (LOST, leads(2, 3, source="zookeeper")),
        (LOST, leads(1, 3, source="metadata")),  # Belief names no leader.
    ],
)
def test_what_the_fault_did_not_take_from_a_leader_is_not_excused(
    checker: Checker, loss: DiskLoss, led: Row
) -> None:
    assert labels(checker, about(loss), led) == ((), ())


@FOUND_BY
def test_a_fault_that_was_not_confirmed_takes_the_trust(checker: Checker) -> None:
    assert labels(checker, about(NOT_CONFIRMED), LED) == ((), ("known-losses",))
    assert labels(checker, about(NOT_CONFIRMED, LOST), LED) == (("reused-epoch",), ())


def test_all_offsets_that_differ_must_be_explained() -> None:
    records = [*log("n1", (2, A), (3, B)), *log("n2", (2, C), (3, C))]
    both = (LED, leads(1, 2, source="zookeeper"))
    whole = cut("n1", before=2)
    assert labels(log_divergence.CHECKER, about(whole), *both, records=records) == (
        ("reused-epoch",),
        (),
    )
    assert labels(log_divergence.CHECKER, about(whole), LED, records=records) == ((), ())
    assert labels(log_divergence.CHECKER, about(LOST), *both, records=records) == ((), ())
    unsure = about(NOT_CONFIRMED, LOST)
    assert labels(log_divergence.CHECKER, unsure, *both, records=records) == (
        (),
        ("known-losses",),
    )


def test_records_of_two_epochs_and_records_that_only_one_has_are_not_excused() -> None:
    apart = [*log("n1", (3, A), (3, B)), *log("n2", (3, A), (2, C))]
    missing = [*log("n1", (3, A), (3, B)), *log("n2", (3, A))]
    for records in (apart, missing):
        assert labels(log_divergence.CHECKER, about(LOST), LED, records=records)[0] == ()
    # Formats before 0.11 name no epoch, in records or elsewhere.
    nameless = [*log("n1", (-1, A), (-1, B)), *log("n2", (-1, A), (-1, C))]
    told: Row = {**LED, "leader_epoch": None}
    assert labels(log_divergence.CHECKER, about(LOST), told, records=nameless) == ((), ())


def test_two_brokers_that_both_led_are_not_excused() -> None:
    (anomaly,) = found(
        two_leaders.CHECKER, group(about(LOST), leadership=[LED, leads(2, 3, source="zookeeper")])
    ).anomalies
    assert anomaly.excuses == ()
