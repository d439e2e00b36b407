"""Build the small files beside the logs, exactly as Kafka writes them.

The module `cluster.files.checkpoints` reads these files.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from uuid import UUID

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"


def offsets_file(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return an offset checkpoint: `0`, the line count, then `topic partition offset` lines."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def partition_metadata(topic_id: UUID) -> bytes:
    """Return a partition's `partition.metadata`, which contains its topic's id (KIP-516)."""
    return f"version: 0\ntopic_id: {kafka_id(topic_id)}".encode()


def clean_shutdown(broker_epoch: int) -> bytes:
    """Return the file that marks a clean shutdown, with the broker's epoch (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def kafka_id(uuid: UUID) -> str:
    """Return a UUID as Kafka writes it: 22 characters of url-safe base64."""
    return urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def place_of(folder: str) -> tuple[str, int]:
    """Return the topic and partition of a log's folder.

    Raises:
        ValueError: The name is not `TOPIC-PARTITION`.
    """
    topic, _, number = folder.rpartition("-")
    if not topic or not number.isdecimal():
        raise ValueError(f"{folder!r} is not the name of a log's folder")
    return topic, int(number)
