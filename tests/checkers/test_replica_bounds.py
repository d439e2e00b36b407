"""Twins for single bounds of what replicas must keep: truncations, divergences, epochs."""

from checkers import committed_truncation, epoch_regression, log_divergence, lost_write
from checkers.disk_losses import lost_on_disks
from checkers.facts import DiskLoss
from checkers.findings import known
from checkers.group import final_isr
from checkers.protocol import Findings
from results.record.milestones import Milestone
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
    isr,
    leads,
    log,
    state,
)  # fmt: skip

STEPS = ("step-01", "step-02", "step-03")
ISRS = {step: frozenset({"n1", "n2", "n3"}) for step in STEPS}
Records = tuple[tuple[int, int], ...]
BOTH, LESS, THREE = ((-1, A), (-1, B)), ((-1, A),), ((-1, A), (-1, B), (-1, C))


def announced(broker: int, epoch: int, mark: int, *, at: int = 9 * S) -> Row:
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


def copies(node: str, *held: Records) -> list[Row]:
    names = (*STEPS[: len(held) - 1], "final")
    return [row for name, records in zip(names, held, strict=True)
            for row in log(node, *records, snapshot=name)]  # fmt: skip


def cut(node: str, start: int, end: int | None = None) -> Row:
    return {"node": node, "from_offset": start, "to_offset": end, "source": "server-log"}


def looked(*times: int) -> list[Row]:
    return [{**state("n9", 0), "snapshot": step, "observed_ns": at}
            for step, at in zip(STEPS, times, strict=False)]  # fmt: skip


def truncated(
    *records: list[Row], cuts: list[Row], told: list[Row], states: list[Row] | None = None
) -> Findings:
    on = group(
        facts(step_isrs=ISRS), leadership=told, truncations=cuts,
        replica_records=[row for each in records for row in each],
        replica_states=looked(10 * S, 20 * S, 30 * S) if states is None else states,
    )  # fmt: skip
    return found(committed_truncation.CHECKER, on)


def nodes(result: Findings) -> list[object]:
    return [each.evidence["node"] for each in result.anomalies]


def test_how_it_went_is_told_of_that_replica_alone() -> None:
    result = truncated(
        copies("n1", BOTH, BOTH, BOTH), copies("n2", BOTH, LESS, LESS),
        cuts=[cut("n1", 1), cut("n2", 1), cut("n3", 1)], told=[announced(1, 0, 2)],
    )  # fmt: skip
    (anomaly,) = result.anomalies
    assert anomaly.evidence["how"] == ["n2 truncated offset 1"]


def test_a_truncation_that_ended_below_took_nothing_above() -> None:
    for cuts in ([cut("n2", 0, 1)], [cut("n2", 0, 0)]):
        result = truncated(
            copies("n1", THREE, THREE, THREE), copies("n2", THREE, LESS, LESS),
            cuts=cuts, told=[announced(1, 0, 3)],
        )  # fmt: skip
        assert result.anomalies == (), cuts


def test_what_a_leader_announced_after_a_copy_is_not_about_that_copy() -> None:
    """n1 had the record at step-01, and not when it was asked between then and step-02."""
    result = truncated(
        copies("n1", BOTH, LESS, LESS, LESS), copies("n2", BOTH, BOTH, LESS, LESS),
        cuts=[cut("n2", 1)], told=[announced(1, 0, 2, at=15 * S)],
    )  # fmt: skip
    assert nodes(result) == ["n1"]


def test_of_a_step_without_a_time_nobody_knows_what_was_announced_before() -> None:
    for at in (0, 1):
        result = truncated(
            copies("n1", BOTH, BOTH, BOTH), copies("n2", BOTH, LESS, LESS),
            cuts=[cut("n2", 1)], told=[announced(1, 0, 2, at=at)], states=[],
        )  # fmt: skip
        assert result.anomalies == (), at


def test_a_copy_of_a_step_is_as_it_is_though_its_broker_said_more() -> None:
    said: list[Row] = [{**state("n2", 2, 2), "snapshot": "step-02"}]
    (anomaly,) = truncated(
        copies("n1", BOTH, BOTH, BOTH), copies("n2", BOTH, LESS, LESS),
        cuts=[cut("n2", 1)], told=[announced(1, 0, 2)],
        states=[*looked(10 * S, 20 * S, 30 * S), *said],
    ).anomalies  # fmt: skip
    assert (anomaly.evidence["after"], anomaly.broken_premises) == ("step-02", ())


def test_the_same_offsets_of_another_replica_are_told_by_themselves() -> None:
    """n3 dropped what it held at step-01; n1 has another record where it had announced one."""
    mine, other = ((3, A), (3, B)), ((3, A), (4, C))
    result = truncated(
        copies("n2", mine, mine, mine), copies("n3", mine, other, other), log("n1", *other),
        cuts=[cut("n3", 1)], told=[announced(2, 3, 2), announced(1, 3, 2, at=40 * S)],
    )  # fmt: skip
    assert sorted(nodes(result)) == ["n1", "n3"]  # type: ignore[type-var]


def test_what_was_announced_before_the_first_record_that_replaced_it_is_told() -> None:
    on = group(
        leadership=[announced(1, 3, 1), announced(1, 5, 3)],
        replica_records=log("n1", (4, A), (6, B), (6, C)), replica_states=[state("n1", 3)],
    )  # fmt: skip
    (anomaly,) = found(committed_truncation.CHECKER, on).anomalies
    assert anomaly.evidence["announced_epoch"] == 3


def test_a_log_found_after_a_crash_may_still_grow() -> None:
    on = group(leadership=[announced(1, 3, 2)], replica_records=log("n1", (3, A), snapshot="crash"))
    assert found(committed_truncation.CHECKER, on).anomalies == ()


def test_nodes_that_are_no_brokers_announced_nothing() -> None:
    told = [announced(broker, 3, 2) for broker in (0, 1, 2)]
    on = group(leadership=told, replica_records=log("zk", (4, A)), replica_states=[state("zk", 1)])
    assert found(committed_truncation.CHECKER, on).rows == 0


def test_the_isr_is_told_by_zookeeper_or_by_brokers_and_by_nobody_else() -> None:
    by_broker, by_zookeeper = isr(1, 2, epoch=9), {**isr(1, 3), "source": "zookeeper"}
    assert final_isr(group(leadership=[by_broker, by_zookeeper])) == {"n1", "n3"}
    assert final_isr(group(leadership=[by_broker])) == {"n1", "n2"}
    assert final_isr(group(leadership=[{**by_broker, "source": "quorum"}])) == frozenset()


def look(name: str, **held: Records) -> dict[str, list[Row]]:
    return {
        "replica_records": [
            row for node, records in held.items() for row in log(node, *records, snapshot=name)
        ],
        "replica_states": [
            {**state(node, len(records), len(records)), "snapshot": name}
            for node, records in held.items()
        ],
    }


def diverged(*looks: dict[str, list[Row]]) -> Findings:
    rows = {name: [row for each in looks for row in each[name]] for name in looks[0]}
    return found(log_divergence.CHECKER, group(facts(step_isrs=ISRS), **rows))


OURS, THEIRS = ((0, A), (0, B)), ((0, A), (1, C))


def test_the_look_that_is_told_is_told_with_its_own_offsets() -> None:
    later = ((1, C), (1, C))
    result = diverged(look("step-01", n1=OURS, n2=THEIRS), look("step-02", n1=OURS, n2=later))
    (anomaly,) = result.anomalies
    assert anomaly.evidence["snapshots"] == ["step-01", "step-02"]
    assert (anomaly.evidence["first_offset"], anomaly.evidence["differing"]) == (1, 1)


def test_divergences_are_told_by_where_their_first_look_begins() -> None:
    all_of_it = ((1, C), (1, C))
    result = diverged(
        look("step-01", n1=OURS, n2=THEIRS), look("step-02", n1=OURS, n2=all_of_it),
        look("step-03", n1=OURS, n3=THEIRS),
    )  # fmt: skip
    assert [each.evidence["nodes"] for each in result.anomalies] == [["n1", "n2"], ["n1", "n3"]]


def test_pairs_that_diverge_one_after_the_other_are_two() -> None:
    for one, other in (("n2", "n3"), ("n3", "n2")):
        result = diverged(
            look("step-01", n1=OURS, **{one: THEIRS}), look("step-02", n1=OURS, **{other: THEIRS})
        )
        assert len(result.anomalies) == 2


def test_a_broker_that_did_not_say_its_mark_is_believed_by_its_file() -> None:
    rows = look("step-01", n1=OURS, n2=THEIRS)
    rows["replica_states"] += [
        {**state("n1", 2, None), "snapshot": "step-01", "high_watermark_source": "fetch"}
    ]
    assert len(diverged(rows).anomalies) == 1


def test_of_a_run_that_died_no_final_log_is_missed() -> None:
    died = facts(milestones=tuple(stone for stone in facts().milestones if stone.name != "stopped"))
    on = group(died, sends=[ack(A, 0)], leadership=[isr(1, 2), leads(1, 0)])
    assert found(log_divergence.CHECKER, on).gaps == ()
    assert found(lost_write.CHECKER, on).gaps == ()


def test_only_the_quorums_log_may_be_left_behind_by_a_node_that_never_came_back() -> None:
    def belief(epoch: int, at: int, source: str) -> Row:
        return {"source": source, "observer": "n1", "leader": 1, "leader_epoch": epoch,
                "incarnation": 1, "asked_ns": at, "observed_ns": at + 1}  # fmt: skip

    died = facts(milestones=(Milestone(name="stopped", at_ns=9, detail={"n1": "clean"}),))
    told: list[Row] = [
        *(belief(epoch, at, source) for source in ("metadata", "zookeeper")
          for epoch, at in ((4, 10), (3, 30))),
        *({**elected(1, epoch, at), "observer": "n1"} for epoch, at in ((4, 7), (3, 8))),
    ]  # fmt: skip
    lines = [{"epoch": 4, "start_offset": 1}]
    on = group(died, leadership=told, replica_records=log("n1", (4, A), (3, B)),
               replica_states=[{**state("n1", 2, 2), "epochs": lines}])  # fmt: skip
    result = found(epoch_regression.CHECKER, on).anomalies
    broken = {(each.evidence["source"], each.broken_premises) for each in result}
    assert broken == {
        ("metadata", ()), ("zookeeper", ()), ("metadata-log", ("recovered",)), ("log", ()),
        ("checkpoint", ()),
    }  # fmt: skip
    assert {each.offset for each in result if each.evidence["source"] == "metadata-log"} == {-1}
    assert {each.evidence["offset"] for each in result if each.offset < 0} == {known(-1)}


def test_a_disk_took_only_what_stood_where_it_was_cut() -> None:
    def lost(offset: int, acked_ns: int, **changes: object) -> bool:
        values: Row = {"nodes": frozenset({"n1", "n2"}), "topic": "log-0", "partition": 0,
                       "end_after": 2, "end_before": 4, "until_ns": 9 * S, "excuse": "wipe",
                       **changes}  # fmt: skip
        about = facts(plan={"replication": 2, "nodes": 2}, disk_losses=(DiskLoss(**values),))
        on = group(about, replica_states=[state("n1", 2), state("n2", 2)])
        return lost_on_disks(on, offset, acked_ns) == ("wipe",)

    assert [lost(offset, S) for offset in (1, 2, 3, 4, 5)] == [False, True, True, False, False]
    assert [lost(2, at) for at in (-1, 0, 9 * S, 9 * S + S // 2)] == [False, True, True, False]
    assert not lost(2, S, topic="a-0")
    assert not lost(2, S, topic="z-0")
    assert not lost(2, S, partition=1)
    assert not lost(2, S, partition=-1)


def test_each_epoch_outside_of_its_lines_is_told_with_its_own_records() -> None:
    lines = [{"epoch": epoch, "start_offset": start} for epoch, start in ((0, 0), (2, 4), (5, 6))]
    clean = facts(milestones=(Milestone(name="stopped", at_ns=9, detail={"n1": "clean"}),))
    on = group(
        clean, replica_records=log("n1", (1, A), (2, B), (2, C), (3, A), (4, B), (5, C)),
        replica_states=[{**state("n1", 6, 6), "epochs": lines}],
    )  # fmt: skip
    told = [
        (each.evidence["epoch"], each.offset, each.evidence["count"], each.evidence["where"])
        for each in found(epoch_regression.CHECKER, on).anomalies
    ]
    assert told == [
        (1, 0, 1, "no offset"), (2, 1, 2, "offsets 4 to 5"), (3, 3, 1, "no offset"),
        (4, 4, 1, "no offset"), (5, 5, 1, "offsets from 6 on"),
    ]  # fmt: skip


def test_an_isr_of_more_than_the_two_that_differ_holds_them_both() -> None:
    """No unclean election excuses what differs in one step as in the step before, in the ISR."""
    about = facts(plan={"broker": {"unclean.leader.election.enable": "true"}}, step_isrs=ISRS)
    seen = [elected(1, 1, 6, unclean=True)]
    for later, excuses in (("step-02", ()), ("step-03", ("unclean-election",))):
        looks = [look("step-01", n1=OURS, n2=THEIRS), look(later, n1=OURS, n2=THEIRS)]
        rows = {name: [row for each in looks for row in each[name]] for name in looks[0]}
        on = group(about, leadership=seen, **rows)
        (anomaly,) = found(log_divergence.CHECKER, on).anomalies
        assert anomaly.excuses == excuses
