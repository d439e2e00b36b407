"""The observer's repeated reads from ZooKeeper: each partition's leader and ISR."""

from collections.abc import Mapping, Sequence

from cluster.kafka.questions import Place
from cluster.kafka.rows import Leadership, Moment, RowMaker
from cluster.kafka.watching import Write
from cluster.kafka.znodes import Znodes
from cluster.kafka.zookeeper_state import PartitionTruth, ZooKeeperState
from results.record.clock import RunClock
from results.record.nodes import ZOOKEEPER_MACHINE
from results.record.topics import CreatedTopic


class ZooKeeperRounds:
    """The observer's reads from ZooKeeper; implements `Rounds`.

    Args:
        zookeeper: `host:port` of the server.
        topics: The topics to read.
        clock: The run's clock.

    Attributes:
        believed: The latest state of each partition. The mapping is replaced as a whole.
    """

    tables: Sequence[str] = ("leadership",)

    def __init__(self, zookeeper: str, *, topics: Sequence[CreatedTopic], clock: RunClock) -> None:
        self.believed: Mapping[Place, Leadership] = {}
        self._clock = clock
        self._znodes = Znodes(zookeeper)
        self._state = ZooKeeperState(self._znodes)
        self._topic_ids = {topic.topic: topic.topic_id for topic in topics}
        self._places = [(topic.topic, part) for topic in topics for part in range(topic.partitions)]
        self._maker = RowMaker(ZOOKEEPER_MACHINE, self._topic_ids)

    def look(self, snapshot: str | None, write: Write) -> None:
        """Read the state of every partition once; see `Rounds`."""
        asked_ns = self._clock.now_ns()
        truths = self._state.partitions(self._places)
        # ZooKeeper's data survive its restarts, so that incarnation is always 0.
        at = Moment(
            asked_ns=asked_ns, observed_ns=self._clock.now_ns(), incarnation=0, snapshot=snapshot
        )
        said = [self._leadership(place, truth) for place, truth in truths.items()]
        self.believed = {each.place: each for each in said}
        write("leadership", (self._maker.leadership("zookeeper", each, at) for each in said))

    def close(self) -> None:
        """End the ZooKeeper session."""
        self._znodes.close()

    def _leadership(self, place: Place, truth: PartitionTruth) -> Leadership:
        return Leadership(
            place=place,
            topic_id=self._topic_ids[place[0]],
            leader=truth.leader,
            leader_epoch=truth.leader_epoch,
            isr=tuple(sorted(truth.isr)),
        )
