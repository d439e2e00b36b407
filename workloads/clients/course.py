"""What has come of a transaction so far, whichever client carries it out."""

from collections.abc import Mapping

from results.record.terms import Decision, Outcome, TransactionOutcome
from workloads.protocol import Batch, Delivery, Key, Send, Txn, TxnResult

ON_PURPOSE = "aborted on purpose"
CRASHED = "its producer was thrown away before the end, on purpose"


class Course:
    """What has come of a transaction so far.

    Args:
        op: What is to be done.

    Attributes:
        batches: Of the polls that were done, each with the number of its mop.
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
        """Note the delivery report of a value, by its number in the record."""
        self._deliveries[at] = delivery

    def positions(self, starts: Mapping[Key, int]) -> dict[Key, int]:
        """Return where the reader is after its polls."""
        positions = dict(starts)
        for _, batch in self.batches:
            positions |= batch.positions
        return positions

    @property
    def answered(self) -> bool:
        """Whether the brokers took all of its sends, so that no sequence number is in doubt."""
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
        """Return what is recorded."""
        broken = any(batch.error is not None for _, batch in self.batches)
        return TxnResult(
            # A reader that failed retires its process, and only an info does that.
            outcome=Outcome.INFO if broken else outcome,
            decision=decision,
            ended=ended,
            deliveries=list(self._deliveries.values()),
            batches=self.batches,
            error=error,
        )
