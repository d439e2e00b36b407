"""The transaction of a scenario. The second message of the transaction may be delayed."""

from cluster.kafka.lines import Lines
from cluster.kafka.producing import RefusedError
from cluster.kafka.transactions import TransactionByHand
from harness.scenarios.actions import BeginTransaction
from harness.scenarios.props import Props
from workloads.scripted_transaction import TransactionRecord


class ScriptedTransaction:
    """One transaction. Its requests are sent one by one, and it is recorded as an op.

    Args:
        props: The objects that the scenario uses.
        asked: The action that begins the transaction.
    """

    def __init__(self, props: Props, asked: BeginTransaction) -> None:
        name = props.scenario.name
        count = 2 if asked.held_up else 1
        self._record = TransactionRecord(props.script, count, transactional_id=name)
        self._lines = Lines(props.cluster.endpoints, props.cluster.answers)
        self._requests = TransactionByHand(
            self._lines,
            asked.node,
            props.place,
            transactional_id=name,
            timeout_s=props.script.transaction_timeout_s,
        )
        self._offsets: list[int | None] = [None] * count

    def begin(self) -> str:
        """Begin the transaction and send its first message; return a description."""
        self._requests.begin()
        offset = self._offsets[0] = self._requests.write(self._record.payloads[0], sequence=0)
        first, *second = self._record.names
        did = f"began a transaction and sent {first}, acknowledged at offset {offset}"
        return f"{did}; the request with {second[0]} is held up" if second else did

    def end(self, *, committed: bool) -> str:
        """Commit or abort the transaction; return a description."""
        self._requests.end(committed=committed)
        self._record.ended(self._offsets, committed=committed)
        return f"{'committed' if committed else 'aborted'} the transaction"

    def arrive_late(self) -> tuple[str, bool]:
        """Send the delayed message; return a description, and whether the broker accepted it."""
        name, payload = self._record.names[-1], self._record.payloads[-1]
        try:
            offset = self._requests.write(payload, sequence=len(self._offsets) - 1)
        except RefusedError as refused:
            return f"the request with {name} arrived, and was refused: {refused.error}", False
        return f"the request with {name} arrived, and was accepted at offset {offset}", True

    def close(self) -> None:
        """Close the transaction's connections. Idempotent."""
        self._lines.close()
