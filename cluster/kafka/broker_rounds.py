"""The observer's repeated requests to a broker, for metadata, leaderships and replicas."""

import logging
from collections.abc import Mapping, Sequence

from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from cluster.kafka import questions, rows
from cluster.kafka.lines import dialogue_with
from cluster.kafka.observed import Observed
from cluster.kafka.questioner import Questioner
from cluster.kafka.questions import Place
from cluster.kafka.rows import Leadership, RowMaker
from cluster.kafka.watching import Write
from cluster.kafka.wire import WireError
from cluster.protocol import TopicsByHand
from results.record.clock import RunClock
from results.record.declared import Sight
from results.record.topics import CreatedTopic

log = logging.getLogger(__name__)

QUORUM_EVERY = 4
"""The observer asks about the quorum only in every fourth round.

A broker without a connection to the quorum would answer this request late.
"""


class BrokerRounds:
    """The observer's requests to one broker; implements `Rounds`.

    The attributes `believed` and `claimed` are replaced as a whole, never changed in place.

    Args:
        node: The broker's name.
        cluster: The broker's cluster.
        topics: The topics to ask about.
        clock: The run's clock.
        beside: Knows the additional topics whose metadata are requested. None means that there are
            no additional topics.

    Attributes:
        believed: The broker's last metadata of `topics`.
        claimed: The last state that the broker reported as leader; epoch -1 up to Kafka 2.1.
        answered_ns: The time of the broker's last response.
    """

    tables: Sequence[str] = ("leadership", "replica_states", "quorum_states")

    def __init__(
        self,
        node: str,
        cluster: Observed,
        *,
        topics: Sequence[CreatedTopic],
        clock: RunClock,
        beside: TopicsByHand | None = None,
    ) -> None:
        self.believed: Mapping[Place, Leadership] = {}
        self.claimed: Mapping[Place, Leadership] = {}
        self.answered_ns: int | None = None
        self._node = node
        places = [(topic.topic, part) for topic in topics for part in range(topic.partitions)]
        self._starts = dict.fromkeys(places, 0)
        self._maker = RowMaker(node, {topic.topic: topic.topic_id for topic in topics})
        self._questioner = Questioner(node, cluster.incarnation, clock=clock)
        # These requests are built once, because they repeat unchanged several times a second.
        self._beside, self._also = beside, frozenset[str]()
        self._about_metadata = questions.metadata([topic.topic for topic in topics])
        self._about_leaders = questions.leader_ends(places)
        self._about_ends = questions.replica_ends(places)
        self._about_starts = questions.log_starts(self._starts)
        self._about_quorum = questions.quorum()
        self._broker = dialogue_with(node, cluster.endpoints[node])
        # A separate connection, because an unanswered request closes its connection.
        self._quorum = dialogue_with(node, cluster.endpoints[node])
        self._sees = cluster.sees - ({Sight.QUORUM} if cluster.zookeeper is not None else set())
        self._turn = 0

    def look(self, snapshot: str | None, write: Write) -> None:
        """Send each request to the broker once; send the quorum request only in every fourth call.

        Metadata are always requested: the response shows that the broker answers. See `Rounds`.
        """
        with_quorum = self._turn % QUORUM_EVERY == 0 or snapshot is not None
        self._turn += 1
        self._ask_metadata(snapshot, write)
        if Sight.LEADER_EPOCHS in self._sees:
            self._ask_leader(snapshot, write)
        if Sight.HIGH_WATERMARKS in self._sees:
            self._ask_replicas(snapshot, write)
        if with_quorum and Sight.QUORUM in self._sees:
            self._ask_quorum(snapshot, write)

    def close(self) -> None:
        """Close all connections."""
        self._broker.close()
        self._quorum.close()

    def _ask_metadata(self, snapshot: str | None, write: Write) -> None:
        self._follow_watched()
        answer, at = self._questioner.ask(
            self._broker, self._about_metadata, MetadataResponse, snapshot=snapshot
        )
        said = list(rows.beliefs(answer, self._maker.topic_ids))
        own = self._maker.topic_ids
        self.believed = {each.place: each for each in said if each.place[0] in own}
        self.answered_ns = at.observed_ns
        if Sight.LEADER_EPOCHS not in self._sees:
            return
        write("leadership", (self._maker.leadership("metadata", each, at) for each in said))

    def _follow_watched(self) -> None:
        """Add newly watched topics to the metadata request."""
        watched = frozenset(self._beside.watched if self._beside else ())
        if watched != self._also:
            self._also = watched
            names = [*self._maker.topic_ids, *sorted(watched)]
            self._about_metadata = questions.metadata(names)

    def _ask_leader(self, snapshot: str | None, write: Write) -> None:
        answer, at = self._questioner.ask(
            self._broker, self._about_leaders, ListOffsetsResponse, snapshot=snapshot
        )
        said = list(rows.claims(answer, self._node, self._maker.topic_ids))
        self.claimed = {each.place: each for each in said}
        write(
            "leadership",
            # Up to Kafka 2.1 the answer has no leader epoch, so that it proves nothing.
            (
                self._maker.leadership("list-offsets", each, at)
                for each in said
                if each.leader_epoch >= 0
            ),
        )

    def _ask_replicas(self, snapshot: str | None, write: Write) -> None:
        # The log end is requested before the high watermark. A log end below the high watermark
        # is then explained by appends in between, and a reader knows which value is older.
        end_answer, before = self._questioner.ask(
            self._broker, self._about_ends, ListOffsetsResponse, snapshot=snapshot
        )
        fetched, after = self._questioner.ask(
            self._broker, self._about_starts, FetchResponse, snapshot=snapshot
        )
        if before.incarnation != after.incarnation:
            raise WireError(f"{self._node} was restarted between two requests")
        log_ends, ends = rows.log_ends(end_answer), rows.replica_ends(fetched)
        self._follow_log_starts(fetched)
        write(
            "replica_states",
            (
                self._maker.replica(place, log_ends.get(place), ends=ends.get(place), at=after)
                for place in sorted(log_ends.keys() | ends.keys())
            ),
        )

    def _follow_log_starts(self, answer: FetchResponse) -> None:
        told = {
            (str(topic.topic), int(each.partition_index)): int(each.log_start_offset)
            for topic in answer.responses
            for each in topic.partitions
            if each.log_start_offset >= 0
        }
        if not told.items() <= self._starts.items():
            self._starts |= told
            self._about_starts = questions.log_starts(self._starts)

    def _ask_quorum(self, snapshot: str | None, write: Write) -> None:
        """Ask about the quorum; a missing response does not count as an error of the broker."""
        try:
            answer, at = self._questioner.ask(
                self._quorum, self._about_quorum, DescribeQuorumResponse, snapshot=snapshot
            )
        except WireError as silent:
            log.debug("%s", silent)
            return
        if state := rows.quorum_state(answer, self._node):
            write("quorum_states", [self._maker.quorum(state, at)])
