"""What a step can do: plain values, which the director carries out.

Faults among them are recorded like a nemesis's: with a line in the ledger before, an effect that
was measured, and a heal. What is still in force at the story's end is healed by the run.
"""

from dataclasses import dataclass

Link = tuple[str, str]
"""What the first machine sends to the second; `zk` is ZooKeeper's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """Send the next messages, and wait until each is answered or given up.

    Attributes:
        count: How many; they are called message1, message2, ... in the order of their sending.
        acks: Of the producer.
        together: In one batch, if there are several; otherwise each waits for the one before.
        answered: Whether an acknowledgement is expected; False: it must not come within the
            limit, and the story goes on.
        within_s: The limit (and the producer's delivery timeout).
        only_to: Node that is given to the client as bootstrap; None: all.
        wait: False: do not wait; `Answered` does. Nothing else is sent or read meanwhile.
    """

    count: int = 1
    acks: str = "all"
    together: bool = False
    answered: bool = True
    within_s: float = 30.0
    only_to: str | None = None
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """Wait for the answers to what was sent without waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the partition from its start with a fresh consumer, and record what came."""

    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL a node's process; a paused one too."""

    node: str


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGTERM, and wait until the process has ended by itself.

    Attributes:
        wait: False: do not wait; a condition of the step sees to it.
    """

    node: str
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """Start a node that was killed or stopped: the heal of that fault."""

    node: str
    until_back: bool = True
    """Wait until it is registered again; False: the story's conditions see to it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP."""

    node: str


@dataclass(frozen=True, slots=True)
class Resume:
    """SIGCONT: the heal of a pause."""

    node: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Drop what travels over some links, at the receiver.

    Attributes:
        name: By which `Join` finds it.
        links: Directed.
    """

    name: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Heal a cut."""

    name: str


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """SIGKILL, then truncate the partition's active segment to what was flushed.

    Simulated: what lay in the page cache only is cut off the file, down to the recovery point.
    """

    node: str


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """Have the first replica of the assignment elected."""


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    """Have any live replica elected."""


@dataclass(frozen=True, slots=True)
class Reassign:
    """Change the assignment, or only its order."""

    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLeader:
    """Ask a broker, as a client that knows an epoch, for the partition's end (ListOffsets)."""

    node: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskEpochEnd:
    """Ask a broker where an epoch ends (OffsetForLeaderEpoch), as a follower would."""

    node: str
    epoch: int
    current_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Have topics of no importance created: they put records into the metadata log.

    Attributes:
        names: Of the topics, one partition and one replica each.
        at: The broker that is asked; None: whoever answers.
        answered: False: an answer is not waited for.
    """

    names: tuple[str, ...]
    at: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin a transaction and write a message in it.

    Attributes:
        node: Who leads the partition and coordinates the transaction.
        held_up: Whether a second message is sent too, whose request is held up.
    """

    node: str
    held_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """End the transaction, as its client does.

    Attributes:
        committed: False: abort it.
    """

    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArriveLate:
    """Let the request arrive that was held up.

    Attributes:
        accepted: Whether the broker is expected to take it.
    """

    accepted: bool


Action = (
    Produce | Answered | Read | BeginTransaction | EndTransaction | ArriveLate
    | Kill | Stop | Start | Pause | Resume | Cut | Join | PowerLoss
    | ElectPreferred | ElectUnclean | Reassign | AskLeader | AskEpochEnd | CreateTopics
)  # fmt: skip
