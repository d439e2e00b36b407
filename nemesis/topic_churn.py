"""The fault `topic-churn`: topics are created and deleted again and again until the heal.

This keeps the controllers and every broker busy with new replicas, deleted logs and new metadata.
The topics belong to the fault. Topics of the run are never touched. The heal deletes the remaining
topics.
"""

from contextlib import suppress

from cluster.protocol import CanMakeTopics, ClusterError
from nemesis.background import Background
from nemesis.cluster_effects import TopicChurnEffect, TopicsGoneEffect
from nemesis.in_words import InWords
from nemesis.protocol import FAILURES, Aim, Patience, Site
from nemesis.undo import DropTopics
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.runtime import new_event

PARTITIONS = 2
REPLICAS = 3
REST_S = 0.1
"""Seconds between two topics. The brokers also need time for the run's own messages."""
CONFIRM_LIMIT_S = 15.0
"""Seconds to wait for the first topic. On a busy machine, it takes seconds until its replicas
exist."""


END_LIMIT_S = 3.0
"""Seconds to wait until the last topic is deleted. While a broker is down, the deletion takes
longer. But a longer wait would delay the heal of the fault on that broker."""


class TopicChurn:
    """A fault that creates and deletes topics.

    Args:
        aim: The fault's id and targets. To confirm the effect, Logquake looks for the topics in the
            metadata of brokers that are not targets.
        site: The run's cluster and hosts.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanMakeTopics):
            raise ClusterError("this cluster cannot create and delete topics on request")
        self._aim, self.targets = aim, aim.targets
        self._cluster: CanMakeTopics = site.cluster
        self._site = site
        self._nodes = tuple(site.cluster.nodes)
        # Roles and records exclude topics with this prefix.
        self._prefix = f"__logquake-churn-{aim.fault_id}-"
        self._over = new_event()
        self._background = Background()
        self._created = self._deleted = self._refused = 0
        self._first: tuple[str, str] | None = None
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[DropTopics, ...]:
        """Return the undo step that deletes the topics, by the prefix of their names."""
        return (DropTopics(prefix=self._prefix),)

    def inject(self) -> None:
        """Start to create and delete topics."""
        self._started_s = stopwatch_s()
        self._background.start(self._churn, "topic-churn")

    def confirm(self, patience: Patience) -> TopicChurnEffect | None:
        """Confirm that a broker has one of the topics in its own metadata."""
        try:
            seen, by = wait_until(
                lambda: self._first or self._known_now(),
                timeout_s=max(patience.limit_s, CONFIRM_LIMIT_S),
                what="a topic of the fault",
                interval_s=0.05,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            self._background.raise_failure()
            return None
        return TopicChurnEffect(took_s=stopwatch_s() - self._started_s, seen=seen, by=by)

    def heal(self) -> None:
        """Stop the churn, and delete the remaining topics.

        Raises:
            ClusterError: An earlier heal could not end the churn: the fault is still creating a
                topic.
        """
        again = self._over.is_set()
        if not again:
            self._healed_s = stopwatch_s()
        self._over.set()
        self._background.join(END_LIMIT_S)
        if self._background.is_busy():
            if again:
                raise ClusterError("the fault is still creating a topic")
            return  # The task deletes its last topic, or leaves it to the confirmation of the heal.
        left = {topic for node in self._nodes for topic in self._left_at(node) or ()}
        if left:
            with suppress(ClusterError):  # No client uses them, and the confirmation retries.
                self._cluster.delete_topics(sorted(left))

    def confirm_healed(self, patience: Patience) -> TopicsGoneEffect | None:
        """Confirm that none of the brokers that respond has any of the topics."""
        self._background.raise_bugs()
        try:
            asked = wait_until(
                self._told_gone,
                timeout_s=patience.limit_s,
                what="the topics of the fault to be deleted",
                interval_s=0.2,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return TopicsGoneEffect(
            took_s=stopwatch_s() - self._healed_s,
            created=self._created,
            deleted=self._deleted,
            refused=self._refused,
            asked=asked,
        )

    def _churn(self) -> None:
        number = 0
        while not self._over.is_set() and not self._aim.is_late:
            number += 1
            try:
                self._come_and_go(f"{self._prefix}{number}", number)
            except FAILURES as failed:
                self._refused += 1  # Other faults cause this. The heal finds what remains.
                self._background.note(failed)
            pause_until(stopwatch_s() + REST_S, self._over)

    def _come_and_go(self, name: str, number: int) -> None:
        view = self._site.cluster.view()
        # A replica on a broker with another fault would never be in sync.
        there = [node for node in self._nodes if view is None or node in view.registered]
        first = number % max(1, len(there))
        replicas = [*there[first:], *there[:first]][:REPLICAS]
        assignment = dict.fromkeys(range(PARTITIONS), replicas)
        self._cluster.create_topic(name, assignment=assignment, configs={})
        self._created += 1
        if self._first is None:
            self._first = self._witness(name)
        self._cluster.delete_topics([name])
        self._deleted += 1

    def _witness(self, name: str) -> tuple[str, str] | None:
        """Return the topic and another broker that knows the topic, or None after a timeout."""

        def known_by() -> str | None:
            return next(
                (node for node in self._others if name in (self._left_at(node) or ())), None
            )

        with suppress(WaitTimeoutError):
            by = wait_until(
                known_by, timeout_s=2.0, what=("another broker to have the topic in its metadata")
            )
            return name, by
        return None

    def _known_now(self) -> tuple[str, str] | None:
        """Return a topic that another broker has, even if its replicas are not yet in sync.

        If another fault disables a broker of the topic, its replicas may never be in sync. But the
        topic exists all the same.
        """
        for node in self._others:
            if known := self._left_at(node):
                return min(known), node
        return None

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(node for node in self._nodes if node not in self.targets) or self._nodes

    def _left_at(self, node: str) -> frozenset[str] | None:
        topics = self._cluster.topics_of(node)
        if topics is None:
            return None
        return frozenset(topic for topic in topics if topic.startswith(self._prefix))

    def _told_gone(self) -> tuple[str, ...] | None:
        if self._background.is_busy():
            return None  # No broker knows a topic that is being created now.
        told = {node: self._left_at(node) for node in self._nodes}
        known = {topic for left in told.values() for topic in left or ()}
        if known:
            with suppress(ClusterError):  # A topic whose creation was in progress at the heal.
                self._cluster.delete_topics(sorted(known))
            return None
        return tuple(node for node, left in told.items() if left is not None)


SAYS = {
    "topic-churn": InWords(
        does="the fault creates and deletes its own topics",
        injected="CreateTopics, DeleteTopics",
        proven="the metadata of another broker has one of the topics",
        undone="no broker that responds has any of them in its metadata",
    ),
}
