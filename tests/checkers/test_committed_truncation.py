"""Records that were committed, and that a replica dropped: by copies, and by its own word."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checkers import committed_truncation
from checkers.facts import DiskLoss, Disturbance, RunFacts
from checkers.group import Group
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    RETENTION,
    A,
    B,
    C,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    state,
)  # fmt: skip

CHECKER = committed_truncation.CHECKER
UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
STEPS = ("step-01", "step-02", "step-03")


def announced(broker: int, epoch: int, mark: int, *, at: int = S) -> Row:
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


def told(
    *,
    plan: Mapping[str, object] | None = None,
    disk_losses: tuple[DiskLoss, ...] = (),
    unreadable_nodes: frozenset[str] = frozenset(),
) -> RunFacts:
    isrs = {step: frozenset({"n1", "n2"}) for step in STEPS}
    return facts(
        plan=plan, step_isrs=isrs, disk_losses=disk_losses, unreadable_nodes=unreadable_nodes
    )


def looked(step: str, at: int) -> Row:
    """The brokers had been asked at that time, before the files were copied."""
    return {**state("n3", 0), "snapshot": step, "observed_ns": at}


def copies(node: str, *held: tuple[tuple[int, int], ...]) -> list[Row]:
    """What a node's copies hold at the end of each step, and then at the end."""
    names = (*STEPS[: len(held) - 1], "final")
    return [row for name, records in zip(names, held, strict=True)
            for row in log(node, *records, snapshot=name)]  # fmt: skip


def stated(node: str, *ends: int) -> list[Row]:
    names = (*STEPS[: len(ends) - 1], "final")
    return [
        {**state(node, end, end), "snapshot": name} for name, end in zip(names, ends, strict=True)
    ]


def cut(node: str, start: int, end: int | None = None) -> Row:
    why = "follower of broker 1: local high watermark 1"
    return {"node": node, "from_offset": start, "to_offset": end, "incarnation": 0,
            "reason": why, "source": "server-log"}  # fmt: skip


LOOKS = [looked("step-01", 10 * S), looked("step-02", 20 * S), looked("step-03", 30 * S)]
BOTH = ((-1, A), (-1, B))
LESS = ((-1, A),)


def story(
    about: RunFacts | None = None,
    *,
    truncations: tuple[Row, ...] = (cut("n2", 1),),
    leadership: tuple[Row, ...] = (announced(1, 0, 2, at=9 * S),),
    records: list[Row] | None = None,
    states: list[Row] | None = None,
) -> Group:
    """B (n2) truncates message2, which A (n1) has announced, between step-01 and step-02."""
    held = [*copies("n1", BOTH, BOTH, BOTH, BOTH), *copies("n2", BOTH, LESS, LESS, LESS)]
    return group(
        about or told(),
        leadership=list(leadership),
        truncations=list(truncations),
        replica_records=held if records is None else records,
        replica_states=[*LOOKS, *(states or ())],
    )


def test_a_follower_that_drops_what_its_leader_had_announced() -> None:
    result = found(CHECKER, story())
    (anomaly,) = result.anomalies
    assert result.rows == (2 * 3 + 2 + 1 + 1) + 4 * 2  # Copies with a later one; n1's own word.
    assert anomaly.evidence == {
        "node": "n2",
        "first_offset": 1,
        "last_offset": 1,
        "dropped": 1,
        "before": "step-01",
        "after": "step-02",
        "announced_by": 1,
        "announced_epoch": 0,
        "announced_high_watermark": 2,
        "announced_asked_ns": 9 * S - 1,
        "announced_observed_ns": 9 * S,
        "how": ["n2 truncated offset 1 (follower of n1: local high watermark 1)"],
    }
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())
    assert anomaly.sentence == (
        f"n2 dropped offset 1 of log-0-0, which was committed: n2: value {B} without an epoch at"
        " the end of step-01, and broker 1 was the leader and had it; broker 1 announced the high"
        " watermark 2 of epoch 0 at 9.000 s; now n2: no record (log from 0 to 1) at the end of"
        " step-02; n2 truncated offset 1 (follower of n1: local high watermark 1)"
    )


def test_what_nobody_announced_may_be_truncated() -> None:
    for leadership in (
        (),
        (announced(1, 0, 1, at=9 * S),),  # Only what lies below it.
        (announced(1, 0, 2, at=10 * S + 1),),  # Younger than the copy that has the record.
        (announced(3, 0, 2, at=9 * S),),  # Of broker 3 there is no copy.
        ({**announced(1, 0, 2), "observed_ns": None},),
    ):
        assert found(CHECKER, story(leadership=leadership)).anomalies == (), leadership
    latest = story(leadership=(announced(1, 0, 2, at=10 * S),))
    assert len(found(CHECKER, latest).anomalies) == 1


def test_only_a_recorded_truncation_of_that_replica_is_one() -> None:
    none: tuple[tuple[Row, ...], ...] = ((), (cut("n1", 1),), (cut("n2", 2),), (cut("n2", 0, 1),))
    for cuts in none:
        assert found(CHECKER, story(truncations=cuts)).anomalies == (), cuts
    some: tuple[tuple[Row, ...], ...] = (
        (cut("n2", 0),), (cut("n2", 1, 2),), (cut("n2", 9), cut("n2", 1)),
    )  # fmt: skip
    for cuts in some:
        assert len(found(CHECKER, story(truncations=cuts)).anomalies) == 1, cuts


def test_what_the_leader_did_not_hold_was_not_committed() -> None:
    for held in (((-1, A), (-1, C)), ((-1, A), (4, B)), LESS):
        records = [*copies("n1", held, BOTH, BOTH, BOTH), *copies("n2", BOTH, LESS, LESS, LESS)]
        on = story(records=records, leadership=(announced(1, 9, 2, at=9 * S),))
        assert found(CHECKER, on).anomalies == (), held
    marked = [
        {**row, "control": row["snapshot"] == "step-01" and row["offset"] == 1}
        for row in copies("n1", BOTH, BOTH, BOTH, BOTH)
    ]
    on = story(records=[*marked, *copies("n2", BOTH, LESS, LESS, LESS)])
    assert found(CHECKER, on).anomalies == ()


def test_what_the_leader_held_is_what_its_first_copy_afterwards_has() -> None:
    """Its copy at step-02 is not the first one after the answer."""
    records = [*copies("n1", LESS, BOTH, BOTH, BOTH), *copies("n2", BOTH, BOTH, LESS, LESS)]
    early = story(records=records, leadership=(announced(1, 0, 2, at=10 * S),))
    assert found(CHECKER, early).anomalies == ()
    between = story(records=records, leadership=(announced(1, 0, 2, at=10 * S + 1),))
    assert found(CHECKER, between).anomalies[0].evidence["before"] == "step-02"


def test_a_record_that_another_one_replaced_was_dropped_too() -> None:
    for other in ((-1, C), (5, B)):
        held = ((-1, A), other)
        records = [*copies("n1", BOTH, BOTH, BOTH, BOTH), *copies("n2", BOTH, held, held, held)]
        (anomaly,) = found(CHECKER, story(records=records)).anomalies
        assert (anomaly.evidence["first_offset"], anomaly.evidence["dropped"]) == (1, 1)


def test_the_same_record_at_another_offset_is_another_one() -> None:
    for after in (
        [{**row, "offset": 1} for row in log("n2", (-1, A), snapshot="step-02")],
        log("n2", (-1, B), snapshot="step-02"),
        log("n2", (-1, B), (-1, A), snapshot="step-02"),
    ):
        records = [
            *copies("n1", BOTH, BOTH, BOTH, BOTH),
            *log("n2", *BOTH, snapshot="step-01"),
            *after,
        ]
        states = [{**state("n2", 2, 2), "snapshot": "step-02"}]
        on = story(records=records, states=states, truncations=(cut("n2", 0),))
        (anomaly,) = found(CHECKER, on).anomalies
        assert (anomaly.evidence["first_offset"], anomaly.evidence["dropped"]) == (0, 2)


def test_a_log_that_only_lost_its_beginning_dropped_nothing() -> None:
    kept = [row for row in copies("n2", BOTH, BOTH, BOTH, BOTH)
            if row["snapshot"] == "step-01" or row["offset"] > 0]  # fmt: skip
    states = [{**state("n2", 2, 2, start=1), "snapshot": name} for name in (*STEPS[1:], "final")]
    at_start = [{**row, "log_start_offset": 0} for row in states]
    records = [*copies("n1", BOTH, BOTH, BOTH, BOTH), *kept]
    for plan, told_states, dropped in (
        (RETENTION, states, 0),
        (RETENTION, at_start, 1),
        ({}, states, 1),  # Nobody had asked for it.
    ):
        on = story(
            told(plan=plan), records=records, states=told_states, truncations=(cut("n2", 0),)
        )
        assert len(found(CHECKER, on).anomalies) == dropped


def test_compaction_may_take_records_but_not_replace_them() -> None:
    compacted = told(plan={"broker": {"log.cleanup.policy": "compact"}})
    assert found(CHECKER, story(compacted)).anomalies == ()
    held = ((-1, A), (-1, C))
    records = [*copies("n1", BOTH, BOTH, BOTH, BOTH), *copies("n2", BOTH, held, held, held)]
    assert len(found(CHECKER, story(compacted, records=records)).anomalies) == 1


def test_a_copy_that_cannot_be_read_tells_nothing() -> None:
    """The step after it tells the same."""
    broken = told(unreadable_nodes=frozenset({"step-02/n2"}))
    (anomaly,) = found(CHECKER, story(broken)).anomalies
    assert (anomaly.evidence["before"], anomaly.evidence["after"]) == ("step-01", "step-03")
    last = [*copies("n1", BOTH, BOTH, BOTH, BOTH), *copies("n2", BOTH, BOTH, BOTH, LESS)]
    assert found(CHECKER, story(records=last)).anomalies[0].evidence["after"] == "final"
    unread = told(unreadable_nodes=frozenset({"n2"}))
    assert found(CHECKER, story(unread, records=last)).anomalies == ()
    torn = story(records=last, states=stated("n2", 2, 2, 2, 2))  # The final log's end is missing.
    assert found(CHECKER, torn).anomalies == ()


def test_several_records_are_one_anomaly_with_a_witness_of_the_first() -> None:
    three, one = ((-1, A), (-1, B), (-1, C)), ((-1, A),)
    records = [*copies("n1", three, three, three), *copies("n2", three, one, one),
               *copies("n3", three, three, three)]  # fmt: skip
    told_twice = (announced(1, 0, 2, at=8 * S), announced(3, 1, 3, at=9 * S))
    on = story(records=records, leadership=told_twice)
    (anomaly,) = found(CHECKER, on).anomalies
    names = ("first_offset", "last_offset", "dropped", "announced_by")
    assert [anomaly.evidence[name] for name in names] == [1, 2, 2, 3]
    assert "n2 dropped 2 offsets from 1 to 2 of log-0-0" in anomaly.sentence
    other = [row for row in records if row["node"] != "n3" or row["offset"] != 1]
    (anomaly,) = found(CHECKER, story(records=other, leadership=told_twice)).anomalies
    assert [anomaly.evidence[name] for name in names] == [1, 2, 2, 1]


def test_an_unclean_election_of_before_the_announcement_excuses_nothing() -> None:
    """Who announced it had been elected by it, or after it: nobody without it was elected later."""

    def excuses(epoch: int, *, plan: Mapping[str, object] = UNCLEAN) -> tuple[str, ...]:
        seen = (announced(1, 4, 2, at=9 * S), elected(1, epoch, 7, unclean=True))
        (anomaly,) = found(CHECKER, story(told(plan=plan), leadership=seen)).anomalies
        assert anomaly.evidence["announced_epoch"] == 4
        return anomaly.excuses

    assert excuses(5) == ("unclean-election",)
    assert excuses(4) == ()
    assert excuses(3) == ()
    # ZooKeeper names no elections: any later epoch may have begun by one.
    assert excuses(3, plan={**UNCLEAN, "system": "kafka:2.8.2:zookeeper"}) == ("unclean-election",)


def test_a_later_unclean_election_excuses_what_its_own_replica_may_have_lacked() -> None:
    def excuses(*epochs: int) -> tuple[str, ...]:
        elections = [elected(1, epoch, 7 + at, unclean=True) for at, epoch in enumerate(epochs)]
        seen = (announced(1, 4, 2, at=9 * S), *elections)
        (anomaly,) = found(CHECKER, story(told(plan=UNCLEAN), leadership=seen)).anomalies
        return anomaly.excuses

    assert excuses(3, 5) == excuses(5, 3) == ("unclean-election",)
    assert excuses(2, 3) == ()


def test_what_was_announced_again_after_an_unclean_election_is_not_excused() -> None:
    for epoch, excuses in ((4, ()), (2, ("unclean-election",))):
        twice = (announced(1, 0, 2, at=8 * S), announced(1, epoch, 2, at=9 * S))
        seen = (*twice, elected(1, 3, 7, unclean=True))
        (anomaly,) = found(CHECKER, story(told(plan=UNCLEAN), leadership=seen)).anomalies
        assert anomaly.excuses == excuses
        assert anomaly.evidence["announced_epoch"] == (epoch if epoch > 3 else 0)


def test_unclean_elections_and_power_losses_of_the_replica_excuse_it() -> None:
    unclean = told(plan=UNCLEAN)
    seen = (announced(1, 0, 2, at=9 * S), elected(2, 5, 7, unclean=True))
    assert found(CHECKER, story(unclean, leadership=seen)).anomalies[0].excuses == (
        "unclean-election",
    )
    lost = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=1, end_before=2,
        until_ns=15 * S, excuse="power-loss",
    )  # fmt: skip
    (anomaly,) = found(CHECKER, story(told(disk_losses=(lost,)), truncations=())).anomalies
    assert anomaly.excuses == ("power-loss",)
    assert anomaly.evidence["how"] == ["n2 had lost power"]
    for name, value in (("nodes", frozenset({"n1"})), ("topic", "log-1"), ("partition", 1),
                        ("end_after", 2), ("end_before", 1)):  # fmt: skip
        fields = {field: getattr(lost, field) for field in DiskLoss.__dataclass_fields__}
        other = told(disk_losses=(DiskLoss(**{**fields, name: value}),))
        assert found(CHECKER, story(other, truncations=())).anomalies == (), name
        assert found(CHECKER, story(other)).anomalies[0].excuses == (), name


def owned(
    *records: tuple[int, int], end: int | None = None, about: RunFacts | None = None
) -> Group:
    """n1 announced 2 in epoch 3, and this is its log at the end."""
    return group(
        about or facts(),
        leadership=[announced(1, 3, 1), announced(1, 3, 2, at=2 * S), announced(2, 4, 9)],
        replica_records=log("n1", *records),
        replica_states=[state("n1", len(records) if end is None else end)],
    )


def test_a_leader_keeps_what_it_announced() -> None:
    for records in (((3, A), (3, B)), ((0, A), (2, B)), ((3, A), (3, B), (4, C)), ((-1, A),) * 2):
        result = found(CHECKER, owned(*records))
        assert (result.rows, result.anomalies) == (2, ()), records


def test_a_leader_that_has_records_of_later_epochs_there_dropped_what_it_announced() -> None:
    (anomaly,) = found(CHECKER, owned((3, A), (4, C), (5, A))).anomalies
    assert anomaly.evidence == {
        "node": "n1",
        "first_offset": 1,
        "last_offset": 1,
        "dropped": 1,
        "before": None,
        "after": "final",
        "announced_by": 1,
        "announced_epoch": 3,
        "announced_high_watermark": 2,
        "announced_asked_ns": 2 * S - 1,
        "announced_observed_ns": 2 * S,
        "how": [],
    }
    assert anomaly.sentence == (
        "n1 dropped offset 1 of log-0-0, which was committed: as the leader, n1 had it; broker 1"
        f" announced the high watermark 2 of epoch 3 at 2.000 s; now n1: value {C} of epoch 4"
    )
    (all_of_it,) = found(CHECKER, owned((4, A), (4, B), (5, C))).anomalies
    names = ("first_offset", "last_offset", "dropped")
    assert [all_of_it.evidence[name] for name in names] == [0, 1, 2]
    (two_epochs,) = found(CHECKER, owned((4, A), (5, B), (5, C))).anomalies
    assert [two_epochs.evidence[name] for name in names] == [0, 1, 2]


def test_disks_took_only_what_the_leader_did_not_announce_afterwards() -> None:
    def excuses(*spans: tuple[int, int, str], until_ns: int) -> tuple[str, ...]:
        """Offsets 0 to 1 were announced at 2 s, and are replaced."""
        lost = tuple(
            DiskLoss(
                nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=after,
                end_before=before, until_ns=until_ns, excuse=excuse,
            )
            for after, before, excuse in spans
        )  # fmt: skip
        about = facts(disk_losses=lost)
        (anomaly,) = found(CHECKER, owned((4, A), (4, B), (5, C), about=about)).anomalies
        return anomaly.excuses

    assert excuses((0, 2, "wipe"), until_ns=3 * S) == ("wipe",)
    assert excuses((0, 2, "wipe"), until_ns=2 * S - 1) == ("wipe",)  # It was asked just then.
    assert excuses((0, 2, "wipe"), until_ns=2 * S - 2) == ()  # It had them again.
    # One lost its end, the other all that was left.
    both = ((1, 2, "power-loss"), (0, 1, "wipe"))
    assert excuses(*both, until_ns=3 * S) == ("power-loss", "wipe")
    for one in both:
        assert excuses(one, until_ns=3 * S) == ()


def test_a_leader_whose_log_ends_below_what_it_announced_dropped_the_rest() -> None:
    (anomaly,) = found(CHECKER, owned((3, A))).anomalies
    names = ("first_offset", "last_offset", "dropped")
    assert [anomaly.evidence[name] for name in names] == [1, 1, 1]
    assert (anomaly.broken_premises, anomaly.excuses) == ((), ())
    assert "now n1: no record (log from 0 to 1)" in anomaly.sentence
    short = found(CHECKER, owned((3, A), end=2)).anomalies[0]
    assert short.broken_premises == ("readable-final-logs",)
    unread = facts(unreadable_nodes=frozenset({"n1"}))
    (anomaly,) = found(CHECKER, owned((3, A), about=unread)).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)
    (replaced,) = found(CHECKER, owned((3, A), (4, B), about=unread)).anomalies
    assert replaced.broken_premises == ()  # It is there to be seen.


@pytest.mark.parametrize(
    ("kind", "ended_s", "about", "broken"),
    [("reassignment", 30, facts(milestones=()), ("recovered",)), ("reassignment", 30, facts(), ()),
     ("kill", 30, facts(milestones=()), ())],
)  # fmt: skip
def test_a_leader_that_was_moved_away_and_back_may_not_have_caught_up(
    kind: str, ended_s: int, about: RunFacts, broken: tuple[str, ...]
) -> None:
    """Its first replica is deleted; the second one begins empty."""
    moved = Disturbance(kind=kind, begun_ns=10 * S, ended_ns=ended_s * S)
    on = owned((3, A), about=replace(about, disturbances=(moved,)))
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.broken_premises == broken


def test_a_log_that_begins_above_what_was_announced_lacks_nothing() -> None:
    on = group(
        leadership=[announced(1, 3, 2)],
        replica_states=[state("n1", 5, 5, start=5)],
    )
    assert found(CHECKER, on).anomalies == ()


def test_at_a_step_a_leaders_log_may_still_grow() -> None:
    rows: dict[str, list[Row]] = {
        "leadership": [announced(1, 3, 2, at=99 * S)],
        "replica_states": LOOKS,
    }
    early = group(told(), **rows, replica_records=copies("n1", ((3, A),), ((3, A), (3, B))))
    assert found(CHECKER, early).anomalies == ()
    later = ((3, A), (4, C))
    replaced = group(told(), **rows, replica_records=copies("n1", later, later))
    (anomaly,) = found(CHECKER, replaced).anomalies
    assert anomaly.evidence["after"] == "step-01"
    assert anomaly.sentence.endswith(f"now n1: value {C} of epoch 4 at the end of step-01")


def test_what_copies_show_is_not_told_again_by_the_leaders_own_word() -> None:
    held, after = ((3, A), (3, B)), ((3, A), (4, C))
    records = [*copies("n1", held, after, after), *copies("n2", held, held, held)]
    cuts = (cut("n1", 1),)
    on = story(records=records, truncations=cuts, leadership=(announced(1, 3, 2, at=9 * S),))
    (anomaly,) = found(CHECKER, on).anomalies
    assert (anomaly.evidence["before"], anomaly.evidence["node"]) == ("step-01", "n1")
    other = [*records, *copies("n3", held, after, after)]
    both = story(
        records=other, truncations=cuts,
        leadership=(announced(1, 3, 2, at=9 * S), announced(3, 3, 2, at=40 * S)),
    )  # fmt: skip
    assert [each.evidence["node"] for each in found(CHECKER, both).anomalies] == ["n1", "n3"]


def test_only_brokers_hold_replicas() -> None:
    on = group(
        leadership=[announced(1, 3, 2)],
        replica_records=log("zk", (4, A), (4, B)),
        replica_states=[state("zk", 2)],
    )
    assert (found(CHECKER, on).rows, found(CHECKER, on).anomalies) == (0, ())
