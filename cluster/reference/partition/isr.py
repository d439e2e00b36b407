"""Requests to the controller to change ISRs, and the controller's responses (KIP-497)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Effect, Nanoseconds, Say
from cluster.reference.messages.control import AlteredPartition, AlterPartition
from cluster.reference.partition.partition import Partition
from cluster.reference.partition.registry import Registry

_TAKEN_BACK = (ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted)
"""After these errors, the partition is unchanged, and the leader may ask for another change."""
_OVERTAKEN = (
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.new_leader_elected,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.invalid_request,
)
"""The errors after which the leader waits: the controller has a newer state, which the leader will
get.

The request stays open until then. Meanwhile, the brokers that the request adds count for the high
watermark.
"""


@dataclass(slots=True, eq=False)
class IsrChanges:
    """The ISR changes that this broker's leaders ask for.

    Attributes:
        unsent: The requests that were not yet sent, by folder.
    """

    _registry: Registry
    unsent: dict[str, AlterPartition] = field(default_factory=dict)

    def fetched(self, partition: Partition, broker: int) -> None:
        """If a follower has caught up by a fetch, ask the controller to add it to the ISR."""
        leading = partition.leading
        if leading and leading.wish_to_add(
            broker, high_watermark=partition.high_watermark, eligible=self._registry.eligible
        ):
            self._note(partition, leading.wish)

    def remove_laggards(self, now: Nanoseconds, out: list[Effect]) -> None:
        """Ask the controller to remove lagging followers from the ISRs."""
        for partition in self._registry.led():
            leading = partition.leading
            if leading is None:
                continue
            lags = leading.wish_to_remove(now, self._registry.eligible)
            if lags:
                self._note(partition, leading.wish)
                out.append(Say(text=self._shrinks(partition, lags)))

    def wishes(self) -> tuple[AlterPartition, ...]:
        """Return the requests that were not sent yet, and mark them as sent."""
        if not self.unsent:
            return ()
        wishes = tuple(self.unsent.values())
        self.unsent.clear()
        return wishes

    def forget(self, folder: str) -> None:
        """Drop the request of a partition that this broker no longer leads."""
        self.unsent.pop(folder, None)

    def answered(
        self,
        wishes: Sequence[AlterPartition],
        answers: Sequence[AlteredPartition] | None,
        out: list[Effect],
    ) -> list[Partition]:
        """Handle responses; return the partitions whose ISR requests were granted or refused."""
        told = {(each.topic_id, each.partition_index): each for each in answers or ()}
        settled = []
        for wish in wishes:
            partition = self._partition(wish.topic_id, wish.partition_index)
            if partition is None or not partition.leading or partition.leading.wish is not wish:
                continue  # A later state of the partition has already answered the request.
            answer = told.get((wish.topic_id, wish.partition_index))
            if answer is None:
                self._note(partition, wish)
            elif self._answered(partition, answer, out):
                settled.append(partition)
        return settled

    def _answered(self, partition: Partition, answer: AlteredPartition, out: list[Effect]) -> bool:
        leading = partition.leading
        assert leading is not None
        if answer.error_code is ErrorCode.none:
            return self._granted(partition, answer, out)
        if answer.error_code in _TAKEN_BACK:
            leading.wish = None
            return True
        if answer.error_code not in _OVERTAKEN:
            self._note(partition, leading.wish)
        return False

    def _granted(self, partition: Partition, answer: AlteredPartition, out: list[Effect]) -> bool:
        state, leading = partition.state, partition.leading
        newer = answer.partition_epoch >= state.partition_epoch
        if leading is None or answer.leader_epoch != state.leader_epoch or not newer:
            return False
        granted = replace(state, isr=answer.isr, partition_epoch=answer.partition_epoch)
        self._registry.known[granted.folder] = granted
        partition.state = leading.state = granted
        leading.wish = None
        listed = ",".join(map(str, answer.isr))
        out.append(
            Say(
                text=f"{self._prefix(partition)} ISR updated to {listed} and version updated to"
                f" {answer.partition_epoch}"
            )
        )
        return True

    def _note(self, partition: Partition, wish: AlterPartition | None) -> None:
        if wish is not None:
            self.unsent[partition.log.folder] = wish

    def _partition(self, topic_id: UUID, number: int) -> Partition | None:
        for partition in self._registry.partitions.values():
            if partition.state.topic_id == topic_id and partition.state.partition == number:
                return partition
        return None

    def _shrinks(self, partition: Partition, lags: tuple[int, ...]) -> str:
        isr = partition.state.isr
        before, after = ",".join(map(str, isr)), ",".join(str(b) for b in isr if b not in lags)
        return (
            f"{self._prefix(partition)} Shrinking ISR from {before} to {after}. Leader:"
            f" (highWatermark: {partition.high_watermark}, endOffset: {partition.log.end_offset})."
            f" Out of sync replicas: {','.join(map(str, lags))}."
        )

    def _prefix(self, partition: Partition) -> str:
        return f"[Partition {partition.log.folder} broker={self._registry.me}]"
