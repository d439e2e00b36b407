"""A partition's log in memory. Each change also returns the effects on the log's files.

Batches are kept as bytes. A log contains only whole batches. If an offset is inside a batch, a cut
or a read at this offset begins at the start of the batch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from cluster.files.checkpoints import EpochStart
from cluster.reference.log.batches import Batch, batch, sound_batches, stamped
from cluster.reference.log.epochs import LeaderEpochs
from cluster.reference.log.producers import Producers
from cluster.reference.machine import Append, Effect, Flush, Truncate, WriteFile

NO_LIMIT = (1 << 63) - 1


class MisplacedBatchError(Exception):
    """A fetched batch does not begin at the end of the follower's log."""


class Log:
    """The batches of a partition in order, with their leader epochs and producers.

    Each method that changes the log appends effects to `out`, in the order in which the disk must
    execute them.
    """

    __slots__ = (
        "_bases", "_batches", "_positions", "_unflushed", "_written", "end_offset", "epochs",
        "flush_messages", "folder", "producers", "recovery_point", "start_offset",
    )  # fmt: skip

    def __init__(
        self,
        folder: str,
        *,
        batches: Sequence[bytes] = (),
        start_offset: int = 0,
        epochs: Sequence[EpochStart] = (),
        recovery_point: int = 0,
        flush_messages: int = NO_LIMIT,
    ) -> None:
        """Create a log with the content of its files, or an empty one.

        Args:
            folder: `TOPIC-PARTITION`.
            batches: Valid batches without a gap.
            start_offset: The log's first offset. Batches before this offset are left out.
            epochs: The leader epoch checkpoint. If the batches contradict this checkpoint, their
                own epochs are used.
            recovery_point: All offsets before this point are flushed.
            flush_messages: Flush after this number of messages (`flush.messages`).
        """
        self.folder = folder
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.recovery_point = recovery_point
        self.flush_messages = flush_messages
        self.epochs = LeaderEpochs(epochs)
        self.producers = Producers()
        self._bases: list[int] = []
        self._batches: list[bytes] = []
        # The byte position of each batch, and of the last one's end.
        self._positions: list[int] = [0]
        self._unflushed = 0
        for data in batches:
            mine = batch(data)
            if self.epochs.at(mine.base_offset) != mine.leader_epoch:
                # The epoch file is written one effect after the log, and a crash may come in
                # between. Then lines about removed batches must not apply to these batches.
                self.epochs.truncate(mine.base_offset)
            self._take(mine)
        self.epochs.truncate(self.end_offset)
        self._written = tuple(epochs)

    @property
    def last_epoch(self) -> int:
        """The log's last leader epoch; -1 if there is none."""
        return self.epochs.latest

    def append_as_leader(self, data: bytes, *, epoch: int, out: list[Effect]) -> Batch:
        """Append a checked batch at the log's end, with the leader's epoch."""
        return self.append_checked(batch(data), epoch=epoch, out=out)

    def append_checked(self, mine: Batch, *, epoch: int, out: list[Effect]) -> Batch:
        """Give an unpacked batch its offset and epoch, and append it. The log now owns it."""
        base = self.end_offset
        mine.end_offset += base - mine.base_offset
        mine.base_offset, mine.leader_epoch = base, epoch
        mine.data = stamped(mine.data, base_offset=base, leader_epoch=epoch)
        out.append(Append(folder=self.folder, base_offset=base, data=mine.data))
        if self._take(mine):
            out.append(self._epochs_file())
        self._flush_if_due(mine.end_offset - base, out)
        return mine

    def append_as_follower(self, data: bytes, *, out: list[Effect]) -> None:
        """Append batches exactly as the leader has them.

        Raises:
            BadBatchError: A batch is damaged. Nothing was appended.
            MisplacedBatchError: The first batch does not begin at this log's end, or there is a
                gap. Nothing was appended. The cause may be a response that was meant for an earlier
                process of this node.
        """
        found = sound_batches(data)
        begin = end = self.end_offset
        for each in found:
            if each.base_offset != end:
                raise MisplacedBatchError(
                    f"{self.folder} ends at {end}, but the batch begins at {each.base_offset}"
                )
            end = each.end_offset
        if found:
            out.append(Append(folder=self.folder, base_offset=begin, data=data))
        began = False
        for each in found:
            began = self._take(each) or began
        if began:
            out.append(self._epochs_file())
        self._flush_if_due(end - begin, out)

    def begin_epoch(self, epoch: int, *, out: list[Effect]) -> None:
        """Record that a new leader's epoch begins at the log's end (KIP-101)."""
        if self.epochs.assign(epoch, self.end_offset):
            out.append(self._epochs_file())

    def mend(self, out: list[Effect]) -> None:
        """If a crash or a bad disk left wrong lines in the leader epoch file, rewrite the file."""
        if self.epochs.lines != self._written:
            out.append(self._epochs_file())

    def flush(self, out: list[Effect]) -> None:
        """Flush all appended batches that are not yet flushed."""
        if self.recovery_point < self.end_offset:
            out.append(Flush(folder=self.folder))
        self.recovery_point = self.end_offset
        self._unflushed = 0

    def truncate(self, offset: int, *, out: list[Effect]) -> None:
        """Remove everything from an offset on.

        Epoch lines are removed even if no batch is removed. For example, a leader that appended
        nothing still has a line for its epoch. When its leadership ends, this line must be removed
        (KIP-101).
        """
        cut = self._until(offset)
        if cut < len(self._bases):
            self.end_offset = self._bases[cut]
            del self._bases[cut:], self._batches[cut:], self._positions[cut + 1 :]
            out.append(Truncate(folder=self.folder, offset=self.end_offset))
            # A power loss must not bring removed batches back between new ones.
            out.append(Flush(folder=self.folder))
            self.recovery_point = self.end_offset
            self.producers = Producers(self.batches())
        if self.epochs.truncate(self.end_offset):
            out.append(self._epochs_file())

    def restart_at(self, offset: int, *, out: list[Effect]) -> None:
        """Drop all batches, and continue at an offset.

        This happens after a snapshot was fetched, or if the leader's log begins after this log's
        end.
        """
        # From offset 0, because the files may begin earlier (`delete_before` keeps the files).
        out.append(Truncate(folder=self.folder, offset=0))
        self._bases, self._batches, self._positions = [], [], [0]
        self.start_offset = self.end_offset = self.recovery_point = offset
        self.producers = Producers()
        self.epochs = LeaderEpochs()
        out.append(Append(folder=self.folder, base_offset=offset, data=b""))  # An empty segment.
        out.append(self._epochs_file())

    def create(self, out: list[Effect]) -> None:
        """Create the first, empty segment."""
        out.append(Append(folder=self.folder, base_offset=self.start_offset, data=b""))

    def delete_before(self, offset: int) -> None:
        """Drop the batches that end at or before an offset: a snapshot contains them (KIP-630).

        The files stay. So after a restart, the log begins at its first segment again.
        """
        keep = 0
        while keep < len(self._bases) and self._end_of(keep) <= offset:
            keep += 1
        del self._bases[:keep], self._batches[:keep], self._positions[:keep]
        self.start_offset = max(self.start_offset, offset)
        self.epochs.delete_before(self.start_offset)

    def read(
        self, offset: int, *, max_bytes: int, until: int | None = None, at_least_one: bool = True
    ) -> bytes:
        """Return whole batches, beginning with the one that contains an offset.

        Args:
            offset: An offset in the log, or its end.
            max_bytes: The most bytes to return.
            until: Return no batch that ends after this offset; None: up to the log's end.
            at_least_one: Return the first batch even if it is larger (KIP-74).
        """
        if offset >= self.end_offset:
            return b""
        last = len(self._bases)
        if offset == self._bases[-1] and until is None and at_least_one:
            return self._batches[-1]  # Followers that keep up fetch the last batch.
        first = max(bisect_right(self._bases, offset) - 1, 0)
        if until is not None and until < self.end_offset:
            last = self._until(until)
        positions = self._positions
        fitting = bisect_right(positions, positions[first] + max_bytes) - 1
        if fitting <= first and at_least_one:
            fitting = first + 1
        last = min(last, fitting)
        if last - first == 1:
            return self._batches[first]
        return b"".join(self._batches[first:last])

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch`, and its end offset; `NONE` if unknown."""
        return self.epochs.end_of(epoch, log_end=self.end_offset)

    def batches(self, offset: int = 0) -> Iterator[Batch]:
        """Yield the batches, beginning with the one that contains an offset."""
        first = max(bisect_right(self._bases, offset) - 1, 0)
        return (batch(data) for data in self._batches[first:])

    def _until(self, offset: int) -> int:
        """Return the number of batches that end at or before an offset."""
        number = bisect_left(self._bases, offset)
        return number - 1 if number and self._end_of(number - 1) > offset else number

    def _end_of(self, number: int) -> int:
        following = number + 1
        return self._bases[following] if following < len(self._bases) else self.end_offset

    def _take(self, mine: Batch) -> bool:
        """Add a batch in memory; return whether a new epoch begins with the batch."""
        data, positions = mine.data, self._positions
        self._bases.append(mine.base_offset)
        self._batches.append(data)
        positions.append(positions[-1] + len(data))
        self.end_offset = mine.end_offset
        self.producers.note(mine)
        if mine.leader_epoch > self.epochs.latest:
            return self.epochs.assign(mine.leader_epoch, mine.base_offset)
        return False

    def _flush_if_due(self, appended: int, out: list[Effect]) -> None:
        self._unflushed += appended
        if self._unflushed >= self.flush_messages:
            self.flush(out)

    def _epochs_file(self) -> WriteFile:
        path = f"{self.folder}/leader-epoch-checkpoint"
        return WriteFile(path=path, data=self.epochs.checkpoint())
