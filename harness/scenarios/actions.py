"""The actions of a step, as plain values that the director executes.

If an action is a fault, it is recorded like the faults of the nemesis: first a line in the ledger,
then a measured effect, then a heal. At the end of the scenario, the run heals all faults that are
in force.
"""

from dataclasses import dataclass

Link = tuple[str, str]
"""The link from the first machine to the second, in this direction; `zk` is ZooKeeper's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """Send the next messages, and wait until each is acknowledged or fails.

    Attributes:
        count: How many messages. Their names are message1, message2, ... in the order of sending.
        acks: The setting `acks` of the producer.
        together: Whether one batch contains all messages. Otherwise each message waits for the
            acknowledgement of the previous message.
        answered: Whether an acknowledgement is expected. If False, an acknowledgement within the
            limit makes the step fail.
        within_s: The limit, and the producer's delivery timeout.
        only_to: The only bootstrap server of the client; None means that all nodes are bootstrap
            servers.
        wait: If False, a later action `Answered` waits instead of this action. Until then the
            client sends and reads nothing else.
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
    """Wait for the responses to a `Produce` that did not wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the partition from its start with a fresh consumer, and record the messages."""

    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Kill:
    """Send SIGKILL to a node's process, even if the process is paused."""

    node: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Send SIGTERM to a node's process, and wait until the process has ended.

    Attributes:
        wait: If False, do not wait; a condition of the step waits instead.
    """

    node: str
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """Start a node that was killed or stopped. This heals the fault."""

    node: str
    until_back: bool = True
    """Whether to wait until the node is registered again. If False, the conditions wait."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Send SIGSTOP to a node's process."""

    node: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Send SIGCONT to a node's process. This heals a pause."""

    node: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut some links: the receiver drops all packets that arrive over them.

    Attributes:
        name: The name of the cut, for the action `Join`.
        links: The links, each in one direction.
    """

    name: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Heal a cut."""

    name: str


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """Kill a node's process, then truncate the partition's active segment to the flushed part.

    The power loss is simulated: the part of the file after the recovery point is cut off, because
    it was only in the page cache.
    """

    node: str


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """Elect the first replica of the assignment as leader."""


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    """Elect any live replica as leader, in sync or not."""


@dataclass(frozen=True, slots=True)
class Reassign:
    """Change the replicas of the partition, or only their order."""

    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLeader:
    """Ask a broker for the partition's end offset (ListOffsets), and name a leader epoch."""

    node: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskEpochEnd:
    """Ask a broker where a leader epoch ends (OffsetForLeaderEpoch), as a follower does."""

    node: str
    epoch: int
    current_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Create topics that the scenario does not use; each topic adds records to the metadata log.

    Attributes:
        names: The topics, with one partition and one replica each.
        at: The broker that gets the request; None means any broker that responds.
        answered: If False, no response is expected.
    """

    names: tuple[str, ...]
    at: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin a transaction, and write a message in it.

    Attributes:
        node: The broker that leads the partition and coordinates the transaction.
        held_up: Whether to send a second message with a delayed request.
    """

    node: str
    held_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """End the transaction, as the transaction's client does.

    Attributes:
        committed: Whether to commit; if False, abort.
    """

    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArriveLate:
    """Deliver the delayed request of a transaction.

    Attributes:
        accepted: Whether the broker is expected to accept the request.
    """

    accepted: bool


Action = (
    Produce | Answered | Read | BeginTransaction | EndTransaction | ArriveLate
    | Kill | Stop | Start | Pause | Resume | Cut | Join | PowerLoss
    | ElectPreferred | ElectUnclean | Reassign | AskLeader | AskEpochEnd | CreateTopics
)  # fmt: skip
