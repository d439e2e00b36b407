"""Give ids to idempotent producers, from blocks that the controller allocates (KIP-730)."""

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
    """A broker's block of producer ids, and the clients that wait for the next block.

    Args:
        ask: Sends the controller a request.
    """

    def __init__(self, ask: Callable[[object], Iterator[Effect]]) -> None:
        self._ask = ask
        self._next = self._end = 0
        self._waiting: deque[Asker] = deque()

    def take(
        self, asker: Asker, asked: InitProducerIdRequest, broker: tuple[int, int]
    ) -> Iterator[Effect]:
        """Answer with a producer id, now or when the next block arrives.

        Args:
            asker: The client.
            asked: The request. A request for transactions is refused.
            broker: This broker's id and epoch.
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
        """Handle the controller's response. If it has no new block, let waiting clients retry."""
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
                # A retriable error: the client asks again, perhaps when there is a controller.
                error = ErrorCode.coordinator_load_in_progress
                yield Reply(asker=asker, message=InitProducerIdResponse(error_code=error))

    def _given(self, asker: Asker) -> Reply:
        self._next += 1
        given = InitProducerIdResponse(producer_id=self._next - 1)
        return Reply(asker=asker, message=given)
