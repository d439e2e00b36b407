"""The leader epochs of a log, each with its first offset (KIP-101).

A replica's file `leader-epoch-checkpoint` has one line for each epoch. A leader adds a line when it
becomes leader. A follower adds a line when it appends a batch of a new epoch.
"""

from bisect import bisect_right
from collections.abc import Iterable

from cluster.files.checkpoints import EpochStart

NONE = (-1, -1)
"""The pair for an unknown epoch and an unknown offset."""


class LeaderEpochs:
    """The leader epochs of a log with their first offsets, in increasing order.

    Attributes:
        latest: The last epoch; -1 if none is known.
    """

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, lines: Iterable[EpochStart] = ()) -> None:
        self.latest = -1
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for line in lines:
            self.assign(line.epoch, line.start_offset)

    @property
    def lines(self) -> tuple[EpochStart, ...]:
        """The lines of the checkpoint file."""
        pairs = zip(self._epochs, self._starts, strict=True)
        return tuple(EpochStart(epoch=epoch, start_offset=start) for epoch, start in pairs)

    def assign(self, epoch: int, start: int) -> bool:
        """Record that an epoch begins at an offset; remove lines that contradict it.

        Returns:
            Whether anything changed. Then the file must be written.
        """
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        return True

    def end_of(self, epoch: int, *, log_end: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` (KIP-279), and its end offset (KIP-101).

        An epoch ends where the next epoch begins, or at the log's end. If `epoch` is larger than
        all known epochs, return `NONE`.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return NONE
        if epoch == self._epochs[-1]:
            return epoch, log_end
        higher = bisect_right(self._epochs, epoch)
        # An epoch below all known ones is empty and ends where the first known one begins.
        return self._epochs[higher - 1] if higher else epoch, self._starts[higher]

    def at(self, offset: int) -> int:
        """Return the epoch in which an offset was written; -1 if unknown."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else -1

    def truncate(self, end: int) -> bool:
        """Remove the epochs that begin at or after `end`. Return False if there are none."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end:
            keep -= 1
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        self.latest = self._epochs[-1] if self._epochs else -1
        return changed

    def delete_before(self, start: int) -> bool:
        """Remove the epochs that end at or before a log's new start.

        The first remaining epoch then begins at the new start.
        """
        found = bisect_right(self._starts, start) - 1
        if found < 0 or (found == 0 and self._starts[0] == start):
            return False
        del self._epochs[:found], self._starts[:found]
        self._starts[0] = start
        return True

    def checkpoint(self) -> bytes:
        """Return the content of the file `leader-epoch-checkpoint` as bytes."""
        lines = [f"{each.epoch} {each.start_offset}" for each in self.lines]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()
