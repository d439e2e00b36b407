"""The controller: on a quorum of three, and brokers that are nothing but their heartbeats."""

import pytest
from kio.schema.errors import ErrorCode

from cluster.reference.messages.control import (
    BROKER_RESOURCE,
    PREFERRED,
    TOPIC_RESOURCE,
    UNCLEAN,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from cluster.reference.settings import Settings
from tests.reference.controlled_cluster import Cluster


def test_a_broker_is_fenced_until_it_has_replayed_its_registration() -> None:
    cluster = Cluster(brokers=0)
    cluster.register(1)
    assert cluster.image.brokers[1].fenced
    early = cluster.heartbeat(1, behind=True)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    wanting = cluster.heartbeat(1, fence=True)
    assert (wanting.is_caught_up, wanting.is_fenced) == (True, True)
    assert not cluster.heartbeat(1).is_fenced
    assert cluster.image.brokers[1].broker_epoch == cluster.epochs[1]


def test_a_second_process_waits_until_the_session_of_the_first_has_ended() -> None:
    cluster = Cluster()
    assert cluster.register(1, incarnation=1).broker_epoch == cluster.epochs[1], "the same again"
    assert cluster.register(1, incarnation=2).error_code is ErrorCode.duplicate_broker_registration
    first = cluster.epochs[1]
    cluster.alive = [2, 3]
    cluster.live(10)
    assert cluster.register(1, incarnation=2).error_code is ErrorCode.none
    assert cluster.epochs[1] > first
    cluster.epochs[1], newer = first, cluster.epochs[1]
    assert cluster.heartbeat(1).error_code is ErrorCode.stale_broker_epoch
    cluster.epochs[1] = newer
    assert not cluster.heartbeat(1).is_fenced


def test_who_is_not_heard_of_leaves_isrs_and_leaderships() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3), (2, 1, 3))
    cluster.alive = [2, 3]
    cluster.live(10)
    led, followed = cluster.partition(0), cluster.partition(1)
    assert cluster.image.brokers[1].fenced
    assert (led.leader, led.leader_epoch, led.isr) == (2, 1, (2, 3))
    assert (followed.leader, followed.leader_epoch, followed.isr) == (2, 0, (2, 3))
    assert followed.partition_epoch == 1
    cluster.alive = []
    cluster.world.run(12_000)
    gone = cluster.partition(0)
    assert gone.leader == -1
    assert gone.isr in ((2,), (3,)), "the last one stays in the ISR"
    last = gone.isr[0]
    other = 5 - last
    cluster.heartbeat(other)
    assert cluster.partition(0).leader == -1, "it is live, but not in sync"
    cluster.heartbeat(last)
    back = cluster.partition(0)
    assert (back.leader, back.isr) == (last, (last,))


def test_an_unclean_election_only_if_it_is_allowed() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    cluster.create("u", (1, 2), unclean_leader_election_enable="true")
    assert cluster.alter((1,)).error_code is ErrorCode.none
    cluster.alive = [2]
    cluster.live(11)
    careful, careless = cluster.partition(), cluster.partition(topic="u")
    assert (careful.leader, careful.isr) == (-1, (1,))
    assert careless.leader == 2
    assert cluster.elect(PREFERRED, ("t", 0)) == [ErrorCode.preferred_leader_not_available]
    assert cluster.elect(UNCLEAN, ("t", 0), ("u", 0)) == [
        ErrorCode.none, ErrorCode.election_not_needed
    ]  # fmt: skip
    after = cluster.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)
    cluster.alter((2,))
    assert cluster.partition().leader_recovery_state == 0, "its leader says that it has recovered"


def test_unclean_elections_are_held_as_soon_as_a_config_allows_them() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", (1, 2))
    cluster.alter((1,))
    cluster.alive = [2]
    cluster.live(11)
    name = "unclean.leader.election.enable"
    assert cluster.configure(TOPIC_RESOURCE, "t", name, "perhaps") is ErrorCode.invalid_config
    assert cluster.partition().leader == -1
    assert cluster.configure(TOPIC_RESOURCE, "t", name, "true") is ErrorCode.none
    assert cluster.partition().leader == 2


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"isr": (1, 2), "leader_epoch": 7}, ErrorCode.not_controller),
        ({"isr": (1, 2), "partition_epoch": 7}, ErrorCode.not_controller),
        ({"isr": (1, 2), "leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"isr": (1, 2), "partition_epoch": 0}, ErrorCode.invalid_update_version),
        ({"isr": (1, 2), "by": 3}, ErrorCode.invalid_request),
        ({"isr": (1, 3)}, ErrorCode.invalid_request),
        ({"isr": (2, 2)}, ErrorCode.invalid_request),
        ({"isr": (2, 4)}, ErrorCode.invalid_request),
        ({"isr": (2, 1), "epochs": (-1, 1)}, ErrorCode.ineligible_replica),
        ({"isr": (2, 1)}, ErrorCode.none),
        ({"isr": (2, 1), "epochs": (-1, -1)}, ErrorCode.none),
    ],
)
def test_a_leader_s_wish_is_checked(wish: dict[str, object], error: ErrorCode) -> None:
    cluster = Cluster(brokers=4)
    cluster.create("t", (1, 2, 3))
    cluster.elect(UNCLEAN)
    cluster.alter((1, 2, 3))
    cluster.heartbeat(1, fence=True)  # Epoch 1 of 2: one led before.
    cluster.heartbeat(1)
    assert cluster.partition().leader_epoch == 1
    before = cluster.partition()
    answer = cluster.alter(**wish)  # type: ignore[arg-type]  # the table's
    assert answer.error_code is error
    if error is not ErrorCode.none:
        assert cluster.partition() == before
    else:
        assert cluster.partition().isr == answer.isr == (2, 1)
        assert cluster.partition().leader_epoch == 1, "an ISR begins no epoch (KIP-497)"
        assert answer.partition_epoch == before.partition_epoch + 1


def test_a_fenced_broker_joins_no_isr() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3))
    cluster.heartbeat(3, fence=True)
    assert cluster.partition().isr == (1, 2)
    assert cluster.alter((1, 2, 3)).error_code is ErrorCode.ineligible_replica


def test_a_controlled_shutdown_hands_over_and_waits_for_the_others_to_know() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3), (1, 3, 2))
    cluster.live(1)
    asked = cluster.heartbeat(1, leave=True)
    assert not asked.should_shut_down
    assert [each.leader for each in cluster.image.partitions()] == [2, 3]
    assert all(1 not in each.isr for each in cluster.image.partitions())
    assert not cluster.image.brokers[1].fenced
    assert not cluster.heartbeat(1, leave=True).should_shut_down, "who stays has not replayed it"
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, leave=True).should_shut_down
    assert cluster.register(1, incarnation=2).error_code is ErrorCode.none, "it need not wait"
    assert not cluster.image.brokers[1].in_controlled_shutdown


def test_a_reassignment_ends_when_all_that_come_are_in_sync() -> None:
    cluster = Cluster(brokers=4)
    cluster.create("t", (1, 2))
    assert cluster.reassign((3, 4)) is ErrorCode.none
    during = cluster.partition()
    assert (during.replicas, during.adding, during.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    listed = cluster.ask(
        ListPartitionReassignmentsRequest(topic_partitions=None), ListPartitionReassignmentsResponse
    )
    assert [each.adding_replicas for each in listed.partitions] == [(3, 4)]
    assert cluster.alter((1, 2, 3)).error_code is ErrorCode.none
    assert cluster.partition().adding == (3, 4)
    last = cluster.alter((1, 2, 3, 4))
    assert last.error_code is ErrorCode.new_leader_elected
    after = cluster.partition()
    assert (after.replicas, after.isr, after.adding, after.removing) == ((3, 4), (3, 4), (), ())
    assert (after.leader, after.leader_epoch) == (3, 1)


def test_a_reassignment_can_be_called_off() -> None:
    cluster = Cluster(brokers=4)
    cluster.create("t", (1, 2))
    assert cluster.reassign(None) is ErrorCode.no_reassignment_in_progress
    assert cluster.reassign((1, 1)) is ErrorCode.invalid_replica_assignment
    assert cluster.reassign((1, 9)) is ErrorCode.invalid_replica_assignment
    cluster.reassign((3, 2))
    cluster.alter((1, 2))
    assert cluster.reassign(None) is ErrorCode.none
    after = cluster.partition()
    assert (after.replicas, after.adding, after.removing) == ((2, 1), (), ())


def test_replicas_that_only_go_are_gone_at_once() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3))
    assert cluster.reassign((2, 3)) is ErrorCode.none
    after = cluster.partition()
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2, 3), (2, 3), 2, 1)


def test_the_preferred_leader_is_elected_when_it_is_back() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3))
    assert cluster.elect(PREFERRED, ("t", 0), ("t", 5)) == [
        ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition
    ]  # fmt: skip
    cluster.heartbeat(1, fence=True)
    cluster.heartbeat(1)
    assert cluster.partition().leader == 2
    assert cluster.elect(PREFERRED) == [ErrorCode.preferred_leader_not_available]
    cluster.alter((2, 3, 1))
    assert cluster.elect(PREFERRED) == [ErrorCode.none]
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 2)


def test_leaderships_go_back_to_the_first_replicas_after_a_while() -> None:
    cluster = Cluster(settings=Settings(leader_imbalance_check_interval_seconds=10))
    cluster.create("t", (1, 2, 3))
    cluster.heartbeat(1, fence=True)
    cluster.heartbeat(1)
    cluster.alter((2, 3, 1))
    assert cluster.partition().leader == 2
    cluster.live(11)
    assert cluster.partition().leader == 1


def test_snapshots_are_made_by_themselves_and_stand_for_all_before() -> None:
    cluster = Cluster(settings=Settings(metadata_log_max_record_bytes_between_snapshots=600))
    for number in range(8):
        cluster.create(f"t{number}", (1, 2, 3))
    world, leader = cluster.world, cluster.active
    start = world.quorum(leader).log.start_offset
    assert start > 0
    lost, restarted = [each for each in world.voters if each != leader]
    for number in (lost, restarted):
        world.crash(number)
        if number == lost:
            node = world.nodes[number]
            node.batches, node.flushed, node.files = [], 0, {}
        world.start(number)
        assert world.plane(number).image.offset == -1 or number == restarted
        world.run(3000)
        image = world.plane(number).image
        assert not image.changes_since(cluster.image)
        assert image.next_producer_id == cluster.image.next_producer_id
    assert world.quorum(lost).log.start_offset >= start


def test_topics_are_placed_in_turn_and_those_that_cannot_be_say_why() -> None:
    cluster = Cluster()

    def made(name: str, count: int = 3, factor: int = 2, **more: object) -> object:
        topic = CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=factor,
            **more,  # type: ignore[arg-type]  # the table's
        )
        answer = cluster.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        return answer.topics[0].error_code

    assert made("a") is ErrorCode.none
    assert sorted(cluster.partition(each, "a").leader for each in range(3)) == [1, 2, 3]
    assert made("a") is ErrorCode.topic_already_exists
    assert made("no such name") is ErrorCode.invalid_topic_exception
    assert made("b", factor=4) is ErrorCode.invalid_replication_factor
    assert made("b", count=0) is ErrorCode.invalid_partitions
    assert made("b", assignments=((0, (1, 1)),)) is ErrorCode.invalid_replica_assignment
    assert made("b", assignments=((1, (1, 2)),)) is ErrorCode.invalid_replica_assignment
    bad = (("min.insync.replicas", "many"),)
    assert made("b", configs=bad) is ErrorCode.invalid_config
    assert "b" not in cluster.image.topics


def test_a_topic_made_again_is_another_one() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2))
    first = cluster.partition().topic_id
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"), DeleteTopicState(name="x")))
    gone = cluster.ask(request, DeleteTopicsResponse)
    assert [each.error_code for each in gone.responses] == [
        ErrorCode.none, ErrorCode.unknown_topic_or_partition
    ]  # fmt: skip
    assert "t" not in cluster.image.topics
    cluster.create("t", (1, 2))
    assert cluster.partition().topic_id != first


def test_a_topic_gets_more_partitions() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2))

    def more(name: str, count: int) -> ErrorCode:
        topic = CreatePartitionsTopic(name=name, count=count)
        request = CreatePartitionsRequest(topics=(topic,))
        return cluster.ask(request, CreatePartitionsResponse).results[0].error_code

    assert more("t", 3) is ErrorCode.none
    assert [len(each.replicas) for each in cluster.image.partitions()] == [2, 2, 2]
    assert more("t", 3) is ErrorCode.invalid_partitions
    assert more("x", 3) is ErrorCode.unknown_topic_or_partition


def test_no_producer_id_is_given_away_twice() -> None:
    cluster = Cluster()
    blocks = []
    for broker in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=cluster.epochs[broker])
        blocks.append(cluster.ask(request, AllocateProducerIdsResponse))
    assert [each.producer_id_start for each in blocks] == [0, 1000, 2000]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
    refused = cluster.ask(stale, AllocateProducerIdsResponse)
    assert refused.error_code is ErrorCode.stale_broker_epoch


def test_a_broker_is_forgotten() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2))
    gone = cluster.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert gone.error_code is ErrorCode.none
    assert 1 not in cluster.image.brokers
    assert cluster.partition().leader == 2
    again = cluster.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert again.error_code is ErrorCode.broker_id_not_registered


def test_configs_are_checked_and_kept() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2))
    name = "min.insync.replicas"
    assert cluster.configure(TOPIC_RESOURCE, "t", name, "2") is ErrorCode.none
    assert cluster.image.config(TOPIC_RESOURCE, "t") == {name: "2"}
    assert cluster.configure(TOPIC_RESOURCE, "x", name, "2") is ErrorCode.unknown_topic_or_partition
    assert cluster.configure(BROKER_RESOURCE, "", name, "2") is ErrorCode.none
    assert cluster.configure(BROKER_RESOURCE, "9", name, "2") is ErrorCode.broker_id_not_registered


def test_a_controller_that_is_not_active_refuses_everything() -> None:
    cluster = Cluster()
    cluster.active = cluster.active % 3 + 1
    assert cluster.register(1).error_code is ErrorCode.not_controller
    assert cluster.create("t", (1,)) is ErrorCode.not_controller


def test_what_a_leader_without_majority_decides_is_neither_answered_nor_true() -> None:
    cluster = Cluster()
    world, old = cluster.world, cluster.active
    world.isolate(old)
    topic = CreatableTopic(name="t", assignments=((0, (1, 2)),))
    asked = world.ask(old, CreateTopicsRequest(topics=(topic,)))
    world.run(500)
    assert asked.is_open
    assert "t" not in cluster.image.topics
    cluster.active = world.until_leader(among=[each for each in world.voters if each != old])
    world.run(3000)
    assert isinstance(asked.answer, CreateTopicsResponse)
    assert asked.answer.topics[0].error_code is ErrorCode.not_controller
    world.heal()
    world.run(5000)
    assert all("t" not in world.plane(each).image.topics for each in world.voters)


def test_the_next_controller_goes_on_where_the_last_one_ended() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3))
    before = cluster.partition()
    cluster.world.crash(cluster.active)
    cluster.active = cluster.world.until_leader()
    cluster.world.run(100)
    assert cluster.partition() == before
    cluster.alive = [2, 3]
    cluster.live(3)
    assert cluster.partition().leader == 1, "a new controller gives everybody a session's time"
    cluster.live(8)
    assert cluster.partition().leader == 2


def test_everybody_replays_the_same() -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3), (2, 3, 1))
    cluster.configure(TOPIC_RESOURCE, "t", "min.insync.replicas", "2")
    cluster.alive = [1, 3]
    cluster.live(11)
    world = cluster.world
    for number in world.voters:
        image = world.plane(number).image
        assert not image.changes_since(cluster.image)
        assert image.offset == cluster.image.offset
