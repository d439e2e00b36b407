"""Sends the observer's requests to a node. If the node restarts meanwhile, rejects the response."""

from collections.abc import Callable

from kio.static.protocol import RequestPayload

from cluster.kafka.dialects import Dialogue
from cluster.kafka.lines import ANSWER_TIMEOUT_S
from cluster.kafka.rows import Moment
from cluster.kafka.wire import A, WireError
from results.record.clock import RunClock


class Questioner:
    """Sends requests to a node, and records their times.

    Args:
        node: The node's name.
        incarnation: Returns how many times a node's server was started.
        clock: The run's clock.
    """

    def __init__(self, node: str, incarnation: Callable[[str], int], *, clock: RunClock) -> None:
        self._node = node
        self._incarnation = incarnation
        self._clock = clock

    def ask(
        self,
        dialogue: Dialogue,
        question: RequestPayload,
        answer: type[A],
        *,
        snapshot: str | None,
    ) -> tuple[A, Moment]:
        """Send a request; return the response, with the times and the node's incarnation.

        Raises:
            WireError: No response came in time, or the node was restarted in the meantime.
        """
        incarnation = self._incarnation(self._node)
        asked_ns = self._clock.now_ns()
        said = dialogue.ask(question, answer, timeout_s=ANSWER_TIMEOUT_S)
        observed_ns = self._clock.now_ns()
        if self._incarnation(self._node) != incarnation:
            raise WireError(f"{self._node} was restarted during its answer")
        return said, Moment(
            asked_ns=asked_ns, observed_ns=observed_ns, incarnation=incarnation, snapshot=snapshot
        )
