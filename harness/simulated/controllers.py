"""Asks controllers of their own, as `cluster.kafka.controller_rounds` does on real hosts.

A controller that leads tells so itself; of one that does not, whoever leads tells how far it is.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kio.schema.errors import ErrorCode

from cluster.kafka.rows import Moment, RowMaker
from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from harness.simulated.watcher import LIMIT_NS, MS, quorum_state
from results.record.stream import StreamWriter

INTERVAL_NS = 500 * MS


class ControllerWatcher:
    """The machine that watches one controller.

    Args:
        node: Its name, `n101`.
        numbers: The ids of all controllers, by name.
        incarnation: Tells how often it was started.
        clock: Returns virtual time.
        live: The folder of the live streams.
    """

    def __init__(
        self,
        node: str,
        numbers: Mapping[str, int],
        *,
        incarnation: Callable[[], int],
        clock: Callable[[], int],
        live: Path,
    ) -> None:
        self._own, self._numbers = numbers[node], tuple(numbers.values())
        self._incarnation, self._clock = incarnation, clock
        self._maker = RowMaker(node, {})
        self._stream = StreamWriter(live, "quorum_states", f"observer-{node}")
        self._asked: dict[int, int] = {}
        self._said: dict[int, DescribeQuorumResponse] = {}
        self._began = (0, 0)
        self._last = 0

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Begin."""
        return self._ask()

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Take an answer, or ask again."""
        match event:
            case Answered(request=number, message=message):
                self._take(number, message)
                return []
            case Fired():
                return self._ask()
            case _:
                return []

    def close(self) -> None:
        """End the stream."""
        self._stream.close()

    def _ask(self) -> list[Effect]:
        out: list[Effect] = [SetTimer(timer="round", after_ns=INTERVAL_NS, at_most_ns=INTERVAL_NS)]
        if self._asked:
            return out  # Somebody has not answered yet, nor failed to.
        self._began, self._said = (self._clock(), self._incarnation()), {}
        for to in self._numbers:
            self._last += 1
            self._asked[self._last] = to
            out.append(Request(
                number=self._last, to=to, message=DescribeQuorumRequest(), timeout_ns=LIMIT_NS
            ))  # fmt: skip
        return out

    def _take(self, number: int, message: object) -> None:
        who = self._asked.pop(number)
        if isinstance(message, DescribeQuorumResponse) and message.error_code is ErrorCode.none:
            self._said[who] = message
        asked_ns, incarnation = self._began
        if self._asked or not self._said or incarnation != self._incarnation():
            return
        # Who believes to lead has the word on himself; else the leader of the latest epoch.
        told = self._said.get(self._own) or max(
            self._said.values(), key=lambda each: each.leader_epoch
        )
        state = quorum_state(told, self._own)
        if state is not None:
            at = Moment(
                asked_ns=asked_ns,
                observed_ns=self._clock(),
                incarnation=incarnation,
                snapshot=None,
            )
            row = self._maker.quorum(state, at)
            if row is not None:
                self._stream.append(row)
