"""Send Kafka's own requests to simulated brokers, over the simulation's links.

Requests are not packed into bytes. The simulated broker receives kio's entity and answers with an
entity. For the conversion, `cluster.reference.wire.apis` has a table, which real connections also
use.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import cast

from kio.static.protocol import RequestPayload

from cluster.kafka.wire import CLIENT_ID, A, WireError, dialling
from cluster.reference.machine import Answered, Effect, Event, Fired, Request
from cluster.reference.simulator.host import Host
from cluster.reference.simulator.network import KNOCK
from cluster.reference.simulator.process import Process
from cluster.reference.wire.apis import API_VERSIONS, APIS, Api, Asked, api_versions
from harness.simulated.asking import WORK
from harness.simulated.worker import ClientHosts
from results.record.clock import NS_PER_S
from results.record.nodes import node_id
from results.record.runtime import Event as WaitedFor
from results.record.runtime import new_event

_KEPT_QUESTIONS = 8


def questions_over(machines: ClientHosts) -> AbstractContextManager[None]:
    """In a `with` block, send all requests to brokers over the simulation's links.

    Args:
        machines: The machines of the clients.
    """

    def dial(host: str, _port: int) -> SimulatedChannel:  # A simulated broker has one port.
        return SimulatedChannel(machines, host)

    return dialling(dial)


class SimulatedChannel:
    """An implementation of `cluster.kafka.wire.Channel`. Each channel has a simulated machine.

    Args:
        machines: The provider of the machine.
        host: The name of the broker's machine.
    """

    def __init__(self, machines: ClientHosts, host: str) -> None:
        self._machines, self._node, self._to = machines, host, node_id(host)
        self._asked: dict[int, tuple[RequestPayload, object]] = {}
        self._asker: _Asker | None = None
        self._own: Host | None = None

    def is_open(self) -> bool:
        """Return whether the next request can use the connection of the previous request."""
        process = self._own.process if self._own else None
        return process is not None and self._to in process.outgoing

    def ask(self, request: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request and return the response; see `cluster.kafka.wire.Connection`."""
        key, version = int(request.__api_key__), int(request.__version__)
        if key == API_VERSIONS:  # The network side answers this, not the broker.
            return cast("A", api_versions(answer))
        api = APIS.get(key)
        if api is None or not api.low <= version <= api.high:
            raise WireError(f"{self._node} does not know request {key} in version {version}")
        message = self._sent(self._read(request, api), timeout_s)
        if message is None:
            self.close()
            raise WireError(f"{self._node} did not answer {type(request).__name__}")
        return cast("A", api.write(message, answer))

    def knock(self, *, timeout_s: float) -> str:
        """Send an invalid request, wait until the connection ends; return the connection's name.

        The broker uses this name for the connection.
        """
        asker, process = self._opened()
        came = asker.put(None, number=KNOCK, timeout_ns=_ns(timeout_s))
        process.wake(WORK)
        over = process.outgoing[self._to]
        came.event.wait()
        self.close()
        if over.server is None:
            raise WireError(f"{self._node} did not answer a knock")
        return str(over.number)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._own is not None and self._asker is not None:
            self._machines.end(self._own)
            self._asker.give_up()
            self._own = self._asker = None

    def _read(self, request: RequestPayload, api: Api) -> object:
        """Return a request in the form that brokers use; convert each object only once."""
        before = self._asked.get(id(request))
        if before is not None and before[0] is request:
            return before[1]
        asked = Asked(
            api_key=int(request.__api_key__),
            version=int(request.__version__),
            correlation=0,
            client_id=CLIENT_ID,
        )
        message = api.read(request, asked)
        if len(self._asked) >= _KEPT_QUESTIONS:
            self._asked.clear()
        self._asked[id(request)] = request, message
        return message

    def _sent(self, message: object, timeout_s: float) -> object | None:
        asker, process = self._opened()
        came = asker.put(message, timeout_ns=_ns(timeout_s))
        process.wake(WORK)
        came.event.wait()
        return came.message

    def _opened(self) -> "tuple[_Asker, Process]":
        if self._asker is None or self._own is None:
            self._asker, self._own = self._machines.start(lambda _wake: _Asker(self._to))
        process = self._own.process
        assert process is not None, "only `close` ends it"
        return self._asker, process


@dataclass(slots=True, eq=False)
class _Coming:
    """A response that a caller waits for. After a timeout, the message is None."""

    event: WaitedFor = field(default_factory=new_event)
    message: object | None = None


class _Asker:
    """The simulated machine that sends the requests."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._wanted: list[Request] = []
        self._coming: dict[int, _Coming] = {}
        self._last = 0

    def put(self, message: object, *, timeout_ns: int, number: int | None = None) -> _Coming:
        """Queue a request for the next wake-up; return an object that will get the response."""
        if number is None:
            self._last = number = self._last + 1
        request = Request(number=number, to=self._to, message=message, timeout_ns=timeout_ns)
        self._wanted.append(request)
        coming = self._coming[number] = _Coming()
        return coming

    def give_up(self) -> None:
        """Wake all waiting callers, because no response will come."""
        for coming in self._coming.values():
            coming.event.set()

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Start, return no effects, and wait for requests."""
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Send queued requests, or receive a response."""
        match event:
            case Fired():
                wanted, self._wanted = self._wanted, []
                return wanted
            case Answered(request=number, message=message):
                coming = self._coming.pop(number)
                coming.message = message
                coming.event.set()
            case _:
                pass
        return []


def _ns(timeout_s: float) -> int:
    return round(max(0.0, timeout_s) * NS_PER_S)
