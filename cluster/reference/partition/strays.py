"""Strays: logs in a starting broker's log dir that are not replicas of this broker.

While the broker was down, the topic of such a log was deleted, and perhaps created again with the
same name. Or the replica was moved to another broker. As in KRaft, a broker renames strays when it
knows all committed metadata. A broker deletes a log only if the controller decides this.
"""

from collections.abc import Mapping

from cluster.reference.log.checkpoints import PARTITION_METADATA, kafka_id, place_of
from cluster.reference.log.files import STRAY
from cluster.reference.log.recovery import RecoveredLog
from cluster.reference.partition.state import PartitionState

_LONGEST_NAME = 255
"""The longest file name. A topic's name plus a suffix can be longer; then it is cut."""


def strays(
    found: Mapping[str, RecoveredLog], states: Mapping[str, PartitionState], *, me: int
) -> dict[str, str]:
    """Return the folders of the logs that are not replicas, each with the reason (KIP-516).

    Args:
        found: The logs found at the start, by folder.
        states: The states of all existing partitions, by folder.
        me: The broker's id.
    """
    whys = {folder: _why(log, states.get(folder), me=me) for folder, log in found.items()}
    return {folder: why for folder, why in whys.items() if why}


def stray_name(folder: str, *, broker_epoch: int, number: int) -> str:
    """Return the name `TOPIC-PARTITION.UNIQUE-stray`; a broker never has the same epoch twice.

    Args:
        folder: The log's folder.
        broker_epoch: The epoch in which the log is set aside.
        number: A number that is different for each log that is set aside in that epoch.
    """
    topic, partition = place_of(folder)
    end = f"-{partition}.{broker_epoch:016x}{number:016x}{STRAY}"
    return topic[: _LONGEST_NAME - len(end)] + end


def _why(found: RecoveredLog, state: PartitionState | None, *, me: int) -> str:
    """Return why a log is not a replica of this broker; an empty string if it is one."""
    if found.topic_id is None:
        # The topic's id is written before the first record. A log without it may belong to any
        # topic.
        return f"it has no {PARTITION_METADATA}"
    if state is None or state.topic_id != found.topic_id:
        return f"the topicId {kafka_id(found.topic_id)} does not exist in the metadata image"
    if me not in state.replicas:
        replicas = ", ".join(map(str, state.replicas))
        return (
            f"the current replica assignment [{replicas}] does not contain the local brokerId {me}"
        )
    return ""
