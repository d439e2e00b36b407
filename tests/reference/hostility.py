"""Falls upon three nodes with what `hostile_frames` makes, and looks after each wave at the damage.

There is none if all nodes run, lead and keep three in sync, a well-behaved client is served, and
the logs of all replicas are the same and can be read.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.reference.wire.translation import inner, made
from results.record.clock import stopwatch_s
from tests.reference.batch_maker import produced
from tests.reference.hostile_frames import GROUP, PREY, HostileFrames
from tests.reference.nodes_inside import LIMIT_S, NodesInside, Pipe, response

CANARY = "canary"
"""The well-behaved client's topic."""
KEPT = (CANARY, PREY, "__consumer_offsets")
OFFSETS = "__consumer_offsets"
PATIENCE = 60
"""Frames between two turns of the loop, in which the nodes do everything else."""
REMEMBERED = 300
_JOIN_GROUP = 11
_OFFSET_COMMIT = 8


@dataclass(slots=True)
class Hostility:
    """What falls upon the nodes.

    Attributes:
        nodes: Them.
        random: The chance.
        seen: What came of the frames, by their kinds.
        last: The latest frames, with the node each went to: if something breaks, it is one of them.
    """

    nodes: NodesInside
    random: Random
    seen: Counter[str] = field(default_factory=Counter)
    last: deque[tuple[int, str, bytes]] = field(default_factory=deque)
    frames: HostileFrames = field(init=False)
    _pipes: dict[int, Pipe] = field(default_factory=dict)
    _asked: dict[Pipe, dict[int, tuple[int, int]]] = field(default_factory=dict)
    _count: int = 0
    _canaries: int = 0

    def __post_init__(self) -> None:
        self.frames = HostileFrames(self.random)

    async def begin(self) -> None:
        """Make what will be fallen upon."""
        await self.nodes.create(CANARY, partitions=1)
        await self.nodes.create(PREY, partitions=2)
        await self.nodes.ask(1, 10, 0, key=GROUP)
        await self.nodes.until(lambda: self.nodes.leader(OFFSETS, 0) > 0, "offsets to be led")
        self._learn_topics()

    async def wave(self, count: int) -> None:
        """Send so many frames.

        Raises:
            AssertionError: A node ended, or answered what nobody can read.
        """
        for number in range(count):
            self._send_one()
            if number % PATIENCE == 0:
                await asyncio.sleep(0)
                assert not self.nodes.dead(), self.nodes.dead()
        for pipe in self._pipes.values():
            self._read_answers(pipe)
            pipe.hang_up()
        self._pipes.clear()
        self._asked.clear()
        await asyncio.sleep(0)

    async def look(self) -> int:
        """See that nothing is broken; return how many records the prey has.

        Raises:
            AssertionError: Something is.
        """
        nodes = self.nodes
        while strangers := [name for name in nodes.image().topics if name not in KEPT]:
            self.seen["topics removed"] += len(strangers)
            await self._remove(*strangers)
        await nodes.until(nodes.whole, "leaders, and all replicas in sync")
        await self._serve_canary()
        found = 0
        for data in (await nodes.stored()).values():
            for batch in read_segment(data).batches:
                found += len(list(records(batch)))
        await self._restore()
        return found

    async def _restore(self) -> None:
        """Remove the topics that were made by the way, and the prey, whose settings are spoilt."""
        nodes = self.nodes
        await self._remove(PREY)
        await nodes.create(PREY, partitions=2)
        if OFFSETS not in nodes.image().topics:
            await nodes.ask(1, 10, 0, key=GROUP)
        await nodes.until(nodes.whole, "leaders of the topics that were made again")
        self._learn_topics()

    async def _remove(self, *names: str) -> None:
        """Remove topics; what was asked before may come after, and make one of them again."""
        nodes, left, told = self.nodes, names, None
        deadline_s = stopwatch_s() + LIMIT_S
        while left:
            assert stopwatch_s() < deadline_s, f"{left} cannot be removed: {told}"
            told = await nodes.ask(1, 20, 5, topic_names=left, timeout=timedelta(seconds=10))
            await nodes.until(lambda: len({*nodes.offsets()}) == 1, "all to know the same")
            left = tuple(name for name in left if name in nodes.image().topics)

    def _send_one(self) -> None:
        self._count += 1
        node = self.random.choice(self.nodes.ids)
        pipe = self._pipe(node)
        kind, data, sound = self.frames(self._count)
        self.last.append((node, kind, data))
        if len(self.last) > REMEMBERED:
            self.last.popleft()
        if sound is not None:
            self._asked[pipe][self._count] = sound
        for part in self._parts(data):
            pipe.send(part)
        self.seen[f"{kind}: {'hung up' if pipe.closed else 'kept'}"] += 1
        self._read_answers(pipe)

    def _pipe(self, node: int) -> Pipe:
        """Return the connection to a node; one that is of no use any more, or old, is left."""
        pipe = self._pipes.get(node)
        if pipe is not None and (pipe.closed or pipe.paused or self.random.random() < 0.03):
            self._read_answers(pipe)
            pipe.hang_up()
            self._asked.pop(pipe, None)
            pipe = None
        if pipe is None:
            pipe = self._pipes[node] = Pipe(self.nodes.nodes[node].driver)
            self._asked[pipe] = {}
        return pipe

    def _parts(self, data: bytes) -> tuple[bytes, ...]:
        if self.random.random() < 0.9 or len(data) < 2:
            return (data,)
        cut = self.random.randrange(1, len(data))
        return data[:cut], data[cut:]

    def _read_answers(self, pipe: Pipe) -> None:
        asked = self._asked.get(pipe, {})
        while pipe.answers:
            answer = pipe.answers.popleft()
            sound = asked.pop(int.from_bytes(answer[4:8], "big"), None)
            if sound is not None:
                said = response(answer, *sound)
                self.seen[f"request {sound[0]}: answered"] += 1
                if sound[0] == _JOIN_GROUP and said.member_id:
                    self.frames.members.append((said.member_id, said.generation_id))
                    del self.frames.members[:-10]

    async def _serve_canary(self) -> None:
        """Produce and fetch as Kafka's clients do."""
        self._canaries += 1
        value, offset = b"canary %d" % self._canaries, None
        while offset is None:
            offset = await self._produced(await self._canary_leader(), value)
        found: bytes | None = None
        while found is None:
            found = await self._fetched(await self._canary_leader(), offset)
        assert found == value

    async def _canary_leader(self) -> int:
        found = [0]

        def is_known() -> bool:
            found[0] = self.nodes.leader(CANARY, 0)
            return found[0] > 0

        await self.nodes.until(is_known, "the canary's leader")
        return found[0]

    async def _produced(self, leader: int, value: bytes) -> int | None:
        """Produce; return the offset, or None: somebody else leads by now."""
        form = load_request_schema(0, 9)
        of_topic: Any = inner(form, "topic_data")
        part: Any = made(inner(of_topic, "partition_data"), index=0, records=produced(value))
        topic = made(of_topic, name=CANARY, partition_data=(part,))
        told = await self.nodes.ask(
            leader, 0, 9, acks=-1, timeout=timedelta(seconds=30), topic_data=(topic,)
        )
        answer = told.responses[0].partition_responses[0]
        if answer.error_code is ErrorCode.not_leader_or_follower:
            return None
        assert answer.error_code is ErrorCode.none, answer
        return int(answer.base_offset)

    async def _fetched(self, leader: int, offset: int) -> bytes | None:
        """Fetch one value; None: somebody else leads by now."""
        of_topic: Any = inner(load_request_schema(1, 12), "topics")
        wanted: Any = made(
            inner(of_topic, "partitions"), partition=0, fetch_offset=offset,
            partition_max_bytes=1 << 20, current_leader_epoch=-1, last_fetched_epoch=-1,
        )  # fmt: skip
        topic = made(of_topic, topic=CANARY, partitions=(wanted,))
        got = await self.nodes.ask(
            leader, 1, 12, replica_id=-1, max_wait=timedelta(seconds=5),
            min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=(topic,),
        )  # fmt: skip
        answer = got.responses[0].partitions[0]
        if answer.error_code is ErrorCode.not_leader_or_follower:
            return None
        assert answer.error_code is ErrorCode.none, answer
        batch = read_segment(bytes(answer.records)).batches[0]
        return next(records(batch)).value

    def _learn_topics(self) -> None:
        image = self.nodes.image()
        self.frames.topic_ids = [
            each.topic_id for each in image.topics.values() if each.name != CANARY
        ]
