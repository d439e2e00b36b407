"""The progress of a transaction, for every kind of client."""

from collections.abc import Mapping

from results.record.terms import Decision, Outcome, TransactionOutcome
from workloads.protocol import Batch, Delivery, Key, Send, Txn, TxnResult

ON_PURPOSE = "aborted on purpose"
CRASHED = "its producer was thrown away before the end, on purpose"


class Course:
    """The progress of a transaction.

    Args:
        op: The op to execute.

    Attributes:
        batches: The results of the op's polls: (index of the micro-operation in the op, batch).
    """

    def __init__(self, op: Txn) -> None:
        self._deliveries: dict[int, Delivery] = {
            at: Delivery()
            for number, mop in zip(op.numbers, op.mops, strict=True)
            if isinstance(mop, Send)
            for at in range(number, number + len(mop.values))
        }
        self.batches: list[tuple[int, Batch]] = []

    def delivered(self, at: int, delivery: Delivery) -> None:
        """Record the delivery report of the message with this index in the op."""
        self._deliveries[at] = delivery

    def positions(self, starts: Mapping[Key, int]) -> dict[Key, int]:
        """Return the offsets that the reader reached with its polls."""
        positions = dict(starts)
        for _, batch in self.batches:
            positions |= batch.positions
        return positions

    @property
    def answered(self) -> bool:
        """Whether brokers acknowledged all sends, so that no sequence number is in doubt."""
        return all(each.acked for each in self._deliveries.values())

    def trouble(self) -> str | None:
        """Return the first error of a send or a poll."""
        polls = [batch.error for _, batch in self.batches]
        sends = [each.error for each in self._deliveries.values()]
        return next((error for error in (*polls, *sends) if error is not None), None)

    def result(
        self,
        outcome: Outcome,
        decision: Decision,
        ended: TransactionOutcome,
        error: str | None,
    ) -> TxnResult:
        """Return the result to be recorded."""
        broken = any(batch.error is not None for _, batch in self.batches)
        return TxnResult(
            # After a reader's error its logical process must end. Only an `info` result ends it.
            outcome=Outcome.INFO if broken else outcome,
            decision=decision,
            ended=ended,
            deliveries=list(self._deliveries.values()),
            batches=self.batches,
            error=error,
        )
