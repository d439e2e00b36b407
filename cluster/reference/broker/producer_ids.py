"""Ids for idempotent producers, from blocks that the controller gives out (KIP-98, KIP-730)."""

from collections import deque
from collections.abc import Callable, Iterator

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Asker, Effect, Reply
from cluster.reference.messages.clients import InitProducerIdRequest, InitProducerIdResponse
from cluster.reference.messages.control import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


class ProducerIds:
    """The block that a broker has, and who waits for the next one.

    Args:
        ask: Asks the controller something.
    """

    def __init__(self, ask: Callable[[object], Iterator[Effect]]) -> None:
        self._ask = ask
        self._next = self._end = 0
        self._waiting: deque[Asker] = deque()

    def take(
        self, asker: Asker, asked: InitProducerIdRequest, broker: tuple[int, int]
    ) -> Iterator[Effect]:
        """Give an id, now or when there is a block.

        Args:
            asker: Who asks.
            asked: The request; one for transactions is refused.
            broker: This one's id and epoch.
        """
        if asked.transactional_id is not None:
            yield Reply(
                asker=asker, message=InitProducerIdResponse(error_code=ErrorCode.invalid_request)
            )
            return
        if self._next < self._end:
            yield self._given(asker)
            return
        self._waiting.append(asker)
        if len(self._waiting) == 1:
            yield from self._ask(
                AllocateProducerIdsRequest(broker_id=broker[0], broker_epoch=broker[1])
            )

    def answered(self, answer: object | None) -> Iterator[Effect]:
        """Take the controller's answer; without a block those who wait are to come again."""
        match answer:
            case AllocateProducerIdsResponse(error_code=ErrorCode.none):
                self._next = answer.producer_id_start
                self._end = self._next + answer.producer_id_len
            case _:
                pass
        waiting, self._waiting = self._waiting, deque()
        for asker in waiting:
            if self._next < self._end:
                yield self._given(asker)
            else:
                # Retriable: a client asks again, and by then there may be a controller.
                error = ErrorCode.coordinator_load_in_progress
                yield Reply(asker=asker, message=InitProducerIdResponse(error_code=error))

    def _given(self, asker: Asker) -> Reply:
        self._next += 1
        given = InitProducerIdResponse(producer_id=self._next - 1)
        return Reply(asker=asker, message=given)
