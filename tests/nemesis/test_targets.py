"""Target expressions: parsed before the run, resolved at the moment of the fault."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol import ClusterView, CoordinatorKind, PartitionState
from nemesis.roster import Coordinated, Roster, roster_of
from nemesis.targets import ROLES, NoTargetError, Target, parse_target, resolve_target
from results.record.plan import Plan, PlanError

NODES = ["n1", "n2", "n3", "n4", "n5"]
PLACES = [(topic, number) for topic in ("log-0", "log-1") for number in range(4)]
GROUPS = tuple(Coordinated(kind=CoordinatorKind.GROUP, key=f"log-{number}") for number in range(2))
ROSTER = Roster(
    nodes=tuple(NODES),
    voters=tuple(NODES),
    partitions=tuple(PLACES),
    coordinated=GROUPS,
    outside=("zk",),
)
SEEDS = st.integers(0, 2**32)


@st.composite
def partition_states(draw: st.DrawFn, topic: str, number: int) -> PartitionState:
    replicas = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=5, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    return PartitionState(
        topic=topic,
        partition=number,
        leader=draw(st.sampled_from([*isr, None])),
        leader_epoch=0,
        replicas=tuple(replicas),
        isr=tuple(isr),
    )


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    # Kafka's own topic is in every view, and is never meant by a role without a partition.
    own = PartitionState(
        topic="__consumer_offsets",
        partition=0,
        leader="n9",
        leader_epoch=0,
        replicas=("n9",),
        isr=("n9",),
    )
    return ClusterView(
        asked="n1",
        registered=frozenset(NODES),
        controller=draw(st.sampled_from([*NODES, None])),
        partitions={
            **{place: draw(partition_states(*place)) for place in PLACES},
            ("__consumer_offsets", 0): own,
        },
    )


def _resolved(expression: str, view: ClusterView | None, seed: int = 0) -> tuple[str, ...]:
    target = parse_target(expression, ROSTER)
    return resolve_target(target, view, Random(seed), roster=ROSTER, find=_keeper_of)


def _keeper_of(coordinated: Coordinated) -> str | None:
    return {"log-0": "n3", "log-1": "n5"}.get(coordinated.key)


@given(views(), SEEDS)
def test_the_leader_of_a_partition_is_the_view_s(view: ClusterView, seed: int) -> None:
    leader = view.partitions["log-0", 1].leader
    if leader is None:
        with pytest.raises(NoTargetError, match="no node is leader of log-0-1 now"):
            _resolved("leader(log-0,1)", view, seed)
    else:
        assert _resolved("leader(log-0,1)", view, seed) == (leader,)


@given(views(), SEEDS)
def test_a_follower_is_one_of_the_followers_and_never_the_leader(
    view: ClusterView, seed: int
) -> None:
    state = view.partitions["log-1", 3]
    if state.leader is None or len(state.replicas) == 1:
        return
    followers = _resolved("followers(log-1,3)", view, seed)
    assert set(followers) == set(state.replicas) - {state.leader}
    (follower,) = _resolved("follower(log-1,3)", view, seed)
    assert follower in followers


@given(views(), SEEDS)
def test_the_isr_gives_a_member_and_its_last_one_only_when_it_is_alone(
    view: ClusterView, seed: int
) -> None:
    isr = view.partitions["log-0", 0].isr
    (member,) = _resolved("isr(log-0,0)", view, seed)
    assert member in isr
    if len(isr) == 1:
        assert _resolved("last-isr(log-0,0)", view, seed) == isr
    else:
        with pytest.raises(NoTargetError, match="ISR"):
            _resolved("last-isr(log-0,0)", view, seed)


@given(views(), SEEDS, st.sampled_from(["leader", "follower", "isr"]))
def test_a_role_without_a_partition_is_that_of_one_of_ours(
    view: ClusterView, seed: int, role: str
) -> None:
    holders = set()
    for place in PLACES:
        try:
            holders |= set(_resolved(f"{role}({place[0]},{place[1]})", view, seed))
            holders |= set(_resolved(f"{role}s({place[0]},{place[1]})", view, seed))
        except (NoTargetError, PlanError):
            continue
    if role == "isr":
        holders |= {node for place in PLACES for node in view.partitions[place].isr}
    if holders:
        (chosen,) = _resolved(role, view, seed)
        assert chosen in holders


@given(views(), SEEDS)
def test_controller_and_not_controller_share_out_the_nodes(view: ClusterView, seed: int) -> None:
    if view.controller is None:
        with pytest.raises(NoTargetError, match="controller"):
            _resolved("not-controller", view, seed)
        return
    assert _resolved("controller", view, seed) == (view.controller,)
    assert _resolved("not-controller", view, seed) != (view.controller,)


@given(SEEDS, st.integers(1, 9))
def test_sizes(seed: int, count: int) -> None:
    roster = roster_of(Plan(nodes=count, replication=1, min_insync=1))
    rng = Random(seed)
    sizes = {
        word: len(resolve_target(Target(word=word), None, rng, roster=roster, find=_keeper_of))
        for word in ("one", "minority", "majority", "all")
    }
    assert sizes["one"] == 1
    assert 2 * sizes["minority"] < count
    assert 2 * sizes["majority"] > count
    assert sizes["minority"] + sizes["majority"] in {count, count - 1 + count % 2}
    assert sizes["all"] == count


@given(views(), SEEDS, st.sampled_from(ROLES))
def test_the_same_seed_and_view_give_the_same_nodes(
    view: ClusterView, seed: int, role: str
) -> None:
    def outcome() -> tuple[str, ...] | str:
        try:
            return _resolved(role, view, seed)
        except NoTargetError as nobody:
            return str(nobody)

    assert outcome() == outcome()


def test_a_node_needs_no_view_and_a_role_does() -> None:
    assert _resolved("n4", None) == ("n4",)
    with pytest.raises(NoTargetError, match="no node answers"):
        _resolved("leader", None)


def test_blanks_in_an_expression_do_not_matter() -> None:
    expected = Target(word="leader", topic_partition=("log-0", 1))
    assert parse_target("leader(log-0, 1)", ROSTER) == expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("n6", "neither a node"),
        ("boss", "neither a node"),
        ("boss(log-0,1)", "does not accept a partition"),
        ("controller(log-0,1)", "does not accept a partition"),
        ("n1(log-0,1)", "does not accept a partition"),
        ("leader(log-0,9)", r"no partition log-0-9; use log-0-0 to log-1-3"),
        ("leader(other,0)", "no partition other-0"),
        ("leader(log-0)", "'leader' needs a topic and a partition"),
        ("coordinator(log-0,1)", "does not accept a partition"),
        ("leader(log-0,1", "is not valid; write a node"),
        ("", "is not valid; write a node"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        parse_target(expression, ROSTER)


def test_nobody_is_a_minority_of_two() -> None:
    with pytest.raises(PlanError, match="with 2 nodes there is no minority; use one"):
        parse_target("minority", roster_of(Plan(nodes=2, replication=2)))


@given(views(), SEEDS)
def test_a_coordinator_is_whoever_the_cluster_names_at_that_moment(
    view: ClusterView, seed: int
) -> None:
    assert _resolved("coordinator(log-1)", view, seed) == ("n5",)
    assert _resolved("coordinator", view, seed) in {("n3",), ("n5",)}
    with pytest.raises(NoTargetError, match="coordinator of the group of-others is not known now"):
        _resolved("coordinator(of-others)", view, seed)


def test_what_is_coordinated_is_told_by_the_run_s_own_names() -> None:
    def coordinated(expression: str, plan: Plan) -> set[tuple[str, str]]:
        target = parse_target(expression, roster_of(plan))
        return {(each.kind.value, each.key) for each in target.coordinated}

    txn = Plan(workload="txn", concurrency=4, workers=1, name="pay")
    # The fourth thread only watches.
    assert coordinated("coordinator", txn) == {("transaction", f"pay-{n}") for n in range(3)}
    assert coordinated("coordinator(pay-2)", txn) == {("transaction", "pay-2")}
    assert coordinated("coordinator(logquake-pay)", txn) == {("group", "logquake-pay")}
    groups = Plan(workload="groups", name="read", concurrency=16)
    assert coordinated("coordinator", groups) == {("group", "read-0"), ("group", "read-1")}
    with pytest.raises(PlanError, match="neither groups nor transactions"):
        parse_target("coordinator", roster_of(Plan()))


def test_a_quorum_has_a_leader_and_voters_and_zookeeper_has_none() -> None:
    apart = roster_of(Plan(system="kafka:4.3.1:controllers", controllers=3))
    view = ClusterView(
        asked="n1", registered=frozenset(apart.nodes), controller="n102", partitions={}
    )

    def resolved(expression: str, seed: int = 0) -> tuple[str, ...]:
        target = parse_target(expression, apart)
        return resolve_target(target, view, Random(seed), roster=apart, find=_keeper_of)

    assert resolved("quorum-leader") == ("n102",)
    assert resolved("n103") == ("n103",)
    voters = {resolved("quorum-voter", seed)[0] for seed in range(30)}
    assert voters == {"n101", "n102", "n103"}
    assert resolved("quorum-voters") == ("n101", "n102", "n103")
    old = roster_of(Plan(system="kafka:2.8.2"))
    for expression in ("quorum-leader", "quorum-voter", "quorum-voters"):
        with pytest.raises(PlanError, match="because ZooKeeper keeps the metadata"):
            parse_target(expression, old)
