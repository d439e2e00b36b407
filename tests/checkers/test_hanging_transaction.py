"""hanging-transaction: a last stable offset that stands still below the high watermark."""

from dataclasses import replace

import pytest

from checkers.facts import DiskLoss, RunFacts, UncleanOrder
from checkers.hanging_transaction import CHECKER
from results.record.milestones import OPEN, Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    state,
    timed_out,
)

TXN: dict[str, object] = {"workload": "txn", "transaction_timeout_s": 9}
"""A transaction may be open for 9 s, 1 s more until anybody looks, and 10 s for the markers."""
CALM = 100


def about(**changes: object) -> RunFacts:
    values: dict[str, object] = {"plan": TXN, "calm_from_ns": CALM * S, **changes}
    return facts(**values)  # type: ignore[arg-type]  # Row's values.


def look(at_s: int, stable: int | None, mark: int, *, node: str = "n1") -> Row:
    return {
        "node": node,
        "observed_ns": at_s * S,
        "last_stable_offset": stable,
        "high_watermark": mark,
    }


STUCK = [look(100, 4, 8), look(101, 5, 7), look(110, 5, 8), look(121, 5, 9), look(122, 5, 9)]


def of(*rows: Row, on: RunFacts | None = None) -> tuple[list[str], tuple[str, ...]]:
    found_ = found(CHECKER, group(on or about(), leadership=[leads(1, 0)], replica_states=[*rows]))
    return [each.sentence for each in found_.anomalies], found_.gaps


def test_one_that_is_open_for_longer_than_its_coordinator_may_leave_it_hangs() -> None:
    (sentence,), gaps = of(*STUCK)
    assert sentence == (
        "a transaction stayed open in log-0-0: from 101.000 s to 122.000 s its last stable offset"
        " was 5, below the high watermark 9"
    )
    assert gaps == ()


def test_its_evidence_is_what_was_told_last_and_since_when() -> None:
    rows = [*STUCK, {**look(123, 5, 11), "snapshot": "noted"}]
    on = group(about(), leadership=[leads(1, 0)], replica_states=rows)
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.evidence == {
        "last_stable_offset": 5,
        "high_watermark": 11,
        "since_ns": 101 * S,
        "seen_ns": 123 * S,
        "may_be_open_s": 20.0,
        "producers": None,
    }
    assert (anomaly.offset, found(CHECKER, on).rows) == (5, 1)


def test_a_look_at_the_last_heal_counts_and_what_was_not_told_does_not() -> None:
    unknown = [
        {**look(130, 9, 9), "observed_ns": None},
        {**look(130, 9, 9), "high_watermark": None},
    ]
    (sentence,), _ = of(look(CALM, 5, 9), look(121, 5, 9), *unknown)
    assert "from 100.000 s to 121.000 s" in sentence


def test_what_was_told_before_the_heal_and_did_not_change_counts_from_the_heal_on() -> None:
    """Observers record only changes: an idle partition has no report between these two."""
    (sentence,), gaps = of(look(95, 5, 9), {**look(121, 5, 9), "snapshot": "noted"})
    assert "from 100.000 s to 121.000 s its last stable offset was 5" in sentence
    assert gaps == ()


def test_one_that_may_be_open_for_as_long_as_it_was_is_none() -> None:
    assert of(look(101, 5, 9), look(121, 5, 9))[0] == []
    assert len(of(look(101, 5, 9), {**look(121, 5, 9), "observed_ns": 121 * S + 1})[0]) == 1


def test_who_has_it_open_is_told_by_the_leader() -> None:
    told = Milestone(name=OPEN, at_ns=120 * S, detail={"log-0-0": "n1: producer 7"})
    on = about(milestones=(*facts().milestones, told))
    rows = group(on, leadership=[leads(1, 0)], replica_states=STUCK)
    (anomaly,) = found(CHECKER, rows).anomalies
    assert anomaly.sentence.endswith(" (n1: producer 7)")
    assert anomaly.evidence["producers"] == "n1: producer 7"


@pytest.mark.parametrize(
    "rows",
    [
        [look(101, 5, 9), look(121, 5, 9)],
        [look(90, 5, 9), look(120, 5, 9)],
        [look(99, 5, 5), look(102, 5, 9), look(122, 5, 9)],
        [look(101, 5, 9), look(110, 6, 9), look(122, 6, 9)],
        [look(101, 5, 5), look(110, 5, 9), look(122, 5, 9)],
        [look(101, 5, 9), look(102, 5, 5), look(122, 5, 9)],
    ],
    ids=["too short", "before the heal", "not open", "it moved", "it was closed", "opened again"],
)
def test_one_that_may_still_end_is_a_gap(rows: list[Row]) -> None:
    sentences, (gap,) = of(*rows)
    assert sentences == []
    assert gap.startswith("a transaction was still open in log-0-0 at the last observation")


@pytest.mark.parametrize(
    "rows",
    [
        [*STUCK, look(123, 9, 9)],
        [*STUCK, look(123, 7, 7)],
        [look(at_s, 5, 9, node="n2") for at_s in (101, 122)],
        [{**each, "snapshot": "final"} for each in STUCK],
        [look(at_s, None, 9) for at_s in (101, 122)],
    ],
    ids=["ended", "ended at the mark", "a follower", "copies", "not told"],
)
def test_what_ended_or_was_not_told_by_the_leader_is_none(rows: list[Row]) -> None:
    assert of(*rows) == ([], ())


def test_without_transactions_or_a_last_heal_nothing_is_checked() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(facts())
    assert of(*STUCK, on=about(calm_from_ns=None)) == ([], ())
    assert found(CHECKER, group(about(), replica_states=STUCK)).rows == 0


def test_what_the_brokers_were_told_to_lengthen_is_waited_for() -> None:
    setting = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "3000"}
    assert of(*STUCK, on=about(plan={**TXN, "broker": setting}))[0] == []


def power_lost(
    *nodes: str,
    topic: str = "__transaction_state",
    partition: int = 0,
    from_s: int = 0,
    excuse: str = "power-loss",
) -> tuple[DiskLoss, ...]:
    loss = DiskLoss(
        nodes=frozenset(nodes), topic=topic, partition=partition, end_after=0, end_before=9,
        until_ns=S, began_ns=from_s * S, healed_ns=(from_s + 5) * S, excuse=excuse,
    )  # fmt: skip
    return (loss,)


LOST = power_lost("n1", "n2")
DOUBT, UNSURE = ("last-copies",), "unconfirmed-fault"
MIXED = replace(power_lost("n1", "n2", "n3")[0], end_after=9, least_after=4)
"""One of the three nodes lost nothing."""


@pytest.mark.parametrize(
    ("on", "leadership", "labels"),
    [
        (about(), [], ((), ())),
        (about(disk_losses=power_lost("n1", "n2", "n3")), [], (("power-loss",), ())),
        (about(disk_losses=power_lost("n1", "n2")), [], (DOUBT, ())),
        (about(disk_losses=power_lost("n1", "n2", "n3", topic="log-0")), [], (("power-loss",), ())),
        # Other topics and partitions have no state of this transaction.
        (about(disk_losses=power_lost("n1", "n2", "n3", topic="other")), [], ((), ())),
        (about(disk_losses=power_lost("n1", "n2", "n3", topic="log-0", partition=1)), [], ((), ())),
        (
            about(disk_losses=(*power_lost("n1", "n2"), *power_lost("n3", "n4", from_s=4))),
            [],
            (("power-loss",), ()),
        ),
        # The first loss was healed before the second began.
        (about(disk_losses=(*LOST, *power_lost("n3", from_s=6))), [], (DOUBT, ())),
        # They lost records of different partitions.
        (about(disk_losses=(*LOST, *power_lost("n3", partition=7))), [], (DOUBT, ())),
        (about(disk_losses=(*LOST, *power_lost("n3", excuse=UNSURE))), [], ((UNSURE,), ())),
        (about(disk_losses=(MIXED,)), [], (DOUBT, ())),
        (
            about(plan={**TXN, "broker": {"unclean.leader.election.enable": "true"}}),
            [elected(1, 0, 7, unclean=True)],
            (("unclean-election",), ()),
        ),
        (
            about(plan={**TXN, "broker": {"unclean.leader.election.enable": "true"}}),
            [],
            (("unclean-election",), ()),  # Of the coordinator's own log, which nobody records.
        ),
        (
            about(
                plan={**TXN, "broker": {"transaction.state.log.replication.factor": "x"}},
                disk_losses=power_lost("n1", "n2", "n3"),
            ),
            [],
            (("power-loss",), ()),  # As by default: a plan may say any text.
        ),
        (
            about(
                plan={**TXN, "broker": {"transaction.state.log.replication.factor": "1"}},
                disk_losses=power_lost("n1"),
            ),
            [],
            (("power-loss",), ()),
        ),
        (about(cut_streams=True), [], ((), ("whole-record",))),
        (about(milestones=()), [], ((), ("recovered",))),
        (about(silences=((101 * S, 102 * S),)), [], ((), ("awake",))),
        (about(silences=((101 * S, 102 * S - 1),)), [], ((), ())),
    ],
)
def test_what_may_have_cost_a_marker_excuses_it(
    on: RunFacts, leadership: list[Row], labels: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    rows = group(on, leadership=[leads(1, 0), *leadership], replica_states=STUCK)
    (anomaly,) = found(CHECKER, rows).anomalies
    assert (anomaly.excuses, anomaly.broken_premises) == labels


SENT = {**timed_out(A), "txn_id": 1, "transactional_id": "t-0"}
UNCLEAN = {**TXN, "broker": {"unclean.leader.election.enable": "true"}}


@pytest.mark.parametrize(
    ("sent_s", "epoch", "on", "excuses"),
    [
        (3, 1, about(disk_losses=power_lost("n1", "n2", "n3")), ("power-loss",)),
        (4, 1, about(disk_losses=power_lost("n1", "n2", "n3")), ()),
        (4, 1, about(disk_losses=power_lost("n1", "n2", "n3", topic="log-0")), ()),
        (4, 1, about(disk_losses=LOST), ()),
        (None, 1, about(disk_losses=power_lost("n1", "n2", "n3")), ("power-loss",)),
        (90, 0, about(plan=UNCLEAN), ("unclean-election",)),
        # The election in epoch 1 was before it, and no fault or election came after.
        (90, 1, about(plan=UNCLEAN), ()),
        # A coordinator's own log may have had another unclean election.
        (40, 1, about(plan=UNCLEAN), ("unclean-election",)),
        (None, 1, about(plan=UNCLEAN), ("unclean-election",)),
        (
            40,
            1,
            about(unclean_orders=(UncleanOrder(topic="log-0", partition=0, after_epoch=0),)),
            (),
        ),
        (
            40,
            0,
            about(unclean_orders=(UncleanOrder(topic="log-0", partition=0, after_epoch=0),)),
            ("unclean-election",),
        ),
    ],
)
def test_what_was_over_before_it_began_excuses_nothing(
    sent_s: int | None, epoch: int, on: RunFacts, excuses: tuple[str, ...]
) -> None:
    rows = group(
        on,
        sends=[{**SENT, "invoke_ns": None if sent_s is None else sent_s * S}],
        leadership=[leads(1, 0), leads(1, 1, at=42 * S), elected(1, 1, 7, unclean=True)],
        replica_states=[*STUCK, state("n1", 9)],
        replica_records=log("n1", *[(epoch, A + 9)] * 5, (epoch, A)),
    )
    (anomaly,) = found(CHECKER, rows).anomalies
    assert anomaly.excuses == excuses
