"""Strays: logs that are found at a start, and are no replicas of this broker.

Their topics were deleted meanwhile, perhaps made again under the same name, or other brokers have
their partitions now. As KRaft does, they are renamed once the broker knows all that is committed;
nothing is deleted that was not told to be.
"""

from collections.abc import Mapping

from cluster.reference.log.checkpoints import PARTITION_METADATA, kafka_id, place_of
from cluster.reference.log.files import STRAY
from cluster.reference.log.recovery import RecoveredLog
from cluster.reference.partition.state import PartitionState

_LONGEST_NAME = 255
"""Of a file; a topic may be called so that a suffix is too much."""


def strays(
    found: Mapping[str, RecoveredLog], states: Mapping[str, PartitionState], *, me: int
) -> dict[str, str]:
    """Return which logs are no replicas, and why, by their folders (topics have ids: KIP-516).

    Args:
        found: At the start, by folder.
        states: Of all partitions that there are, by folder.
        me: The broker.
    """
    whys = {folder: _why(log, states.get(folder), me=me) for folder, log in found.items()}
    return {folder: why for folder, why in whys.items() if why}


def stray_name(folder: str, *, broker_epoch: int, number: int) -> str:
    """Return `TOPIC-PARTITION.UNIQUE-stray`; no broker has an epoch twice.

    Args:
        folder: The log's.
        broker_epoch: In which it is set aside.
        number: Differs from all others that are set aside in it.
    """
    topic, partition = place_of(folder)
    end = f"-{partition}.{broker_epoch:016x}{number:016x}{STRAY}"
    return topic[: _LONGEST_NAME - len(end)] + end


def _why(found: RecoveredLog, state: PartitionState | None, *, me: int) -> str:
    """Return why a log is no replica here, in Kafka's words; empty if it is one."""
    if found.topic_id is None:
        # The id is written before the first record: a log without it may be of any topic.
        return f"it has no {PARTITION_METADATA}"
    if state is None or state.topic_id != found.topic_id:
        return f"the topicId {kafka_id(found.topic_id)} does not exist in the metadata image"
    if me not in state.replicas:
        replicas = ", ".join(map(str, state.replicas))
        return (
            f"the current replica assignment [{replicas}] does not contain the local brokerId {me}"
        )
    return ""
