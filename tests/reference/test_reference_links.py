"""What a node sends to others: limits of requests, and links that are cut by its own hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import uvloop

from cluster.reference.machine import Answered, Request
from cluster.reference.messages.data import ListOffsetsRequest
from cluster.reference.process.cuts import Cuts
from cluster.reference.process.links import Links
from cluster.reference.process.stream import Outlet
from cluster.reference.wire.frames import Frames, framed
from cluster.reference.wire.peers import KEY_SIZE, hello, packed, unpacked

KEY = bytes(KEY_SIZE)
HELLO_BYTES = len(hello(1, KEY))
LONG_NS, SHORT_NS = 3_600_000_000_000, 50_000_000
ENOUGH_NS = 2_000_000_000
"""For an answer in this process, however busy the machine is."""
LIMIT_S = 30


@dataclass(slots=True)
class Peer:
    """Node 2: answers the requests of these numbers, and counts connections and bytes."""

    answers: tuple[int, ...] = ()
    connections: int = 0
    heard: bytearray = field(default_factory=bytearray)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.heard += await reader.read(HELLO_BYTES)
        frames = Frames()
        while data := await reader.read(65536):
            self.heard += data
            for frame in frames.feed(data):
                number, message = unpacked(frame)
                if number in self.answers:
                    writer.write(framed(packed(number, message)))
        writer.close()


@dataclass(slots=True)
class Asking:
    """Node 1."""

    links: Links
    answers: asyncio.Queue[Answered]

    def ask(self, number: int, timeout_ns: int) -> None:
        asked = ListOffsetsRequest(partitions=())
        self.links.ask(Request(number=number, to=2, message=asked, timeout_ns=timeout_ns))

    async def answered(self) -> tuple[int, bool]:
        found = await asyncio.wait_for(self.answers.get(), LIMIT_S)
        return found.request, found.message is not None


def play(peer: Peer, script: Callable[[Asking], Awaitable[None]]) -> None:
    async def both() -> None:
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()
        answers = asyncio.Queue[Answered]()
        links = Links(1, KEY, Cuts(), find=lambda _node: place, take=answers.put_nowait)
        try:
            await script(Asking(links, answers))
        finally:
            links.close()
            server.close()

    uvloop.run(both())


def test_the_first_limit_to_pass_breaks_the_connection_with_all_that_waits_on_it() -> None:
    async def script(node: Asking) -> None:
        node.ask(1, LONG_NS)
        node.ask(2, SHORT_NS)
        node.ask(3, LONG_NS)
        assert [await node.answered() for _ in range(3)] == [(1, False), (2, False), (3, False)]
        node.ask(4, LONG_NS)
        assert await node.answered() == (4, True)

    play(Peer(answers=(4,)), script)


def test_the_limit_of_an_answered_request_breaks_nothing_and_later_ones_still_count() -> None:
    async def script(node: Asking) -> None:
        node.ask(1, ENOUGH_NS)
        assert await node.answered() == (1, True)
        node.ask(2, ENOUGH_NS + SHORT_NS)  # Its connection outlives the first one's limit.
        assert await node.answered() == (2, False)

    peer = Peer(answers=(1,))
    play(peer, script)
    assert peer.connections == 1


def test_what_is_held_by_a_cut_goes_in_its_order_when_the_link_is_whole_again() -> None:
    cuts, heard = Cuts(), asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.put_nowait(data)
        writer.close()

    async def script() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()
        loop = asyncio.get_running_loop()
        made, _ = await loop.create_connection(asyncio.Protocol, *place)
        outlet = Outlet(made, cuts, 2)
        outlet.send(b"a")
        assert await asyncio.wait_for(heard.get(), LIMIT_S) == b"a"
        cuts.cut([2])
        outlet.send(b"b")
        outlet.send(b"c")
        cuts.cut([2, 3])  # It is tried again, and held again.
        assert cuts.held[2] == 2
        cuts.cut([3])
        outlet.send(b"d")
        rest = b""
        while len(rest) < 3:
            rest += await asyncio.wait_for(heard.get(), LIMIT_S)
        assert rest == b"bcd"
        made.close()
        server.close()

    uvloop.run(script())
