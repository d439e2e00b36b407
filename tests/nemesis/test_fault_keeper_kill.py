"""The fault `keeper-kill`, on a cluster in memory, and how it is proven elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from cluster.protocol import Ability, ClusterError, ClusterView, ProcessId
from cluster.sessions import SESSION_TIMEOUT
from nemesis.brokers import broker_runs
from nemesis.keeper_kill import keeper_kill
from nemesis.pause import Pause
from nemesis.protocol import Aim, Patience, Site
from nemesis.schedule import deal_schedule, unsupported
from nemesis.sweep import sweep
from nemesis.targets import KEEPER
from nemesis.undo import Restart
from results.record.clock import NS_PER_S
from results.record.plan import Plan, PlanError, plan_from
from results.record.plan_parts import PlannedFault
from tests.nemesis.both_worlds import fault
from tests.nemesis.conftest import FakeCluster, FakeHostsWithoutCuts, World
from tests.nemesis.proofs import Proof

KEPT = Plan(system="kafka:3.9.1:zookeeper", nemesis=(KEEPER, "keeper-links"), time_limit_s=300)
SOON = Patience(limit_s=0.1)
PROOF_OF = [
    (
        "keeper-kill",
        Proof(
            witness="zookeeper",
            shows=lambda before, looks: (
                len(before["servers"]) == 1
                and not looks[-1]["servers"]
                and not any(looks[-1]["answered"].values())
            ),
            gone=lambda before, after: (
                all(after["answered"].values())
                and len(after["servers"]) == 1
                and after["servers"].keys() != before["servers"].keys()
            ),
        ),
    )
]


class WithZooKeeper(FakeCluster):
    """Brokers, and a ZooKeeper that is a process like theirs."""

    keeper = "zk"

    def start(self) -> None:
        super().start()
        self.start_node("zk")

    def is_back(self, node: str) -> bool:
        return self.states.get(self.processes[node]) == "S" and node not in self.asleep

    def view(self) -> ClusterView | None:
        view = super().view() if self.states.get(self.processes["zk"]) == "S" else None
        return view and replace(view, asked="zk")


def _site() -> tuple[Site, WithZooKeeper]:
    cluster = WithZooKeeper(["n1", "n2", "n3"])
    site = Site.of(cluster, FakeHostsWithoutCuts(), cluster.state_of, session_s=0.5)
    return site, cluster


def test_it_is_gone_and_comes_back_and_no_broker_is_touched() -> None:
    site, cluster = _site()
    fault = keeper_kill(Aim(fault_id=1, targets=("zk",), rng=Random(0)), site)
    assert fault.undo() == (Restart(node="zk"),)
    fault.inject()
    assert fault.confirm(SOON) is not None
    cluster.refusals["start zk"] = ClusterError("no room")
    with pytest.raises(ClusterError, match="no room"):
        fault.heal()
    assert fault.confirm_healed(SOON) is None
    fault.heal()
    cluster.asleep.add("zk")
    assert fault.confirm_healed(SOON) is None
    cluster.asleep.clear()
    assert fault.confirm_healed(Patience(limit_s=10)) is not None
    assert cluster.calls == ["kill zk", "start zk", "start zk"]


def test_what_it_finds_in_its_log_may_end_with_a_session_and_proves_no_heal() -> None:
    site, cluster = _site()
    fault = keeper_kill(Aim(fault_id=1, targets=("zk",), rng=Random(0)), site)
    fault.inject()
    fault.heal()
    assert fault.confirm_healed(SOON) is None, "all are registered, by sessions from before"
    cluster.asleep.add("zk")  # Somebody's session ends.
    assert fault.confirm_healed(Patience(limit_s=1.2)) is None
    cluster.asleep.clear()
    assert fault.confirm_healed(SOON) is not None


def test_nobody_is_back_on_the_word_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    site, cluster = _site()
    for make, targets in ((keeper_kill, ("zk",)), (Pause, ("n1", "n2", "n3"))):
        fault = make(Aim(fault_id=1, targets=targets, rng=Random(0)), site)
        fault.inject()
        fault.heal()
        with monkeypatch.context() as patched:
            patched.setattr(cluster, "view", lambda: None)
            assert fault.confirm_healed(SOON) is None
        assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_one_that_survives_is_no_effect() -> None:
    site, cluster = _site()
    fault = keeper_kill(Aim(fault_id=1, targets=("zk",), rng=Random(0)), site)
    fault.inject()
    cluster.states[cluster.processes["zk"]] = "S"
    assert fault.confirm(SOON) is None


def test_the_heal_of_everything_starts_one_that_is_down() -> None:
    site, cluster = _site()
    cluster.kill_node("zk")
    report = sweep([], site, limit_s=1)
    assert report.failed == ()
    assert report.done == ("the broker of zk had ended and was started again",)
    assert broker_runs(site, "zk")


def test_it_is_started_before_brokers_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    site, cluster = _site()
    cluster.kill_node("n1")
    cluster.kill_node("zk")
    start = cluster.start_node

    def start_with_zookeeper(node: str) -> ProcessId:
        if node != "zk" and not broker_runs(site, "zk"):
            raise ClusterError("ZooKeeper does not answer")
        return start(node)

    monkeypatch.setattr(cluster, "start_node", start_with_zookeeper)
    report = sweep([], site, limit_s=1)
    assert report.failed == ()
    assert [broker_runs(site, node) for node in ("zk", "n1")] == [True, True]


def test_where_there_is_none_it_is_refused_with_one_sentence_and_left_out_of_all() -> None:
    able = frozenset(Ability)
    why = "this system has no ZooKeeper"
    with pytest.raises(PlanError, match=why):
        deal_schedule(
            Plan(faults=(PlannedFault(at_s=1, kind="keeper-kill", target="n1"),)),
            abilities=able,
        )
    assert unsupported(KEPT, abilities=able) == []
    everything = plan_from({"nemesis": "all", "time_limit_s": 3000})
    assert deal_schedule(everything, abilities=able).dropped == (
        f"faults of keeper and keeper-links are left out: {why} (only Kafka up to 3.9 can use it)",
    )
    kept = everything.model_copy(update={"system": KEPT.system})
    (left_out,) = deal_schedule(kept, abilities=able).dropped
    assert "ZooKeeper must not keep the metadata" in left_out, "of topics alone"


def test_it_is_dealt_and_aimed_at_zookeeper_alone() -> None:
    def refusal(kind: str, target: str, plan: Plan = KEPT) -> str:
        fault = PlannedFault(at_s=1, kind=kind, target=target)
        try:
            deal_schedule(
                plan.model_copy(update={"faults": (fault,)}), abilities=frozenset(Ability)
            )
        except PlanError as refused:
            return str(refused)
        return ""

    faults = deal_schedule(KEPT, abilities=frozenset(Ability)).faults
    assert {fault.target for fault in faults} == {KEEPER}
    assert len({fault.kind for fault in faults}) == 3
    assert refusal("keeper-kill", KEEPER) == ""
    assert "hits all ZooKeeper servers at once (zk); use keeper" in refusal("keeper-kill", "n1")
    assert "which only these kinds can hit: keeper-kill, " in refusal("isolate", KEEPER)
    assert "because a KRaft quorum keeps the metadata; use controller" in refusal(
        "kill", KEEPER, Plan()
    )


@pytest.mark.parametrize(("session", "wait_s"), [({}, 3.5), ({SESSION_TIMEOUT: "6000"}, 6.5)])
def test_a_session_ends_as_late_as_the_plan_has_it(
    world: World, session: Mapping[str, str], wait_s: float
) -> None:
    world.cluster = WithZooKeeper(["n1", "n2", "n3"])
    plan = plan_from({"system": "kafka:2.8.1:zookeeper", "broker": session})
    world.played(fault(1, "keeper-kill", "keeper", hold_s=1), plan=plan)
    (row,) = world.last_rows()
    waited_s = (row["healed_ns"] - row["confirmed_ns"]) / NS_PER_S - 1
    assert waited_s == pytest.approx(wait_s, abs=0.5)
