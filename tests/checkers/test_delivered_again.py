"""delivered-again: a share group delivered a record after it had confirmed that it is done with.

Here are also tests of `checkers/deliveries.py` and `checkers/state_losses.py`.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import delivered_again
from checkers.columns import NEVER
from checkers.facts import DiskLoss, Disturbance, UncleanOrder
from checkers.live.window import STREAMS
from checkers.protocol import Waits
from checkers.reigns import Reign
from results.record.shares import STATE_COPIES
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record
from tests.broken.sharing import accepted, deliver, joined_at
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, S, elected, found, leads
from tests.checkers.sharing import SHARES, about, delivery, knows, offsets, reign, says, shared

CHECKER, NAME = delivered_again.CHECKER, delivered_again.NAME
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (
        NAME,
        {"asked_ns": 5 * S, "confirmed_ns": 6 * S, "acquired_after_ns": 7 * S,
         "delivered_ns": 8 * S},
        "the run's record does not show what the share coordinator stored",
    )
]  # fmt: skip
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
LATER = delivery(2, at=9 * S, after=7 * S)
"""Without one that was acquired afterwards a confirmation could not be broken."""
KNOWN = [knows(node, 3) for node in (1, 2, 3)]
ROWS_OF = [
    (
        CHECKER,
        shared(about(), [delivery(0), says(0, outcome="info")]),
        "a repeated delivery could not be detected",
        shared(about(), [delivery(0), says(0), says(1, "release"), LATER]),
        1,
    )
]


def test_what_was_acquired_after_its_acceptance_was_confirmed_is_delivered_again() -> None:
    late = delivery(0, at=9 * S, after=6 * S + 1)
    for act in ("accept", "reject"):
        assert offsets(CHECKER, shared(about(), [delivery(0), says(0, act), late])) == [0]
    # It may have been acquired when the answer was under way.
    early = delivery(0, at=9 * S, after=6 * S)
    assert offsets(CHECKER, shared(about(), [delivery(0), says(0), early])) == []


@pytest.mark.parametrize(
    ("reigns", "known", "again"),
    [
        ((reign(3, 0, 200),), [knows(node, 3) for node in (1, 2, 3)], True),
        # Nobody knows who confirmed it.
        ((), [knows(node, 3) for node in (1, 2, 3)], False),
        # One broker may still believe that it leads in epoch 2, or has just ceased to.
        ((reign(3, 0, 200),), [knows(node, 3) for node in (1, 2)], False),
        ((reign(3, 0, 200),), [knows(1, 3), knows(2, 3), knows(3, 2)], False),
        ((reign(3, 0, 200),), [knows(1, 3), knows(2, 3), knows(3, 3, at=17 * S)], True),
        ((reign(3, 0, 200),), [knows(1, 3), knows(2, 3), knows(3, 3, at=18 * S)], False),
        # The next leader may have confirmed it: an election was close.
        ((reign(3, 0, 5), reign(4, 5, 200)), [knows(node, 3) for node in (1, 2, 3)], False),
        ((reign(3, 0, 5), reign(4, 5, 200)), [knows(node, 4) for node in (1, 2, 3)], True),
        ((reign(3, 0, 9), reign(4, 9, 200)), [knows(node, 3) for node in (1, 2, 3)], True),
        ((reign(3, 0, 8), reign(4, 8, 200)), [knows(node, 3) for node in (1, 2, 3)], False),
        ((reign(3, 0, 200),), [knows(node, 4) for node in (1, 2, 3)], True),
        ((reign(0, 0, 200),), [knows(node, 0) for node in (1, 2, 3)], True),
        # Another partition's leaders say nothing of this one.
        ((reign(3, 0, 200), reign(9, 0, 200, partition=1)), KNOWN, True),
        ((reign(3, 0, 200), replace(reign(9, 0, 200), topic="log")), KNOWN, True),
        # Who answers as a leader need not know who leads.
        ((reign(3, 0, 200),), [*KNOWN[:2], {**leads(3, 3), "observer": "n3"}], False),
        ((reign(3, 0, 200),), [*KNOWN[:2], {**knows(3, 3), "observed_ns": None}], False),
    ],
)
def test_who_has_not_heard_of_the_leader_that_confirmed_may_deliver_again(
    reigns: tuple[Reign, ...],
    known: list[Row],
    again: bool,  # noqa: FBT001 - a case
) -> None:
    rows = [delivery(0), says(0), delivery(0, at=21 * S, after=20 * S)]
    on = shared(about(reigns=reigns), rows, leadership=known)
    assert offsets(CHECKER, on) == [0] * again


def test_what_nobody_knows_who_confirmed_is_not_compared() -> None:
    rows = [delivery(0), says(0), LATER]
    assert found(CHECKER, shared(about(), rows)).rows == 1
    nobody = found(CHECKER, shared(about(reigns=()), rows))
    assert (nobody.rows, len(nobody.unshown)) == (0, 1)


def test_a_confirmation_after_which_nothing_was_acquired_is_not_counted() -> None:
    rows = [delivery(0), says(0), delivery(1), says(1, at=8 * S)]
    for after, counted in ((6 * S, 0), (6 * S + 1, 1), (8 * S, 1), (8 * S + 1, 2)):
        on = shared(about(), [*rows, delivery(2, at=9 * S, after=after)])
        assert found(CHECKER, on).rows == counted
    # So it is with all that the last member accepts.
    last = found(CHECKER, shared(about(), rows))
    assert (last.rows, last.gaps, len(last.unshown)) == (0, (), 1)


@pytest.mark.parametrize(
    ("kind", "node", "lasts", "again"),
    [
        ("pause", "n2", (2, 17), True),
        ("pause", "n2", (2, 18), False),
        ("slow-disk", "n2", (2, 18), False),
        ("disk-full", "n2", (2, 18), False),
        ("read-only", "n2", (2, 18), False),
        ("handles", "n2", (2, 18), False),
        ("processor", "n2", (2, 18), False),
        ("memory", "n2", (2, 18), False),
        # It lay behind the time by which a broker has its role, or before its answer.
        ("pause", "n2", (4, 18), True),
        ("pause", "n2", (0, 0), True),
        # It ends the broker, or is not one of its own disk, or of a broker that is asked.
        ("kill", "n2", (2, 18), True),
        ("isolate", "n2", (2, 18), True),
        ("pause", "c1", (2, 18), True),
    ],
)
def test_a_broker_that_stands_still_may_have_its_role_only_afterwards(
    kind: str,
    node: str,
    lasts: tuple[int, int],
    again: bool,  # noqa: FBT001 - a case
) -> None:
    begun_ns, ended_ns = (each * S for each in lasts)
    held = Disturbance(kind=kind, begun_ns=begun_ns, ended_ns=ended_ns, nodes=frozenset({node}))
    rows = [delivery(0), says(0), delivery(0, at=21 * S, after=20 * S)]
    on = shared(about(disturbances=(held,)), rows)
    assert offsets(CHECKER, on) == [0] * again


def test_faults_that_follow_each_other_hold_a_broker_together() -> None:
    first = Disturbance(kind="pause", begun_ns=2 * S, ended_ns=9 * S, nodes=frozenset({"n2"}))
    then = Disturbance(kind="slow-disk", begun_ns=10 * S, ended_ns=19 * S, nodes=frozenset({"n2"}))
    never = replace(first, ended_ns=NEVER)
    rows = [delivery(0), says(0), delivery(0, at=21 * S, after=20 * S)]
    for held, again in (((first,), [0]), ((first, then), []), ((then, first), []), ((never,), [])):
        assert offsets(CHECKER, shared(about(disturbances=held), rows)) == again


def test_it_waits_for_what_the_live_window_lacks() -> None:
    assert "shared" not in STREAMS
    assert (CHECKER.meanwhile, CHECKER.waits) == (None, Waits.STOPPED)


def test_each_is_described_by_its_own_rows() -> None:
    rows = [
        row
        for offset, act in enumerate(("accept", "reject", "accept"))
        for row in (
            says(offset, act, at=(6 + offset) * S),
            delivery(offset, at=(12 + offset) * S, after=(10 + offset) * S),
        )
    ]
    told = found(CHECKER, shared(about(), rows)).anomalies
    names = ("act", "confirmed_ns", "acquired_after_ns", "delivered_ns", "value")
    assert [tuple(each.evidence[name] for name in names) for each in told] == [
        (act, (6 + at) * S, (10 + at) * S, (12 + at) * S, A + at)
        for at, act in enumerate(("accept", "reject", "accept"))
    ]


@pytest.mark.parametrize(
    "said",
    [says(0, outcome="info"), says(0, "release"), says(1), says(0, at=9 * S)],
    ids=["unanswered", "released", "another record", "accepted later"],
)
def test_what_nobody_confirmed_before_may_be_delivered_again(said: dict[str, Any]) -> None:
    again = delivery(0, at=9 * S, after=8 * S)
    assert offsets(CHECKER, shared(about(), [delivery(0), said, again])) == []


def test_another_record_at_an_offset_that_was_cut_off_is_not_the_same() -> None:
    other = delivery(0, at=9 * S, after=8 * S, value=A + 7)
    assert offsets(CHECKER, shared(about(), [delivery(0), says(0), other])) == []


def test_the_first_confirmation_of_each_record_counts() -> None:
    rows = [says(0), says(0, at=9 * S), says(1, "reject"), delivery(0, at=8 * S, after=7 * S)]
    told = found(CHECKER, shared(about(), rows))
    assert told.rows == 2
    (anomaly,) = told.anomalies
    assert anomaly.evidence["confirmed_ns"] == 6 * S
    assert "at 6.000 s that it had accepted offset 0 of log-0-0" in anomaly.sentence
    assert "acquired the record after 7.000 s, got it again at 8.000 s" in anomaly.sentence


def test_the_reason_names_who_led_the_partition() -> None:
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    on = shared(about(), rows)
    (told,) = found(CHECKER, on).anomalies
    nobody = shared(about(reigns=()), rows, leadership=[])
    assert "a broker confirmed this, and a broker delivered" in CHECKER.why(nobody, told)
    assert CHECKER.why(on, told).startswith("n1, its leader in epoch 3, confirmed this")


@pytest.mark.parametrize(
    ("nodes", "plan", "excuses"),
    [
        (["n1", "n2", "n3"], {}, ("power-loss",)),
        (["n1"], {}, ("last-copies",)),
        (["n1"], {"broker": {STATE_COPIES: "1"}}, ("power-loss",)),
        (["n1", "n2", "n3"], {"broker": {STATE_COPIES: "2"}}, ("power-loss",)),
    ],
)
def test_what_may_have_cost_the_groups_state_allows_it(
    nodes: list[str], plan: dict[str, Any], excuses: tuple[str, ...]
) -> None:
    lost = [
        DiskLoss(nodes=frozenset({node}), topic="", partition=-1, end_after=0, end_before=1,
                 until_ns=5 * S, began_ns=S, excuse="power-loss")
        for node in nodes
    ]  # fmt: skip
    told = about(disk_losses=tuple(lost))
    told = replace(told, plan=told.plan.model_copy(update=plan))
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    (anomaly,) = found(CHECKER, shared(told, rows)).anomalies
    assert anomaly.excuses == excuses
    assert anomaly.broken_premises == ()


def test_disks_that_were_lost_long_before_the_confirmation_took_nothing_of_it() -> None:
    rows = [delivery(0), says(0, at=17 * S), delivery(0, at=19 * S, after=18 * S)]
    for until_s, excuses in ((15, ("power-loss",)), (14, ())):
        lost = DiskLoss(
            nodes=frozenset({"n1", "n2", "n3"}), topic="", partition=-1, end_after=0, end_before=1,
            until_ns=until_s * S, began_ns=10 * S, excuse="power-loss",
        )  # fmt: skip
        (anomaly,) = found(CHECKER, shared(about(disk_losses=(lost,)), rows)).anomalies
        assert anomaly.excuses == excuses


def test_unclean_elections_that_the_plan_permits_need_something_that_happened() -> None:
    broker = {"unclean.leader.election.enable": "true"}
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    kill = Disturbance(kind="kill", begun_ns=7 * S, ended_ns=8 * S)
    for faults, excuses in (((kill,), ("unclean-election",)), ((), ())):
        told = about(disturbances=faults)
        told = replace(told, plan=told.plan.model_copy(update={"broker": broker}))
        known = [*KNOWN, elected(1, 3, 0)]
        (anomaly,) = found(CHECKER, shared(told, rows, leadership=known)).anomalies
        assert anomaly.excuses == excuses


def test_an_unclean_election_that_a_fault_ordered_allows_it() -> None:
    order = UncleanOrder(topic="log-0", partition=0, began_ns=S, after_epoch=2, epoch=3)
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    for orders, excuses in (((), ()), ((order,), ("unclean-election",))):
        told = about(unclean_orders=orders)
        known = [*KNOWN, elected(1, 3, 0, unclean=bool(orders))]
        (anomaly,) = found(CHECKER, shared(told, rows, leadership=known)).anomalies
        assert anomaly.excuses == excuses


@pytest.mark.parametrize(
    ("began_s", "seen_s", "allowed"), [(1, 5, False), (1, 6, True), (9, 12, True), (10, 12, False)]
)
def test_an_election_before_the_confirmation_or_after_the_delivery_allows_nothing(
    began_s: int,
    seen_s: int,
    allowed: bool,  # noqa: FBT001 - a case
) -> None:
    order = UncleanOrder(topic="log-0", partition=0, began_ns=began_s * S, after_epoch=2, epoch=3,
                         leader="n1", seen_ns=seen_s * S)  # fmt: skip
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    known = [*KNOWN, elected(1, 3, 0, unclean=True)]
    on = shared(about(unclean_orders=(order,)), rows, leadership=known)
    assert found(CHECKER, on).anomalies[0].excuses == ("unclean-election",) * allowed


def test_a_record_that_is_cut_proves_nothing() -> None:
    rows = [delivery(0), says(0), delivery(0, at=9 * S, after=8 * S)]
    (anomaly,) = found(CHECKER, shared(about(cut_streams=True), rows)).anomalies
    assert anomaly.broken_premises == ("whole-record",)


def test_it_is_asked_of_share_groups_only() -> None:
    assert CHECKER.fits(about())
    told = about()
    other = told.plan.model_copy(update={"workload": "groups"})
    assert not CHECKER.fits(replace(told, plan=other))
    assert SHARES["workload"] == "shares"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["deliver", "accept", "reject", "release"]),
            st.integers(1, 9),
            st.sampled_from(["ok", "info"]),
        ),
        max_size=10,
    )
)
def test_it_says_what_the_definition_says(drawn: list[tuple[int, str, int, str]]) -> None:
    rows = [
        delivery(offset, at=20 * S, after=at * S)
        if act == "deliver"
        else says(offset, act, at=at * S, outcome=outcome)
        for offset, act, at, outcome in drawn
    ]
    wrong = [
        offset
        for offset, act, after, _ in drawn
        if act == "deliver"
        and any(
            (at, told) == (offset, "ok") and told_at < after and other in {"accept", "reject"}
            for at, other, told_at, told in drawn
        )
    ]
    assert offsets(CHECKER, shared(about(), rows)) == sorted(wrong)


@broken("delivered-again", row="shares", base="shares")
def a_new_leader_does_not_know_what_was_accepted(record: Record, spot: Spot) -> None:
    """The member that is next to join is given the record once more, and accepts it."""
    done = accepted(record, spot)
    deliver(record, done, joined_at(record, done["told_ns"]))


@innocent(base="shares")
def what_was_acquired_before_is_handed_over_late(record: Record, spot: Spot) -> None:
    """Its lock was over, another member accepted it, and the first has it in its buffer still."""
    done = accepted(record, spot)
    late = deliver(record, done, joined_at(record, done["told_ns"]))
    late["acquired_after_ns"] = done["asked_ns"] - 1


@innocent(base="shares")
def a_client_that_stood_still_hands_over_what_it_was_given_before(
    record: Record, spot: Spot
) -> None:
    """Its first polls afterwards are empty: it has not read its socket yet."""
    done = accepted(record, spot)
    joins = record.rows("assignments", kind="subscribe")
    joined = max((row for row in joins if row["time_ns"] < done["asked_ns"]), key=time_of)
    late = deliver(record, done, joined_at(record, done["told_ns"]))
    late.update(process=joined["process"], acquired_after_ns=joined["time_ns"])


@innocent(base="shares")
def what_was_accepted_without_an_answer_is_delivered_again(record: Record, spot: Spot) -> None:
    """Its leader died with the request, or before the coordinator had written it."""
    done = accepted(record, spot)
    deliver(record, done, joined_at(record, done["told_ns"]))
    done.update(outcome="info", error="_TRANSPORT: Local: Broker transport failure")


def time_of(row: Row) -> int:
    return int(row["time_ns"])
