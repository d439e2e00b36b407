"""Record a transaction that a scenario's steps send by hand, request by request."""

from collections.abc import Sequence

import numpy as np

from results.record.contents import message_name, message_payload
from results.record.terms import Decision, F, Outcome, TransactionOutcome
from workloads.protocol import Delivery, Reservation, Send, Txn, TxnResult
from workloads.scripted import Script

GIVEN_UP = "the client did not get all answers of the transaction and aborted it"


class TransactionRecord:
    """One transaction op, recorded before anything is sent.

    Args:
        script: The scripted run that has the messages.
        count: The number of messages.
        transactional_id: The producer's transactional id.
    """

    def __init__(self, script: Script, count: int, *, transactional_id: str) -> None:
        self._script, self._id = script, transactional_id
        self._values = script.next_values(count)
        self._recorder = script.recorder("all")
        self._recorder.reserve(
            Reservation(value_from=self._values[0], value_to=self._values[-1] + 1)
        )
        send = Send(key=script.key, values=np.array(self._values, dtype=np.int64))
        self._op = Txn(mops=[send])
        self._op_id = script.begin(self._recorder, F.TXN, script.new_process())
        self._recorder.transacting(self._op_id, self._op, transactional_id)
        self._recorder.flush()

    @property
    def names(self) -> list[str]:
        """The names of the transaction's messages."""
        return [message_name(value) for value in self._values]

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of the transaction's messages."""
        return [message_payload(value) for value in self._values]

    def ended(self, offsets: Sequence[int | None], *, committed: bool) -> None:
        """Record the end of the transaction.

        Args:
            offsets: The offsets of its messages. None for messages that were not acknowledged.
            committed: Whether it was committed. Otherwise it was aborted.
        """
        deliveries = [
            Delivery() if offset is None else Delivery(offset=offset, acked=True, error=None)
            for offset in offsets
        ]
        outcome, error = (Outcome.OK, None) if committed else (Outcome.FAIL, GIVEN_UP)
        result = TxnResult(
            outcome=outcome,
            decision=Decision.COMMIT if committed else Decision.ABORT,
            ended=TransactionOutcome.COMMITTED if committed else TransactionOutcome.ABORTED,
            deliveries=deliveries,
            batches=(),
            error=error,
        )
        self._recorder.transacted(self._op_id, self._op, self._id, result)
        self._script.end(self._recorder, self._op_id, outcome, error)
