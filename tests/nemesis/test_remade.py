"""Topics that are made again while a broker is down, on a cluster in memory."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from unittest.mock import ANY

import pytest

from cluster.protocol import ClusterError, PartitionState, ToldTopic
from nemesis import remade
from nemesis.broker_effects import BackEffect
from nemesis.effects import effect_to_json
from nemesis.kill import Kill
from nemesis.protocol import Aim, Patience
from nemesis.registry import KINDS
from nemesis.remade import (
    MOST_TIMES,
    ROUNDS,
    Remade,
    RemadeBackEffect,
    RemadeEffect,
    deletes_at_once,
)
from nemesis.roster import roster_of
from nemesis.undo import Restart
from nemesis.written import refuse_senseless
from results.record.clock import WaitTimeoutError, pause_until, wait_until
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault
from results.record.runtime import Event
from results.record.terms import REMADE_PREFIX
from results.record.values import decode_payload
from tests.nemesis.conftest import FakeCluster, World

SOON, LONG = Patience(limit_s=0.1), Patience(limit_s=60)
NAME = f"{REMADE_PREFIX}1"


@dataclass(kw_only=True)
class Life:
    """One life of a topic: its id, who has it, and what was sent to it."""

    topic_id: str
    replicas: Mapping[int, Sequence[str]]
    isrs: dict[int, list[str]]
    logs: dict[int, list[int]] = field(default_factory=dict)


class ByHand:
    """Topics in memory; the first member of an ISR leads, and every broker that runs knows it."""

    def __init__(self, cluster: "TopicsCluster") -> None:
        self.watched: frozenset[str] = frozenset()
        self._cluster = cluster

    def watch(self, name: str) -> None:
        self.watched |= {name}

    def create(
        self,
        name: str,
        *,
        assignment: Mapping[int, Sequence[str]],
        configs: Mapping[str, str],
        known: Collection[str],
    ) -> str:
        cluster = self._cluster
        assert {*known} == {life.topic_id for life in cluster.lives}
        cluster._called("create", name)
        if name in cluster.topics or len(cluster.lives) >= cluster.most_lives:
            raise ClusterError("TOPIC_ALREADY_EXISTS")
        assert configs["cleanup.policy"] == "delete"
        isrs = {part: [*filter(cluster.runs, nodes)] for part, nodes in assignment.items()}
        topic_id = f"id-{len(cluster.lives)}"
        cluster.topics[name] = Life(topic_id=topic_id, replicas=dict(assignment), isrs=isrs)
        cluster.lives.append(cluster.topics[name])
        return topic_id

    def delete(self, name: str, topic_id: str) -> None:
        assert topic_id == self._cluster.topics[name].topic_id
        self._cluster._called("delete", name)
        del self._cluster.topics[name]

    def told_by(self, node: str, name: str) -> ToldTopic | None:
        life = self._cluster.topics.get(name)
        if life is None or not self._cluster.runs(node):
            return None
        return ToldTopic(
            topic_id=life.topic_id,
            partitions={
                part: PartitionState(
                    topic=name, partition=part, leader=isr[0], leader_epoch=0,
                    replicas=tuple(life.replicas[part]), isr=tuple(isr),
                )
                for part, isr in life.isrs.items()
            },
        )  # fmt: skip

    def end_at(self, node: str, place: tuple[str, int]) -> int | None:
        assert self._cluster.runs(node)
        cluster = self._cluster
        old_records = int(len(cluster.lives) >= cluster.stale_from)
        return len(cluster.topics[place[0]].logs.get(place[1], [])) + old_records

    def send(self, node: str, place: tuple[str, int], payload: bytes, *, timeout_s: float) -> int:
        assert timeout_s > 0
        life = self._cluster.topics[place[0]]
        if self._cluster.takes_none or life.isrs[place[1]][0] != node:
            raise ClusterError("NOT_ENOUGH_REPLICAS")
        log = life.logs.setdefault(place[1], [])
        value = decode_payload(payload)
        assert value is not None
        log.append(value)
        return len(log) - 1


class TopicsCluster(FakeCluster):
    """Brokers with topics by hand."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.topics: dict[str, Life] = {}
        self.lives: list[Life] = []
        self.stale_from = self.most_lives = 99
        """From this incarnation on leaders show an earlier one's log; so many can be made."""
        self.takes_none = False
        super().__init__(nodes)
        self.by_hand = ByHand(self)

    def runs(self, node: str) -> bool:
        return self.states.get(self.processes[node]) == "S"


@pytest.fixture
def topics(world: World, monkeypatch: pytest.MonkeyPatch) -> TopicsCluster:
    for limit in ("MADE_LIMIT_S", "MISSED_LIMIT_S"):
        monkeypatch.setattr(remade, limit, 0.3)
    monkeypatch.setattr(remade, "REST_S", 0.01)
    made = TopicsCluster(["n1", "n2", "n3"])
    world.cluster = made
    return made


def fault(world: World, *targets: str, seed: int = 0) -> Remade:
    aim = Aim(fault_id=1, targets=targets or ("n2",), rng=Random(seed), stop=world.stop)
    return Remade(aim, world.site(), Kill(aim, world.site()))


def test_it_is_made_again_while_the_broker_is_down_and_stays(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world)
    assert played.undo() == (Restart(node="n2"),)
    assert not played.places
    played.inject()
    effect = played.confirm(SOON)
    assert effect is not None
    again = len(topics.lives) - 1
    assert 1 <= again <= MOST_TIMES
    assert topics.calls == [
        f"create {NAME}", "kill n2", *[f"delete {NAME}", f"create {NAME}"] * again
    ]  # fmt: skip
    assert topics.by_hand.watched == {NAME}
    ids = [life.topic_id for life in topics.lives]
    assert [each.topic_id for each in effect.incarnations] == ids
    assert len({*ids}) == again + 1
    assert all(each.acked >= 2 * ROUNDS for each in effect.incarnations)
    assert all("n2" in nodes for life in topics.lives for nodes in life.replicas.values())
    assert all("n2" not in isr for isr in effect.isrs.values())
    assert (effect.away, effect.asked) == (("n2",), "n1")
    assert [each.state_after for each in effect.processes] == [None]
    assert NAME in effect.told

    played.heal()
    back = played.confirm_healed(LONG)
    assert isinstance(back, RemadeBackEffect)
    assert topics.calls[-1] == "start n2"
    assert [*topics.topics] == [NAME], "it stays"
    assert played.places == ((NAME, 0), (NAME, 1))
    last = topics.lives[-1]
    assert back.topic_id == last.topic_id
    acked = {part: [each for each in back.acked if each.partition == part] for part in (0, 1)}
    assert {part: [each.value for each in rows] for part, rows in acked.items()} == last.logs
    assert all([each.offset for each in rows] == [*range(len(rows))] for rows in acked.values())
    earlier = {value for life in topics.lives[:-1] for log in life.logs.values() for value in log}
    assert earlier
    assert earlier.isdisjoint(each.value for each in back.acked), "those are gone by order"


def test_records_are_sent_while_it_is_held_and_after_the_start(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world)
    played.inject()
    last = topics.lives[-1]
    sent = sum(map(len, last.logs.values()))
    wait_until(lambda: sum(map(len, last.logs.values())) > sent + 4, timeout_s=60, what="records")
    played.heal()
    held = sum(map(len, last.logs.values()))
    back = played.confirm_healed(LONG)
    assert isinstance(back, RemadeBackEffect)
    assert len(back.acked) >= held + 2 * ROUNDS


def test_how_often_it_is_made_again_is_drawn(world: World, topics: TopicsCluster) -> None:
    times = {fault(world, seed=seed)._times for seed in range(20)}
    assert times == {1, 2, 3}
    assert topics.calls == [], "nothing is done before"


def test_one_half_of_the_partitions_have_the_target_as_their_first_replica(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world, "n3")
    played.inject()
    assert dict(topics.lives[0].replicas) == {0: ("n3", "n1", "n2"), 1: ("n2", "n1", "n3")}


def test_the_heal_says_what_it_saw_in_json_that_the_judge_reads(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world)
    played.inject()
    effect = played.confirm(SOON)
    played.heal()
    back = played.confirm_healed(LONG)
    assert effect is not None
    assert back is not None
    told = json.loads(effect_to_json(effect))
    assert (told["kind"], told["processes"][0]["node"]) == ("remade", "n2")
    told = json.loads(effect_to_json(back))
    assert told["kind"] == "remade-back"
    assert (told["topic"], told["topic_id"]) == (NAME, topics.lives[-1].topic_id)
    assert told["replicas"] == {"0": ["n2", "n1", "n3"], "1": ["n3", "n1", "n2"]}
    assert told["acked"][0].keys() == {"partition", "offset", "value"}
    # When the heal began is reckoned from it: a broker may answer from then on.
    assert told["age_s"] > told["took_s"] >= told["back_s"]
    # The check of faults without an effect reads these.
    assert [each["node"] for each in told["processes"]] == ["n2"]
    assert told["pid_before"].keys() == {"n2"}
    assert told["was_gone"] == ["n2"]


def of_three(world: World) -> Remade:
    """Return a fault that is to make the topic again three times."""
    return next(each for seed in range(99) if (each := fault(world, seed=seed))._times == 3)


def test_an_incarnation_that_was_never_served_is_sent_nothing(
    world: World, topics: TopicsCluster
) -> None:
    """Produce names no topic id: who has the deleted one's log would acknowledge a record of it."""
    played = of_three(world)
    topics.stale_from = 4
    with pytest.raises(WaitTimeoutError, match="a leader to serve"):
        played.inject()
    played.heal()
    back = played.confirm_healed(LONG)
    assert isinstance(back, RemadeBackEffect)
    assert (back.topic_id, back.acked) == (topics.lives[-1].topic_id, ())
    assert topics.lives[-1].logs == {}
    assert played.places == ((NAME, 0), (NAME, 1)), "it is there, and must be replicated"
    topics.stale_from = 99
    back = played.confirm_healed(LONG)
    assert isinstance(back, RemadeBackEffect)
    assert len(back.acked) == 2 * ROUNDS, "it is served by now"


def test_one_that_was_deleted_and_not_made_again_is_not_judged(
    world: World, topics: TopicsCluster
) -> None:
    played = of_three(world)
    topics.most_lives = 3
    with pytest.raises(ClusterError, match="TOPIC_ALREADY_EXISTS"):
        played.inject()
    played.heal()
    assert isinstance(played.confirm_healed(LONG), BackEffect)
    assert played.places == ()


def test_what_was_made_again_stays_if_the_main_phase_ends(
    world: World, topics: TopicsCluster
) -> None:
    played = of_three(world)
    refused = played._refuse_if_late

    def late() -> None:
        if len(topics.lives) == 2:
            world.stop.set()
        refused()

    played._refuse_if_late = late  # type: ignore[method-assign]  # The moment is the test's.
    with pytest.raises(ClusterError, match="the main phase ended"):
        played.inject()
    played.heal()
    back = played.confirm_healed(LONG)
    assert isinstance(back, RemadeBackEffect)
    assert back.topic_id == topics.lives[1].topic_id
    assert len(back.acked) == 4 * ROUNDS
    assert played.places == ((NAME, 0), (NAME, 1))


def test_a_stop_ends_the_last_records(
    world: World, topics: TopicsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remade, "REST_S", 60)
    played = fault(world)
    played.inject()
    last = topics.lives[-1]
    wait_until(lambda: sum(map(len, last.logs.values())) == 2 * ROUNDS + 2, timeout_s=60, what="it")
    played.heal()
    world.stop.set()
    back = played.confirm_healed(Patience(limit_s=60, stop=world.stop))
    assert isinstance(back, RemadeBackEffect)
    assert len(back.acked) == 2 * ROUNDS + 2
    assert played.confirm_healed(Patience(limit_s=0)) == replace(back, took_s=ANY, age_s=ANY), (
        "nor does it go on behind its limit"
    )


def test_one_that_takes_records_late_is_one_all_the_same(
    world: World, topics: TopicsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause_and_take(until_s: float, stop: Event | None = None) -> bool:
        topics.takes_none = False
        return pause_until(until_s, stop)

    monkeypatch.setattr(remade, "pause_until", pause_and_take)
    played = fault(world)
    topics.takes_none = True
    played.inject()
    assert played.confirm(LONG) is not None
    played.heal()


def test_one_that_takes_no_records_is_no_effect(
    world: World, topics: TopicsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remade, "TAKEN_LIMIT_S", 0.5)
    played = fault(world)
    topics.takes_none = True
    with pytest.raises(ClusterError, match="accepts no records: NOT_ENOUGH_REPLICAS"):
        played.inject()
    assert topics.calls == [f"create {NAME}"], "no broker is hit for nothing"
    played.heal()
    assert isinstance(played.confirm_healed(LONG), BackEffect)
    assert played.places == ()


def thrice() -> int:
    """Return a seed by which the topic is made again three times."""
    return next(seed for seed in range(99) if Random(seed).randint(1, remade.MOST_TIMES) == 3)


@pytest.mark.parametrize(("enough_s", "lives"), [(20.0, 4), (0.0, 2)])
def test_on_a_busy_machine_it_is_made_again_once(
    world: World,
    topics: TopicsCluster,
    monkeypatch: pytest.MonkeyPatch,
    *,
    enough_s: float,
    lives: int,
) -> None:
    monkeypatch.setattr(remade, "ENOUGH_S", enough_s)
    played = fault(world, seed=thrice())
    played.inject()
    effect = played.confirm(LONG)
    assert isinstance(effect, RemadeEffect)
    assert (len(effect.incarnations), len(topics.lives)) == (lives, lives)
    played.heal()


def test_its_start_takes_no_longer_than_its_limit(
    world: World, topics: TopicsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remade, "MADE_LIMIT_S", 600.0)
    monkeypatch.setattr(remade, "TAKEN_LIMIT_S", 600.0)
    monkeypatch.setattr(remade, "LONGEST_S", 0.5)
    topics.stale_from = 0
    with pytest.raises(WaitTimeoutError, match=r"waited 0\.\d+ s for a leader to serve .*"):
        fault(world).inject()


def test_a_log_of_an_earlier_life_is_none_of_the_new_one(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world)
    topics.stale_from = 1
    with pytest.raises(WaitTimeoutError, match="a leader to serve"):
        played.inject()


def test_a_topic_that_is_refused_the_second_time_leaves_the_broker_to_be_started(
    world: World, topics: TopicsCluster
) -> None:
    played = fault(world)
    world.refuse(f"delete {NAME}", "no controller")
    with pytest.raises(ClusterError, match="no controller"):
        played.inject()
    assert not topics.runs("n2")
    played.heal()
    assert topics.runs("n2")
    assert isinstance(played.confirm_healed(LONG), BackEffect)
    assert played.places == (), "it was not made again"


def test_a_broker_that_still_runs_is_no_effect(world: World, topics: TopicsCluster) -> None:
    played = fault(world)
    played.inject()
    topics.start_node("n2")
    assert played.confirm(SOON) is None


def test_an_isr_that_still_has_the_broker_is_no_effect(world: World, topics: TopicsCluster) -> None:
    played = fault(world)
    played.inject()
    topics.lives[-1].isrs[1].append("n2")
    assert played.confirm(SOON) is None


def test_the_end_of_the_main_phase_ends_it(world: World, topics: TopicsCluster) -> None:
    played = fault(world)
    world.stop.set()
    with pytest.raises(ClusterError, match="the main phase ended"):
        played.inject()
    assert topics.calls == []


def test_a_heal_that_is_refused_is_tried_again(world: World, topics: TopicsCluster) -> None:
    played = fault(world)
    played.inject()
    world.refuse("start n2", "the machine is on fire")
    with pytest.raises(ClusterError, match="on fire"):
        played.heal()
    assert played.confirm_healed(SOON) is None
    topics.asleep.add("n2")
    played.heal()
    assert played.confirm_healed(SOON) is None, "it is not registered"
    topics.asleep.clear()
    assert isinstance(played.confirm_healed(LONG), RemadeBackEffect)
    assert isinstance(played.confirm_healed(LONG), RemadeBackEffect), "asked twice"


def test_it_needs_a_broker_beside_its_targets(world: World, topics: TopicsCluster) -> None:
    with pytest.raises(ClusterError, match="no broker is left to lead the topic"):
        fault(world, "n1", "n2", "n3")
    assert topics.calls == []


def test_it_needs_topics_that_can_be_made(world: World) -> None:
    with pytest.raises(ClusterError, match="cannot create and delete topics"):
        fault(world)


@pytest.mark.parametrize(
    ("plan", "target", "why"),
    [
        (
            {"nodes": 1, "replication": 1, "min_insync": 1},
            "n1",
            "needs 2 nodes or more, but there are 1",
        ),
        ({}, "all", "needs a node that is not a target"),
        ({}, "n9", "n9"),
        ({"system": "kafka:3.9.1:zookeeper"}, "n1", "another broker must stay up"),
        ({"system": "kafka:4.3.1:controllers"}, "n101", "works on brokers only"),
    ],
)
def test_what_cannot_come_to_be_is_refused_in_one_sentence(
    plan: Mapping[str, object], target: str, why: str
) -> None:
    made = Plan.model_validate(plan)
    for kind in [name for name, each in KINDS.items() if each.family == "remade"]:
        planned = PlannedFault(kind=kind, target=target, at_s=1, hold_s=5)
        with pytest.raises(PlanError, match=why) as refused:
            refuse_senseless(planned, made, roster_of(made))
        assert "\n" not in str(refused.value)


def test_zookeeper_keeps_a_deleted_topic() -> None:
    assert deletes_at_once(Plan())
    assert not deletes_at_once(Plan(system="kafka:3.9.1:zookeeper"))
