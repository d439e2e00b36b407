"""Defines versions 0 and 1 of OffsetForLeaderEpoch, which the library kio lacks.

Kafka 0.11 supports version 0, and Kafka 2.0 supports versions 0 and 1 (KIP-101, KIP-279). Later
versions of Kafka support version 2. Field order and types follow `OffsetForLeaderEpoch*.json` in
Kafka's source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64
from kio.static.protocol import RequestPayload, ResponsePayload

_KEY = i16(23)
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}
_ERROR = {"kafka_type": "error_code"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = _KEY
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPartition(_Asked):
    """A requested partition, and the epoch whose end offset is requested."""

    partition: i32 = field(metadata=_INT32)
    leader_epoch: i32 = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTopic(_Asked):
    """The requested partitions of a topic."""

    topic: TopicName = field(metadata=_STRING)
    partitions: tuple[AskedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRequestV0(_Asked):
    """A request for the end offsets of leader epochs, in version 0."""

    __type__: ClassVar = EntityType.request
    topics: tuple[AskedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRequestV1(EpochRequestV0):
    """The request in version 1, which differs from version 0 only in its response."""

    __version__: ClassVar[i16] = i16(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndV0(_Told):
    """The end offset of an epoch in version 0; -1 if unknown."""

    error_code: ErrorCode = field(metadata=_ERROR)
    partition: i32 = field(metadata=_INT32)
    end_offset: i64 = field(metadata=_INT64, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndV1(_Told):
    """The end offset of an epoch in version 1.

    `leader_epoch` is the requested epoch, or the highest lower epoch in the log (KIP-279).
    """

    error_code: ErrorCode = field(metadata=_ERROR)
    partition: i32 = field(metadata=_INT32)
    leader_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    end_offset: i64 = field(metadata=_INT64, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopicV0(_Told):
    """The end offsets for a topic's partitions, in version 0."""

    topic: TopicName = field(metadata=_STRING)
    partitions: tuple[EndV0, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTopicV1(_Told):
    """The end offsets for a topic's partitions, in version 1."""

    topic: TopicName = field(metadata=_STRING)
    partitions: tuple[EndV1, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResponseV0(_Told):
    """The response with end offsets of leader epochs, in version 0."""

    __type__: ClassVar = EntityType.response
    topics: tuple[ToldTopicV0, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResponseV1(_Told):
    """The response with end offsets of leader epochs, in version 1."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(1)
    topics: tuple[ToldTopicV1, ...]


OLD_MESSAGES: Mapping[tuple[int, int], tuple[type[RequestPayload], type[ResponsePayload]]] = {
    (_KEY, 0): (EpochRequestV0, EpochResponseV0),
    (_KEY, 1): (EpochRequestV1, EpochResponseV1),
}
"""Request and response classes, by the request's API key and version."""
