"""Creates topics, and waits until each partition has a serving leader and a full ISR."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kio.schema.create_topics.v7.request import CreateTopicsRequest

from cluster.kafka import questions
from cluster.kafka.orders import ORDER_TIMEOUT_S
from cluster.kafka.questions import Place
from cluster.protocol import ClusterError, ClusterView
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import node_id
from results.record.topics import CreatedTopic

TOPICS_TIMEOUT_S = 30.0


class Maker(Protocol):
    """Creates and observes topics; implemented by `Admin` and `ZooKeeperAdmin`."""

    def create(self, request: CreateTopicsRequest) -> list[CreatedTopic]:
        """Create topics."""

    def view(self) -> ClusterView | None:
        """Return the cluster's state as the nodes report it; None if no node answers."""

    def leader_ends(
        self, places: Iterable[Place], *, committed: bool, timeout_s: float
    ) -> dict[Place, int]:
        """Ask each partition's leader for its end offset."""


def make_topics(
    admin: Maker,
    names: Sequence[str],
    *,
    partitions: int,
    replication: int,
    configs: Mapping[str, str] | None = None,
) -> list[CreatedTopic]:
    """Create topics and wait until they are ready; see `KafkaCluster.create_topics`."""
    request = questions.new_topics(
        names,
        partitions=partitions,
        replication=replication,
        configs=configs or {},
        timeout_s=ORDER_TIMEOUT_S,
    )
    created = admin.create(request)
    places = [(name, part) for name in names for part in range(partitions)]
    _wait_led(admin, dict.fromkeys(places, replication))
    return created


def make_topic(
    admin: Maker,
    name: str,
    *,
    assignment: Mapping[int, Sequence[str]],
    configs: Mapping[str, str],
) -> CreatedTopic:
    """Create a topic with a given replica assignment; see `KafkaCluster.create_topic`."""
    request = questions.new_topic(
        name,
        assignment={part: list(map(node_id, nodes)) for part, nodes in assignment.items()},
        configs=configs,
        timeout_s=ORDER_TIMEOUT_S,
    )
    (created,) = admin.create(request)
    _wait_led(admin, {(name, part): len(nodes) for part, nodes in assignment.items()})
    return created


def _wait_led(admin: Maker, replicas: Mapping[Place, int]) -> None:
    try:
        wait_until(
            lambda: _led(admin, replicas),
            timeout_s=TOPICS_TIMEOUT_S,
            what="each new partition to have a leader that serves requests, and a full ISR",
        )
    except WaitTimeoutError as late:
        raise ClusterError(f"{late}; see the controller.log of the nodes") from late


def _led(admin: Maker, replicas: Mapping[Place, int]) -> bool:
    view = admin.view()
    if view is None:
        return False
    states = {place: view.partitions.get(place) for place in replicas}
    named = all(
        state and state.leader and len(state.isr) == replicas[place]
        for place, state in states.items()
    )
    # ZooKeeper names a leader before the broker knows that it leads. So each leader has to answer.
    ends = admin.leader_ends(replicas, committed=False, timeout_s=0) if named else {}
    return ends.keys() >= replicas.keys()
