"""Three nodes as processes, with the clients that users have: librdkafka's."""

import contextlib
import io
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from cluster.coordinators import key_partition
from cluster.files.batches import read_segment
from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.reference.process.control import SOCKET
from cluster.reference.wire.apis import APIS
from cluster.reference.wire.frames import framed
from cluster.reference.wire.peers import hello
from cluster.reference.wire.translation import made
from results.record.clock import stopwatch_s, wait_until
from tests.reference.node_processes import LIMIT_S, NodeProcesses, node_processes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcesses]:
    with node_processes(tmp_path_factory.mktemp("nodes")) as cluster:
        yield cluster


def produce(cluster: NodeProcesses, topic: str, values: list[bytes]) -> list[KafkaError]:
    """Send with acks=all, idempotently, to partitions by the values; return what failed."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True}
    )
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value, key=value, on_delivery=note)
    assert producer.flush(LIMIT_S) == 0
    return failed


def consumer(cluster: NodeProcesses, group: str, **settings: object) -> Consumer:
    return Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": group,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "isolation.level": "read_committed", **settings,
    })  # fmt: skip


def read(from_: Consumer, count: int) -> list[bytes]:
    """Read so many messages, or fail."""
    found: list[bytes] = []
    deadline_s = stopwatch_s() + LIMIT_S
    while len(found) < count and stopwatch_s() < deadline_s:
        message = from_.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    return found


def test_what_is_acknowledged_is_read_by_a_group_and_its_offsets_stay(
    nodes: NodeProcesses,
) -> None:
    nodes.create("whole", partitions=4)
    values = [str(number).encode() for number in range(500)]
    assert produce(nodes, "whole", values) == []
    reader = consumer(nodes, "readers")
    reader.subscribe(["whole"])
    assert sorted(read(reader, 500)) == sorted(values)
    reader.commit(asynchronous=False)
    reader.close()
    places = [TopicPartition("whole", number) for number in range(4)]
    again = consumer(nodes, "readers")
    assert sum(each.offset for each in again.committed(places, timeout=LIMIT_S)) == 500
    again.close()


def test_two_members_share_and_one_that_leaves_gives_back(nodes: NodeProcesses) -> None:
    nodes.create("shared", partitions=4)
    first, second = consumer(nodes, "sharing"), consumer(nodes, "sharing")
    for each in (first, second):
        each.subscribe(["shared"])

    def shares() -> list[int]:
        for each in (first, second):
            each.poll(0.05)
        return sorted((len(first.assignment()), len(second.assignment())))

    wait_until(lambda: shares() == [2, 2], timeout_s=LIMIT_S, what="two partitions for each")
    second.close()

    def has_all() -> bool:
        first.poll(0.05)
        return len(first.assignment()) == 4

    wait_until(has_all, timeout_s=LIMIT_S, what="all partitions for who is left")
    first.close()


def test_replicas_have_the_same_bytes(nodes: NodeProcesses) -> None:
    nodes.create("equal")
    assert produce(nodes, "equal", [b"x" * number for number in range(50)]) == []

    def logs() -> list[bytes]:
        return [
            (nodes.folder(node) / "data/equal-0/00000000000000000000.log").read_bytes()
            for node in nodes.ids
        ]

    wait_until(lambda: len(set(logs())) == 1, timeout_s=LIMIT_S, what="equal segments")
    segment = read_segment(logs()[0])
    assert segment.damage == ()
    assert segment.batches[-1].end_offset == 50


def test_bytes_of_strangers_never_stop_a_broker(nodes: NodeProcesses) -> None:
    nodes.create("calm")
    random = Random(3)
    for number in range(400):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(
                ("127.0.0.1", nodes.ports[1 + number % 3]), timeout=LIMIT_S
            ) as stranger,
        ):
            stranger.sendall(_nonsense(random, number))
    for node in nodes.ids:
        assert nodes.runs(node)
    assert produce(nodes, "calm", [b"after all"]) == []


def test_requests_that_no_client_would_make_are_answered_or_refused(nodes: NodeProcesses) -> None:
    random = Random(4)
    for key, api in APIS.items():
        for version in (api.low, api.high):
            for _ in range(6):
                frame = _request(random, key, version)
                with socket.create_connection(
                    ("127.0.0.1", nodes.ports[2]), timeout=LIMIT_S
                ) as stranger:
                    stranger.sendall(framed(frame))
                    # Its end is told: whoever is parked on it is forgotten.
    for node in nodes.ids:
        assert nodes.runs(node), nodes.said(node)[-2000:]
    nodes.wait_live()


def test_an_unknown_version_is_answered_with_those_that_there_are(nodes: NodeProcesses) -> None:
    with socket.create_connection(("127.0.0.1", nodes.ports[1]), timeout=LIMIT_S) as client:
        client.sendall(framed(struct.pack(">hhih", 18, 77, 9, -1)))
        stream = client.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        form = load_response_schema(18, 0)
        _header, at = entity_reader(form.__header_schema__)(payload := stream.read(length), 0)
        told: Any = entity_reader(form)(payload, at)[0]
    assert told.error_code == 35
    assert {each.api_key for each in told.api_keys} == {18}


def test_cut_links_are_a_partition_until_they_are_healed(nodes: NodeProcesses) -> None:
    nodes.create("cut")
    leader = nodes.wait_led("cut")
    others = [node for node in nodes.ids if node != leader]
    try:
        assert nodes.control(leader, f"cut {others[0]} {others[1]}") == " ".join(map(str, others))
        for other in others:
            assert nodes.control(other, f"cut {leader}") == str(leader)
        wait_until(
            lambda: _leader_as_seen_by(nodes, others[0], "cut") in others,
            timeout_s=LIMIT_S,
            what="another leader than the one that is cut off",
        )
    finally:
        for node in nodes.ids:
            assert nodes.control(node, "heal") == ""
    nodes.wait_live()
    nodes.wait_led("cut")
    assert produce(nodes, "cut", [b"healed"]) == []
    assert nodes.control(leader, "what?").startswith("error")


def test_a_killed_leader_loses_nothing_and_all_end_in_good_order(tmp_path: Path) -> None:
    with node_processes(tmp_path) as cluster:
        cluster.create("kept")
        before = [b"before %d" % number for number in range(100)]
        assert produce(cluster, "kept", before) == []
        leader = cluster.wait_led("kept")
        cluster.kill(leader)
        cluster.wait_led("kept", isr=2)
        after = [b"after %d" % number for number in range(100)]
        assert produce(cluster, "kept", after) == []
        cluster.start([leader])
        cluster.wait_live()
        cluster.wait_led("kept")
        reader = consumer(cluster, "all")
        reader.assign([TopicPartition("kept", 0, 0)])
        assert read(reader, 200) == [*before, *after]
        reader.close()
        assert set(cluster.stop().values()) == {0}
        for node in cluster.ids:
            assert (cluster.folder(node) / "data/.kafka_cleanshutdown").exists()
            assert "shut down completed" in cluster.said(node)
            assert not (cluster.folder(node) / SOCKET).exists()


def test_committed_offsets_outlive_their_coordinator(tmp_path: Path) -> None:
    with node_processes(tmp_path) as cluster:
        cluster.create("read")
        assert produce(cluster, "read", [b"x"] * 20) == []
        reader = consumer(cluster, "group")
        reader.subscribe(["read"])
        assert len(read(reader, 20)) == 20
        reader.commit(asynchronous=False)
        offsets = cluster.admin().list_topics(OFFSETS_TOPIC, timeout=LIMIT_S).topics[OFFSETS_TOPIC]
        coordinator = offsets.partitions[key_partition("group", 4)].leader
        cluster.kill(coordinator)
        cluster.wait_live([node for node in cluster.ids if node != coordinator])
        place = TopicPartition("read", 0)
        again = consumer(cluster, "group")
        assert [it.offset for it in again.committed([place], timeout=LIMIT_S)] == [20]
        again.close()
        assert produce(cluster, "read", [b"y"] * 5) == []
        assert read(reader, 5) == [b"y"] * 5  # The member has joined again elsewhere.
        reader.close()


def _leader_as_seen_by(cluster: NodeProcesses, node: int, topic: str) -> int:
    told = _asked(cluster.ports[node], 3, 12, {"topics": None, "allow_auto_topic_creation": False})
    for each in told.topics:  # type: ignore[attr-defined]
        if each.name == topic:
            return int(each.partitions[0].leader_id)
    return -1


def _asked(port: int, key: int, version: int, values: dict[str, object]) -> object:
    """Ask one broker by itself."""
    form = load_request_schema(key, version)
    frame = _encoded(form, key, version, values)
    answer = load_response_schema(key, version)
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(framed(frame))
        stream = client.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        payload = stream.read(length)
    _header, at = entity_reader(answer.__header_schema__)(payload, 0)
    return entity_reader(answer)(payload, at)[0]


def _encoded(form: type, key: int, version: int, values: dict[str, object]) -> bytes:
    header = form.__header_schema__  # type: ignore[attr-defined]
    named = made(
        header, request_api_key=key, request_api_version=version, correlation_id=1, client_id="c"
    )
    buffer = io.BytesIO()
    entity_writer(header)(buffer, named)
    entity_writer(form)(buffer, made(form, **values))
    return buffer.getvalue()


def _nonsense(random: Random, number: int) -> bytes:
    garbage = random.randbytes(random.randint(1, 300))
    match number % 5:
        case 0:
            return garbage
        case 1:
            return framed(garbage)
        case 2:  # Announced, and never sent.
            return struct.pack(">i", 100_000_000) + garbage
        case 3:
            return hello(random.randint(-5, 5), random.randbytes(32)) + framed(garbage)
        case _:
            return framed(struct.pack(">hhi", random.randint(0, 90), random.randint(0, 15), 7))


def _request(random: Random, key: int, version: int) -> bytes:
    """Return a sound request whose bytes behind the header are changed here and there."""
    frame = bytearray(_encoded(load_request_schema(key, version), key, version, {}))
    for _ in range(random.randint(0, 3)):
        frame[random.randrange(11, len(frame))] = random.randrange(256)
    return bytes(frame)
