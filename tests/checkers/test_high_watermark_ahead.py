"""high-watermark-ahead: what replicas call committed, and what leaders announce later."""

from dataclasses import replace

import pytest

from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.high_watermark_ahead import CHECKER
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    sentences,
    state,
)  # fmt: skip

ZOOKEEPER = facts(plan={"system": "kafka:2.8.2"})
UNCLEAN_PLAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
UNCLEAN = facts(plan=UNCLEAN_PLAN)
NODES = ("n1", "n2", "n3")


def told(node: str, mark: int | None, at_s: float, *, life: int = 1) -> Row:
    return {"node": node, "incarnation": life, "high_watermark": mark, "log_end_offset": 99,
            "high_watermark_source": "fetch", "observed_ns": int(at_s * S)}  # fmt: skip


def announced(mark: int, epoch: int, at_s: float, *, broker: int = 1) -> Row:
    at = {"asked_ns": int(at_s * S), "observed_ns": int(at_s * S) + 1}
    return {**leads(broker, epoch), **at, "high_watermark": mark}


def believes(node: str, epoch: int, at_s: float, *, life: int = 1) -> Row:
    row = {**leads(1, epoch, source="metadata"), "observer": node, "incarnation": life}
    return {**row, "asked_ns": int(at_s * S), "observed_ns": int(at_s * S) + 1}


def of(*rows: Row, about: RunFacts | None = None) -> Group:
    states = [row for row in rows if "node" in row]
    return group(
        about, replica_states=states, leadership=[row for row in rows if "node" not in row]
    )


def test_a_follower_that_lags_or_keeps_up_is_right() -> None:
    on = of(told("n2", 5, 1), announced(5, 0, 2), told("n2", 4, 3), told("n3", 5, 3.5),
            announced(9, 0, 4), told("n2", None, 5))  # fmt: skip
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (3, [])


def test_a_follower_ahead_of_its_leader_is_told_with_the_first_mark() -> None:
    on = of(told("n2", 5, 1), told("n2", 7, 2), told("n2", 8, 3), announced(5, 0, 4),
            announced(6, 0, 5))  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.sentence == (
        "n2's high watermark of log-0-0 is 7 (reported at 2.000 s) (2 of its reports are too"
        " high), and later broker 1 announced the high watermark 5 of epoch 0 at 4.000 s"
    )
    assert (anomaly.offset, anomaly.excuses) == (5, ())
    assert anomaly.evidence == {
        "node": "n2", "high_watermark": 7, "told_ns": 2 * S, "count": 2, "later_by": 1,
        "later_epoch": 0, "later_high_watermark": 5, "later_asked_ns": 4 * S,
        "later_observed_ns": 4 * S + 1,
    }  # fmt: skip


def test_what_was_asked_before_the_follower_told_proves_nothing() -> None:
    assert sentences(CHECKER, of(announced(5, 0, 1.9), told("n2", 7, 2))) == []
    assert len(sentences(CHECKER, of(announced(5, 0, 2), told("n2", 7, 2)))) == 1


def test_a_deposed_leader_that_does_not_know_it_is_behind() -> None:
    deposed = (told("n2", 7, 2), announced(5, 0, 3), announced(8, 1, 4, broker=3))
    assert sentences(CHECKER, of(*deposed)) == []
    # It had not heard of epoch 1 when it was asked next: so it was not ahead by that leader.
    assert len(sentences(CHECKER, of(*deposed, believes("n2", 0, 2.5)))) == 1
    for late in (
        believes("n2", 1, 2.5),  # It follows the new leader.
        believes("n2", 0, 1.5),  # It may have heard of it since.
        believes("n3", 0, 2.5),  # Another one did not hear of it.
        believes("n2", 0, 2.5, life=2),  # It was started again, and knows little yet.
    ):
        assert sentences(CHECKER, of(*deposed, late)) == []
    on = of(*deposed, believes("n2", 0, 2.5), about=ZOOKEEPER)
    assert sentences(CHECKER, on) == [], "there a replica may follow before the broker tells so"


@pytest.mark.parametrize("source", ["metadata-log", "zookeeper"])
def test_an_epoch_that_anybody_tells_of_may_be_the_followers(source: str) -> None:
    rows = (told("n2", 7, 2), announced(5, 0, 3))
    assert len(sentences(CHECKER, of(*rows))) == 1
    assert sentences(CHECKER, of(*rows, {**leads(3, 1), "source": source})) == []
    records = group(
        replica_states=[rows[0]], leadership=[rows[1]], replica_records=log("n3", (0, A), (1, B))
    )
    assert sentences(CHECKER, records) == []


def stopped(*marks: int | None, end: int = 9, **changes: object) -> Group:
    clean = Milestone(name="stopped", at_ns=9, detail=dict.fromkeys(NODES, "clean"))
    about = facts(milestones=(clean,), collected_nodes=frozenset(NODES))
    states = [state(node, end, mark) for node, mark in zip(NODES, marks, strict=True)]
    records = log("n1", *((0, at) for at in range(end)))
    fields: Row = dict(changes)
    return group(
        replace(about, **fields), replica_states=states, leadership=[leads(1, 0)],
        replica_records=records,
    )  # fmt: skip


def test_a_checkpoint_may_not_lie_behind_the_leaders_log() -> None:
    assert (found(CHECKER, stopped(9, 8, None)).rows, sentences(CHECKER, stopped(9, 9, 9))) == (
        2, [],
    )  # fmt: skip
    assert sentences(CHECKER, stopped(9, 10, 9)) == [
        (
            "n2's high watermark of log-0-0 is 10 (after the stop), and later the final log of the"
            " last leader n1 ends at 9"
        )
    ]
    for hurt in ("n1", "n2"):
        assert sentences(CHECKER, stopped(9, 10, 9, unreadable_nodes=frozenset({hurt}))) == []


def test_who_led_while_brokers_were_being_stopped_may_have_written_more() -> None:
    marks = stopped(9, 10, 10)
    assert len(sentences(CHECKER, marks)) == 2
    later = log("n2", *((0, at) for at in range(9)), (1, 9))
    states = [state("n1", 9, 9), state("n2", 10, 10)]
    on = group(
        marks.facts, replica_states=states, leadership=[leads(1, 0)],
        replica_records=[*log("n1", *((0, at) for at in range(9))), *later],
    )  # fmt: skip
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (0, [])


def test_unclean_elections_and_disks_that_all_lost_it_explain_it() -> None:
    lost = DiskLoss(
        nodes=frozenset(NODES), topic="log-0", partition=0, end_after=5, end_before=9,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    rows = (told("n2", 7, 2), announced(5, 3, 3))
    for about, more, excuses in (
        (UNCLEAN, (elected(3, 3, 7, unclean=True),), ("unclean-election",)),
        (facts(disk_losses=(lost,)), (), ("power-loss",)),
        (facts(disk_losses=(replace(lost, nodes=frozenset({"n2"})),)), (), ()),
    ):
        (anomaly,) = found(CHECKER, of(*rows, *more, about=about)).anomalies
        assert anomaly.excuses == excuses


@pytest.mark.parametrize(
    ("began_s", "more", "excuses"),
    [
        (3, (), ("power-loss",)),
        (4, (), ()),
        (4, (announced(4, 4, 9),), ()),  # Explained, but the answer before it is not.
        (3, (announced(4, 4, 9),), ("power-loss",)),
    ],
)
def test_a_disk_loss_that_began_after_the_leaders_answer_explains_nothing(
    began_s: int, more: tuple[Row, ...], excuses: tuple[str, ...]
) -> None:
    lost = DiskLoss(
        nodes=frozenset(NODES), topic="log-0", partition=0, end_after=4, end_before=9,
        began_ns=began_s * S, until_ns=6 * S, excuse="power-loss",
    )  # fmt: skip
    rows = (told("n2", 7, 2), believes("n2", 3, 2.5), announced(5, 3, 3), *more)
    on = of(*rows, about=facts(disk_losses=(lost,)))
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


def test_a_mark_from_before_a_disk_loss_does_not_hide_a_mark_from_after_it() -> None:
    lost = DiskLoss(
        nodes=frozenset(NODES), topic="log-0", partition=0, end_after=4, end_before=9,
        began_ns=4 * S, until_ns=6 * S, excuse="power-loss",
    )  # fmt: skip
    rows = (told("n2", 7, 2), told("n2", 8, 50), announced(5, 3, 60))
    (anomaly,) = found(CHECKER, of(*rows, about=facts(disk_losses=(lost,)))).anomalies
    assert (anomaly.evidence["high_watermark"], anomaly.excuses) == (8, ())


def in_isr(node: str, isr: tuple[int, ...], epoch: int, at_s: float, *, life: int = 1) -> Row:
    return {**believes(node, epoch, at_s, life=life), "isr": list(isr)}


ELECTED = elected(1, 2, 6, unclean=True)


@pytest.mark.parametrize(
    ("seen", "epoch", "excuses"),
    [
        (in_isr("n2", (1, 2), 2, 3), 2, ()),
        (in_isr("n2", (1, 2), 2, 3), 3, ()),
        (in_isr("n2", (1, 2), 1, 3), 2, ("unclean-election",)),  # Before the election.
        (in_isr("n2", (1, 3), 2, 3), 2, ("unclean-election",)),  # It may be cut off.
        (in_isr("n2", (2,), 2, 3), 2, ("unclean-election",)),  # It may be about to lead.
        (in_isr("n3", (1, 2), 2, 3), 2, ("unclean-election",)),
        (in_isr("n2", (1, 2), 2, 3, life=0), 2, ("unclean-election",)),  # An old checkpoint.
        (in_isr("n2", (1, 2), 2, 3.1), 2, ("unclean-election",)),  # The report may be as old.
    ],
)
def test_who_followed_an_unclean_leader_into_the_isr_has_dropped_what_the_election_cost(
    seen: Row, epoch: int, excuses: tuple[str, ...]
) -> None:
    on = of(seen, told("n2", 7, 5.0000001), announced(5, epoch, 9), ELECTED, about=UNCLEAN)
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


def test_with_zookeeper_an_isr_may_have_members_that_were_started_again() -> None:
    rows = (in_isr("n2", (1, 2), 2, 3), told("n2", 7, 6), announced(5, 2, 9))
    plan: dict[str, object] = {"system": "kafka:2.8.2", **UNCLEAN_PLAN}
    (anomaly,) = found(CHECKER, of(*rows, about=facts(plan=plan))).anomalies
    assert anomaly.excuses == ("unclean-election",)


def test_an_unclean_election_does_not_explain_what_came_before_it() -> None:
    before = (told("n2", 7, 2), believes("n2", 1, 2.5), announced(5, 1, 3))
    for later in ((), (announced(4, 2, 5), believes("n2", 2, 5))):
        on = of(*before, *later, ELECTED, about=UNCLEAN)
        (anomaly,) = found(CHECKER, on).anomalies
        assert (anomaly.offset, anomaly.excuses) == (5, ())


def test_a_later_report_counts_if_an_unclean_election_explains_the_first() -> None:
    on = of(told("n2", 9, 1), in_isr("n2", (1, 2), 2, 3), told("n2", 7, 6), announced(5, 2, 9),
            ELECTED, about=UNCLEAN)  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.evidence["high_watermark"], anomaly.excuses) == (7, ())


@pytest.mark.parametrize(("epoch", "excuses"), [(1, ("unclean-election",)), (2, ())])
def test_a_replica_that_stopped_with_a_record_of_the_elected_had_dropped_the_rest(
    epoch: int, excuses: tuple[str, ...]
) -> None:
    about = replace(stopped(9, 9, 9).facts, plan=UNCLEAN.plan)
    records = [*log("n1", (1, A), (2, B)), *log("n2", (1, A), (epoch, B))]
    on = group(about, replica_states=[state("n1", 2, 2), state("n2", 3, 3)],
               replica_records=records, leadership=[leads(1, 2), ELECTED])  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


@pytest.mark.parametrize(
    ("answered", "written"), [(1, 2), (2, 1)], ids=["only its record shows it", "no record of it"]
)
def test_the_last_epoch_is_that_of_an_answer_or_of_a_record(answered: int, written: int) -> None:
    about = replace(stopped(9, 9, 9).facts, plan=UNCLEAN.plan)
    records = [*log("n1", (1, A), (written, B)), *log("n2", (1, A), (1, B))]
    on = group(about, replica_states=[state("n1", 2, 2), state("n2", 3, 3)],
               replica_records=records, leadership=[leads(1, answered), ELECTED])  # fmt: skip
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == ("unclean-election",)


def test_stories_old_formats_and_brokers_that_announce_nothing_are_left_out() -> None:
    old = {"log.message.format.version": "0.10.2"}
    plans: tuple[tuple[dict[str, object], bool], ...] = (
        ({"system": "kafka:4.3.1"}, True),
        ({"system": "kafka:2.1.1"}, False),
        ({"system": "kafka:2.8.2", "broker": old, "acks": "1"}, False),
    )
    for plan, applies in plans:
        assert CHECKER.applies(facts(plan=plan)) is applies
