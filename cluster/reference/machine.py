"""The state machines of the reference cluster: events come in, effects go out.

A machine never reads a clock or a random number, and never opens a socket or a file. A driver does
these things. The driver `process` has real sockets and files. The driver `simulator` has virtual
ones, and one seed decides all that is random. Drivers guarantee:

- The effects of one event are executed in order. Effects after a `Flush` wait until the flush is
  done. If a disk effect fails, the remaining effects are dropped and `DiskFailed` follows.
- A connection between two machines belongs to one incarnation of each machine. Each request leads
  to one `Answered`. Its message is None if the connection broke. The response to a request never
  arrives over another connection.
- When a machine starts, it knows only the content of its files (the `Recovered` states).

Events and effects are structs instead of dataclasses. To create a frozen struct takes a third of
the time of a frozen dataclass. This matters because most events and effects exist only for
microseconds.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

Nanoseconds = int


class Asker(Struct, frozen=True, kw_only=True, gc=False):
    """The destination of a response. Drivers create it, and a machine passes it back unchanged.

    Attributes:
        who: The id of the asking node; -1 for a client.
        connection: The number of the connection, unique over a driver's life.
        correlation: The number of the request on that connection.
    """

    who: int
    connection: int
    correlation: int


class Arrived(Struct, frozen=True, kw_only=True, gc=False):
    """A request arrived. The machine must answer it with one `Reply`, now or later."""

    asker: Asker
    message: object


class Answered(Struct, frozen=True, kw_only=True, gc=False):
    """The response to a `Request`. `message` is None if the connection broke or the time was up."""

    request: int
    message: object | None


class Fired(Struct, frozen=True, kw_only=True, gc=False):
    """A timer fired."""

    timer: str


class Hung(Struct, frozen=True, kw_only=True, gc=False):
    """A connection for incoming requests is closed. Requests from it need no response now."""

    connection: int


class DiskFailed(Struct, frozen=True, kw_only=True, gc=False):
    """An effect on a folder failed, for example because of a full or bad disk."""

    folder: str
    reason: str


class StopAsked(Struct, frozen=True, kw_only=True, gc=False):
    """A request to end cleanly: the node hands over its leaderships and then returns `End`."""


Event = Arrived | Answered | Fired | Hung | DiskFailed | StopAsked


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """Send a request to another node. The machine chooses `number`; `Answered` repeats it."""

    number: int
    to: int
    message: object
    timeout_ns: Nanoseconds


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """Answer a request."""

    asker: Asker
    message: object


class SetTimer(Struct, frozen=True, kw_only=True, gc=False):
    """Set a timer. It leads to one `Fired`. An earlier timer of this name is replaced.

    The driver chooses a random time from `after_ns` to `at_most_ns`.
    """

    timer: str
    after_ns: Nanoseconds
    at_most_ns: Nanoseconds


def timer(name: str, after_ns: Nanoseconds) -> SetTimer:
    """Return the effect that lets a timer fire at a fixed time."""
    return SetTimer(timer=name, after_ns=after_ns, at_most_ns=after_ns)


class CancelTimer(Struct, frozen=True, kw_only=True, gc=False):
    """Cancel a timer if it exists."""

    timer: str


class Append(Struct, frozen=True, kw_only=True, gc=False):
    """Append whole batches to a log; they are durable only after a `Flush`."""

    folder: str
    """The log's folder, `TOPIC-PARTITION`."""
    base_offset: int
    data: bytes


class Flush(Struct, frozen=True, kw_only=True, gc=False):
    """Flush all appended batches of a log to the disk."""

    folder: str


class Truncate(Struct, frozen=True, kw_only=True, gc=False):
    """Remove all batches of a log from an offset on. A batch begins at this offset."""

    folder: str
    offset: int


class DropLog(Struct, frozen=True, kw_only=True, gc=False):
    """Remove a log's folder: its topic was deleted, or the replica moved to another broker."""

    folder: str


class SetAside(Struct, frozen=True, kw_only=True, gc=False):
    """Rename the folder of a log that belongs to no topic, to keep its content."""

    folder: str
    name: str


class RollAt(Struct, frozen=True, kw_only=True, gc=False):
    """Set the size in bytes at which a log's segments are rolled (a topic's `segment.bytes`)."""

    folder: str
    segment_bytes: int


class RemoveFile(Struct, frozen=True, kw_only=True, gc=False):
    """Remove a small file, if it exists."""

    path: str


class WriteFile(Struct, frozen=True, kw_only=True, gc=False):
    """Replace a small file atomically. When the effect is done, the file is durable."""

    path: str
    """The path within the log dir, such as `peter-test01-0/leader-epoch-checkpoint`."""
    data: bytes


class Say(Struct, frozen=True, kw_only=True, gc=False):
    """Write a line to the node's log. If Kafka has such a line, the text is Kafka's."""

    text: str


class End(Struct, frozen=True, kw_only=True, gc=False):
    """End the process: the node's last effect. The machine gets no further event."""


Effect = (
    Request
    | Reply
    | SetTimer
    | CancelTimer
    | Append
    | Flush
    | Truncate
    | DropLog
    | SetAside
    | RollAt
    | RemoveFile
    | WriteFile
    | Say
    | End
)


class Machine(Protocol):
    """The interface of a node, or of a part of a node, that drivers use."""

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        """Start with the content of the files; called once, before any event."""

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        """Handle an event; return the effects. `now` is a time of the node's monotonic clock."""
