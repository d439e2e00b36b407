"""This module declares, for the library kio, the metadata log's messages that Logquake uses.

Field order, types and tags follow `metadata/src/main/resources/common/metadata/*.json` in Kafka's
source, up to 4.3. All versions are flexible (KIP-482). Later versions add tagged fields only, with
two exceptions. `PlacedPartitionRecord` declares the later versions of `PartitionRecord`.
`RegisterBrokerRecord` is declared only for version 2 and later.
"""

from dataclasses import dataclass, field
from io import BytesIO
from typing import ClassVar, cast
from uuid import UUID

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint
from kio.serial.writers import write_unsigned_varint
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64, u16, uvarint

from cluster.files.damage import DamagedFileError

_FRAME_VERSION = 1
_INT8 = {"kafka_type": "int8"}
_INT16 = {"kafka_type": "int16"}
_UINT16 = {"kafka_type": "uint16"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_BOOL = {"kafka_type": "bool"}
_STRING = {"kafka_type": "string"}
_UUID = {"kafka_type": "uuid"}

LEADER_UNCHANGED = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nested:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(_Message):
    """A topic was created."""

    name: str = field(metadata=_STRING)
    topic_id: UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(_Message):
    """A topic was deleted."""

    topic_id: UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(_Message):
    """A partition was created, or belongs to a snapshot (record version 0, before KIP-858)."""

    partition_id: i32 = field(metadata=_INT32)
    topic_id: UUID | None = field(metadata=_UUID)
    replicas: tuple[i32, ...] = field(metadata=_INT32)
    isr: tuple[i32, ...] = field(metadata=_INT32)
    removing_replicas: tuple[i32, ...] = field(metadata=_INT32)
    adding_replicas: tuple[i32, ...] = field(metadata=_INT32)
    leader: i32 = field(metadata=_INT32)
    leader_recovery_state: i8 = field(metadata={**_INT8, "tag": 0}, default=i8(0))
    leader_epoch: i32 = field(metadata=_INT32)
    partition_epoch: i32 = field(metadata=_INT32)
    eligible_leader_replicas: tuple[i32, ...] | None = field(
        metadata={**_INT32, "tag": 1}, default=None
    )
    last_known_elr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 2}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartitionRecord(PartitionRecord):
    """A `PartitionRecord` of version 1 or later, with the log folder of each replica."""

    directories: tuple[UUID | None, ...] = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(_Message):
    """A partition's leader, ISR or replicas changed.

    A field without a change is None; the leader field without a change is -2.
    """

    partition_id: i32 = field(metadata=_INT32)
    topic_id: UUID | None = field(metadata=_UUID)
    isr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 0}, default=None)
    leader: i32 = field(metadata={**_INT32, "tag": 1}, default=i32(LEADER_UNCHANGED))
    replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 2}, default=None)
    removing_replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 3}, default=None)
    adding_replicas: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 4}, default=None)
    leader_recovery_state: i8 = field(metadata={**_INT8, "tag": 5}, default=i8(-1))
    eligible_leader_replicas: tuple[i32, ...] | None = field(
        metadata={**_INT32, "tag": 6}, default=None
    )
    last_known_elr: tuple[i32, ...] | None = field(metadata={**_INT32, "tag": 7}, default=None)
    directories: tuple[UUID | None, ...] | None = field(metadata={**_UUID, "tag": 8}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(_Nested):
    """A listener address of a broker."""

    name: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    port: u16 = field(metadata=_UINT16)
    security_protocol: i16 = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature(_Nested):
    """A feature that a broker supports, with the range of its versions."""

    name: str = field(metadata=_STRING)
    min_supported_version: i16 = field(metadata=_INT16)
    max_supported_version: i16 = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(_Message):
    """A broker process registered, usually in fenced state.

    The fields are those of record version 2 and later (Kafka 3.4).
    """

    broker_id: i32 = field(metadata=_INT32)
    is_migrating_zk_broker: bool = field(metadata=_BOOL)
    incarnation_id: UUID | None = field(metadata=_UUID)
    broker_epoch: i64 = field(metadata=_INT64)
    end_points: tuple[Endpoint, ...]
    features: tuple[Feature, ...]
    rack: str | None = field(metadata=_STRING)
    fenced: bool = field(metadata=_BOOL)
    in_controlled_shutdown: bool = field(metadata=_BOOL)
    log_dirs: tuple[UUID | None, ...] = field(metadata={**_UUID, "tag": 0}, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(
        metadata={**_UUID, "tag": 1}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(_Message):
    """A broker was fenced or unfenced, or began a controlled shutdown.

    `fenced` is 1 for fenced and -1 for unfenced; `in_controlled_shutdown` is 1 for a shutdown. The
    value 0 means no change.
    """

    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)
    fenced: i8 = field(metadata={**_INT8, "tag": 0}, default=i8(0))
    in_controlled_shutdown: i8 = field(metadata={**_INT8, "tag": 1}, default=i8(0))
    log_dirs: tuple[UUID | None, ...] = field(metadata={**_UUID, "tag": 2}, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(
        metadata={**_UUID, "tag": 3}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(_Message):
    """The level of a feature changed in the whole cluster."""

    name: str = field(metadata=_STRING)
    feature_level: i16 = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(_Message):
    """A broker was permanently removed from the cluster."""

    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(_Message):
    """A config of a topic (resource type 2) or broker (type 4) was set, or deleted (None)."""

    resource_type: i8 = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(_Message):
    """A block of producer ids was assigned to a broker; `next_producer_id` is the first free id."""

    broker_id: i32 = field(metadata=_INT32)
    broker_epoch: i64 = field(metadata=_INT64)
    next_producer_id: i64 = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(_Message):
    """An empty record that the active controller writes at intervals (KIP-835)."""


Message = (
    TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | FeatureLevelRecord
    | UnregisterBrokerRecord
    | ConfigRecord
    | ProducerIdsRecord
    | NoOpRecord
)

_PARTITION_RECORD = 3
_READERS = {
    (0, 2): entity_reader(RegisterBrokerRecord),
    (1, 0): entity_reader(UnregisterBrokerRecord),
    (2, 0): entity_reader(TopicRecord),
    (_PARTITION_RECORD, 0): entity_reader(PartitionRecord),
    (_PARTITION_RECORD, 1): entity_reader(PlacedPartitionRecord),
    (4, 0): entity_reader(ConfigRecord),
    (5, 0): entity_reader(PartitionChangeRecord),
    (9, 0): entity_reader(RemoveTopicRecord),
    (12, 0): entity_reader(FeatureLevelRecord),
    (15, 0): entity_reader(ProducerIdsRecord),
    (17, 0): entity_reader(BrokerRegistrationChangeRecord),
    (20, 0): entity_reader(NoOpRecord),
}
"""Readers by record type (`apiKey`) and by the lowest version that the reader can parse."""
_LOWEST_FIRST = sorted(_READERS)

_WRITTEN: dict[type[Message], tuple[int, int]] = {
    RegisterBrokerRecord: (0, 3),
    UnregisterBrokerRecord: (1, 0),
    TopicRecord: (2, 0),
    PartitionRecord: (3, 0),
    PlacedPartitionRecord: (3, 1),
    ConfigRecord: (4, 0),
    PartitionChangeRecord: (5, 1),
    RemoveTopicRecord: (9, 0),
    FeatureLevelRecord: (12, 0),
    ProducerIdsRecord: (15, 0),
    BrokerRegistrationChangeRecord: (17, 2),
    NoOpRecord: (20, 0),
}
"""The type and version in which each message is written."""
_WRITERS = {kind: entity_writer(kind) for kind in _WRITTEN}


def decode_message(value: bytes) -> Message | None:
    """Decode a record of the metadata log, or return None if the type is not declared here.

    Three unsigned varints precede the message (KIP-746): frame version, type, version.

    Raises:
        DamagedFileError: The record's value does not match the record's type and version.
    """
    try:
        frame, position = read_unsigned_varint(value, 0)
        kind, size = read_unsigned_varint(value, position)
        position += size
        version, size = read_unsigned_varint(value, position)
        position += size
        if frame != _FRAME_VERSION:
            raise DamagedFileError(f"a metadata record has frame version {frame}, not 1")
        known = [key for key in _LOWEST_FIRST if key[0] == kind and key[1] <= version]
        if not known:
            return None
        message, _ = _READERS[known[-1]](value, position)
    except (SerialError, KeyError, ValueError, IndexError) as broken:
        raise DamagedFileError(f"a metadata record cannot be read: {broken!r}") from broken
    return cast("Message", message)


def encode_message(message: Message) -> bytes:
    """Encode a message as the value of a metadata log record, as the active controller does."""
    coded = BytesIO()
    for number in (_FRAME_VERSION, *_WRITTEN[type(message)]):
        write_unsigned_varint(coded, uvarint(number))
    _WRITERS[type(message)](coded, message)
    return coded.getvalue()
