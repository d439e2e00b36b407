"""slow-quorum-election: a majority of the controllers is whole, and nobody leads them."""

from dataclasses import replace
from typing import Any

import pytest

from checkers import slow_quorum_election
from checkers.columns import NEVER as UNENDED
from checkers.facts import Disturbance, RunFacts
from results.record.milestones import ENDED, Milestone
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record
from tests.checkers.partition_rows import S, facts, found, reasons, sentences, whole_run

CHECKER, NAME = slow_quorum_election.CHECKER, slow_quorum_election.NAME
Row = dict[str, Any]
DOWN = Disturbance(kind="controller-failover", begun_ns=20 * S, ended_ns=50 * S,
                   nodes=frozenset({"n1"}))  # fmt: skip
WHYS_OF: list[tuple[str, Row, str]] = [
    (
        NAME,
        {"said": ["n2 reported n1 as leader in epoch 3 at 9.000 s"]},
        "no other controller was elected",
    ),
    (NAME, {"said": []}, "does not show the states of the other quorum members"),
]


def told(node: int, at: int, leader: int | None, *, epoch: int = 3) -> Row:
    """What a controller says of itself at a second."""
    role = "unattached" if leader is None else "leader" if leader == node else "follower"
    return {"node": f"n{node}", "observed_ns": at * S, "role": role, "epoch": epoch,
            "leader": leader}  # fmt: skip


def about(*faults: Disturbance, **plan: object) -> RunFacts:
    return facts(plan={"nodes": 3, **plan}, disturbances=faults)


LED = [told(node, at, 1) for at in range(21) for node in (1, 2, 3)]
BACK = [told(node, at, 1) for at in range(50, 56) for node in (1, 2, 3)]
STUCK = [*LED, told(2, 22, 1), told(3, 23, 1), *BACK]
ROWS_OF = [
    (
        CHECKER,
        whole_run(about(DOWN), quorum_states=[told(2, 1, 1)]),
        "no controller was observed to lead the quorum",
        whole_run(about(DOWN), quorum_states=[told(1, 1, 1), told(1, 2, 1)]),
        2,
    )
]


def test_two_of_three_elect_nobody() -> None:
    (sentence,) = sentences(CHECKER, whole_run(about(DOWN), quorum_states=STUCK))
    assert sentence == (
        "the controllers' quorum had no leader from 20.000 s to 50.000 s: faults had disabled n1,"
        " and n2 and n3 were a majority; the budget is 15 s"
    )
    (why,) = reasons(CHECKER, whole_run(about(DOWN), quorum_states=STUCK))
    assert why == (
        "n2 reported n1 as leader in epoch 3 at 22.000 s, and n3 reported n1 as leader in epoch 3"
        " at 23.000 s: no other controller was elected after 20.000 s"
    )


def test_without_any_fault_they_have_no_reason_at_all() -> None:
    (sentence,) = sentences(CHECKER, whole_run(about(), quorum_states=STUCK))
    assert "no fault was in force, and n1, n2 and n3 were a majority" in sentence


def test_who_leads_in_another_epoch_leads() -> None:
    others = [told(2, at, 2, epoch=4) for at in range(25, 50)]
    assert sentences(CHECKER, whole_run(about(DOWN), quorum_states=[*STUCK, *others])) == []


@pytest.mark.parametrize(
    "fault",
    [
        replace(DOWN, nodes=frozenset({"n1", "n2"})),
        replace(DOWN, kind="ring"),
        replace(DOWN, kind="loss"),
        replace(DOWN, kind="kill", nodes=frozenset({"n1", "n2", "n3"})),
        replace(DOWN, kind="pause", nodes=frozenset()),
    ],
    ids=("majority", "ring", "loss", "all", "anybody"),
)
def test_faults_beside_which_a_majority_need_not_find_together(fault: Disturbance) -> None:
    assert sentences(CHECKER, whole_run(about(fault), quorum_states=STUCK)) == []
    assert sentences(CHECKER, whole_run(about(DOWN, fault), quorum_states=STUCK)) == []


CUT_OFF = replace(DOWN, kind="isolate", confirmed_ns=21 * S, healing_ns=48 * S)


def test_who_leads_nobody_but_itself_does_not_lead() -> None:
    """Before KAFKA-15489 (3.7), a leader that nobody hears says so as long as it is cut off."""
    alone = [{**told(1, at, 1), "high_watermark": 7} for at in range(21, 49)]
    on = whole_run(about(CUT_OFF), quorum_states=[*STUCK, *alone])
    (sentence,) = sentences(CHECKER, on)
    assert sentence.startswith("the controllers' quorum had no leader from 21.000 s to 50.000 s")
    others = [told(2, at, 2, epoch=4) for at in range(25, 50)]
    assert sentences(CHECKER, whole_run(about(CUT_OFF), quorum_states=[*STUCK, *others])) == []


@pytest.mark.parametrize(
    "fault",
    [
        replace(CUT_OFF, confirmed_ns=-1),
        replace(CUT_OFF, nodes=frozenset({"n3"})),
        replace(CUT_OFF, confirmed_ns=22 * S, healing_ns=34 * S, ended_ns=35 * S),
    ],
    ids=("unconfirmed", "another", "short"),
)
def test_who_can_reach_the_others_leads_if_it_says_so(fault: Disturbance) -> None:
    told_on = [told(1, at, 1) for at in range(21, 49)]
    assert sentences(CHECKER, whole_run(about(fault), quorum_states=[*STUCK, *told_on])) == []


def test_only_a_leader_tells_of_a_new_high_watermark() -> None:
    others = [{**told(2, at, 1), "high_watermark": at} for at in range(21, 50)]
    assert sentences(CHECKER, whole_run(about(DOWN), quorum_states=[*STUCK, *others])) == []
    same = [{**row, "high_watermark": 7} for row in others]
    assert len(sentences(CHECKER, whole_run(about(DOWN), quorum_states=[*STUCK, *same]))) == 1


def test_brokers_are_no_voters_beside_controllers_of_their_own() -> None:
    apart = about(replace(DOWN, nodes=frozenset({"n101", "n102"})), controllers=3,
                  system="kafka:4.3.1:controllers")  # fmt: skip
    rows = [told(101, at, 101) for at in [*range(21), *range(50, 56)]]
    rows += [told(node, at, 101) for at in (1, 22) for node in (102, 103, 1, 2, 3)]
    assert sentences(CHECKER, whole_run(apart, quorum_states=rows)) == []
    one = replace(apart, disturbances=(replace(DOWN, nodes=frozenset({"n101"})),))
    (sentence,) = sentences(CHECKER, whole_run(one, quorum_states=rows))
    assert "n102 and n103 were a majority" in sentence


LONG = [*LED, told(2, 22, 1), told(3, 23, 1), *(told(1, at, 1) for at in range(90, 93))]
"""Nobody leads from 20 s to 90 s."""


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([replace(DOWN, kind="halves", ended_ns=30 * S)], "30.000 s to 90.000 s: no fault was in"),
        ([replace(DOWN, kind="ring", begun_ns=60 * S, ended_ns=95 * S)], "20.000 s to 60.000 s"),
        ([replace(DOWN, ended_ns=30 * S),
          replace(DOWN, begun_ns=40 * S, nodes=frozenset({"n2"}))], "20.000 s to 40.000 s"),
        ([replace(DOWN, kind="loss", ended_ns=30 * S),
          replace(DOWN, kind="loss", begun_ns=45 * S, ended_ns=76 * S)], ""),
        ([replace(DOWN, kind="loss", ended_ns=UNENDED)], ""),
        ([replace(DOWN, kind="clock-drift", ended_ns=30 * S)], ""),
    ],
    ids=("after", "before", "in turn", "too short", "until the end", "timers stand still"),
)  # fmt: skip
def test_the_part_of_a_period_beside_such_faults_counts(
    faults: list[Disturbance], expected: str
) -> None:
    said = sentences(CHECKER, whole_run(about(*faults), quorum_states=LONG))
    assert len(said) == bool(expected)
    assert expected in "".join(said)


def test_a_part_that_is_not_trusted_does_not_hide_another_one() -> None:
    on = replace(about(replace(DOWN, kind="halves", begun_ns=45 * S, ended_ns=46 * S)),
                 silences=((25 * S, 44 * S),))  # fmt: skip
    (anomaly,) = found(CHECKER, whole_run(on, quorum_states=LONG)).anomalies
    assert (anomaly.evidence["from_ns"], anomaly.broken_premises) == (46 * S, ())


def test_the_end_of_a_server_that_does_not_vote_is_no_reason() -> None:
    gone = Milestone(name=ENDED, at_ns=5 * S, detail={"node": "n9", "code": "1"})
    on = replace(about(DOWN), milestones=(*about().milestones, gone))
    assert len(sentences(CHECKER, whole_run(on, quorum_states=LONG))) == 1


def test_what_takes_nothing_from_the_quorum_is_no_excuse() -> None:
    other = replace(DOWN, kind="reassignment", nodes=frozenset({"n2", "n3"}))
    assert len(sentences(CHECKER, whole_run(about(DOWN, other), quorum_states=STUCK))) == 1


def test_a_time_that_nobody_looked_at_shows_nothing() -> None:
    on = whole_run(about(DOWN), quorum_states=LED)
    assert sentences(CHECKER, on) == [], "there is no later answer of anybody"
    silent = replace(about(DOWN), silences=((20 * S, 50 * S),))
    (anomaly,) = found(CHECKER, whole_run(silent, quorum_states=STUCK)).anomalies
    assert anomaly.broken_premises == ("awake",)
    cut = replace(about(DOWN), cut_streams=True)
    (anomaly,) = found(CHECKER, whole_run(cut, quorum_states=STUCK)).anomalies
    assert anomaly.broken_premises == ("whole-record",)


def test_a_controller_that_ended_before_and_did_not_come_back_is_no_part_of_the_majority() -> None:
    """A fault may explain the end; then nothing starts the server before the heal of everything."""
    gone = Milestone(name=ENDED, at_ns=10 * S, detail={"node": "n3", "code": "1"})
    on = replace(about(DOWN), milestones=(*about().milestones, gone))
    away = {at * S for at in range(11, 50)}
    alone = [row for row in STUCK if row["node"] != "n3" or row["observed_ns"] not in away]
    assert sentences(CHECKER, whole_run(on, quorum_states=alone)) == []
    assert len(sentences(CHECKER, whole_run(on, quorum_states=STUCK))) == 1, "it came back"


def test_it_needs_a_quorum_of_several() -> None:
    assert CHECKER.applies(about())
    assert not CHECKER.applies(about(nodes=1, replication=1, min_insync=1))
    assert not CHECKER.applies(about(system="kafka:3.9.1:zookeeper"))


def _short_budget(record: Record) -> tuple[int, int]:
    """Make the budget shorter than the base's kill lasted, and return from when to when."""
    record.plan["budgets"]["election_s"] = 4.5
    (down,) = record.rows("faults", kind="kill")
    return down["requested_ns"], down["healed_ns"]


@broken(NAME, row="H2", base="log", moments=("kill",))
def controllers_wait_for_a_dead_leader(record: Record, spot: Spot) -> None:
    since_ns, until_ns = _short_budget(record)
    assert since_ns < spot.at_ns < until_ns
    for row in record.rows("quorum_states"):
        if since_ns <= (row["observed_ns"] or 0) <= until_ns:
            row.update(role="follower", high_watermark=None)


@innocent(base="log", moments=("kill",))
def controllers_elect_another_leader_in_time(record: Record, spot: Spot) -> None:
    """Who fetches nothing for two seconds stands for election, and two of three elect it."""
    since_ns, until_ns = _short_budget(record)
    assert since_ns < spot.at_ns < until_ns
