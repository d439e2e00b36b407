"""What a state machine of the reference cluster is: events come in, effects go out.

A machine never reads a clock, draws a random number, opens a socket or a file: a driver does
(`process`: real sockets and files; `simulator`: virtual ones, from one seed). Drivers promise:

- Effects of one event are carried out in their order. What comes after a `Flush` is not let go
  before the flush is done; if a disk effect fails, the rest is dropped and `DiskFailed` comes.
- Requests between two machines travel on a connection of two incarnations. A request is answered
  once, by `Answered`; None if its connection broke. What was asked on a connection that is gone is
  never answered on another one.
- After a start a machine knows only what the files hold (`Recovered` states of its parts).

Events and effects are structs, not dataclasses: as frozen, and made in a third of the time, which
counts where most of them live for microseconds.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

Nanoseconds = int


class Asker(Struct, frozen=True, kw_only=True, gc=False):
    """Where an answer must go to; made by drivers, and only handed back.

    Attributes:
        who: A node's id, or -1: a client.
        connection: Which connection; unique over a driver's life, so an incarnation's own.
        correlation: Which request on it.
    """

    who: int
    connection: int
    correlation: int


class Arrived(Struct, frozen=True, kw_only=True, gc=False):
    """A request came; it must be answered with one `Reply`, now or later."""

    asker: Asker
    message: object


class Answered(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a `Request`; None: the connection broke, or it took too long."""

    request: int
    message: object | None


class Fired(Struct, frozen=True, kw_only=True, gc=False):
    """A timer's time has come."""

    timer: str


class Hung(Struct, frozen=True, kw_only=True, gc=False):
    """A connection on which requests came is gone: what is parked for it needs no answer."""

    connection: int


class DiskFailed(Struct, frozen=True, kw_only=True, gc=False):
    """An effect on a folder failed, as a full disk or a bad one does."""

    folder: str
    reason: str


class StopAsked(Struct, frozen=True, kw_only=True, gc=False):
    """Whoever runs the node wants it to end in good order: it hands over, then says `End`."""


Event = Arrived | Answered | Fired | Hung | DiskFailed | StopAsked


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """Ask another node. `number` comes back in `Answered`; the machine counts it up itself."""

    number: int
    to: int
    message: object
    timeout_ns: Nanoseconds


class Reply(Struct, frozen=True, kw_only=True, gc=False):
    """Answer a request."""

    asker: Asker
    message: object


class SetTimer(Struct, frozen=True, kw_only=True, gc=False):
    """Have `Fired` come once, in place of any earlier timer of this name.

    The driver draws the moment between both limits: random time-outs are drawn there.
    """

    timer: str
    after_ns: Nanoseconds
    at_most_ns: Nanoseconds


def timer(name: str, after_ns: Nanoseconds) -> SetTimer:
    """Return what has a timer fire at a moment that is not drawn."""
    return SetTimer(timer=name, after_ns=after_ns, at_most_ns=after_ns)


class CancelTimer(Struct, frozen=True, kw_only=True, gc=False):
    """Forget a timer. Nothing happens if there is none."""

    timer: str


class Append(Struct, frozen=True, kw_only=True, gc=False):
    """Add whole batches at the end of a log; they are safe after a `Flush` only."""

    folder: str
    """The log's folder, `TOPIC-PARTITION`."""
    base_offset: int
    data: bytes


class Flush(Struct, frozen=True, kw_only=True, gc=False):
    """Have all that was appended to a log reach the disk."""

    folder: str


class Truncate(Struct, frozen=True, kw_only=True, gc=False):
    """Remove all batches of a log from an offset on, which is a batch's first."""

    folder: str
    offset: int


class DropLog(Struct, frozen=True, kw_only=True, gc=False):
    """Remove a log's folder: its topic was deleted, or is no longer here."""

    folder: str


class SetAside(Struct, frozen=True, kw_only=True, gc=False):
    """Rename a log's folder: it is nobody's log any more, and is kept for who may miss it."""

    folder: str
    name: str


class RollAt(Struct, frozen=True, kw_only=True, gc=False):
    """From now on, roll a log's segments at so many bytes (a topic's `segment.bytes`)."""

    folder: str
    segment_bytes: int


class RemoveFile(Struct, frozen=True, kw_only=True, gc=False):
    """Remove a small file that nobody needs any more, if it is there."""

    path: str


class WriteFile(Struct, frozen=True, kw_only=True, gc=False):
    """Replace a small file whole: written aside, flushed, renamed. Safe when it is done."""

    path: str
    """Relative to the log dir: `peter-test01-0/leader-epoch-checkpoint`."""
    data: bytes


class Say(Struct, frozen=True, kw_only=True, gc=False):
    """A line for the node's log, in Kafka's words where Kafka has some."""

    text: str


class End(Struct, frozen=True, kw_only=True, gc=False):
    """The node's last effect: its process ends. Nothing more is told to the machine."""


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
    """A node, or a part of one, as drivers see it."""

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        """Begin, with what the files held. Called once, before any event."""

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        """Take an event, at a moment of the node's own monotonic clock."""
