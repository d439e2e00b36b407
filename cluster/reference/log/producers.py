"""The idempotent producers of a log (KIP-98): the epoch and the last five batches of each.

All of this can be derived from the log's batches. So after a truncation or a restart, it is rebuilt
from the batches.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.log.batches import Batch

KEPT_BATCHES = 5
"""The most batches that a producer may have in flight (`max.in.flight.requests.per.connection`)."""
_MAX_SEQUENCE = 0x7FFF_FFFF
_NEW = ErrorCode.none
"""A copy of an enum member: it is slow to look up the member for each batch."""


class Kept(Struct, frozen=True, kw_only=True, gc=False):
    """One of a producer's last batches, kept to recognize a duplicate.

    Attributes:
        base_sequence, last_sequence: The sequence numbers of the batch's first and last record.
        base_offset, end_offset: The batch's first offset, and the offset after the batch's last
            record.
    """

    base_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int


@dataclass(slots=True, kw_only=True)
class _Producer:
    epoch: int
    batches: deque[Kept] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))


class Producers:
    """The idempotent producers that wrote to a log."""

    __slots__ = ("_producers",)

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._producers: dict[int, _Producer] = {}
        for each in batches:
            self.note(each)

    def check(self, batch: Batch) -> Kept | ErrorCode:
        """Decide whether to append a batch from a producer (KIP-98).

        Returns:
            The earlier appended batch, if the new batch is a duplicate. An error, if the sequence
            number or the epoch is wrong. `ErrorCode.none`, if the batch should be appended.
        """
        known = self._producers.get(batch.producer_id)
        if known is None:
            return _NEW  # Without idempotence, or after its state was lost, any number is valid.
        if batch.producer_epoch < known.epoch:
            return ErrorCode.invalid_producer_epoch
        same_epoch = batch.producer_epoch == known.epoch
        # A new epoch counts from 0.
        expected = (known.batches[-1].last_sequence + 1) & _MAX_SEQUENCE if same_epoch else 0
        if batch.base_sequence == expected:
            return _NEW
        again = _appended_before(known, batch) if same_epoch else None
        return ErrorCode.out_of_order_sequence_number if again is None else again

    def note(self, batch: Batch) -> None:
        """Record an appended batch without a check: followers accept what the leader accepted."""
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(epoch=batch.producer_epoch)
        first, base, end = batch.base_sequence, batch.base_offset, batch.end_offset
        last = (first + end - base - 1) & _MAX_SEQUENCE
        kept = Kept(base_sequence=first, last_sequence=last, base_offset=base, end_offset=end)
        known.batches.append(kept)


def _appended_before(known: _Producer, batch: Batch) -> Kept | None:
    last_sequence = batch.last_sequence
    for each in known.batches:
        if each.base_sequence == batch.base_sequence and each.last_sequence == last_sequence:
            return each
    return None
