"""Faults whose heals could stand in each other's way: replicas, clocks and topics, in memory."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cluster.protocol import ClusterError, ClusterView
from nemesis.clock_offset import ClockOffset
from nemesis.clock_strobe import ClockStrobe
from nemesis.flapping import Flapping
from nemesis.protocol import Aim, Patience, Site
from nemesis.scheduled import ScheduledFault
from nemesis.topic_churn import TopicChurn
from results.record.clock import stopwatch_s, wait_until
from tests.nemesis.conftest import FakeCluster, FakeNetwork, World

PLACE = ("log-0", 0)
NODES = ("n1", "n2", "n3")


class MovingCluster(FakeCluster):
    """Brokers that take orders on replicas, carry them out at once, and tell their time."""

    def __init__(self) -> None:
        self.replicas: dict[tuple[str, int], tuple[str, ...]] = {}
        self.elected: set[tuple[str, int]] = set()
        self.clocks: FakeClocks | None = None
        self.silent = 0
        """How many questions for the time nobody answers."""
        self.creating = threading.Event()
        self.may_create = threading.Event()
        self.may_create.set()
        self.topics: set[str] = set()
        super().__init__(NODES)

    def view(self) -> ClusterView | None:
        seen = super().view()
        if seen is None:
            return None
        told = {
            place: replace(state, replicas=self.replicas[place], isr=self.replicas[place])
            for place, state in seen.partitions.items()
            if place in self.replicas
        }
        return replace(seen, partitions={**seen.partitions, **told})

    def reassign(self, place: tuple[str, int], replicas: Sequence[str]) -> None:
        self._called("reassign", ",".join(replicas))
        self.replicas[place] = tuple(replicas)

    def elect_preferred(self, place: tuple[str, int]) -> None:
        self.elected.add(place)

    def elect_unclean(self, place: tuple[str, int]) -> None:
        self.elected.add(place)

    def clock_error_s(self, node: str) -> float:
        if self.silent or self.states.get(self.processes[node]) != "S":
            self.silent = max(0, self.silent - 1)
            raise ClusterError(f"the time of {node} could not be requested: connection refused")
        assert self.clocks is not None
        return self.clocks.clock_offset_s(node)

    def create_topic(
        self, name: str, *, assignment: Mapping[int, Sequence[str]], configs: Mapping[str, str]
    ) -> object:
        assert assignment
        assert not configs
        self.topics.add(name)
        self.creating.set()
        self.may_create.wait()
        return name

    def delete_topics(self, names: Sequence[str]) -> None:
        self.topics -= set(names)

    def topics_of(self, node: str) -> frozenset[str] | None:
        assert node in NODES
        return frozenset(self.topics)


class FakeClocks(FakeNetwork):
    """Hosts whose brokers see what they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets_s: dict[str, float] = {}
        self.refusals = 0
        """How many orders fail."""
        self.jumps: list[float] = []

    def clock_environment(self, node: str) -> Mapping[str, str]:
        return {"CLOCK": node}

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        assert rate == 1
        self._obey(node)
        self.jumps.append(offset_s)
        self.offsets_s[node] = offset_s

    def reset_clock(self, node: str) -> None:
        self._obey(node)
        self.offsets_s.pop(node, None)

    def clock_offset_s(self, node: str) -> float:
        return self.offsets_s.get(node, 0.0)

    def _obey(self, node: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ClusterError(f"the machine of {node} does not answer")


@pytest.fixture
def moving(world: World) -> MovingCluster:
    cluster, hosts = MovingCluster(), FakeClocks()
    hosts.processes_file = world.paths.processes
    cluster.clocks = hosts
    world.cluster, world.hosts = cluster, hosts
    return cluster


def _site(world: World) -> Site:
    return replace(world.site(), hosts=world.hosts)


def _clocks(world: World) -> FakeClocks:
    assert isinstance(world.hosts, FakeClocks)
    return world.hosts


def test_two_faults_on_the_replicas_of_one_partition_exclude_each_other(
    world: World, moving: MovingCluster
) -> None:
    target = "leader(log-0,0)"
    first = ScheduledFault(fault_id=1, at_s=0, kind="reassignment", target=target, hold_s=50.0)
    second = replace(first, fault_id=2, when="leader of log-0-0 = n2")
    nemesis = world.nemesis(first, second, overlapping=True)
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()

    def told() -> dict[int, dict[str, Any]]:
        return {row["fault_id"]: row for row in world.last_rows()}

    wait_until(
        lambda: 1 in told() and told()[1]["confirmed_ns"], timeout_s=60, what="the first in force"
    )
    moving.leaders[PLACE] = "n2"  # What the second waits for.
    wait_until(
        lambda: 2 in told() and json.loads(told()[2]["spec"])["without_effect"],
        timeout_s=60,
        what="the second to be refused",
    )
    why = json.loads(told()[2]["spec"])["without_effect"]
    assert why == "fault 1 already holds the replicas of log-0-0"
    world.stop.set()
    thread.join()
    assert nemesis.heal_all().healed
    assert moving.replicas[PLACE] == NODES, "the heal of one is not undone by the other's"
    assert told()[1]["healed_ns"] is not None


def test_faults_on_the_replicas_of_two_partitions_compose(
    world: World, moving: MovingCluster
) -> None:
    first = ScheduledFault(
        fault_id=1, at_s=0, kind="reassignment", target="leader(log-0,0)", hold_s=0.6
    )
    second = replace(first, fault_id=2, target="leader(log-0,1)")
    world.nemesis(first, second, overlapping=True).run(world.stop)
    assert [row["healed_ns"] is not None for row in world.last_rows()] == [True, True]
    assert set(moving.replicas.values()) == {NODES}


def test_a_heal_that_failed_at_the_end_is_tried_again(world: World, moving: MovingCluster) -> None:
    fault = ScheduledFault(
        fault_id=1, at_s=0, kind="reassignment", target="leader(log-0,0)", hold_s=30
    )
    nemesis = world.nemesis(fault)
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()
    wait_until(
        lambda: [row for row in world.rows() if row["confirmed_ns"]], timeout_s=60, what="a fault"
    )
    world.stop.set()
    thread.join()
    world.refuse(f"reassign {','.join(NODES)}", "no broker takes orders")
    report = nemesis.heal_all()
    assert report.healed, report
    assert moving.replicas[PLACE] == NODES


def test_a_clock_is_asked_again_of_a_broker_that_is_busy_or_just_starting(
    world: World, moving: MovingCluster
) -> None:
    fault = ClockOffset(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    moving.silent = 2
    fault.inject()
    moving.silent = 2
    assert fault.confirm(Patience(limit_s=60)) is not None
    fault.heal()
    moving.silent = 2
    assert fault.confirm_healed(Patience(limit_s=60)) is not None


def test_a_broker_that_is_gone_is_not_asked_again(world: World, moving: MovingCluster) -> None:
    fault = ClockOffset(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    moving.kill_node("n1")
    moving.silent = 1
    with pytest.raises(ClusterError, match="n1 could not be requested"):
        fault.inject()
    assert not moving.silent, "it was asked once"
    assert _clocks(world).offsets_s == {}


def test_a_busy_broker_does_not_keep_a_run_from_ending(world: World, moving: MovingCluster) -> None:
    stop = threading.Event()
    stop.set()
    aim = Aim(fault_id=1, targets=("n1",), rng=Random(0), stop=stop)
    moving.silent = 100
    with pytest.raises(ClusterError, match="n1 could not be requested"):
        ClockOffset(aim, _site(world)).inject()
    assert moving.silent == 99, "it was asked once"
    assert _clocks(world).offsets_s == {}


def test_a_paused_broker_tells_no_time_and_its_clock_is_not_taken_to_be_true(
    world: World, moving: MovingCluster
) -> None:
    fault = ClockOffset(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    fault.inject()
    fault.heal()
    moving.pause_node("n1")
    assert fault.confirm_healed(Patience(limit_s=0.3)) is None
    moving.kill_node("n1")
    gone = fault.confirm_healed(Patience(limit_s=60))
    assert gone is not None
    assert gone.unasked == ("n1",)


def test_a_clock_whose_heal_failed_is_not_told_to_be_true(
    world: World, moving: MovingCluster
) -> None:
    fault = ScheduledFault(fault_id=1, at_s=0, kind="clock-offset", target="n1", hold_s=30)
    nemesis = world.nemesis(fault, replace(fault, fault_id=2, at_s=0.5, hold_s=0.1))
    thread = threading.Thread(target=nemesis.run, args=(world.stop,), daemon=True)
    thread.start()
    wait_until(
        lambda: [row for row in world.rows() if row["confirmed_ns"]], timeout_s=60, what="a fault"
    )
    moving.kill_node("n1")
    world.stop.set()
    thread.join()
    _clocks(world).refusals = 1
    assert nemesis.heal_all().healed
    assert _clocks(world).offsets_s == {}


def test_a_strobe_goes_on_when_a_jump_fails(world: World, moving: MovingCluster) -> None:
    fault = ClockStrobe(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    fault.inject()
    hosts = _clocks(world)
    wait_until(lambda: len(hosts.jumps) > 1, timeout_s=60, what="two jumps")
    hosts.refusals = 1
    wait_until(lambda: not hosts.refusals, timeout_s=60, what="the jump that fails")
    jumps = len(hosts.jumps)
    wait_until(lambda: len(hosts.jumps) > jumps + 1, timeout_s=60, what="two jumps more")
    fault.heal()
    assert moving.clock_error_s("n1") == 0


def test_what_goes_on_by_itself_does_nothing_more_when_the_main_phase_is_over(
    world: World, moving: MovingCluster
) -> None:
    # A run that ends by an error heals nothing: its hosts are taken down, and stay so.
    aim = Aim(fault_id=1, targets=("n1",), rng=Random(0), stop=world.stop)
    faults = [make(aim, _site(world)) for make in (ClockStrobe, TopicChurn, Flapping)]
    hosts = _clocks(world)
    for fault in faults:
        fault.inject()
    wait_until(lambda: hosts.jumps and world.network.cuts, timeout_s=60, what="all of them")
    assert moving.creating.wait(60)
    names = {"clock-strobe", "topic-churn", "fault-1-flapping"}
    assert names <= {thread.name for thread in threading.enumerate()}
    world.stop.set()
    wait_until(
        lambda: names.isdisjoint(thread.name for thread in threading.enumerate()),
        timeout_s=60,
        what="their threads to end",
    )
    for fault in faults:
        fault.heal()
        assert fault.confirm_healed(Patience(limit_s=60)) is not None


def test_topics_that_are_still_being_made_hold_no_other_heal_up(
    world: World, moving: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.topic_churn.END_LIMIT_S", 0.2)
    moving.may_create.clear()
    fault = TopicChurn(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    fault.inject()
    assert moving.creating.wait(60)
    begun_s = stopwatch_s()
    fault.heal()
    assert stopwatch_s() - begun_s < 30
    assert fault.confirm_healed(Patience(limit_s=0.3)) is None, "it may come to be yet"
    moving.may_create.set()
    assert fault.confirm_healed(Patience(limit_s=60)) is not None
    assert moving.topics == set()


def test_a_topic_that_another_broker_knows_is_an_effect_though_it_is_not_whole_yet(
    world: World, moving: MovingCluster
) -> None:
    moving.may_create.clear()
    fault = TopicChurn(Aim(fault_id=1, targets=("n1",), rng=Random(0)), _site(world))
    fault.inject()
    assert moving.creating.wait(60)
    effect = fault.confirm(Patience(limit_s=60))
    assert effect is not None
    assert (effect.seen, effect.by) == ("__logquake-churn-1-1", "n2")
    moving.may_create.set()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=60)) is not None
    assert moving.topics == set()
