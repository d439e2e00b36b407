"""Topics by single requests to single brokers; implements `cluster.protocol.TopicsByHand`."""

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
from cluster.nodes import node_id
from cluster.protocol import Endpoint, PartitionState, ToldTopic
from results.record.clock import WaitTimeoutError, wait_until
from results.record.runtime import new_lock


class TopicsByHand:
    """Requests about topics on connections of their own.

    The observer and the clients do not wait for its answers. Its own requests to one broker do: one
    is under way at a time.

    Args:
        endpoints: Of all brokers.
        answers: Tells of a node whether asking it is worth the wait.

    Attributes:
        watched: The topics that the observer asks about, too.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], answers: Callable[[str], bool]) -> None:
        self.watched: frozenset[str] = frozenset()
        self._watching = new_lock()
        self._lines = Lines(endpoints, answers)
        self._names = {node_id(node): node for node in endpoints}

    def watch(self, name: str) -> None:
        """Have the observer ask each broker about a topic, from now on."""
        with self._watching:  # Faults of two lanes may be at it.
            self.watched |= {name}

    def create(
        self,
        name: str,
        *,
        assignment: Mapping[int, Sequence[str]],
        configs: Mapping[str, str],
        known: Collection[str],
    ) -> str:
        """Create a topic, wait for none of its replicas, and return its id.

        Where an answer is late, a broker sends the order to its controller again, and hears that
        the topic is there; so it is the one that was to be made.

        With KRaft a replica may be assigned to a broker that is registered and fenced, if another
        one of its partition is not (KIP-841).

        Args:
            name: Its name; none of that name is there.
            assignment: The nodes of each partition.
            configs: Its settings.
            known: The ids of topics that had this name before.

        Raises:
            ClusterError: Kafka refuses it, or nobody answers.
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
        """Return the id of a topic that is there, as soon as a broker knows it."""

        def made() -> str | None:
            told = (self.told_by(node, name) for node in self._lines.nodes)
            return next(
                (each.topic_id for each in told if each and each.topic_id not in known), None
            )

        try:
            return wait_until(made, timeout_s=ORDER_TIMEOUT_S, what=f"word of {name}")
        except WaitTimeoutError:
            raise refused from None

    def delete(self, name: str) -> None:
        """Delete a topic: one broker is asked, once.

        A request without an answer may be carried out later. So no other broker is asked: a topic
        that was created in between would be deleted.

        Raises:
            ClusterError: Kafka refuses it, or no answer comes.
        """
        nodes = [node for node in self._lines.nodes if self._lines.answers(node)]
        orders.delete_topics(self._lines, [name], nodes=nodes[:1])

    def told_by(self, node: str, name: str) -> ToldTopic | None:
        """Return a topic as a broker knows it; None if it knows none, or does not answer."""
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
        """Return the high watermark that a broker reports as leader; None if it reports none."""
        try:
            answer = self._lines.ask(node, questions.leader_ends([place]), ListOffsetsResponse)
        except WireError:
            return None
        return rows.log_ends(answer).get(place)

    def send(self, node: str, place: Place, payload: bytes, *, timeout_s: float) -> int:
        """Send a record to the leader with acks=all, once, and return its offset.

        Raises:
            ClusterError: It was not acknowledged; it may be stored all the same.
        """
        return produce(self._lines, node, place, payload, timeout_s=timeout_s)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._lines.close()

    def _name(self, broker: int) -> str:
        return self._names.get(broker, f"n{broker}")
