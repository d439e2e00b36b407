"""What must hold at every moment of a simulation, looked at after every event.

- One leader an epoch, of the quorum and of each partition.
- A member votes once in an epoch, whatever process of it does.
- A high watermark does not move back in a process's life (but for a truncation that a bug or the
  old rule makes, which is what then is found).
- What one member takes as committed, all others that take it so have alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cluster.reference.log.batches import Batch
from cluster.reference.partition.partition import Partition
from cluster.reference.quorum.quorum import Quorum
from cluster.reference.quorum.state import Role


class BrokenInvariantError(AssertionError):
    """Something does not hold: one sentence says what, with all numbers."""


@dataclass(slots=True)
class _Committed:
    """The batches of one log that anybody took as committed, by their first offsets."""

    batches: dict[int, bytes] = field(default_factory=dict)
    end: int = 0

    def compare(self, who: str, batches: Iterable[Batch], end: int) -> int:
        """Compare batches below an end with those of all others; return up to where."""
        reached = 0
        for each in batches:
            if each.end_offset > end:
                break
            known = self.batches.setdefault(each.base_offset, each.data)
            if known is not each.data and known != each.data:
                raise BrokenInvariantError(
                    f"{who}: another batch is committed at offset {each.base_offset} elsewhere"
                )
            reached = each.end_offset
            self.end = max(self.end, reached)
        return reached


@dataclass(slots=True)
class QuorumInvariants:
    """Of the quorum; `look` at each member after each of its events."""

    leaders: dict[int, int] = field(default_factory=dict)
    """By epoch."""
    votes: dict[tuple[int, int], int] = field(default_factory=dict)
    """By node and epoch."""
    _committed: _Committed = field(default_factory=_Committed)
    _seen: dict[int, tuple[Quorum, int, int]] = field(default_factory=dict)
    _compared: dict[int, int] = field(default_factory=dict)

    @property
    def committed_end(self) -> int:
        """Behind the last offset that anybody took as committed."""
        return self._committed.end

    def look(self, node: int, quorum: Quorum) -> None:
        """Look at a member.

        Raises:
            BrokenInvariantError: Something does not hold.
        """
        state = quorum.state
        if state.voted >= 0:
            self._voted(node, state.epoch, state.voted)
        if quorum.role is Role.LEADER:
            self._leads(node, quorum)
        before = self._seen.get(node)
        high = quorum.high_watermark
        if before is not None and before[0] is quorum and high < before[1]:
            raise BrokenInvariantError(
                f"n{node}: the quorum's high watermark went back from {before[1]} to {high}"
            )
        fresh = before is None or before[0] is not quorum
        if fresh or high != (before[1] if before else -1):
            start = 0 if fresh else self._compared.get(node, 0)
            who = f"n{node}, the quorum"
            reached = self._committed.compare(who, quorum.log.batches(start), high)
            self._compared[node] = max(start, reached)
        self._seen[node] = (quorum, high, state.epoch)

    def _voted(self, node: int, epoch: int, voted: int) -> None:
        known = self.votes.setdefault((node, epoch), voted)
        if known != voted:
            raise BrokenInvariantError(
                f"n{node} voted for {known} and for {voted} in epoch {epoch}"
            )

    def _leads(self, node: int, quorum: Quorum) -> None:
        epoch = quorum.epoch
        known = self.leaders.get(epoch)
        if known is None:
            self._is_elected(node, quorum)
        elif known != node:
            raise BrokenInvariantError(f"n{known} and n{node} lead the quorum in epoch {epoch}")

    def _is_elected(self, node: int, quorum: Quorum) -> None:
        """See that a new leader has all that is committed, unless a later one was quicker."""
        epoch, end = quorum.epoch, quorum.log.end_offset
        if end < self._committed.end and epoch > max(self.leaders, default=0):
            raise BrokenInvariantError(
                f"n{node} is elected by the quorum in epoch {epoch} with a log that ends at"
                f" {end}, and {self._committed.end} is committed"
            )
        self.leaders[epoch] = node


@dataclass(slots=True)
class PartitionInvariants:
    """Of all partitions.

    Attributes:
        mark_may_fall: Whether followers truncate by a rule that takes committed records with it.
    """

    mark_may_fall: bool = False
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    """By folder and leader epoch."""
    _committed: dict[str, _Committed] = field(default_factory=dict)
    _marks: dict[tuple[int, str], tuple[Partition, int, int]] = field(default_factory=dict)
    """By node and folder: the replica, its high watermark, and up to where it was compared."""

    def look(self, node: int, partition: Partition) -> None:
        """Look at a replica.

        Raises:
            BrokenInvariantError: Something does not hold.
        """
        folder, high = partition.log.folder, partition.high_watermark
        if partition.leading is not None:
            epoch = partition.state.leader_epoch
            known = self.leaders.setdefault((folder, epoch), node)
            if known != node:
                raise BrokenInvariantError(f"n{known} and n{node} lead {folder} in epoch {epoch}")
        seen = self._marks.get((node, folder))
        if seen is not None and seen[0] is partition and seen[1] == high:
            return
        fresh = seen is None or seen[0] is not partition
        if seen is not None and not fresh and high < seen[1] and not self.mark_may_fall:
            raise BrokenInvariantError(
                f"n{node}: the high watermark of {folder} went back from {seen[1]} to {high}"
            )
        start = 0 if fresh or seen is None else min(seen[2], high)
        compared = self._committed.setdefault(folder, _Committed()).compare(
            f"n{node}, {folder}", partition.log.batches(start), high
        )
        self._marks[node, folder] = (partition, high, max(start, compared))
