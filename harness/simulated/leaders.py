"""The metadata of a simulated client: the known leaders, and when to ask for them again."""

from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Request
from cluster.reference.messages.clients import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from harness.simulated.asking import BACKOFF_NS, MS, Questions
from workloads.protocol import Key

REFRESH_NS = 2_000_000_000
"""The maximum age of metadata, as in real clients (`topic.metadata.refresh.interval.ms`)."""
_LIMIT_NS = 1000 * MS


class Leaders:
    """The known leaders of partitions, with their epochs.

    Args:
        topics: The run's topics.
        brokers: Node ids, as in `bootstrap.servers`.
        first: The broker that is asked first.
    """

    def __init__(self, topics: Sequence[str], brokers: Sequence[int], *, first: int = 0) -> None:
        self._question = MetadataRequest(topics=tuple(MetadataRequestTopic(name=t) for t in topics))
        self._brokers = list(brokers)
        self._turn = first
        self._of: dict[Key, tuple[int, int]] = {}
        self._told_ns: int | None = None
        self._rests_until_ns = 0
        self._counts: dict[str, int] = {}
        self._asking = False

    @property
    def partitions(self) -> Mapping[str, int]:
        """The number of partitions of each topic, as far as it is known."""
        return self._counts

    def of(self, key: Key) -> tuple[int, int] | None:
        """Return a partition's leader and its leader epoch; None if no leader is known."""
        return self._of.get(key)

    def forget(self, key: Key) -> None:
        """Forget a partition's leader, because that broker no longer leads; ask for a new one."""
        self._of.pop(key, None)
        self._told_ns = None

    def refreshed(self, now_ns: int, questions: Questions) -> list[Request]:
        """Return a metadata request if the metadata is too old. The brokers take turns.

        After a request without a response, the client waits as long as real clients do
        (`retry.backoff.ms`). While no broker runs, each request fails at once.
        """
        old = self._told_ns is None or now_ns - self._told_ns > REFRESH_NS
        if self._asking or not old or now_ns < self._rests_until_ns:
            return []
        self._asking = True
        return [questions.ask(self.someone(), self._question, self._take, _LIMIT_NS)]

    def someone(self) -> int:
        """Return a broker for a request that any broker can answer. The brokers take turns."""
        self._turn += 1
        return self._brokers[self._turn % len(self._brokers)]

    def _take(self, now_ns: int, answer: object) -> None:
        """Store the leaders in a metadata response; ignore entries with an older leader epoch."""
        self._asking = False
        if not isinstance(answer, MetadataResponse):
            self._told_ns, self._rests_until_ns = None, now_ns + BACKOFF_NS
            return
        self._told_ns = now_ns
        for topic in answer.topics:
            if topic.error_code is ErrorCode.none:
                self._counts[str(topic.name)] = len(topic.partitions)
            for each in topic.partitions:
                key = (str(topic.name), each.partition_index)
                known = self._of.get(key)
                if each.leader_id < 0 or (known and each.leader_epoch < known[1]):
                    continue
                self._of[key] = (each.leader_id, each.leader_epoch)
