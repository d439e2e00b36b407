"""One connection to each node. Threads share this connection, and send one request at a time."""

from collections.abc import Callable, Mapping

from kio.static.protocol import RequestPayload

from cluster.kafka.dialects import Dialogue
from cluster.kafka.wire import A, WireError
from cluster.protocol import Endpoint
from results.record.clock import stopwatch_s
from results.record.nodes import is_controller
from results.record.runtime import new_lock

ANSWER_TIMEOUT_S = 0.8


class Lines:
    """Connections to brokers and separate controllers; several threads may use them at once.

    Args:
        endpoints: The nodes' addresses, by node.
        answers: Returns whether a node is running and not paused.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self.nodes = tuple(endpoints)
        self._answers = answers
        self._dialogues = {node: dialogue_with(node, at) for node, at in endpoints.items()}
        self._locks = {node: new_lock() for node in endpoints}

    def answers(self, node: str) -> bool:
        """Return whether a node is running and not paused. Otherwise, send no request."""
        return self._answers(node)

    def ask(
        self,
        node: str,
        question: RequestPayload,
        answer: type[A],
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        patient: bool = True,
    ) -> A:
        """Send a request to a node, and return the response; see `Dialogue.ask`.

        Args:
            node: The node to ask.
            question: The request.
            answer: The type of the response.
            timeout_s: The time limit in seconds, including the wait for earlier requests.
            patient: False: fail at once if another request is in progress.

        Raises:
            WireError: No complete response came in time.
        """
        deadline_s = stopwatch_s() + timeout_s
        if not self._answers(node):
            raise WireError(f"{node} is down or paused")
        if not self._locks[node].acquire(timeout=timeout_s if patient else 0):
            raise WireError(f"{node} has not yet answered an earlier request")
        try:
            remaining_s = deadline_s - stopwatch_s()
            return self._dialogues[node].ask(question, answer, timeout_s=remaining_s)
        finally:
            self._locks[node].release()

    def close(self) -> None:
        """Close all connections; a later request opens them again. Idempotent."""
        for node, dialogue in self._dialogues.items():
            with self._locks[node]:
                dialogue.close()


def dialogue_with(node: str, at: Endpoint) -> Dialogue:
    """Return a connection to a broker, or to a separate controller at its controller port."""
    return Dialogue(at.host, at.controller_port if is_controller(node) else at.broker_port)
