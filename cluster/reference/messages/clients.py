"""Client requests to any broker or to a group coordinator: metadata, producer ids, groups, offsets.

Fields have the names of Kafka's schemas (https://kafka.apache.org/protocol); times end in `_ms`.
Fields that this cluster does not use are left out. If a version of a message does not have a field,
the field has its default here.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

NO_EPOCH = -1
NOBODY = -1


class MetadataRequestTopic(Struct, frozen=True, kw_only=True):
    """A requested topic: its name, or its id if the name is None."""

    name: str | None = None
    topic_id: UUID | None = None


class MetadataRequest(Struct, frozen=True, kw_only=True):
    """A request for brokers and partition leaders. None in `topics` means all topics."""

    topics: tuple[MetadataRequestTopic, ...] | None = None
    allow_auto_topic_creation: bool = False


class MetadataResponseBroker(Struct, frozen=True, kw_only=True):
    """A registered broker that is not fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataResponsePartition(Struct, frozen=True, kw_only=True):
    """A partition's state as the answering broker knows it."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = NO_EPOCH
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class MetadataResponseTopic(Struct, frozen=True, kw_only=True):
    """A topic, or the error if it does not exist."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()


class MetadataResponse(Struct, frozen=True, kw_only=True):
    """The metadata in a broker's own image."""

    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataResponseTopic, ...]


class DescribeClusterRequest(Struct, frozen=True, kw_only=True):
    """A request for the brokers (KIP-700), or for the controllers (KIP-919)."""

    endpoint_type: int = 1


class DescribeClusterBroker(Struct, frozen=True, kw_only=True):
    """A registered broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


class DescribeClusterResponse(Struct, frozen=True, kw_only=True):
    """The response to `DescribeClusterRequest`."""

    error_code: ErrorCode = ErrorCode.none
    endpoint_type: int = 1
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]


class TopicRequest(Struct, frozen=True, kw_only=True):
    """A topic by its name."""

    name: str


class DescribeTopicPartitionsRequest(Struct, frozen=True, kw_only=True):
    """A request for partitions, and for the eligible leader replicas of each (KIP-966).

    A request without topics is for all topics.
    """

    topics: tuple[TopicRequest, ...]
    response_partition_limit: int = 2000


class DescribeTopicPartitionsResponsePartition(Struct, frozen=True, kw_only=True):
    """A partition in the response to `DescribeTopicPartitionsRequest`."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = ()
    last_known_elr: tuple[int, ...] | None = ()
    offline_replicas: tuple[int, ...] = ()


class DescribeTopicPartitionsResponseTopic(Struct, frozen=True, kw_only=True):
    """A topic in the response to `DescribeTopicPartitionsRequest`."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()


class DescribeTopicPartitionsResponse(Struct, frozen=True, kw_only=True):
    """The response to `DescribeTopicPartitionsRequest`. It is complete: there is no next cursor."""

    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]


class DescribeConfigsResource(Struct, frozen=True, kw_only=True):
    """A resource whose settings are requested: type 2 is a topic, type 4 a broker."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(Struct, frozen=True, kw_only=True):
    """A request for the current settings (KIP-133)."""

    resources: tuple[DescribeConfigsResource, ...]


class DescribeConfigsResourceResult(Struct, frozen=True, kw_only=True):
    """One setting. `source`: 1 (from the topic), 4 (from the broker's file), or 5 (the default)."""

    name: str
    value: str | None
    read_only: bool = False
    is_default: bool = False
    config_source: int = 5
    is_sensitive: bool = False


class DescribeConfigsResult(Struct, frozen=True, kw_only=True):
    """The settings of a resource."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Struct, frozen=True, kw_only=True):
    """The response to `DescribeConfigsRequest`."""

    results: tuple[DescribeConfigsResult, ...]


class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    """A request for an idempotent producer's id (KIP-98).

    This cluster refuses requests with a transactional id.
    """

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    """The response to `InitProducerIdRequest`: the id."""

    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int = 0


class FindCoordinatorRequest(Struct, frozen=True, kw_only=True):
    """A request for coordinators.

    Key type 0 means groups, 1 means transactional ids. Since version 4 a request may have many
    keys.
    """

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


class Coordinator(Struct, frozen=True, kw_only=True):
    """The coordinator of one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class FindCoordinatorResponse(Struct, frozen=True, kw_only=True):
    """The response to `FindCoordinatorRequest`, with the fields for one key and for many."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node_id: int = NOBODY
    host: str = ""
    port: int = -1
    coordinators: tuple[Coordinator, ...] = ()


class JoinGroupRequestProtocol(Struct, frozen=True, kw_only=True):
    """A partition assignment protocol that a member supports, with the member's metadata."""

    name: str
    metadata: bytes


class JoinGroupRequest(Struct, frozen=True, kw_only=True):
    """A member's request to join the group's next generation."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    client_id: str = ""
    names_itself: bool = False
    """Whether the response to a first join has only a member id (KIP-394, version 4 and later)."""


class JoinGroupResponseMember(Struct, frozen=True, kw_only=True):
    """A member in the list that the group's leader gets."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


class JoinGroupResponse(Struct, frozen=True, kw_only=True):
    """The new generation; only the leader gets the list of members."""

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class SyncGroupRequestAssignment(Struct, frozen=True, kw_only=True):
    """The leader's assignment for one member."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(Struct, frozen=True, kw_only=True):
    """A member's request for its assignment; the leader's request contains all assignments."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Struct, frozen=True, kw_only=True):
    """A member's assignment."""

    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(Struct, frozen=True, kw_only=True):
    """A member's heartbeat."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(Struct, frozen=True, kw_only=True):
    """The response to a heartbeat; with REBALANCE_IN_PROGRESS the member must join again."""

    error_code: ErrorCode = ErrorCode.none


class MemberIdentity(Struct, frozen=True, kw_only=True):
    """A member that leaves its group."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroupRequest(Struct, frozen=True, kw_only=True):
    """A request to leave a group: for one member until version 2, then for many (KIP-345)."""

    group_id: str
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


class MemberResponse(Struct, frozen=True, kw_only=True):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


class LeaveGroupResponse(Struct, frozen=True, kw_only=True):
    """The response to `LeaveGroupRequest`."""

    error_code: ErrorCode = ErrorCode.none
    members: tuple[MemberResponse, ...] = ()


class OffsetCommitRequestPartition(Struct, frozen=True, kw_only=True):
    """The offset up to which a partition was consumed."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Struct, frozen=True, kw_only=True):
    """The offsets of a topic's partitions."""

    name: str
    partitions: tuple[OffsetCommitRequestPartition, ...]


class OffsetCommitRequest(Struct, frozen=True, kw_only=True):
    """A request to commit a group's offsets.

    If the generation is -1 and there is no member, the commit comes from outside the group.
    """

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Struct, frozen=True, kw_only=True):
    """The result of committing one partition's offset."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


class OffsetCommitResponseTopic(Struct, frozen=True, kw_only=True):
    """The results of committing a topic's offsets."""

    name: str
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Struct, frozen=True, kw_only=True):
    """The response to a commit, sent when the offsets are committed in `__consumer_offsets`."""

    topics: tuple[OffsetCommitResponseTopic, ...]


class OffsetFetchRequestTopic(Struct, frozen=True, kw_only=True):
    """A topic, and the partitions of this topic whose offsets are requested."""

    name: str
    partition_indexes: tuple[int, ...]


class OffsetFetchRequestGroup(Struct, frozen=True, kw_only=True):
    """A group whose offsets are requested. If `topics` is None, the request is for all topics."""

    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None


class OffsetFetchRequest(Struct, frozen=True, kw_only=True):
    """A request for a group's committed offsets; for many groups since version 8 (KIP-709)."""

    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    groups: tuple[OffsetFetchRequestGroup, ...] = ()


class OffsetFetchResponsePartition(Struct, frozen=True, kw_only=True):
    """A committed offset; -1 if there is none."""

    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponseTopic(Struct, frozen=True, kw_only=True):
    """The committed offsets of a topic."""

    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponseGroup(Struct, frozen=True, kw_only=True):
    """The committed offsets of a group."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponse(Struct, frozen=True, kw_only=True):
    """The response to `OffsetFetchRequest`, with the fields for one group and for many."""

    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
