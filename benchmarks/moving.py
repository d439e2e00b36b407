"""Three processes that only move the bytes of a replicated operation: the upper limit of speed.

A leader receives a produce request from one client. The leader sends it to both followers, and
responds to the client when both followers have sent their next fetch. The messages and their sizes
are those of the reference cluster, with one operation in flight and the same event loop. The
processes do not look at the bytes.
"""

import asyncio
import multiprocessing
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import cast

import uvloop
from psutil import Process

from results.record.clock import stopwatch_s, wait_until

_PRODUCE, _FETCH, _FETCHED, _PRODUCED = 250, 290, 560, 70
"""The sizes in bytes of the messages of one operation, as in the reference cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The operations per second, and the nodes' CPU microseconds for each operation."""

    ops: float
    cpu_us: float

    def words(self) -> str:
        """Return the rate as text for people."""
        return f"{self.ops:,.0f}/s, {self.cpu_us:,.0f} us of processor in the nodes"


def cpu_s(family: Sequence[Process]) -> float:
    """Return the CPU seconds that some processes have used."""
    return sum(sum(each.cpu_times()[:2]) for each in family)


class _Echo(asyncio.Protocol):
    """A connection that responds to each message with a message; both have fixed sizes."""

    def __init__(self, takes: int, answers: int) -> None:
        self._missing, self._takes, self._answer = takes, takes, bytes(answers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Count the bytes, and handle each complete message."""
        self._missing -= len(data)
        while self._missing <= 0:
            self._missing += self._takes
            self.whole()

    def whole(self) -> None:
        """Send the response to a complete message."""
        self._transport.write(self._answer)


class _Waiting(_Echo):
    """The leader's end of a follower's connection. It passes each fetch on to the client's end."""

    def __init__(self, heard: "_Leading") -> None:
        super().__init__(_FETCH, _FETCHED)
        self._heard = heard
        heard.followers.append(self)

    def whole(self) -> None:
        """Report a complete fetch to the client's end."""
        self._heard.fetched()

    def tell(self) -> None:
        """Send the new data to the follower."""
        self._transport.write(self._answer)


class _Leading(_Echo):
    """The leader's end of a client's connection, with one operation in flight."""

    def __init__(self) -> None:
        super().__init__(_PRODUCE, _PRODUCED)
        self.followers: list[_Waiting] = []
        self._fetches = 0

    def whole(self) -> None:
        """Send a complete produce request to the followers."""
        for follower in self.followers:
            follower.tell()

    def fetched(self) -> None:
        """Respond to the client when both followers have sent their next fetch."""
        self._fetches += 1
        if self._fetches == len(self.followers):
            self._fetches = 0
            self._transport.write(self._answer)


def _lead(ports: "Queue[int]") -> None:
    async def serve() -> None:
        loop, leading = asyncio.get_running_loop(), _Leading()
        for protocol in (lambda: leading, lambda: _Waiting(leading)):
            server = await loop.create_server(protocol, "127.0.0.1", 0)
            ports.put(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    uvloop.run(serve())


def _follow(port: int) -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: _Echo(_FETCHED, _FETCH), "127.0.0.1", port)
        await asyncio.Event().wait()

    uvloop.run(ask())


def moved(seconds: float) -> Rate:
    """Return the rate of three processes that only move bytes, with one operation in flight."""
    context = multiprocessing.get_context("spawn")
    ports: Queue[int] = context.Queue()
    leader = context.Process(target=_lead, args=(ports,), daemon=True)
    leader.start()
    for_clients, for_followers = ports.get(), ports.get()
    followers = [
        context.Process(target=_follow, args=(for_followers,), daemon=True) for _ in range(2)
    ]
    for each in followers:
        each.start()
    family = [Process(each.pid) for each in (leader, *followers)]
    try:
        wait_until(
            lambda: all(each.net_connections() for each in family),
            timeout_s=10, what="the echoes to be connected",
        )  # fmt: skip
        with socket.create_connection(("127.0.0.1", for_clients)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _ask(client, family, seconds)
    finally:
        for each in (leader, *followers):
            each.kill()


def _ask(client: socket.socket, family: Sequence[Process], seconds: float) -> Rate:
    ops, began_s, before_s = 0, stopwatch_s(), cpu_s(family)
    while stopwatch_s() < began_s + seconds:
        client.sendall(bytes(_PRODUCE))
        client.recv(_PRODUCED, socket.MSG_WAITALL)
        ops += 1
    took_s = stopwatch_s() - began_s
    return Rate(ops=ops / took_s, cpu_us=(cpu_s(family) - before_s) / ops * 1e6)
