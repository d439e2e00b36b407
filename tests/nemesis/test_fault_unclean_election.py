"""The fault `unclean-election` in memory: the order of its steps, and what it says of them."""

import json
import threading
from dataclasses import replace

import pytest

from cluster.protocol import ClusterError, ClusterView
from nemesis import unclean_election
from nemesis.scheduled import ScheduledFault
from results.record.clock import wait_until
from results.record.plan import Plan
from tests.nemesis.conftest import FakeCluster, World

PLACE = ("log-0", 0)
REPLICAS = ("n1", "n2")


class ElectingCluster(FakeCluster):
    """Brokers with one partition on two of them, whose ISR and leader follow Kafka's rules."""

    def __init__(self) -> None:
        self.isr: tuple[str, ...] = REPLICAS
        self.leader: str | None = "n1"
        self.epoch = 3
        self.deaf = False
        """Whether an order of an election is taken, and not carried out."""
        super().__init__(("n1", "n2", "n3"))

    def view(self) -> ClusterView | None:
        seen = super().view()
        if seen is None:
            return None
        there = tuple(node for node in self.isr if node in seen.registered)
        if there != self.isr and (there or self.leader):
            self.isr = there or self.isr[:1]
            self._lead(there[0] if there else None)
        state = replace(
            seen.partitions[PLACE],
            leader=self.leader,
            leader_epoch=self.epoch,
            replicas=REPLICAS,
            isr=self.isr,
        )
        return replace(seen, partitions={PLACE: state})

    def elect_unclean(self, place: tuple[str, int]) -> None:
        assert place == PLACE
        seen = self.view()
        assert seen is not None
        assert not set(self.isr) & seen.registered, "somebody of the ISR lives"
        (node,) = set(REPLICAS) & seen.registered
        self._called("elect", node)
        if not self.deaf:
            self.isr = (node,)
            self._lead(node)

    def elect_preferred(self, place: tuple[str, int]) -> None:
        raise NotImplementedError(place)

    def reassign(self, place: tuple[str, int], replicas: tuple[str, ...]) -> None:
        raise NotImplementedError(place, replicas)

    def _lead(self, node: str | None) -> None:
        if node != self.leader:
            self.leader, self.epoch = node, self.epoch + 1


@pytest.fixture
def electing(world: World, monkeypatch: pytest.MonkeyPatch) -> ElectingCluster:
    monkeypatch.setattr(unclean_election, "BEHIND_S", 0.01)
    monkeypatch.setattr(unclean_election, "ELECTED_LIMIT_S", 0.2)
    monkeypatch.setattr("nemesis.life.CONFIRM_LIMIT_S", 0.2)
    monkeypatch.setattr("nemesis.brokers.BELIEF_LIMIT_S", 0.1)
    world.cluster = ElectingCluster()
    return world.cluster


FAULT = ScheduledFault(
    fault_id=1, at_s=0, kind="unclean-election", target="replicas(log-0,0)", hold_s=0.01
)


def test_who_was_left_behind_leads_and_the_others_come_back(
    world: World, electing: ElectingCluster
) -> None:
    world.nemesis(FAULT, overlapping=True).run(world.stop)
    assert electing.calls == [
        "kill n2", "kill n1", "start n2", "elect n2", "start n1",
    ]  # fmt: skip
    (row,) = world.last_rows()
    effect = json.loads(row["effect"])
    assert effect["last_isr"] == ["n1"]
    assert effect["before"]["leader"] is None
    assert effect["after"]["leader"] == "n2"
    assert effect["after"]["leader_epoch"] > effect["before"]["leader_epoch"]
    assert row["healed_ns"] is not None


def test_without_the_election_there_is_no_effect_and_all_come_back(
    world: World, electing: ElectingCluster
) -> None:
    electing.deaf = True
    nemesis = world.nemesis(FAULT, overlapping=True)
    nemesis.run(world.stop)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert electing.calls[-1] == "start n1"
    assert nemesis.heal_all().healed


def test_an_order_whose_answer_was_lost_is_confirmed_all_the_same(
    world: World, electing: ElectingCluster
) -> None:
    elect = electing.elect_unclean

    def unanswered(place: tuple[str, int]) -> None:
        elect(place)
        raise ClusterError("nobody answers who elects leaders")

    electing.elect_unclean = unanswered  # type: ignore[method-assign] # does it, and fails
    world.nemesis(FAULT, overlapping=True).run(world.stop)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is not None


@pytest.mark.usefixtures("electing")
def test_an_order_that_was_refused_is_said(world: World) -> None:
    world.refuse("elect n2", "no such election")
    world.nemesis(FAULT, overlapping=True).run(world.stop)
    (row,) = world.last_rows()
    assert json.loads(row["spec"])["without_effect"] == "no such election"


def test_the_end_of_the_main_phase_ends_its_long_preparation(
    world: World, electing: ElectingCluster
) -> None:
    kill = electing.kill_node

    def for_long(node: str) -> None:
        kill(node)
        electing.asleep.add(node)

    electing.kill_node = for_long  # type: ignore[method-assign] # does it, and more
    nemesis = world.nemesis(replace(FAULT, hold_s=30), overlapping=True)
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()
    wait_until(lambda: "start n2" in electing.calls, timeout_s=20, what="n2 to be started")
    world.stop.set()
    thread.join(10)
    assert not thread.is_alive()
    electing.asleep.clear()
    assert nemesis.heal_all().healed
    assert world.last_rows()[0]["confirmed_ns"] is None


def test_hidden_voters_may_be_the_brokers_that_the_fault_kills() -> None:
    """An attached cluster of combined nodes would be left without a majority."""
    hidden = Plan(system="attached:/a.toml", broker_ids=(1, 2, 3))
    assert not unclean_election.leaves_somebody_to_elect(hidden)
    two = hidden.model_copy(update={"replication": 2})
    apart = Plan(system="kafka:4.3.1:controllers")
    outside = Plan(system="kafka:2.7.2")
    assert all(map(unclean_election.leaves_somebody_to_elect, (two, apart, outside)))
