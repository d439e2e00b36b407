"""The fault `topic-churn`: topics are created and deleted, again and again, while it lasts.

The controllers are kept busy, and every broker with them: new replicas, deleted logs, new metadata.
The topics are the fault's own; those of the run are never touched. Healed by deleting what is left.
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
"""Between two topics: the brokers have the run's own messages to carry, too."""
CONFIRM_LIMIT_S = 15.0
"""A first topic is there as soon as its replicas are, which takes seconds on a busy machine."""


END_LIMIT_S = 3.0
"""For the last topic to be deleted. One that waits for a broker that is down takes longer, and may
not hold up the heal of whatever keeps that broker down."""


class TopicChurn:
    """Topics that come and go.

    Args:
        aim: Which fault this is; a broker that is not a target is asked what there is.
        site: Where.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanMakeTopics):
            raise ClusterError("topics of this cluster can neither be made nor deleted")
        self._aim, self.targets = aim, aim.targets
        self._cluster: CanMakeTopics = site.cluster
        self._site = site
        self._nodes = tuple(site.cluster.nodes)
        # No role and no record takes topics that begin so for the run's own.
        self._prefix = f"__logquake-churn-{aim.fault_id}-"
        self._over = new_event()
        self._background = Background()
        self._created = self._deleted = self._refused = 0
        self._first: tuple[str, str] | None = None
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[DropTopics, ...]:
        """Return the topics to delete, by what their names begin with."""
        return (DropTopics(prefix=self._prefix),)

    def inject(self) -> None:
        """Begin to create and to delete."""
        self._started_s = stopwatch_s()
        self._background.start(self._churn, "topic-churn")

    def confirm(self, patience: Patience) -> TopicChurnEffect | None:
        """See that a broker knows one of the topics by its own metadata."""
        try:
            seen, by = wait_until(
                lambda: self._first or self._known_now(),
                timeout_s=max(patience.limit_s, CONFIRM_LIMIT_S),
                what="a topic of the churn",
                interval_s=0.05,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            self._background.raise_failure()
            return None
        return TopicChurnEffect(took_s=stopwatch_s() - self._started_s, seen=seen, by=by)

    def heal(self) -> None:
        """Come to an end, and delete what is left.

        Raises:
            ClusterError: It was healed before, and still makes a topic.
        """
        again = self._over.is_set()
        if not again:
            self._healed_s = stopwatch_s()
        self._over.set()
        self._background.join(END_LIMIT_S)
        if self._background.is_busy():
            if again:
                raise ClusterError("a topic of the churn is still being made")
            return  # It deletes its last topic itself, or leaves it to who sees that it is gone.
        left = {topic for node in self._nodes for topic in self._left_at(node) or ()}
        if left:
            with suppress(ClusterError):  # Nobody's load is on them, and who looks tries again.
                self._cluster.delete_topics(sorted(left))

    def confirm_healed(self, patience: Patience) -> TopicsGoneEffect | None:
        """See that no broker that answers knows any of the topics."""
        self._background.raise_bugs()
        try:
            asked = wait_until(
                self._told_gone,
                timeout_s=patience.limit_s,
                what="the topics of the churn to be gone",
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
                self._refused += 1  # Under other faults; what is left of it the heal finds.
                self._background.note(failed)
            pause_until(stopwatch_s() + REST_S, self._over)

    def _come_and_go(self, name: str, number: int) -> None:
        view = self._site.cluster.view()
        # On a broker that another fault has taken, no replica would ever be in sync.
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
        """Return a topic and a broker that knows it; the cluster knows it, so it spreads."""

        def known_by() -> str | None:
            return next(
                (node for node in self._others if name in (self._left_at(node) or ())), None
            )

        with suppress(WaitTimeoutError):
            by = wait_until(known_by, timeout_s=2.0, what="another broker to know it")
            return name, by
        return None

    def _known_now(self) -> tuple[str, str] | None:
        """Return a topic that another broker knows, be its replicas in sync yet or not.

        One whose broker another fault takes meanwhile may never be whole, and is there.
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
            return None  # A topic that is being made now is not known to anybody yet.
        told = {node: self._left_at(node) for node in self._nodes}
        known = {topic for left in told.values() for topic in left or ()}
        if known:
            with suppress(ClusterError):  # One whose creation was under way when the heal came.
                self._cluster.delete_topics(sorted(known))
            return None
        return tuple(node for node, left in told.items() if left is not None)


SAYS = {
    "topic-churn": InWords(
        does="topics of its own are created and deleted while it lasts",
        injected="CreateTopics, DeleteTopics",
        proven="another broker knows one",
        undone="no broker knows any",
    ),
}
