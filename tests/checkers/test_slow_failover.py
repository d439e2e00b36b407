"""slow-failover: a broker is down, others are in the ISR, and nobody takes over."""

from dataclasses import replace
from typing import Any

import pytest

from checkers import slow_failover
from checkers.columns import NEVER
from checkers.facts import Disturbance, RunFacts
from checkers.reigns import UNENDED_NS, Reign
from results.record.milestones import ENDED, Milestone
from results.record.terms import Outcome
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record
from tests.checkers.partition_rows import S, ack, facts, found, group, leads, reasons, sentences

CHECKER, NAME = slow_failover.CHECKER, slow_failover.NAME
DOWN = Disturbance(
    kind="kill", begun_ns=19 * S, confirmed_ns=20 * S, healing_ns=50 * S, ended_ns=56 * S,
    nodes=frozenset({"n1"}),
)  # fmt: skip
Row = dict[str, Any]


def about(*disturbances: Disturbance, **plan: object) -> RunFacts:
    return facts(
        plan={"nodes": 3, "replication": 3, **plan},
        disturbances=disturbances or (DOWN,),
        milestones=(*facts().milestones, Milestone(name="collected", at_ns=1_000 * S)),
    )


def isr(*brokers: int, at: int = 18) -> Row:
    told = leads(1, 0, at=at * S, source="metadata")
    return {**told, "observer": "n2", "incarnation": 0, "isr": list(brokers)}


WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (
        NAME,
        {"down": ["n1"], "believed": ["n2 named broker 1"]},
        "the elected leader is not recorded",
    ),
]
BEFORE = [leads(1, 0, at=19 * S), isr(1, 2, 3)]
LAST = {**isr(1, 2, 3, at=60), "leader": -1}
"""A look long after, that names nobody."""


ROWS_OF = [
    (
        CHECKER,
        group(about(replace(DOWN, kind="pause")), leadership=[*BEFORE, LAST]),
        "no fault ended brokers that other members of an ISR could replace",
        group(about(), leadership=[*BEFORE, LAST]),
        1,
    )
]


def told(*rows: Row, on: RunFacts | None = None, **tables: list[Row]) -> list[str]:
    leadership = [*BEFORE, LAST, *rows]
    return sentences(CHECKER, group(on or about(), leadership=leadership, **tables))


def test_nobody_takes_over() -> None:
    (sentence,) = told()
    assert sentence == (
        "log-0-0 had no leader from 20.000 s to 50.000 s, while n1 was down (kill) and n2 and n3"
        " were left in the ISR; the budget is 15 s"
    )


def test_who_takes_over_in_time_is_fine() -> None:
    assert told(leads(2, 1, at=24 * S), leads(2, 1, at=26 * S), leads(2, 1, at=48 * S)) != []
    steady = [leads(2, 1, at=at * S) for at in range(24, 50, 2)]
    assert told(*steady) == []
    assert found(CHECKER, group(about(), leadership=[*BEFORE, LAST, *steady])).rows == 1
    late = [leads(2, 1, at=at * S + 1) for at in range(36, 50, 2)]
    assert [each.partition(",")[0] for each in told(*late)] == [
        "log-0-0 had no leader from 20.000 s to 36.000 s"
    ]


def test_clients_that_are_served_are_a_sign() -> None:
    served: list[Row] = [{**ack(at, at, op=at), "complete_ns": at * S} for at in range(30, 50, 8)]
    assert told(sends=served) == []


@pytest.mark.parametrize(
    "fault",
    [
        replace(DOWN, kind="pause"),
        replace(DOWN, kind="isolate"),
        replace(DOWN, confirmed_ns=-1),
        replace(DOWN, nodes=frozenset({"n1", "n2"})),
        replace(DOWN, healing_ns=34 * S),
    ],
    ids=("pause", "isolate", "unconfirmed", "majority", "short"),
)
def test_what_need_not_be_replaced_in_that_time(fault: Disturbance) -> None:
    assert told(on=about(fault)) == []


def test_a_vacancy_beside_another_fault_has_two_causes() -> None:
    other = Disturbance(kind="loss", begun_ns=40 * S, ended_ns=45 * S, nodes=frozenset({"n2"}))
    over = replace(other, begun_ns=5 * S, ended_ns=18 * S)
    assert told(on=about(DOWN, other)) == []
    assert len(told(on=about(DOWN, over))) == 1


def test_other_servers_that_ended_meanwhile_left_too_few() -> None:
    gone = Milestone(name=ENDED, at_ns=30 * S, detail={"node": "n2", "code": "-9"})
    own = Milestone(name=ENDED, at_ns=30 * S, detail={"node": "n1", "code": "1"})
    stones = about().milestones
    assert told(on=replace(about(), milestones=(*stones, gone))) == []
    assert len(told(on=replace(about(), milestones=(*stones, own)))) == 1


def test_a_server_that_ended_before_and_did_not_come_back_left_too_few() -> None:
    """A fault may explain the end; then nothing starts the server before the heal of everything."""
    gone = Milestone(name=ENDED, at_ns=10 * S, detail={"node": "n3", "code": "1"})
    on = replace(about(), milestones=(*about().milestones, gone))
    first = {**isr(1, 2, 3, at=5), "observer": "n3"}
    assert told(first, on=on) == []
    assert len(told(first, {**first, "observed_ns": 15 * S}, on=on)) == 1, "it came back"
    assert told(first, {**first, "observed_ns": 55 * S}, on=on) == [], "it came back later"
    assert len(told(on=on)) == 1, "it is no broker: it never answers"


def test_a_longer_session_may_be_waited_for() -> None:
    patient = about(broker={"broker.session.timeout.ms": "18000"})
    assert told(on=patient) == []
    assert len(told(on=about(broker={"broker.session.timeout.ms": "9000"}))) == 1


def test_an_isr_that_shrank_before_is_told_afterwards() -> None:
    assert told({**isr(1, at=30), "leader": -1}) == []


def test_zookeeper_may_name_the_dead_for_as_long_as_it_likes() -> None:
    named = {**leads(1, 0, at=10 * S, source="zookeeper"), "observer": "zk", "isr": [1, 2, 3]}
    again = {**named, "observed_ns": 60 * S, "asked_ns": 60 * S}
    assert len(told(named, again)) == 1


def test_a_machine_asleep_proves_nothing() -> None:
    asleep = replace(about(), silences=((21 * S, 45 * S),))
    (anomaly,) = found(CHECKER, group(asleep, leadership=[*BEFORE, LAST])).anomalies
    assert anomaly.broken_premises == ("awake",)


def test_nobody_else_in_the_isr_is_no_failure() -> None:
    assert told(isr(1, at=19)) == [], "it shrank just before"
    assert told(isr(1, at=12)) != [], "that was longer ago"
    alone = group(about(), leadership=[leads(1, 0, at=19 * S), isr(1), LAST])
    assert found(CHECKER, alone).rows == 0
    assert found(CHECKER, group(about(), leadership=[leads(1, 0, at=19 * S), LAST])).rows == 0


def test_it_is_asked_of_ordinary_runs_with_followers() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(about(replication=1, min_insync=1))


def test_the_reason_says_whom_the_controllers_elected() -> None:
    nobody = group(about(), leadership=[*BEFORE, LAST])
    assert reasons(CHECKER, nobody) == ["the elected leader is not recorded (n2 named broker 1)"]


def reign(leader: int, epoch: int) -> Reign:
    return Reign(
        topic="log-0", partition=0, leader=leader, epoch=epoch, from_ns=25 * S, until_ns=UNENDED_NS
    )


@pytest.mark.parametrize(
    ("reigns", "why"),
    [
        ((reign(2, 1),), "the controllers elected n2 in epoch 1, but it did not answer"),
        (
            (reign(2, 1), reign(3, 2)),
            "the controllers elected n3 in epoch 2, but it did not answer",
        ),
        ((reign(1, 1),), "the controllers elected no other broker"),
        ((reign(-1, 1),), "the controllers elected no other broker"),
    ],
)
def test_the_reason_is_what_the_controllers_decided(reigns: tuple[Reign, ...], why: str) -> None:
    decided = replace(about(), reigns=reigns)
    (told_why,) = reasons(CHECKER, group(decided, leadership=[*BEFORE, LAST]))
    assert why in told_why


def test_a_fault_that_is_never_healed_lasts_to_the_last_look() -> None:
    for_ever = replace(DOWN, healing_ns=-1, ended_ns=NEVER)
    (sentence,) = told(on=about(for_ever))
    assert sentence.startswith("log-0-0 had no leader from 20.000 s to 60.000 s")


def test_each_of_two_outages_is_looked_at() -> None:
    before = replace(DOWN, begun_ns=S, confirmed_ns=2 * S, healing_ns=3 * S, ended_ns=4 * S)
    early = [isr(1, 2, 3, at=1), leads(1, 0, at=S)]
    on = group(about(before, DOWN), leadership=[*early, *BEFORE, LAST])
    assert found(CHECKER, on).rows == 2
    assert len(sentences(CHECKER, on)) == 1


def test_a_record_that_is_cut_proves_nothing() -> None:
    cut = replace(about(), cut_streams=True)
    (anomaly,) = found(CHECKER, group(cut, leadership=[*BEFORE, LAST])).anomalies
    assert anomaly.broken_premises == ("whole-record",)


def _short_budget(record: Record) -> tuple[int, int]:
    """Make the budget shorter than the base's kill lasted, and return from when to when."""
    record.plan["budgets"]["election_s"] = 4.5
    (down,) = record.rows("faults", kind="kill")
    return down["confirmed_ns"], down["healed_ns"]


@broken(NAME, row="H2", base="log", moments=("kill",))
def nobody_takes_over_from_a_dead_broker(record: Record, spot: Spot) -> None:
    """Its partitions are led again once it is back, which is before the end of the run."""
    since_ns, until_ns = _short_budget(record)

    def meanwhile(row: Row) -> bool:
        at_ns = row.get("observed_ns", row.get("complete_ns"))
        return bool(since_ns <= (at_ns or 0) <= until_ns)

    record.drop("leadership", meanwhile, source="list-offsets", **spot.place)
    record.drop("polls", meanwhile, **spot.place)
    for send in record.rows("sends", **spot.place):
        if meanwhile(send):
            send.update(outcome=Outcome.INFO.value, acked=False, offset=None, error="_TIMED_OUT")


@innocent(base="log", moments=("kill",))
def others_take_over_from_a_dead_broker_in_time(record: Record, spot: Spot) -> None:
    """Its session ends after three seconds, and who is left in the ISR is elected at once."""
    since_ns, until_ns = _short_budget(record)
    assert since_ns < spot.at_ns < until_ns
