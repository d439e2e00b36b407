"""forbidden-election: made groups with it and, a hair beside them, without."""

import pytest

from checkers.facts import Disturbance, UncleanOrder
from checkers.forbidden_election import CHECKER
from checkers.protocol import Proved
from checkers.quorum import QuorumFacts
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    facts,
    found,
    group,
    leads,
    reason,
    reasons,
    sentences,
)
from tests.checkers.reasons import NODES


def row(leader: int, epoch: int, at: int, isr: tuple[int, ...], *, unclean: bool = False) -> Row:
    told = leads(leader, epoch, source="metadata-log")
    return {**told, "observer": "n1", "observed_ns": None, "log_offset": at, "isr": [*isr],
            "unclean": unclean}  # fmt: skip


CREATED = row(1, 0, 5, (1, 2, 3))
ALONE = row(1, 0, 6, (1,))
UNCLEAN = row(2, 1, 7, (2,), unclean=True)


def test_an_unclean_election_that_nobody_allowed_is_told() -> None:
    result = found(CHECKER, group(leadership=[UNCLEAN, ALONE, CREATED]))
    assert result.rows == 2
    (anomaly,) = result.anomalies
    assert anomaly.sentence == (
        "broker 2 was elected leader of log-0-0 in epoch 1, by an unclean election, which was not"
        " allowed; the ISR was [1] (metadata log, offset 7)"
    )
    assert anomaly.evidence == {
        "source": "metadata-log", "leader": 2, "epoch": 1, "isr": [2], "isr_before": [1],
        "log_offset": 7,
    }  # fmt: skip
    assert (anomaly.excuses, anomaly.broken_premises) == ((), ())


def test_rows_are_elections_whoever_has_them_and_however_the_isr_changes() -> None:
    rows = [CREATED, ALONE, row(2, 1, 7, (2,)), row(2, 1, 8, (1, 2)), row(-1, 2, 9, (2,)),
            row(2, 3, 10, (2,))]  # fmt: skip
    of_three = [{**each, "observer": node} for node in ("n1", "n2", "n3") for each in rows]
    assert found(CHECKER, group(leadership=of_three)).rows == 3
    stray = [{**row(3, 4, 11, (1, 2)), "observer": node} for node in ("n1", "n2", "n3")]
    assert len(sentences(CHECKER, group(leadership=[*of_three, *stray]))) == 1


def test_one_that_the_plan_allows_or_a_fault_ordered_is_not() -> None:
    rows = [CREATED, ALONE, UNCLEAN]
    allowed = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    order = UncleanOrder(topic="log-0", partition=0)
    assert sentences(CHECKER, group(allowed, leadership=rows)) == []
    assert sentences(CHECKER, group(facts(unclean_orders=(order,)), leadership=rows)) == []
    seen = {"after_epoch": 0, "leader": "n2", "seen_ns": 1}
    for about, count in (
        (UncleanOrder(topic="log-0", partition=0, epoch=1, **seen), 0),  # type: ignore[arg-type]  # Of a dict.
        (UncleanOrder(topic="log-0", partition=0, **{**seen, "after_epoch": 1}, epoch=2), 1),  # type: ignore[arg-type]  # As above.
        (UncleanOrder(topic="log-0", partition=1), 1),
        (UncleanOrder(topic="log-1", partition=0), 1),
    ):
        on = group(facts(unclean_orders=(about,)), leadership=rows)
        assert len(sentences(CHECKER, on)) == count


def test_a_reassignment_may_end_with_a_new_replica_alone_in_the_isr() -> None:
    for kind, count in (("reassignment", 0), ("kill", 1)):
        moved = Disturbance(kind=kind, begun_ns=1, ended_ns=2)
        on = group(facts(disturbances=(moved,)), leadership=[CREATED, ALONE, UNCLEAN])
        assert len(sentences(CHECKER, on)) == count


@pytest.mark.parametrize(
    "rows",
    [
        [CREATED, row(2, 1, 7, (1, 2, 3))],  # From the ISR.
        [CREATED, row(2, 1, 7, (2,))],  # From the ISR, or the ELR.
        # The last known leader comes back alone (KIP-966).
        [CREATED, row(-1, 1, 6, ()), row(1, 2, 7, (1,), unclean=True)],
        # A reassignment ended: the new replicas joined and took over at once.
        [row(1, 0, 5, (1,)), row(4, 1, 7, (4, 5, 6), unclean=True)],
        [row(1, 0, 5, (1, 2)), row(-1, 1, 6, (1,))],  # Nobody leads.
        [CREATED, {**UNCLEAN, "log_offset": 100}],  # Above the quorum's high watermark.
        [CREATED, {**UNCLEAN, "log_offset": None}],
        [{**leads(2, 1, source="metadata"), "isr": [1]}],  # Belief.
    ],
)
def test_what_is_no_forbidden_election(rows: list[Row]) -> None:
    assert sentences(CHECKER, group(leadership=rows)) == []


def test_the_last_leader_returns_only_if_no_replica_is_in_sync() -> None:
    nobody = row(-1, 1, 6, (2,))
    (anomaly,) = found(
        CHECKER, group(leadership=[CREATED, nobody, row(1, 2, 7, (1,), unclean=True)])
    ).anomalies
    assert anomaly.evidence["isr_before"] == [2]


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_a_leader_that_is_not_in_its_own_isr_is_never_right(allowed: str) -> None:
    about = facts(plan={"broker": {"unclean.leader.election.enable": allowed}})
    said = "broker 2 was elected leader of log-0-0 in epoch 1, which is not in its ISR, [1, 3]"
    rows = [CREATED, row(2, 1, 7, (1, 3))]
    assert sentences(CHECKER, group(about, leadership=rows)) == [f"{said} (metadata log, offset 7)"]
    znode = {**leads(2, 1, source="zookeeper"), "isr": [1, 3]}
    on = group(facts(plan={"system": "kafka:2.8.2", "broker": {}}), leadership=[znode])
    assert sentences(CHECKER, on) == [f"{said} (ZooKeeper)"]


def test_without_a_recovery_the_metadata_log_is_not_trusted() -> None:
    (anomaly,) = found(CHECKER, group(facts(milestones=()), leadership=[ALONE, UNCLEAN])).anomalies
    assert anomaly.broken_premises == ("recovered",)
    znode = {**leads(2, 1, source="zookeeper"), "isr": [1]}
    (anomaly,) = found(CHECKER, group(facts(milestones=()), leadership=[znode])).anomalies
    assert anomaly.broken_premises == ()


def test_the_rows_count_in_the_order_of_the_log() -> None:
    """Who led last, and which ISR was there before, is what stands below."""
    rows = [row(1, 2, 7, (1,), unclean=True), row(-1, 1, 6, ()), CREATED]
    assert sentences(CHECKER, group(leadership=rows)) == []
    assert CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan={"nodes": 1, "replication": 1, "min_insync": 1}))
    assert CHECKER.applies(facts(plan={"replication": 2}))


def test_rows_of_the_log_count_from_its_first_below_the_quorums_high_watermark() -> None:
    bare = {**leads(2, 1, source="metadata-log"), "isr": None, "log_offset": 3}
    for at, rows in ((0, 1), (99, 1), (100, 0), (101, 0)):
        on = group(leadership=[row(2, 1, at, (1, 3)), bare])
        assert found(CHECKER, on).rows == rows, at
        assert len(sentences(CHECKER, on)) == rows
    unknown = facts(quorum_high_watermark=None)
    assert found(CHECKER, group(unknown, leadership=[ALONE])).rows == 0


def copies(*rows: Row, nodes: tuple[str, ...] = NODES) -> list[Row]:
    return [{**each, "observer": node} for node in nodes for each in rows]


@pytest.mark.parametrize("wrong", NODES)
@pytest.mark.parametrize(
    "odd",
    [
        row(1, 0, 6, (2, 3)),  # Its leader is out of the ISR.
        row(2, 1, 6, (2,), unclean=True),
        row(3, 1, 8, (1, 2)),  # Behind the last record of the others, which had it fetched.
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_one_wrong_copy_of_the_log_is_not_the_controllers_doing(
    wrong: str, odd: Row, backwards: bool,  # noqa: FBT001 - a parameter of the test
) -> None:  # fmt: skip
    """metadata-divergence says that copies differ; which one is wrong is not known."""
    marks = QuorumFacts(marks=dict.fromkeys(NODES, 50))
    about = facts(quorum=marks, collected_nodes=frozenset(NODES))
    right = row(1, 0, 6, (1, 2, 3))
    others = copies(CREATED, right, nodes=tuple(each for each in NODES if each != wrong))
    mine = [CREATED, odd] if odd["log_offset"] == 6 else [CREATED, right, odd]
    rows = [*others, *copies(*mine, nodes=(wrong,))]
    assert sentences(CHECKER, group(about, leadership=rows[::-1] if backwards else rows)) == []


def test_what_stands_behind_a_record_in_dispute_is_judged_by_itself() -> None:
    """Who led last, and which ISR was there before, the record in dispute may have."""
    one = [{**row(2, 1, 6, (2, 3)), "observer": "n1"}]
    back = [CREATED, row(-1, 2, 7, ()), row(2, 3, 8, (2,), unclean=True)]
    assert sentences(CHECKER, group(leadership=[*copies(*back), *one])) == []
    assert len(sentences(CHECKER, group(leadership=copies(*back)))) == 1
    later = [row(1, 4, 9, (1, 2)), row(3, 5, 10, (3,), unclean=True)]
    (told,) = sentences(CHECKER, group(leadership=[*copies(*back, *later), *one]))
    assert "broker 3 was elected" in told
    outside = [CREATED, row(1, 0, 7, (2, 3))]
    on = group(leadership=[*copies(*outside), *one])
    (why,) = reasons(CHECKER, on)
    assert not isinstance(why, Proved)
    assert isinstance(reason(CHECKER, group(leadership=copies(*outside))), Proved)


def test_the_broker_0_leads_like_any_other() -> None:
    (anomaly,) = found(CHECKER, group(leadership=[row(0, 1, 7, (1, 3))])).anomalies
    assert anomaly.evidence["leader"] == 0
    again = [row(0, 0, 5, (0, 1)), row(-1, 1, 6, ()), row(0, 2, 7, (0,), unclean=True)]
    assert sentences(CHECKER, group(leadership=again)) == [], "the last known leader's return"


def test_zookeeper_has_no_offsets() -> None:
    znode = {**leads(2, 1, source="zookeeper"), "isr": [1, 3]}
    (anomaly,) = found(CHECKER, group(leadership=[znode])).anomalies
    assert anomaly.evidence["log_offset"] is None
