"""Which leader epoch began at which offset: what KIP-101 adds to a log.

Each replica keeps one line an epoch in `leader-epoch-checkpoint`. A leader writes its line when it
begins to lead, a follower when it appends a batch of a new epoch.
"""

from bisect import bisect_right
from collections.abc import Iterable

from cluster.files.checkpoints import EpochStart

NONE = (-1, -1)
"""No epoch, no offset: nothing is known."""


class LeaderEpochs:
    """The epochs of a log, in order, each with its first offset; both only rise.

    Attributes:
        latest: The last epoch, -1 if none is known.
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
        """What stands in the file."""
        pairs = zip(self._epochs, self._starts, strict=True)
        return tuple(EpochStart(epoch=epoch, start_offset=start) for epoch, start in pairs)

    def assign(self, epoch: int, start: int) -> bool:
        """Note that an epoch begins at an offset; lines that contradict it are forgotten.

        Returns:
            Whether anything changed, so that the file must be written.
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
        """Answer where an epoch ends (KIP-101), and which epoch that is (KIP-279).

        It is the largest epoch known that is not larger than the one asked for. Its end is where
        the next one begins, or the log's end. `NONE`, if the epoch is larger than all known ones.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return NONE
        if epoch == self._epochs[-1]:
            return epoch, log_end
        higher = bisect_right(self._epochs, epoch)
        # Smaller than all known ones: it ends, empty, where the first of them begins.
        return self._epochs[higher - 1] if higher else epoch, self._starts[higher]

    def at(self, offset: int) -> int:
        """Return the epoch that an offset was written in, -1 if it is not known."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else -1

    def truncate(self, end: int) -> bool:
        """Forget the epochs that begin at `end` or behind; returns whether there were any."""
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end:
            keep -= 1
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        self.latest = self._epochs[-1] if self._epochs else -1
        return changed

    def delete_before(self, start: int) -> bool:
        """Forget the epochs that end before a log's new start; the one there begins with it."""
        found = bisect_right(self._starts, start) - 1
        if found < 0 or (found == 0 and self._starts[0] == start):
            return False
        del self._epochs[:found], self._starts[:found]
        self._starts[0] = start
        return True

    def checkpoint(self) -> bytes:
        """Return the bytes of `leader-epoch-checkpoint`."""
        lines = [f"{each.epoch} {each.start_offset}" for each in self.lines]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()
