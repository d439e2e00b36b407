"""The client requests that are supported: their versions, and how each is read and answered.

The lowest supported version of a request is Kafka 4's lowest version (KIP-896) or an older version.
Newer versions than the highest one need features that this cluster lacks (transactions of KIP-890,
share groups, leader hints).
"""

from collections.abc import Callable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode
from msgspec import Struct
from msgspec.structs import replace

from cluster.reference.messages import clients
from cluster.reference.messages.data import ProduceRequest
from cluster.reference.wire import data, orders
from cluster.reference.wire.translation import Theirs, inner, made, ours, theirs

API_VERSIONS = 18
PRODUCE = 0
_FIRST_TELLING_ITS_NAME = 4
"""The version of JoinGroup from which a new member gets its id before it joins (KIP-394)."""


class Asked(Struct, frozen=True, kw_only=True):
    """The header of a request.

    Attributes:
        api_key: Kafka's number of the request.
        version: The request's version.
        correlation: The number that the response repeats.
        client_id: The client's name for itself.
    """

    api_key: int
    version: int
    correlation: int
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One type of request.

    Attributes:
        low, high: The lowest and highest supported version.
        read: Converts Kafka's message to ours.
        write: Converts our response to a given class of Kafka's responses.
    """

    low: int
    high: int
    read: Callable[[Theirs, Asked], object]
    write: Callable[[Theirs, type], Theirs]


def _as(form: type) -> Callable[[Theirs, Asked], object]:
    return lambda said, _asked: ours(said, form)


def _by(read: Callable[[Theirs], object]) -> Callable[[Theirs, Asked], object]:
    return lambda said, _asked: read(said)


def _read_produce(said: Theirs, asked: Asked) -> ProduceRequest:
    return data.read_produce(said, client=asked.client_id)


def _read_join(said: Theirs, asked: Asked) -> clients.JoinGroupRequest:
    join: clients.JoinGroupRequest = ours(said, clients.JoinGroupRequest)
    if join.rebalance_timeout_ms < 0:  # Version 0 has no rebalance timeout.
        join = replace(join, rebalance_timeout_ms=join.session_timeout_ms)
    names_itself = asked.version >= _FIRST_TELLING_ITS_NAME
    return replace(join, client_id=asked.client_id, names_itself=names_itself)


APIS: dict[int, Api] = {
    PRODUCE: Api(low=3, high=11, read=_read_produce, write=data.write_produced),
    1: Api(low=4, high=13, read=_by(data.read_fetch), write=data.write_fetched),
    2: Api(low=1, high=7, read=_by(data.read_list_offsets), write=data.write_listed_offsets),
    3: Api(low=0, high=12, read=_as(clients.MetadataRequest), write=theirs),
    8: Api(low=2, high=9, read=_as(clients.OffsetCommitRequest), write=theirs),
    9: Api(low=1, high=9, read=_as(clients.OffsetFetchRequest), write=theirs),
    10: Api(low=0, high=4, read=_as(clients.FindCoordinatorRequest), write=theirs),
    11: Api(low=0, high=9, read=_read_join, write=theirs),
    12: Api(low=0, high=4, read=_as(clients.HeartbeatRequest), write=theirs),
    13: Api(low=0, high=5, read=_as(clients.LeaveGroupRequest), write=theirs),
    14: Api(low=0, high=5, read=_as(clients.SyncGroupRequest), write=theirs),
    19: Api(low=2, high=7, read=_by(orders.read_create_topics), write=orders.write_created_topics),
    20: Api(low=1, high=6, read=_by(orders.read_delete_topics), write=theirs),
    22: Api(low=0, high=4, read=_as(clients.InitProducerIdRequest), write=theirs),
    23: Api(low=2, high=4, read=_by(data.read_epochs), write=data.write_epoch_ends),
    32: Api(low=1, high=4, read=_as(clients.DescribeConfigsRequest), write=theirs),
    37: Api(low=0, high=3, read=_by(orders.read_create_partitions), write=theirs),
    43: Api(low=0, high=2, read=_by(orders.read_elect_leaders), write=orders.write_elected_leaders),
    44: Api(low=0, high=1, read=_by(orders.read_alter_configs), write=theirs),
    45: Api(low=0, high=0, read=_by(orders.read_reassign), write=orders.write_reassigned),
    46: Api(
        low=0,
        high=0,
        read=_by(orders.read_list_reassignments),
        write=orders.write_listed_reassignments,
    ),
    55: Api(
        low=0, high=1, read=_by(orders.read_describe_quorum), write=orders.write_described_quorum
    ),
    60: Api(low=0, high=1, read=_as(clients.DescribeClusterRequest), write=theirs),
    75: Api(low=0, high=0, read=_as(clients.DescribeTopicPartitionsRequest), write=theirs),
}
"""The supported client requests, by Kafka's number of the request (API key)."""
API_VERSIONS_RANGE = (0, 4)


def api_versions(form: type, error: ErrorCode = ErrorCode.none) -> Theirs:
    """Return an ApiVersionsResponse: the supported requests and versions (KIP-35).

    In case of an error, the list is empty or contains only ApiVersions itself (KIP-511). Kafka does
    the same.
    """
    of_key = inner(form, "api_keys")
    known: dict[int, tuple[int, int]] = {}
    if error is ErrorCode.none:
        known = {key: (api.low, api.high) for key, api in APIS.items()}
    if error is not ErrorCode.invalid_request:
        known[API_VERSIONS] = API_VERSIONS_RANGE
    keys = tuple(
        made(of_key, api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(known.items())
    )
    return made(form, error_code=error, api_keys=keys)
