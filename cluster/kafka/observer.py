"""Asks each broker several times a second, and writes the responses to the run's record.

A client library would ask any broker and keep only the newest answer. But if brokers disagree, the
cluster has a problem. So each broker has its own thread, and its own connections with short time
limits. Then a paused or cut-off broker does not delay the requests to the others.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.kafka import rows
from cluster.kafka.broker_rounds import BrokerRounds
from cluster.kafka.controller_rounds import ControllerRounds
from cluster.kafka.observed import Observed
from cluster.kafka.questions import Place
from cluster.kafka.rows import Leadership
from cluster.kafka.watching import Watch, Wish
from cluster.kafka.zookeeper_rounds import ZooKeeperRounds
from cluster.protocol import PartitionSummary, Summary, TopicsByHand
from results.record.clock import RunClock, WaitTimeoutError, wait_until
from results.record.nodes import ZOOKEEPER_MACHINE, node_id
from results.record.runtime import new_lock
from results.record.topics import CreatedTopic

log = logging.getLogger(__name__)


class Observer:
    """The observer threads: one for each broker, for each separate controller and for ZooKeeper.

    Args:
        cluster: The cluster to observe.
        topics: The topics to ask about.
        clock: The run's clock.
        live: The run's existing folder `record/live`.
        beside: Knows the additional topics. For these, only the leaders and ISRs are requested.
    """

    def __init__(
        self,
        cluster: Observed,
        topics: Sequence[CreatedTopic],
        *,
        clock: RunClock,
        live: Path,
        beside: TopicsByHand | None = None,
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._names = {node_id(node): node for node in cluster.nodes}
        self._brokers = {
            node: BrokerRounds(node, cluster, topics=topics, clock=clock, beside=beside)
            for node in cluster.nodes
        }
        self._zookeeper = (
            ZooKeeperRounds(cluster.zookeeper, topics=topics, clock=clock)
            if cluster.zookeeper
            else None
        )
        self._watches = {node: Watch(node, rounds) for node, rounds in self._brokers.items()}
        for node in cluster.controllers:
            self._watches[node] = Watch(node, ControllerRounds(node, cluster, clock=clock))
        if self._zookeeper is not None:
            self._watches[ZOOKEEPER_MACHINE] = Watch(ZOOKEEPER_MACHINE, self._zookeeper)
        self._one_snapshot = new_lock()

    def start(self) -> None:
        """Start all observer threads."""
        for watch in self._watches.values():
            watch.start(self._live)

    def stop(self) -> None:
        """Stop all observer threads, and close their output files. Idempotent."""
        for watch in self._watches.values():
            watch.ask_to_stop()
        for watch in self._watches.values():
            watch.stop()

    def note(self, timeout_s: float) -> frozenset[str]:
        """Take the last snapshot before brokers stop: a row for every replica and leader.

        The rows of `replica_states` have the snapshot name `noted`.

        Args:
            timeout_s: The time limit in seconds.

        Returns:
            The nodes with a completely written state; other nodes did not answer in time.
        """
        return self.snapshot(rows.NOTED, timeout_s)

    def snapshot(self, name: str, timeout_s: float) -> frozenset[str]:
        """Write the current state of every replica, all metadata and all leaders' answers.

        The rows of `replica_states` have the name in the column `snapshot`; `leadership` and
        `quorum_states` have no such column. When the method has returned, no more rows are written
        under this name. Repeated calls are allowed, but only one at a time.

        Args:
            name: The snapshot's name.
            timeout_s: The time limit in seconds; nodes that are down or paused are skipped.

        Returns:
            The nodes with a completely written state; other nodes did not answer in time.
        """
        with self._one_snapshot:
            wishes = {node: watch.want(name) for node, watch in self._watches.items()}
            try:
                wait_until(
                    lambda: not self._pending(wishes),
                    timeout_s=timeout_s,
                    what=f"an observation of each node for {name}",
                    interval_s=0.02,
                )
            except WaitTimeoutError:
                silent = ", ".join(self._pending(wishes))
                log.warning("%s did not answer during the observation for %s", silent, name)
            for node, wish in wishes.items():
                self._watches[node].withdraw(wish)
        done = (node for node, wish in wishes.items() if wish.done)
        return frozenset(done) - {ZOOKEEPER_MACHINE}

    def _pending(self, wishes: Mapping[str, Wish]) -> list[str]:
        return [
            node
            for node, wish in wishes.items()
            if not wish.done and self._watches[node].failure is None and self._cluster.answers(node)
        ]

    def failures(self) -> list[str]:
        """Return the reasons why observer threads ended before `stop`, e.g. a full disk."""
        return [watch.failure for watch in self._watches.values() if watch.failure is not None]

    def latest(self) -> Summary:
        """Return the latest known state of all partitions and brokers."""
        brokers = self._brokers.values()
        believed = [each for rounds in brokers for each in rounds.believed.values()]
        claimed = [each for rounds in brokers for each in rounds.claimed.values()]
        if self._zookeeper is not None:
            # ZooKeeper comes last, because within an epoch its ISR is the newest.
            believed += self._zookeeper.believed.values()
        answered = {
            node: rounds.answered_ns
            for node, rounds in self._brokers.items()
            if rounds.answered_ns is not None
        }
        return Summary(partitions=_summaries(believed, claimed, self._names), answered_ns=answered)


def _summaries(
    believed: Sequence[Leadership], claimed: Sequence[Leadership], names: Mapping[int, str]
) -> dict[Place, PartitionSummary]:
    newest = _newest(believed)
    announced = _newest(claimed)
    return {
        place: PartitionSummary(
            leader=names.get(said.leader),
            leader_epoch=said.leader_epoch,
            isr=tuple(names.get(replica, f"n{replica}") for replica in said.isr or ()),
            high_watermark=announced[place].high_watermark if place in announced else None,
        )
        for place, said in newest.items()
    }


def _newest(said: Sequence[Leadership]) -> dict[Place, Leadership]:
    newest: dict[Place, Leadership] = {}
    for each in said:
        last = newest.get(each.place)
        if last is None or each.leader_epoch >= last.leader_epoch:
            newest[each.place] = each
    return newest
