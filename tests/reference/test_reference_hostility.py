"""Three nodes in this process, and clients that ask what they may not, or what nobody can mean."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from cluster.reference.messages.quorum import VoteRequest
from cluster.reference.wire.data import ADMIN_CLIENT
from cluster.reference.wire.frames import framed
from cluster.reference.wire.peers import hello, packed
from cluster.reference.wire.translation import Theirs, inner, made
from tests.reference.batch_maker import produced
from tests.reference.hostility import CANARY, OFFSETS, Hostility
from tests.reference.nodes_inside import NodesInside, Pipe

FRAMES = 1600
T = TypeVar("T")


def with_nodes(root: Path, use: Callable[[NodesInside], Awaitable[T]], **settings: str) -> T:
    async def run() -> T:
        nodes = NodesInside(root, {key.replace("_", "."): it for key, it in settings.items()})
        try:
            await nodes.start()
            return await use(nodes)
        finally:
            nodes.close()

    return asyncio.run(run())


def test_hostile_frames_leave_nodes_and_logs_as_they_should_be(tmp_path: Path) -> None:
    """`benchmarks/hostile.py` sends a million of them."""

    async def fall_upon(nodes: NodesInside) -> Hostility:
        hostility = Hostility(nodes, Random(5))
        await hostility.begin()
        for _ in range(2):
            await hostility.wave(FRAMES // 2)
            await hostility.look()
        return hostility

    seen = with_nodes(tmp_path, fall_upon).seen
    assert sum(count for what, count in seen.items() if what.endswith("hung up")) > FRAMES // 10
    answered = {what for what in seen if what.endswith("answered")}
    assert len(answered) > 15, "so many kinds of requests came as far as the machine"


def test_clients_are_refused_what_only_brokers_do(tmp_path: Path) -> None:
    with_nodes(tmp_path, _try_what_brokers_do)


async def _try_what_brokers_do(nodes: NodesInside) -> None:
    await nodes.create(CANARY, partitions=1)
    await nodes.ask(1, 10, 0, key="group")
    await nodes.until(lambda: nodes.leader(OFFSETS, 0) > 0, "offsets to be led")
    leader = nodes.leader(OFFSETS, 0)
    for version in (3, 8, 9, 11):
        stranger = await _produce(nodes, leader, version, client="c")
        assert stranger is ErrorCode.invalid_topic_exception
        assert await _produce(nodes, leader, version, client=ADMIN_CLIENT) is ErrorCode.none
    for version in (4, 12):
        leads = nodes.leader(CANARY, 0)
        follower = next(node for node in nodes.ids if node != leads)
        before = await _fetch(nodes, leads, version, CANARY, replica=follower)
        assert before is ErrorCode.topic_authorization_failed
        assert await _fetch(nodes, leads, version, CANARY, replica=-1) is ErrorCode.none
        quorum = await _fetch(nodes, 1, version, "__cluster_metadata", replica=2)
        assert quorum is ErrorCode.topic_authorization_failed
    for name, count, error in (
        ("__cluster_metadata", 1, ErrorCode.invalid_request),
        ("many", 10_001, ErrorCode.policy_violation),
        ("many", (1 << 31) - 1, ErrorCode.policy_violation),
        ("none", 0, ErrorCode.invalid_partitions),
        ("none", -(1 << 31), ErrorCode.invalid_partitions),
    ):
        assert await _create(nodes, (name, count)) == [error]
    several = await _create(nodes, *((f"t{number}", 5001) for number in range(2)))
    assert several == [ErrorCode.policy_violation] * 2
    assert {*nodes.image().topics} == {CANARY, OFFSETS}


def test_who_is_no_node_of_the_cluster_has_no_say_in_it(tmp_path: Path) -> None:
    with_nodes(tmp_path, _try_to_be_a_node)


async def _try_to_be_a_node(nodes: NodesInside) -> None:
    vote = VoteRequest(
        cluster_id=None, voter_id=1, voter_directory_id=None, replica_epoch=1000, replica_id=2,
        replica_directory_id=None, last_offset_epoch=1000, last_offset=1000, pre_vote=False,
    )  # fmt: skip
    key = nodes.nodes[1].driver.key
    hugest = replace(vote, replica_epoch=(1 << 31) - 1)
    for greeting, message, is_heard in (
        (hello(2, bytes(32)), vote, False),
        (hello(2, key)[:-1] + b"\0", vote, False),
        (hello(2, key), hugest, False),
        (hello(2, key), vote, True),
    ):
        pipe = Pipe(nodes.nodes[1].driver)
        pipe.send(greeting + framed(packed(7, message)))
        assert pipe.closed is not is_heard
        knows = nodes.nodes[1].booted.machine.plane.quorum.epoch
        assert (knows >= 1000) is is_heard, "only the last one comes as far as the quorum"
        pipe.hang_up()
    await nodes.until(nodes.whole, "a cluster that leads again")


def test_small_requests_have_no_large_answers(tmp_path: Path) -> None:
    """A thousand times the same in a request of kilobytes was answered with megabytes."""
    with_nodes(tmp_path, _ask_a_thousand_times, fetch_max_bytes="1000")


async def _ask_a_thousand_times(nodes: NodesInside) -> None:
    await nodes.create(CANARY, partitions=1)
    leader = nodes.leader(CANARY, 0)
    for _ in range(3):
        error = await _produce(nodes, leader, 9, client="c", topic=CANARY, value=b"x" * 600)
        assert error is ErrorCode.none
    topic = _of(3, 12, "topics", name=CANARY)
    told = await nodes.ask(leader, 3, 12, topics=(topic,) * 1000)
    assert [each.name for each in told.topics] == [CANARY]
    told = await nodes.ask(leader, 75, 0, topics=(_of(75, 0, "topics", name=CANARY),) * 1000)
    assert [each.name for each in told.topics] == [CANARY]
    broker = _of(32, 4, "resources", resource_type=4, resource_name="1", configuration_keys=None)
    told = await nodes.ask(leader, 32, 4, resources=(broker,) * 1000)
    assert [each.resource_name for each in told.results] == ["1"]
    group = _of(9, 9, "groups", group_id="g", topics=None)
    told = await nodes.ask(leader, 9, 9, groups=(group,) * 1000)
    assert [each.group_id for each in told.groups] == ["g"]
    part = _of(1, 12, "topics", "partitions", partition=0, partition_max_bytes=1 << 30,
               current_leader_epoch=-1, last_fetched_epoch=-1)  # fmt: skip
    wanted = _of(1, 12, "topics", topic=CANARY, partitions=(part,) * 1000)
    told = await nodes.ask(leader, 1, 12, replica_id=-1, max_bytes=1 << 30, topics=(wanted,) * 9)
    (read,) = [each for topic in told.responses for each in topic.partitions]
    assert 600 < len(read.records) <= 1000, "fetch.max.bytes is 1000"
    time = _of(2, 7, "topics", "partitions", partition_index=0, timestamp=0)
    named = _of(2, 7, "topics", name=CANARY, partitions=(time,) * 3)
    told = await nodes.ask(leader, 2, 7, replica_id=-1, topics=(named,))
    errors = [each.error_code for each in told.topics[0].partitions]
    assert errors == [ErrorCode.none, *[ErrorCode.invalid_request] * 2]


def _of(key: int, version: int, *names: str, **values: object) -> Theirs:
    form: Theirs = load_request_schema(key, version)
    for name in names:
        form = inner(form, name)
    return made(form, **values)


async def _produce(
    nodes: NodesInside, leader: int, version: int, *, client: str, topic: str = OFFSETS,
    value: bytes = b"1",
) -> ErrorCode:  # fmt: skip
    of_topic: Theirs = inner(load_request_schema(0, version), "topic_data")
    part = made(inner(of_topic, "partition_data"), index=0, records=produced(value))
    wanted = made(of_topic, name=topic, partition_data=(part,))
    told = await nodes.ask(
        leader, 0, version, acks=-1, timeout=timedelta(seconds=30), topic_data=(wanted,),
        client_id=client,
    )  # fmt: skip
    error: ErrorCode = told.responses[0].partition_responses[0].error_code
    return error


async def _fetch(
    nodes: NodesInside, node: int, version: int, topic: str, *, replica: int
) -> ErrorCode:
    of_topic: Theirs = inner(load_request_schema(1, version), "topics")
    part = made(inner(of_topic, "partitions"), partition=0, partition_max_bytes=1,
                current_leader_epoch=-1, last_fetched_epoch=-1)  # fmt: skip
    wanted = (made(of_topic, topic=topic, partitions=(part,)),)
    told = await nodes.ask(node, 1, version, replica_id=replica, max_bytes=1, topics=wanted)
    error: ErrorCode = told.responses[0].partitions[0].error_code
    return error


async def _create(nodes: NodesInside, *wanted: tuple[str, int]) -> list[ErrorCode]:
    of_topic: Theirs = inner(load_request_schema(19, 7), "topics")
    topics = tuple(
        made(of_topic, name=name, num_partitions=count, replication_factor=3)
        for name, count in wanted
    )
    told = await nodes.ask(1, 19, 7, topics=topics, timeout=timedelta(seconds=5))
    return [each.error_code for each in told.topics]
