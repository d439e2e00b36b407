"""All replicas of a broker: requests in, answers and fetches out."""

from collections.abc import Iterator, Mapping, Sequence

from cluster.reference.log.recovery import Recovered
from cluster.reference.machine import Answered, Asker, Effect, Nanoseconds
from cluster.reference.messages.control import AlteredPartition, AlterPartition
from cluster.reference.messages.data import (
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    ProduceRequest,
)
from cluster.reference.partition.state import PartitionState
from cluster.reference.settings import Settings

TIMERS = "replicas:"
"""What the names of all timers set here begin with."""


class Replicas:
    """All replicas of a broker. Every method returns the effects, in their order."""

    def __init__(
        self, *, node_id: int, settings: Settings, recovered: Recovered, numbers: Iterator[int]
    ) -> None:
        """Begin with what the files held; replicas serve nobody until they are told to.

        Args:
            node_id: This broker's id.
            settings: The node's.
            recovered: Logs and high watermarks.
            numbers: Hands out `Request.number`; the node's one counter.
        """
        raise NotImplementedError

    def start(self, now: Nanoseconds) -> list[Effect]:
        """Set the timers: ISR checks, checkpoints."""
        raise NotImplementedError

    def apply(self, now: Nanoseconds, states: Sequence[PartitionState]) -> list[Effect]:
        """Take what the controller decided: of changed partitions, whether they are here or not."""
        raise NotImplementedError

    def remove(self, now: Nanoseconds, folders: Sequence[str]) -> list[Effect]:
        """Drop logs: their topics were deleted, or they are no longer assigned here."""
        raise NotImplementedError

    def brokers(self, now: Nanoseconds, epochs: Mapping[int, int]) -> list[Effect]:
        """Take the broker epochs of all brokers that may be in an ISR.

        That is: registered, unfenced, not in a controlled shutdown (KIP-841); epochs: KIP-903. This
        broker's own is what its fetches carry.
        """
        raise NotImplementedError

    def produce(self, now: Nanoseconds, asker: Asker, asked: ProduceRequest) -> list[Effect]:
        """Append; the `Reply` may come later. It is made with acks 0, too."""
        raise NotImplementedError

    def fetch(self, now: Nanoseconds, asker: Asker, asked: FetchRequest) -> list[Effect]:
        """Read, for a follower or a consumer; the `Reply` may come later."""
        raise NotImplementedError

    def list_offsets(self, asked: ListOffsetsRequest) -> ListOffsetsResponse:
        """Answer at once."""
        raise NotImplementedError

    def epoch_ends(self, asked: OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochResponse:
        """Answer at once."""
        raise NotImplementedError

    def answered(self, now: Nanoseconds, answer: Answered) -> list[Effect]:
        """Take the answer to a `Request` that was made here (whose number the node remembers)."""
        raise NotImplementedError

    def fired(self, now: Nanoseconds, timer: str) -> list[Effect]:
        """Take a timer whose name begins with `TIMERS`."""
        raise NotImplementedError

    def hung(self, connection: int) -> None:
        """Forget what is parked for a connection that is gone."""
        raise NotImplementedError

    def isr_wishes(self) -> tuple[AlterPartition, ...]:
        """Hand out the ISR changes that are to be asked for; each is handed out once.

        Look after every event; ask the controller, and say how it ended with `isr_answered`.
        """
        raise NotImplementedError

    def isr_answered(
        self,
        now: Nanoseconds,
        wishes: Sequence[AlterPartition],
        answers: Sequence[AlteredPartition] | None,
    ) -> list[Effect]:
        """Take the controller's answer; None: nobody answered, or all was refused: ask again."""
        raise NotImplementedError

    def disk_failed(self, now: Nanoseconds, folder: str) -> list[Effect]:
        """Take a log offline (KAFKA_STORAGE_ERROR from now on). With one log dir, end the node."""
        raise NotImplementedError

    def shut_down(self, broker_epoch: int) -> list[Effect]:
        """Flush all, write the checkpoints and the mark of a clean shutdown: the last effects."""
        raise NotImplementedError
