"""A story's transaction of two messages, the second of which is held up on its way."""

from cluster.kafka.lines import Lines
from cluster.kafka.transactions import RefusedError, TransactionByHand
from harness.scenarios.props import Props
from workloads.scripted_transaction import TransactionRecord


class ScriptedTransaction:
    """One transaction, sent by hand and recorded as an op that is aborted.

    Args:
        props: What the story is played with.
        node: Who leads the partition and coordinates the transaction.
    """

    def __init__(self, props: Props, node: str) -> None:
        timeout_s = props.script.transaction_timeout_s
        transactional_id = props.scenario.name
        self._record = TransactionRecord(props.script, 2, transactional_id=transactional_id)
        self._lines = Lines(props.cluster.endpoints, props.cluster.answers)
        self._requests = TransactionByHand(
            self._lines, node, props.place, transactional_id=transactional_id, timeout_s=timeout_s
        )
        self._first: int | None = None

    def begin(self) -> str:
        """Begin it and send the first message; return what was done."""
        self._requests.begin()
        self._first = self._requests.write(self._record.payloads[0], sequence=0)
        first, second = self._record.names
        return (
            f"began a transaction and sent {first}, acknowledged at offset {self._first}; the"
            f" request with {second} is held up"
        )

    def abort(self) -> str:
        """Abort it; return what was done."""
        self._requests.abort()
        self._record.aborted([self._first, None])
        return "aborted the transaction; the coordinator accepted it"

    def arrive_late(self) -> tuple[str, bool]:
        """Send the second message; return what came of it, and whether it was accepted."""
        name, payload = self._record.names[1], self._record.payloads[1]
        try:
            offset = self._requests.write(payload, sequence=1)
        except RefusedError as refused:
            return f"the request with {name} arrived, and was refused: {refused.error}", False
        return f"the request with {name} arrived, and was accepted at offset {offset}", True

    def close(self) -> None:
        """Close its connections. Idempotent."""
        self._lines.close()
