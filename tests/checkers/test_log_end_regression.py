"""log-end-regression: what a broker tells of its own replica, look after look."""

from dataclasses import replace

import pytest

from checkers.facts import DiskLoss, Disturbance, RunFacts
from checkers.log_end_regression import CHECKER
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, elected, facts, found, group, leads, sentences

UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}


def told(end: int | None, mark: int | None, *, at_s: int, node: str = "n2") -> Row:
    """One look of a broker at its own replica."""
    return {
        "node": node,
        "observed_ns": at_s * S,
        "log_end_offset": end,
        "high_watermark": mark,
    }


def of(*rows: Row, about: RunFacts | None = None) -> list[str]:
    return sentences(CHECKER, group(about, replica_states=list(rows)))


def test_a_log_that_grows_or_loses_what_was_never_committed_is_right() -> None:
    rows = [told(5, 3, at_s=1), told(3, 3, at_s=2), told(9, 8, at_s=3), told(8, 5, at_s=4)]
    assert of(*rows) == []
    assert found(CHECKER, group(replica_states=rows)).rows == 3


def test_an_end_below_what_its_broker_had_called_committed_is_none() -> None:
    (sentence,) = of(told(5, 4, at_s=1), told(3, 3, at_s=2), told(9, 9, at_s=3))
    assert sentence == (
        "the log of log-0-0 on n2 ended at 3 at 2.000 s, although that broker had reported its"
        " high watermark 4 at 1.000 s"
    )


def test_brokers_are_compared_with_themselves_only() -> None:
    assert of(told(5, 5, at_s=1, node="n1"), told(3, 3, at_s=2, node="n2")) == []


def test_a_mark_of_the_same_look_was_asked_for_later() -> None:
    assert of(told(3, 4, at_s=1), told(4, 4, at_s=2)) == []
    twice = [told(3, 4, at_s=1)] * 2
    assert of(*twice) == []
    assert len(of(*twice, told(3, 3, at_s=2))) == 1
    assert len(of(*twice, {**told(3, 3, at_s=0), "observed_ns": None, "snapshot": "final"})) == 1


def test_copies_of_a_step_are_no_looks_and_the_files_after_the_stop_are_the_last() -> None:
    files = told(3, 3, at_s=0)
    assert of(told(5, 5, at_s=1), {**told(3, 3, at_s=2), "snapshot": "step-01"}) == []
    assert len(of(told(5, 5, at_s=1), {**files, "snapshot": "final"})) == 1
    assert of({**told(9, 9, at_s=1), "snapshot": "final"}, told(5, 5, at_s=2)) == []
    unread = facts(unreadable_nodes=frozenset({"n2"}))
    assert of(told(5, 5, at_s=1), {**files, "snapshot": "final"}, about=unread) == []


def test_each_fall_is_told_once() -> None:
    rows = [told(9, 9, at_s=1), told(4, 4, at_s=2), told(5, 5, at_s=3), told(2, 2, at_s=4)]
    anomalies = found(CHECKER, group(replica_states=rows)).anomalies
    assert [each.evidence["log_end"] for each in anomalies] == [4, 2]
    assert [each.evidence["high_watermark"] for each in anomalies] == [9, 5]


def test_the_highest_mark_counts_whenever_it_was_told_since_the_last_fall() -> None:
    rows = [told(9, 7, at_s=1), told(9, 9, at_s=2), told(9, 8, at_s=3), told(8, 8, at_s=4)]
    (anomaly,) = found(CHECKER, group(replica_states=rows)).anomalies
    assert (anomaly.evidence["high_watermark"], anomaly.evidence["marked_ns"]) == (9, 2 * S)
    empty = [told(1, 1, at_s=1), told(0, 0, at_s=2)]
    assert len(of(*empty)) == 1


def test_a_look_without_a_time_and_a_story_are_left_out() -> None:
    untimed = {**told(9, 9, at_s=0), "observed_ns": None}
    assert of(untimed, told(5, 5, at_s=1)) == []
    assert CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan={"system": "kafka:2.1.1"}))
    old: dict[str, object] = {"log.message.format.version": "0.10.2"}
    assert not CHECKER.applies(facts(plan={"system": "kafka:2.8.2", "broker": old, "acks": "1"}))
    story = {"name": "leader-epoch-1", "topic": "example"}
    assert not CHECKER.applies(facts(plan={"workload": "script", "scenario": story}))


def test_a_disk_must_have_taken_all_that_is_gone() -> None:
    rows = [told(9, 9, at_s=1), told(4, 4, at_s=2)]
    for end_before, excuses in ((9, ("power-loss",)), (8, ())):
        lost = DiskLoss(
            nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=4,
            end_before=end_before, until_ns=9 * S, excuse="power-loss",
        )  # fmt: skip
        (anomaly,) = found(
            CHECKER, group(facts(disk_losses=(lost,)), replica_states=rows)
        ).anomalies
        assert anomaly.excuses == excuses


def test_of_several_that_lost_power_each_lost_what_the_one_that_kept_least_may_have() -> None:
    rows = [told(9, 9, at_s=1), told(4, 4, at_s=2)]
    for least, excuses in ((4, ("power-loss",)), (5, ()), (None, ())):
        lost = DiskLoss(
            nodes=frozenset({"n1", "n2"}), topic="log-0", partition=0, end_after=6, end_before=9,
            least_after=least, until_ns=9 * S, excuse="power-loss",
        )  # fmt: skip
        (anomaly,) = found(
            CHECKER, group(facts(disk_losses=(lost,)), replica_states=rows)
        ).anomalies
        assert anomaly.excuses == excuses


def test_a_replica_that_went_and_was_made_anew_is_another_log() -> None:
    rows = [told(9, 9, at_s=1), told(None, None, at_s=2), told(0, 0, at_s=3)]
    assert of(*rows) == []
    assert len(of(*rows, told(7, 7, at_s=4), told(6, 6, at_s=5))) == 1


def test_an_answer_without_a_log_end_still_shows_the_replica() -> None:
    """A broker that starts may refuse the request for log ends, and answer the next request."""
    assert len(of(told(9, 9, at_s=1), told(None, 8, at_s=2), told(5, 5, at_s=3))) == 1
    assert len(of(told(None, 8, at_s=2), told(5, 5, at_s=3))) == 1
    assert of(told(9, 9, at_s=1), told(None, 8, at_s=2), told(9, 9, at_s=3)) == []


@pytest.mark.parametrize(
    ("begun_s", "ended_s", "kind", "falls"),
    [
        (15, 30, "reassignment", 0),
        (1, 5, "reassignment", 0),
        (21, 30, "reassignment", 1),
        (1, 4, "reassignment", 1),
        (15, 30, "kill", 1),
    ],
)
def test_a_reassignment_may_make_a_replica_anew_unseen(
    begun_s: int, ended_s: int, kind: str, falls: int
) -> None:
    moved = Disturbance(kind=kind, begun_ns=begun_s * S, ended_ns=ended_s * S)
    about = facts(disturbances=(moved,))
    rows = [told(9, 9, at_s=15), told(0, 0, at_s=20)]
    assert len(of(*rows, about=about)) == falls


def test_the_files_after_the_stop_are_later_than_every_reassignment() -> None:
    moved = Disturbance(kind="reassignment", begun_ns=30 * S, ended_ns=40 * S)
    files = {**told(0, 0, at_s=0), "observed_ns": None, "snapshot": "final"}
    assert of(told(9, 9, at_s=15), files, about=facts(disturbances=(moved,))) == []
    assert len(of(told(9, 9, at_s=15), files)) == 1


def test_lost_power_and_unclean_elections_explain_it() -> None:
    rows = [told(9, 9, at_s=1), told(4, 4, at_s=2)]
    lost = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=4, end_before=9,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    for about, leadership, excuses in (
        (facts(disk_losses=(lost,)), [], ("power-loss",)),
        (facts(plan=UNCLEAN), [elected(1, 3, 7, unclean=True)], ("unclean-election",)),
        (facts(), [], ()),
    ):
        (anomaly,) = found(
            CHECKER, group(about, replica_states=rows, leadership=leadership)
        ).anomalies
        assert anomaly.excuses == excuses


@pytest.mark.parametrize(
    ("nodes", "began_s", "seen_s", "excuses"),
    [
        ({"n2"}, 2, 2, ("power-loss",)),
        ({"n2"}, 3, 2, ()),
        ({"n2"}, 3, None, ("power-loss",)),  # The files after the stop are later.
        ({"n1"}, 2, 2, ("last-copies",)),
        ({"n1"}, 3, 2, ()),
    ],
)
def test_a_disk_loss_that_began_after_the_lower_end_explains_nothing(
    nodes: set[str], began_s: int, seen_s: int | None, excuses: tuple[str, ...]
) -> None:
    lost = DiskLoss(
        nodes=frozenset(nodes), topic="log-0", partition=0, end_after=4, end_before=9,
        began_ns=began_s * S, until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    lower = told(4, 4, at_s=seen_s or 0)
    if seen_s is None:
        lower |= {"observed_ns": None, "snapshot": "final"}
    alone = {**leads(1, 0, at=S, source="metadata"), "isr": [1]}
    on = group(
        facts(disk_losses=(lost,)), replica_states=[told(9, 9, at_s=1), lower], leadership=[alone]
    )
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


def believes(epoch: int, *isr: int, at_s: int, node: str = "n2", life: int | None = None) -> Row:
    """One answer of a broker about the leader and the ISR."""
    row = {**leads(1, epoch, at=at_s * S, source="metadata"), "isr": list(isr)}
    return {**row, "observer": node, "incarnation": life}


ELECTED = elected(1, 2, 7, unclean=True)
KIND = ("unclean-election",)


@pytest.mark.parametrize(
    ("seen", "excuses"),
    [
        ([believes(2, 1, 2, at_s=3)], ()),  # It had followed the elected, or a later leader.
        ([believes(1, 1, 2, at_s=3)], KIND),
        ([believes(2, 1, 3, at_s=3)], KIND),
        ([believes(2, 2, at_s=3)], KIND),
        ([believes(2, 1, 2, at_s=3, node="n3")], KIND),
        ([believes(2, 1, 2, at_s=3, life=1)], KIND),
        ([believes(2, 1, 2, at_s=4)], KIND),
        ([believes(1, 1, 2, at_s=8)], ()),  # It had not heard of the election.
        ([believes(2, 1, 2, at_s=8)], KIND),
        ([believes(1, 1, 2, at_s=8, life=1)], KIND),
        ([believes(1, 1, 2, at_s=3), believes(2, 1, 2, at_s=2), believes(1, 1, 2, at_s=1)], ()),
    ],
)
def test_an_unclean_election_explains_a_fall_only_if_it_came_in_between(
    seen: list[Row], excuses: tuple[str, ...]
) -> None:
    rows = [told(9, 9, at_s=5), told(4, 4, at_s=7)]
    on = group(facts(plan=UNCLEAN), replica_states=rows, leadership=[ELECTED, *seen])
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


def test_a_mark_that_was_told_again_after_the_election_was_true_after_it() -> None:
    rows = [told(9, 9, at_s=1), told(10, 9, at_s=6), told(4, 4, at_s=8)]
    seen = [ELECTED, believes(2, 1, 2, at_s=3)]
    on = group(facts(plan=UNCLEAN), replica_states=rows, leadership=seen)
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.evidence["marked_ns"], anomaly.excuses) == (1 * S, ())


@pytest.mark.parametrize("system", ["attached:mine.toml", "kafka:3.9.1:zookeeper", "kafka:4.3.1"])
@pytest.mark.parametrize("epoch", [None, -1, 0])
def test_epochs_that_are_unknown_or_never_rise_bound_no_election(
    system: str, epoch: int | None
) -> None:
    rows = [told(9, 9, at_s=5), told(4, 4, at_s=7)]
    seen = {**believes(0, 1, 2, at_s=8), "leader_epoch": epoch}
    kraft = system.startswith("kafka:4")
    on = group(
        replace(facts(plan={"system": system, **UNCLEAN}), milestones=()),
        replica_states=rows,
        leadership=[ELECTED] * kraft + [seen] * (not kraft or epoch == 0),
    )
    (anomaly,) = found(CHECKER, on).anomalies
    certainly_before = kraft and epoch == 0
    assert anomaly.excuses == (() if certainly_before else KIND)


def test_the_files_after_the_stop_may_be_of_the_last_epoch() -> None:
    files = {**told(4, 4, at_s=0), "observed_ns": None, "snapshot": "final"}
    seen = believes(1, 1, 2, at_s=8)
    on = group(
        facts(plan=UNCLEAN), replica_states=[told(9, 9, at_s=5), files], leadership=[ELECTED, seen]
    )
    assert found(CHECKER, on).anomalies[0].excuses == KIND


def test_an_old_mark_that_an_election_cost_hides_no_later_one() -> None:
    """The log was cut and grew again between two looks, so that its end fell only later."""
    rows = [told(9, 9, at_s=1), told(11, 7, at_s=6), told(11, 7, at_s=7), told(5, 5, at_s=8)]
    seen = [ELECTED, believes(2, 1, 2, at_s=3)]
    (anomaly,) = found(
        CHECKER, group(facts(plan=UNCLEAN), replica_states=rows, leadership=seen)
    ).anomalies
    assert anomaly.excuses == ()
    assert (anomaly.evidence["high_watermark"], anomaly.evidence["marked_ns"]) == (7, 6 * S)
