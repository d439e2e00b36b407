"""One line to each broker, for questions from several threads: one question at a time each."""

from collections.abc import Callable, Mapping

from kio.static.protocol import RequestPayload

from cluster.kafka.dialects import Dialogue
from cluster.kafka.wire import A, WireError
from cluster.nodes import is_controller
from cluster.protocol import Endpoint
from results.record.clock import stopwatch_s
from results.record.runtime import new_lock

ANSWER_TIMEOUT_S = 0.8


class Lines:
    """Dialogues with brokers, and with controllers of their own; safe to use from several threads.

    Args:
        endpoints: By node.
        answers: Tells of a node whether asking it is worth the wait.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self.nodes = tuple(endpoints)
        self._answers = answers
        self._dialogues = {node: dialogue_with(node, at) for node, at in endpoints.items()}
        self._locks = {node: new_lock() for node in endpoints}

    def answers(self, node: str) -> bool:
        """Tell whether asking a node is worth the wait."""
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
        """Ask a node; see `Dialogue.ask`.

        Args:
            node: Whom.
            question: What.
            answer: The type of its answer.
            timeout_s: Limit, with the wait for earlier questions.
            patient: False: fails at once while another question is under way.

        Raises:
            WireError: No whole answer came within the limit.
        """
        deadline_s = stopwatch_s() + timeout_s
        if not self._answers(node):
            raise WireError(f"{node} is down or paused")
        if not self._locks[node].acquire(timeout=timeout_s if patient else 0):
            raise WireError(f"{node} keeps an earlier question waiting")
        try:
            remaining_s = deadline_s - stopwatch_s()
            return self._dialogues[node].ask(question, answer, timeout_s=remaining_s)
        finally:
            self._locks[node].release()

    def close(self) -> None:
        """Close all of them; whoever asks again opens them again. Idempotent."""
        for node, dialogue in self._dialogues.items():
            with self._locks[node]:
                dialogue.close()


def dialogue_with(node: str, at: Endpoint) -> Dialogue:
    """Return a dialogue with a broker, or with a controller of its own at its controllers' port."""
    return Dialogue(at.host, at.controller_port if is_controller(node) else at.broker_port)
