"""Nodes of a cluster in this process, with their real driver, files and links.

Clients come in by pipes that need no sockets, so that a million frames take minutes.
"""

import asyncio
import io
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from cluster.files.batches import read_segment
from cluster.files.properties import properties
from cluster.hosts.process import free_ports
from cluster.reference.broker.boot import Booted, boot
from cluster.reference.controller.image import MetadataImage, PartitionImage
from cluster.reference.log.disk import FolderDisk
from cluster.reference.log.files import segment_path, segments
from cluster.reference.process.doors import Door
from cluster.reference.process.driver import Driver
from cluster.reference.process.formatting import cluster_key, format_log_dirs
from cluster.reference.process.journal import Journal
from cluster.reference.settings import parsed
from cluster.reference.wire.frames import framed
from cluster.reference.wire.translation import Theirs, inner, made
from results.record.clock import stopwatch_s
from tests.reference.node_processes import QUICK

LIMIT_S = 60.0
PAUSE_S = 0.02


class Pipe(asyncio.Transport):
    """A client's connection to a door, without a socket.

    Attributes:
        answers: Whole answers, with their lengths.
        closed: Whether the node has hung up.
        paused: Whether it reads no more.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.closed = self.paused = False
        self.answers: deque[bytes] = deque()
        self._bytes = bytearray()
        self._loop = asyncio.get_running_loop()
        self._door: Door = driver.door()
        self._door.connection_made(self)

    def send(self, data: bytes) -> None:
        if not self.closed:
            self._door.data_received(data)

    def hang_up(self) -> None:
        if not self.closed:
            self.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        held = self._bytes
        held += data
        while len(held) >= 4:
            end = 4 + int.from_bytes(held[:4], "big")
            if len(held) < end:
                break
            self.answers.append(bytes(held[:end]))
            del held[:end]

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.call_soon(self._door.connection_lost, None)

    def close(self) -> None:
        self.abort()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def request(key: int, version: int, /, client_id: object = "c", **values: object) -> bytes:
    """Return a request's payload, made by kio alone."""
    form: Theirs = load_request_schema(key, version)
    header = form.__header_schema__
    named = made(
        header,
        request_api_key=key,
        request_api_version=version,
        correlation_id=1,
        client_id=client_id,
    )
    buffer = io.BytesIO()
    entity_writer(header)(buffer, named)
    entity_writer(form)(buffer, made(form, **values))
    return buffer.getvalue()


def response(answer: bytes, key: int, version: int) -> Theirs:
    """Return what a client reads of an answer; all of it must be read."""
    form: Theirs = load_response_schema(key, version)
    _header, at = entity_reader(form.__header_schema__)(answer[4:], 0)
    said, size = entity_reader(form)(answer[4:], at)
    assert at + size == len(answer) - 4, f"{len(answer) - 4 - at - size} bytes behind {said}"
    return said


@dataclass(slots=True)
class Inside:
    """A node that runs here."""

    driver: Driver
    booted: Booted
    disk: FolderDisk
    journal: Journal
    servers: list[asyncio.Server] = field(default_factory=list)


class NodesInside:
    """Nodes 1, 2, 3; their folders are `root/n1`, ..."""

    def __init__(self, root: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.root, self.ids, self._more = root, (1, 2, 3), settings
        ports = free_ports(6)
        self._ports = dict(zip(self.ids, ports[:3], strict=True))
        self._quorum = dict(zip(self.ids, ports[3:], strict=True))
        self.nodes: dict[int, Inside] = {}

    async def start(self) -> None:
        format_log_dirs({node: self.root / f"n{node}" / "data" for node in self.ids})
        for node in self.ids:
            self.nodes[node] = await self._start(node)
        await self.until(self._all_live, "three brokers to live")

    async def _start(self, node: int) -> Inside:
        folder = self.root / f"n{node}"
        disk, journal = FolderDisk(folder / "data"), Journal(folder / "logs")
        booted = boot(parsed(self._properties(node)), disk, incarnation=uuid4())
        driver = Driver(
            node,
            booted.storage,
            key=cluster_key(folder / "data"),
            journal=journal,
            find=booted.machine.address,
        )
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(driver.door, *place) for place in booted.listens_at]
        driver.start(booted.machine)
        return Inside(driver, booted, disk, journal, servers)

    def close(self) -> None:
        for node in self.nodes.values():
            for server in node.servers:
                server.close()
            node.driver.close()
            node.disk.close()
            node.journal.close()

    def dead(self) -> list[str]:
        """Tell which nodes have ended, and by what."""
        return [
            f"n{number}: {node.driver.failure!r}"
            for number, node in self.nodes.items()
            if node.driver.ended.is_set()
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, but not for a cluster of which a node has ended."""
        deadline_s = stopwatch_s() + LIMIT_S
        while not condition():
            if self.dead() or stopwatch_s() > deadline_s:
                raise AssertionError(
                    f"waited in vain for {what}; ended: {self.dead()}, metadata up to"
                    f" {self.offsets()}, {self._differing()}, {list(self.image().partitions())}"
                )
            await asyncio.sleep(PAUSE_S)

    async def ask(self, node: int, key: int, version: int, /, **values: object) -> Theirs:
        """Ask a node, as a client that knows what it says; None: it hung up."""
        pipe = Pipe(self.nodes[node].driver)
        try:
            pipe.send(framed(request(key, version, **values)))
            await self.until(lambda: pipe.closed or bool(pipe.answers), f"an answer to {key}")
            return response(pipe.answers[0], key, version) if pipe.answers else None
        finally:
            pipe.hang_up()

    async def create(self, topic: str, *, partitions: int) -> None:
        form = load_request_schema(19, 7)
        of_topic: Theirs = made(
            inner(form, "topics"), name=topic, num_partitions=partitions, replication_factor=3
        )
        told = await self.ask(1, 19, 7, topics=(of_topic,), timeout=timedelta(seconds=5))
        # It may be there: somebody else has asked for it before, and was heard after.
        assert told.topics[0].error_code in {0, 36}, told
        await self.until(lambda: self.leader(topic, 0) > 0, f"a leader of {topic}")

    def image(self) -> MetadataImage:
        """Return what the first node knows."""
        return self.nodes[1].booted.machine.image

    def offsets(self) -> list[int]:
        """Return up to where of the metadata log each node knows."""
        return [node.booted.machine.image.offset for node in self.nodes.values()]

    def leader(self, topic: str, partition: int) -> int:
        """Return who leads, as all brokers know, with all in sync; 0: there is nobody."""
        seen = set()
        for node in self.nodes.values():
            known = node.booted.machine.image.topics.get(topic)
            mine = known.partitions.get(partition) if known else None
            whole = mine is not None and len(mine.isr) == len(mine.replicas)
            seen.add(mine.leader if mine and whole else 0)
        return seen.pop() if len(seen) == 1 else 0

    def whole(self) -> bool:
        """Tell whether all partitions are led, with all their replicas in sync, as all know."""
        return len({*self.offsets()}) == 1 and all(
            each.leader > 0 and len(each.isr) == len(each.replicas) and not each.removing
            for each in self.image().partitions()
        )

    async def stored(self) -> dict[str, bytes]:
        """Wait until all replicas have the same, and return what their files hold, by folder.

        Raises:
            AssertionError: They differ, or cannot be read.
        """
        await self.until(lambda: self.whole() and not self._differing(), "all replicas to agree")
        found = {}
        for each in self.image().partitions():
            folder = f"{each.topic}-{each.partition}"
            first, *others = (self._stored(number, folder) for number in each.replicas)
            assert all(other == first for other in others), f"replicas of {folder} differ"
            read = read_segment(first)
            assert not read.damage, f"{folder}: {read.damage}"
            assert not read.torn, f"{folder} is torn"
            found[folder] = first
        return found

    def _differing(self) -> list[str]:
        """Return the partitions whose replicas' logs end differently."""
        return [
            f"{each.topic}-{each.partition}: {ends}"
            for each in self.image().partitions()
            if None in (ends := self._ends(each)) or len({*ends}) > 1
        ]

    def _ends(self, partition: PartitionImage) -> list[int | None]:
        found: list[int | None] = []
        for node in partition.replicas:
            replicas = self.nodes[node].booted.machine.replicas
            folder = f"{partition.topic}-{partition.partition}"
            mine = replicas.partitions.get(folder) if replicas else None
            found.append(mine.log.end_offset if mine else None)
        return found

    def _stored(self, number: int, folder: str) -> bytes:
        disk = self.nodes[number].disk
        paths = [segment_path(folder, base) for base in segments(disk).get(folder, [])]
        return b"".join(disk.read(path) for path in paths)

    def _all_live(self) -> bool:
        return all(
            sum(not each.fenced for each in node.booted.machine.image.brokers.values()) == 3
            for node in self.nodes.values()
        )

    def _properties(self, node: int) -> str:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self._quorum.items())
        broker = f"BROKER://127.0.0.1:{self._ports[node]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": f"{broker},CONTROLLER://127.0.0.1:{self._quorum[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.root / f"n{node}" / "data"),
            "offsets.topic.replication.factor": "3",
            **QUICK,
            "broker.session.timeout.ms": "9000",  # They all share one thread with whoever attacks.
            **self._more,
        }
        return properties(settings)
