"""A tiny world for members of the quorum: virtual time, a bad network, disks that forget.

It checks, after every event, what must never happen: two leaders in an epoch, two votes of a member
in an epoch, a high watermark that moves back, two members that committed different things, a leader
that lacks what was committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from uuid import UUID

from cluster.reference.controller.plane import KRaft
from cluster.reference.log.batches import sound_batches
from cluster.reference.log.log import Log
from cluster.reference.machine import (
    Answered,
    Append,
    Arrived,
    Asker,
    CancelTimer,
    Effect,
    Event,
    Fired,
    Flush,
    Hung,
    RemoveFile,
    Reply,
    Request,
    Say,
    SetTimer,
    Truncate,
    WriteFile,
)
from cluster.reference.messages.data import FetchRequest, FetchResponse
from cluster.reference.messages.quorum import VoteRequest, VoteResponse
from cluster.reference.quorum.member import Identity
from cluster.reference.quorum.quorum import Quorum
from cluster.reference.quorum.recovery import latest_snapshot
from cluster.reference.quorum.state import FOLDER, STATE_FILE, Role, election_state
from cluster.reference.settings import Settings

CLUSTER = "tests-cluster"
MS = 1_000_000


class BrokenInvariantError(AssertionError):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Node:
    """A member, its disk, and what it is going through."""

    number: int
    files: dict[str, bytes] = field(default_factory=dict)
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    flushed: int = 0
    part: Quorum | KRaft | None = None
    incarnation: int = 0
    paused: bool = False
    held: list[Event] = field(default_factory=list)
    timers: dict[str, int] = field(default_factory=dict)
    watermark: int = -1
    checked: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def quorum(self) -> Quorum | None:
        """Its part of the quorum, while it runs."""
        return self.part.quorum if isinstance(self.part, KRaft) else self.part


@dataclass(slots=True)
class Asked:
    """What a client asked."""

    answer: object | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is no answer yet."""
        return self.answer is None


class World:
    """Some members, and what is between them.

    Args:
        members: How many nodes; the first `voters` of them vote.
        seed: Of everything that is drawn.
        settings: Of all nodes.
        planes: Whether each is a whole control plane, with a controller.
    """

    def __init__(
        self,
        members: int,
        *,
        seed: int,
        voters: int | None = None,
        settings: Settings | None = None,
        planes: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.planes = planes
        self.voters = tuple(range(1, (voters or members) + 1))
        self.settings = settings or Settings()
        self.nodes = {number: Node(number) for number in range(1, members + 1)}
        self.now = 0
        self.loss = 0.0
        self.cut: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.committed: dict[int, bytes] = {}
        self._agenda: list[tuple[int, int, int, int, Event]] = []
        self._order = count()
        self._tokens = count()
        self._numbers = count(1)
        self._asked: dict[int, tuple[int, int, int, object]] = {}
        self._clients: dict[int, Asked] = {}
        self._looked_into: list[int] = []
        self.fetched: list[tuple[int, FetchRequest, FetchResponse]] = []

    def start(self, number: int) -> None:
        """Start a node with what its disk holds."""
        node = self.nodes[number]
        node.incarnation += 1
        node.timers, node.held, node.paused = {}, [], False
        node.watermark, node.checked = -1, 0
        node.part = (KRaft if self.planes else Quorum)(
            Identity(
                node=number, voters=self.voters, cluster_id=CLUSTER, directory=UUID(int=number)
            ),
            settings=self.settings,
            log=Log(FOLDER, batches=[data for _, data in node.batches]),
            state=election_state(node.files.get(STATE_FILE)),
            snapshot=latest_snapshot(node.files),
            numbers=self._numbers,
        )
        self._carry_out(node, node.part.start(self.now))

    def start_all(self) -> None:
        """Start every node."""
        for number in self.nodes:
            self.start(number)

    def crash(self, number: int, *, power: bool = True) -> None:
        """Kill a node; with its power goes what it had not flushed."""
        node = self.nodes[number]
        if node.part is None:
            return
        node.part = None
        node.incarnation += 1
        if power:
            del node.batches[node.flushed :]
        for other in self.nodes.values():
            if other.part is not None:
                self._at(other, 5 * MS, Hung(connection=node.incarnation * 100 + number))

    def pause(self, number: int) -> None:
        """Stop a node; what comes is held."""
        self.nodes[number].paused = True

    def resume(self, number: int) -> None:
        """Let a node go on."""
        node = self.nodes[number]
        node.paused = False
        held, node.held = node.held, []
        for event in held:
            self._at(node, 0, event)

    def isolate(self, number: int) -> None:
        """Cut a node off, both ways."""
        for other in self.nodes:
            self.cut |= {(number, other), (other, number)}

    def heal(self) -> None:
        """Mend all links."""
        self.cut = set()

    def run(self, ms: int) -> None:
        """Let so much virtual time pass."""
        until = self.now + ms * MS
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, number, incarnation, event = heappop(self._agenda)
            node = self.nodes[number]
            if node.part is None or node.incarnation != incarnation:
                continue
            if node.paused:
                node.held.append(event)
            elif (due := self._due(node, event)) is not None:
                self._carry_out(node, node.part.on(self.now, due))
        self.now = until

    def until_leader(self, *, among: Sequence[int] = (), limit_ms: int = 60_000) -> int:
        """Return who leads and may write, as soon as somebody does."""
        for _ in range(limit_ms // 10):
            self.run(10)
            for number in among or self.voters:
                quorum = self.nodes[number].quorum
                if quorum is not None and not self.nodes[number].paused and quorum.may_write:
                    return number
        raise AssertionError("nobody was elected")

    def append(self, number: int, *values: bytes) -> bool:
        """Have a node append records, if it leads."""
        node = self.nodes[number]
        if node.quorum is None or node.paused or node.quorum.role is not Role.LEADER:
            return False
        self._carry_out(node, node.quorum.append(self.now, values)[1])
        return True

    def ask(self, number: int, message: object) -> Asked:
        """Have a client ask a node; what it answers will be in the value returned."""
        node, correlation = self.nodes[number], next(self._numbers)
        asked = self._clients[correlation] = Asked()
        if node.part is not None:
            asker = Asker(who=-1, connection=-1, correlation=correlation)
            self._at(node, self._latency(), Arrived(asker=asker, message=message))
        return asked

    def plane(self, number: int) -> KRaft:
        """Return a node's control plane, which must run."""
        plane = self.nodes[number].part
        assert isinstance(plane, KRaft)
        return plane

    def quorum(self, number: int) -> Quorum:
        """Return a node's part of the quorum, which must run."""
        quorum = self.nodes[number].quorum
        assert quorum is not None
        return quorum

    def said(self, number: int, text: str) -> list[str]:
        """Return the lines of a node that hold a text."""
        return [line for line in self.nodes[number].said if text in line]

    def apply(self, node: Node, effects: Sequence[Effect]) -> None:
        """Carry out effects that came by another way than an event."""
        self._carry_out(node, effects)

    def _due(self, node: Node, event: Event) -> Event | None:
        """Return an event; of a timer only if it was not set anew since."""
        if not isinstance(event, Fired):
            return event
        name, _, token = event.timer.rpartition("#")
        if node.timers.get(name) != int(token):
            return None
        del node.timers[name]
        return Fired(timer=name)

    def _carry_out(self, node: Node, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._do(node, effect)
        self._check(node)

    def _do(self, node: Node, effect: Effect) -> None:
        match effect:
            case Request():
                self._send(node, effect)
            case Reply():
                self._reply(node, effect)
            case Say(text=text):
                node.said.append(text)
            case SetTimer(timer=timer, after_ns=after, at_most_ns=most):
                token = next(self._tokens)
                node.timers[timer] = token
                self._at(node, self.random.randint(after, most), Fired(timer=f"{timer}#{token}"))
            case CancelTimer(timer=timer):
                node.timers.pop(timer, None)
            case _:
                self._write(node, effect)

    def _write(self, node: Node, effect: Effect) -> None:
        match effect:
            case Append(data=data):
                node.batches += [(each.base_offset, each.data) for each in sound_batches(data)]
            case Flush():
                node.flushed = len(node.batches)
            case Truncate(offset=offset):
                node.batches = [each for each in node.batches if each[0] < offset]
                node.flushed = min(node.flushed, len(node.batches))
            case WriteFile(path=path, data=data):
                node.files[path] = data
            case RemoveFile(path=path):
                node.files.pop(path, None)
            case _:
                raise AssertionError(effect)

    def _send(self, node: Node, request: Request) -> None:
        assert request.to != node.number
        to = self.nodes[request.to]
        self._note_vote(node.number, request.message)
        self._asked[request.number] = (node.number, node.incarnation, to.number, request.message)
        self._at(node, request.timeout_ns, Answered(request=request.number, message=None))
        if self._goes_through(node.number, to.number) and to.quorum is not None:
            asker = Asker(
                who=node.number,
                connection=node.incarnation * 100 + node.number,
                correlation=request.number,
            )
            self._at(to, self._latency(), Arrived(asker=asker, message=request.message))

    def _reply(self, node: Node, reply: Reply) -> None:
        if reply.asker.who < 0:
            self._clients[reply.asker.correlation].answer = reply.message
            return
        number, incarnation, _, question = self._asked[reply.asker.correlation]
        answer = reply.message
        votes = isinstance(question, VoteRequest) and not question.pre_vote
        if votes and isinstance(answer, VoteResponse) and answer.vote_granted:
            assert isinstance(question, VoteRequest)
            self._vote(node.number, question.replica_epoch, question.replica_id)
        if isinstance(question, FetchRequest) and isinstance(answer, FetchResponse):
            self.fetched.append((number, question, answer))
        to = self.nodes[number]
        if to.incarnation == incarnation and self._goes_through(node.number, number):
            event = Answered(request=reply.asker.correlation, message=answer)
            self._at(to, self._latency(), event)

    def _note_vote(self, node: int, message: object) -> None:
        if isinstance(message, VoteRequest) and not message.pre_vote:
            self._vote(node, message.replica_epoch, node)

    def _vote(self, voter: int, epoch: int, candidate: int) -> None:
        if self.votes.setdefault((voter, epoch), candidate) != candidate:
            before = self.votes[voter, epoch]
            raise BrokenInvariantError(
                f"{voter} votes for {candidate} in epoch {epoch}, after {before}"
            )

    def _goes_through(self, source: int, to: int) -> bool:
        return (source, to) not in self.cut and self.random.random() >= self.loss

    def _latency(self) -> int:
        return self.random.randint(MS // 5, 3 * MS)

    def _at(self, node: Node, after: int, event: Event) -> None:
        entry = (self.now + after, next(self._order), node.number, node.incarnation, event)
        heappush(self._agenda, entry)

    def _check(self, node: Node) -> None:
        quorum = node.quorum
        assert quorum is not None
        if quorum.role is Role.LEADER:
            first = self.leaders.setdefault(quorum.epoch, node.number)
            if first != node.number:
                raise BrokenInvariantError(f"{first} and {node.number} lead in {quorum.epoch}")
        if quorum.high_watermark < node.watermark:
            raise BrokenInvariantError(f"the high watermark of {node.number} moved back")
        if quorum.high_watermark > node.watermark:
            node.watermark = quorum.high_watermark
            self._check_commits(node, quorum)
        if quorum.may_write and quorum.epoch not in self._looked_into:
            self._looked_into.append(quorum.epoch)
            self._check_leader(node, quorum)

    def _check_commits(self, node: Node, quorum: Quorum) -> None:
        for batch in quorum.log.batches(node.checked):
            if not node.checked <= batch.base_offset < batch.end_offset <= node.watermark:
                continue
            node.checked = batch.end_offset
            known = self.committed.setdefault(batch.base_offset, batch.data)
            if known != batch.data:
                raise BrokenInvariantError(f"two things were committed at {batch.base_offset}")

    def _check_leader(self, node: Node, quorum: Quorum) -> None:
        """A leader that knows all that is committed must have it."""
        held = {each.base_offset: each.data for each in quorum.log.batches()}
        start, epoch = quorum.log.start_offset, quorum.epoch
        missing = [
            offset
            for offset, data in self.committed.items()
            if offset >= start and epoch_of(data) <= epoch and held.get(offset) != data
        ]
        if missing:
            raise BrokenInvariantError(f"leader {node.number} lacks the committed {missing}")


def epoch_of(data: bytes) -> int:
    """Return the epoch that a batch was written in."""
    return int.from_bytes(data[12:16], "big")
