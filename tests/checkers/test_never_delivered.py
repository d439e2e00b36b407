"""never-delivered: a share group was done with a partition and had left a record out.

Here are also tests of `checkers/deliveries.py` and `checkers/state_losses.py`.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import never_delivered
from checkers.facts import DiskLoss
from checkers.reigns import GROUPS, SHARES
from results.record.terms import Validity
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record
from tests.broken.sharing import DELIVER, accepted
from tests.checkers.partition_rows import A, S, final_read, found, leads, read
from tests.checkers.sharing import (
    DONE_NS,
    about,
    delivery,
    fault,
    joins,
    knows,
    offsets,
    reign,
    says,
    shared,
)

CHECKER, NAME = never_delivered.CHECKER, never_delivered.NAME
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"sent_ns": S, "drained_ns": 9 * S}, "the run's record does not show which"),
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
NODES = ("n1", "n2", "n3")
LOST = [delivery(0), delivery(2)]
BUSY = [joins(90 * S)] * 10
"""So many came since it was sent that each may have lost it."""
ROWS_OF = [
    (
        CHECKER,
        shared(about(), LOST, assignments=BUSY),
        "a skipped record could not be detected",
        shared(about(), LOST),
        3,
    )
]


def test_what_no_member_was_ever_delivered_is_left_out() -> None:
    assert offsets(CHECKER, shared(about(), LOST)) == [1]
    assert offsets(CHECKER, shared(about(), [*LOST, delivery(1)])) == []
    # Whoever accepts it was delivered it: a row of that alone proves nothing.
    assert offsets(CHECKER, shared(about(), [*LOST, says(1)])) == [1]


def test_each_that_is_left_out_is_described_by_its_own_row() -> None:
    told = found(CHECKER, shared(about(), [delivery(1)])).anomalies
    assert [(each.offset, each.evidence["value"]) for each in told] == [(0, A), (2, A + 2)]


def test_another_record_that_stood_at_its_offset_is_not_the_same() -> None:
    assert offsets(CHECKER, shared(about(), [*LOST, delivery(1, value=A + 9)])) == [1]


def test_a_delivery_whose_value_could_not_be_read_is_one_of_its_offset() -> None:
    unread = delivery(1) | {"value": None}
    assert offsets(CHECKER, shared(about(), [*LOST, unread])) == []


def test_what_lies_behind_the_end_up_to_which_the_group_was_asked_is_not_judged() -> None:
    for end, missed in ((3, [1, 2]), (2, [1]), (1, [])):
        on = shared(about(), [delivery(0)], final_reads=[final_read(end)])
        assert (found(CHECKER, on).rows, offsets(CHECKER, on)) == (end, missed)
    unknown = found(CHECKER, shared(about(), LOST, final_reads=[]))
    assert (unknown.rows, unknown.unshown) == (0, ())


def test_who_was_not_done_leaves_a_gap() -> None:
    late = found(CHECKER, shared(about(failed="the group was not done"), LOST))
    assert (late.rows, late.anomalies) == (0, ())
    assert late.gaps == (
        ("the group was not done, so the records that the group skipped are unknown"),
    )
    never = found(CHECKER, shared(about(drained=False), LOST))
    assert (never.rows, never.anomalies) == (0, ())
    assert "the group's progress was not queried" in never.gaps[0]


@pytest.mark.parametrize(
    ("joined", "faults", "judged"),
    [
        # Two members and four locks leave room for eighteen more, of a limit of 25.
        ([90] * 9, [], 3),
        ([90] * 10, [], 0),
        ([70] * 10, [], 3),
        ([], [90] * 9, 3),
        ([], [90] * 10, 0),
        ([], [70] * 10, 3),
        ([90] * 5, [90] * 4, 3),
        ([90] * 5, [90] * 5, 0),
    ],
)
def test_what_may_have_been_given_up_is_not_judged(
    joined: list[int], faults: list[int], judged: int
) -> None:
    told = about(disturbances=tuple(fault(at * S) for at in faults))
    on = shared(told, LOST, assignments=[joins(at * S) for at in joined])
    judgement = found(CHECKER, on)
    assert judgement.rows == judged
    assert offsets(CHECKER, on) == ([1] if judged else [])
    doubt = "log-0-0: no member got 1 of the records that may have reached the delivery"
    assert judgement.gaps == (() if judged else (f"{doubt} limit, the first at offset 1",))


@pytest.mark.parametrize(
    ("at_s", "strikes", "judged"),
    [(90, 8, 3), (90, 9, 0), (70, 99, 3), (90, -1, 3), (91.79, -1, 3), (91.8, -1, 0)],
)
def test_each_strike_on_connections_of_clients_may_have_cost_each_member_a_delivery(
    at_s: float, strikes: int, judged: int
) -> None:
    """Two members: with the fault's end itself nine strikes are too many; seen every 0.3 s."""
    begun_ns = 89 * S + 4 * S // 10 if strikes < 0 else 69 * S
    resets = replace(fault(round(at_s * S)), strikes=strikes, begun_ns=begun_ns)
    on = shared(about(disturbances=(resets,)), LOST)
    assert found(CHECKER, on).rows == judged


def test_what_may_have_been_given_up_leaves_a_gap_only_if_nobody_was_delivered_it() -> None:
    assert found(CHECKER, shared(about(), [delivery(0)], assignments=BUSY)).gaps[0].endswith("1")
    all_of_it = [*LOST, delivery(1) | {"value": None}]
    assert found(CHECKER, shared(about(), all_of_it, assignments=BUSY)).gaps == ()
    unclean = {"broker": {"unclean.leader.election.enable": "true"}}
    told = about()
    for faults, doubted in (((), True), ((fault(90 * S),), False)):
        plan = told.plan.model_copy(update=unclean)
        on = shared(replace(told, plan=plan, disturbances=faults), LOST, assignments=BUSY)
        assert bool(found(CHECKER, on).gaps) is doubted
    lost = DiskLoss(nodes=frozenset({"n1"}), topic=SHARES, partition=0, end_after=0, end_before=1,
                    until_ns=80 * S, excuse="power-loss")  # fmt: skip
    for losses, doubted in (((lost,), True), ((replace(lost, nodes=frozenset(NODES)),), False)):
        on = shared(replace(told, disk_losses=losses), LOST, assignments=BUSY)
        assert bool(found(CHECKER, on).gaps) is doubted


@pytest.mark.parametrize(
    ("topic", "began_s", "until_s", "excuses"),
    [
        # State that was lost 2 s before the record was sent, or earlier, was not the record's.
        (SHARES, 1, 77, ()),
        (SHARES, 1, 78, ("power-loss",)),
        (GROUPS, 1, 77, ()),
        # But the group's start may lie beyond the end of a log that was lost.
        ("log-0", 1, 77, ("power-loss",)),
        *((topic, 100, 110, ("power-loss",)) for topic in (SHARES, "log-0")),
        *((topic, 101, 110, ()) for topic in (SHARES, GROUPS, "log-0")),
    ],
)
def test_only_what_was_lost_since_the_send_and_before_the_end_allows_it(
    topic: str, began_s: int, until_s: int, excuses: tuple[str, ...]
) -> None:
    lost = tuple(
        DiskLoss(nodes=frozenset({node}), topic=topic, partition=0, end_after=0, end_before=1,
                 until_ns=until_s * S, began_ns=began_s * S, excuse="power-loss")
        for node in NODES
    )  # fmt: skip
    on = about(disk_losses=lost)
    (anomaly,) = found(CHECKER, shared(on, LOST)).anomalies
    assert anomaly.excuses == excuses
    assert bool(found(CHECKER, shared(on, LOST, assignments=BUSY)).gaps) is not bool(excuses)


def test_a_group_with_a_lower_limit_gives_up_sooner() -> None:
    told = about()
    name = "group.share.delivery.count.limit"
    low = replace(told, plan=told.plan.model_copy(update={"broker": {name: "10"}}))
    assert found(CHECKER, shared(low, LOST)).rows == 3
    assert found(CHECKER, shared(low, LOST, assignments=[joins(90 * S)] * 2)).rows == 0


@pytest.mark.parametrize(
    ("setting", "value", "judged"),
    [
        ("group.share.record.lock.duration.ms", "900", 0),
        # A member whose session ended holds nothing, whatever its lock says.
        ("group.share.session.timeout.ms", "900", 0),
        ("group.share.record.lock.duration.ms", "2000", 3),
    ],
)
def test_a_shorter_lock_may_have_run_out_more_often(setting: str, value: str, judged: int) -> None:
    told = about()
    short = replace(told, plan=told.plan.model_copy(update={"broker": {setting: value}}))
    assert found(CHECKER, shared(short, LOST)).rows == judged


@pytest.mark.parametrize(
    ("last", "wrote", "judged"),
    [(3 + 18, 3, 3), (3 + 19, 3, 0), (3 + 19, 4, 3), (17, None, 3), (18, None, 0), (2, 40, 3)],
)
def test_within_a_fault_that_flaps_each_leader_may_have_lost_it(
    last: int, wrote: int | None, judged: int
) -> None:
    # Two members and four locks leave room for eighteen leaders, of a limit of 25.
    polls = [{**read(A + offset, offset), "leader_epoch": wrote} for offset in range(3)]
    on = shared(about(), LOST, polls=polls, leadership=[knows(1, 3), knows(2, last, at=95 * S)])
    judgement = found(CHECKER, on)
    assert (judgement.rows, offsets(CHECKER, on)) == (judged, [1] if judged else [])
    assert bool(judgement.gaps) == (not judged)


def test_a_record_that_nobody_sent_is_another_checks() -> None:
    strange = shared(about(), LOST, polls=[read(A + 50, 1)])
    assert found(CHECKER, strange).rows == 0


def test_the_reason_names_who_led_or_that_nobody_knows() -> None:
    rows = [*LOST, delivery(2, at=90 * S)]
    on = shared(about(), rows)
    (told,) = found(CHECKER, on).anomalies
    assert "sent at 79.999 s, was never delivered to any member" in told.sentence
    assert f"had finished all records at {DONE_NS // S}.000 s" in told.sentence
    behind = "members got 2 records after it; "
    assert CHECKER.why(on, told).startswith(f"{behind}n1, its leader in epoch 3, skipped it")
    nobody = shared(about(reigns=()), rows, leadership=[])
    assert CHECKER.why(nobody, told).startswith(f"{behind}a broker skipped it")
    # Who led after a record behind it was delivered left nothing out.
    succeeded = about(reigns=(reign(3, 0, 90), replace(reign(4, 92, 200), leader=2)))
    led = [leads(1, 3), leads(1, 3, at=86 * S), leads(2, 4, at=92 * S)]
    for before, behind_it, who in ((99, 86, "n1, its leader in epoch 3,"), (86, 99, "a broker")):
        rows = [delivery(0, at=before * S), delivery(2, at=behind_it * S)]
        why = CHECKER.why(shared(succeeded, rows, leadership=led), told)
        assert why == (
            f"members got 1 records after it; {who} skipped it, or a client did not pass it on:"
            " the run's record does not show which"
        )
    last = shared(about(reigns=()), [delivery(0), delivery(1)], leadership=[])
    (told,) = found(CHECKER, last).anomalies
    assert CHECKER.why(last, told).startswith("a broker skipped it")


def test_a_record_that_is_cut_proves_nothing() -> None:
    (anomaly,) = found(CHECKER, shared(about(cut_streams=True), LOST)).anomalies
    assert anomaly.broken_premises == ("whole-record",)


@given(st.sets(st.integers(0, 2)), st.sets(st.integers(0, 2)))
def test_it_says_what_the_definition_says(given_out: set[int], kept: set[int]) -> None:
    rows = [delivery(offset) for offset in given_out]
    on = shared(about(), rows, polls=[read(A + offset, offset) for offset in kept])
    assert offsets(CHECKER, on) == sorted(kept - given_out)
    assert found(CHECKER, on).rows == len(kept)


@broken("never-delivered", row="shares", base="shares", moments=("isolate",))
def a_leader_begins_behind_a_record(record: Record, spot: Spot) -> None:
    done = last_accepted(record, spot)
    assert record.drop("shared", lambda row: row["offset"] == done["offset"], **spot.place)


@broken(
    "",
    row="shares",
    base="shares",
    moments=("kill",),
    valid=Validity.UNKNOWN,
    says="no member got 1 of the records that may have reached the delivery limit",
)
def an_early_record_is_lost_with_the_member_that_held_it(record: Record, spot: Spot) -> None:
    """Whether it was given up at the limit, nobody knows."""
    assert record.drop("shared", lambda row: row["offset"] == 0, **spot.place)


@broken(
    "",
    row="shares",
    base="shares",
    moments=("kill",),
    valid=Validity.UNKNOWN,
    says="0 confirmed acknowledgements in the main phase",
)
def no_broker_confirms_an_acknowledgement(record: Record, _spot: Spot) -> None:
    """Members go on, so each of their ops is ok."""
    for row in record.rows("shared"):
        if row["act"] != DELIVER:
            row.update(outcome="info", error="no broker confirmed the acknowledgements")


@innocent(base="shares")
def a_record_is_delivered_and_its_acceptance_has_no_answer(record: Record, spot: Spot) -> None:
    """The broker took it, and its answer was lost: the group is done with the record."""
    accepted(record, spot).update(outcome="info", error="_TRANSPORT")


@innocent(base="shares")
def a_record_is_delivered_by_a_poll_before_its_member_vanishes(record: Record, spot: Spot) -> None:
    """Somebody else accepted it, who was delivered it, too."""
    done = accepted(record, spot)
    (first, *_) = record.rows("shared", act=DELIVER, offset=done["offset"], **spot.place)
    record.add("shared", first, told_ns=first["told_ns"] + 1)


def last_accepted(record: Record, spot: Spot) -> dict[str, Any]:
    """Return the last message of the partition that was confirmed as accepted."""
    done = record.rows("shared", act="accept", outcome="ok", **spot.place)
    return max(done, key=lambda row: int(row["offset"]))
