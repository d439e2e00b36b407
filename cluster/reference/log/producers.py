"""What a log knows of idempotent producers (KIP-98): epochs, sequence numbers, five batches each.

The state follows from the batches alone, so that it is made again from them after a truncation and
after a restart.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.log.batches import Batch

KEPT_BATCHES = 5
"""As many as a producer may have in flight (`max.in.flight.requests.per.connection`)."""
_MAX_SEQUENCE = 0x7FFF_FFFF
_NEW = ErrorCode.none
"""At hand: looking a member up in its class takes long, where every batch asks for it."""


class Kept(Struct, frozen=True, kw_only=True, gc=False):
    """A batch that is remembered.

    Attributes:
        base_sequence, last_sequence: Of its records.
        base_offset, end_offset: Where they are.
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
    """The producers that wrote to a log."""

    __slots__ = ("_producers",)

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._producers: dict[int, _Producer] = {}
        for each in batches:
            self.note(each)

    def check(self, batch: Batch) -> Kept | ErrorCode:
        """Tell what to do with a batch that a producer sent (KIP-98).

        Returns:
            The batch that was appended before, if this is the same once more; an error, if its
            sequence number or epoch is wrong; `ErrorCode.none`, if it is to be appended.
        """
        known = self._producers.get(batch.producer_id)
        if known is None:
            return _NEW  # Not idempotent, or its state is gone: any number will do.
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
        """Remember a batch that was appended; what a leader accepted a follower does not judge."""
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
