"""Creates, deletes and queries topics with single requests to single brokers.

The class implements `cluster.protocol.TopicsByHand`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import orders, questions, rows
from cluster.kafka.lines import Lines
from cluster.kafka.orders import ORDER_TIMEOUT_S, TopicExistsError
from cluster.kafka.producing import produce
from cluster.kafka.questions import Place
from cluster.kafka.versions import NO_TOPIC_ID
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterError, Endpoint, PartitionState, ToldTopic
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import node_id
from results.record.runtime import new_lock


class TopicsByHand:
    """Sends topic requests over its own connections, so that other requests need not wait.

    Requests to the same broker are sent one at a time.

    Args:
        endpoints: The addresses of all brokers.
        answers: Returns whether a node is running and not paused.

    Attributes:
        watched: The additional topics that the observer asks about.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self.watched: frozenset[str] = frozenset()
        self._watching = new_lock()
        self._lines = Lines(endpoints, answers)
        self._names = {node_id(node): node for node in endpoints}

    def watch(self, name: str) -> None:
        """Let the observer ask each broker about one more topic."""
        with self._watching:  # Two fault lanes may call this at once.
            self.watched |= {name}

    def create(
        self,
        name: str,
        *,
        assignment: Mapping[int, Sequence[str]],
        configs: Mapping[str, str],
        known: Collection[str],
    ) -> str:
        """Create a topic without waiting for its replicas, and return its id.

        If an answer is late, a broker may send the request to the controller twice. The second
        request then fails because the topic exists. This method then returns the id of the existing
        topic.

        With KRaft, a replica may be assigned to a fenced broker if another replica of the partition
        is on an unfenced broker (KIP-841).

        Args:
            name: The topic's name; no topic of this name may exist.
            assignment: The nodes of each partition's replicas.
            configs: The topic's settings.
            known: The ids of earlier topics with this name.

        Raises:
            ClusterError: Kafka refuses the topic, or no broker answers.
        """
        request = questions.new_topic(
            name,
            assignment={part: list(map(node_id, nodes)) for part, nodes in assignment.items()},
            configs=configs,
            timeout_s=ORDER_TIMEOUT_S,
        )
        try:
            (created,) = orders.create_topics(self._lines, request, nodes=self._lines.nodes)
        except TopicExistsError as refused:
            return self._made_already(name, known, refused)
        return created.topic_id

    def _made_already(self, name: str, known: Collection[str], refused: TopicExistsError) -> str:
        """Wait until a broker knows the existing topic, and return the topic's id."""

        def made() -> str | None:
            told = (self.told_by(node, name) for node in self._lines.nodes)
            return next(
                (each.topic_id for each in told if each and each.topic_id not in known), None
            )

        try:
            return wait_until(made, timeout_s=ORDER_TIMEOUT_S, what=f"word of {name}")
        except WaitTimeoutError:
            raise refused from None

    def delete(self, name: str, topic_id: str) -> None:
        """Delete a topic with one request to one broker.

        Kafka may process a request later even if no response came. A second request by name, to
        another broker, could then delete a topic that was recreated in between.

        Raises:
            ClusterError: Kafka refuses the request, or no response comes.
        """
        nodes = [node for node in self._lines.nodes if self._lines.answers(node)]
        if not nodes:
            raise ClusterError(f"no broker deletes {name}: none answers")
        orders.delete_incarnation(self._lines, name, topic_id, node=nodes[0])

    def told_by(self, node: str, name: str) -> ToldTopic | None:
        """Return a topic as one broker knows it.

        Returns:
            None if the broker does not know the topic or does not answer.
        """
        try:
            answer = self._lines.ask(node, questions.metadata([name]), MetadataResponse)
        except WireError:
            return None
        for topic in answer.topics:
            if topic.partitions:
                states = (
                    PartitionState(
                        topic=name,
                        partition=int(state.partition_index),
                        leader=self._names.get(state.leader_id),
                        leader_epoch=int(state.leader_epoch),
                        replicas=tuple(map(self._name, state.replica_nodes)),
                        isr=tuple(map(self._name, state.isr_nodes)),
                    )
                    for state in topic.partitions
                )
                return ToldTopic(
                    topic_id=str(topic.topic_id or NO_TOPIC_ID),
                    partitions={state.partition: state for state in states},
                )
        return None

    def end_at(self, node: str, place: Place) -> int | None:
        """Return the high watermark that a broker reports as leader; None without such a report."""
        try:
            answer = self._lines.ask(node, questions.leader_ends([place]), ListOffsetsResponse)
        except WireError:
            return None
        return rows.log_ends(answer).get(place)

    def send(self, node: str, place: Place, payload: bytes, *, timeout_s: float) -> int:
        """Send one record to the leader, with acks=all and without retries; return its offset.

        Raises:
            ClusterError: The record was not acknowledged; it may still be stored.
        """
        return produce(self._lines, node, place, payload, timeout_s=timeout_s)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._lines.close()

    def _name(self, broker: int) -> str:
        return self._names.get(broker, f"n{broker}")
