"""This module finds each metadata record's type name, for plots of the quorum's logs.

The numbers and names are those of `MetadataRecordType` and `ControlRecordType` in Kafka 4.3.
"""

from typing import NamedTuple

from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint

from cluster.files.batches import Record, RecordBatch, read_segment, records
from cluster.files.damage import DamagedFileError
from cluster.files.messages import TopicRecord, decode_message

_NAMES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
_CONTROL_NAMES = {
    2: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
_TOPIC_RECORD = 2
_CONTROL_KEY_BYTES = 4


class NamedRecord(NamedTuple):
    """A record of the metadata log, and the name of the record's type.

    Attributes:
        offset: The offset in the log.
        epoch: The quorum's epoch in which the record was written.
        name: The record type, such as `NoOpRecord`. For a topic's record, the topic's name follows,
            as in `TopicRecord other-1`. An unknown type is shown by its number, as in `type 99`.
    """

    offset: int
    epoch: int
    name: str


def metadata_record_names(data: bytes) -> list[NamedRecord]:
    """Return the type name of every readable record in a segment of the metadata log.

    Args:
        data: The bytes of a `.log` file of `__cluster_metadata-0`.
    """
    found: list[NamedRecord] = []
    for batch in read_segment(data).batches:
        try:
            found += [
                NamedRecord(record.offset, batch.leader_epoch, _name(batch, record))
                for record in records(batch)
            ]
        except DamagedFileError:
            continue
    return found


def _name(batch: RecordBatch, record: Record) -> str:
    if batch.control:
        kind = int.from_bytes((record.key or b"")[2:_CONTROL_KEY_BYTES], "big")
        return _CONTROL_NAMES.get(kind, f"control type {kind}")
    value = record.value or b""
    try:
        _, size = read_unsigned_varint(value, 0)
        kind, _ = read_unsigned_varint(value, size)
    except (SerialError, IndexError, ValueError):
        return "unreadable"
    name = _NAMES.get(kind, f"type {kind}")
    return f"{name} {_topic(value)}".rstrip() if kind == _TOPIC_RECORD else name


def _topic(value: bytes) -> str:
    try:
        message = decode_message(value)
    except DamagedFileError:
        return ""
    return message.name if isinstance(message, TopicRecord) else ""
