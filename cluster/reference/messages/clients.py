"""What clients ask any broker, or a group's coordinator: metadata, producer ids, groups, offsets.

Fields have the names of Kafka's schemas (https://kafka.apache.org/protocol), times end in `_ms`;
what this cluster does not use is left out, and what a version lacks has its default here.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

NO_EPOCH = -1
NOBODY = -1


class MetadataRequestTopic(Struct, frozen=True, kw_only=True):
    """A topic that is asked about, by name, or by id if it has no name."""

    name: str | None = None
    topic_id: UUID | None = None


class MetadataRequest(Struct, frozen=True, kw_only=True):
    """Who is there, and who leads; `topics` None: of all topics."""

    topics: tuple[MetadataRequestTopic, ...] | None = None
    allow_auto_topic_creation: bool = False


class MetadataResponseBroker(Struct, frozen=True, kw_only=True):
    """A broker that is registered and not fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataResponsePartition(Struct, frozen=True, kw_only=True):
    """A partition as the broker that answers believes it to be."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = NO_EPOCH
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class MetadataResponseTopic(Struct, frozen=True, kw_only=True):
    """A topic, or why there is none."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()


class MetadataResponse(Struct, frozen=True, kw_only=True):
    """What a broker's own image of the metadata says."""

    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataResponseTopic, ...]


class DescribeClusterRequest(Struct, frozen=True, kw_only=True):
    """Who is there (KIP-700), and of controllers too (KIP-919)."""

    endpoint_type: int = 1


class DescribeClusterBroker(Struct, frozen=True, kw_only=True):
    """A broker that is registered."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


class DescribeClusterResponse(Struct, frozen=True, kw_only=True):
    """The answer."""

    error_code: ErrorCode = ErrorCode.none
    endpoint_type: int = 1
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]


class TopicRequest(Struct, frozen=True, kw_only=True):
    """A topic, by its name."""

    name: str


class DescribeTopicPartitionsRequest(Struct, frozen=True, kw_only=True):
    """Partitions with their eligible leader replicas (KIP-966); none named: of all topics."""

    topics: tuple[TopicRequest, ...]
    response_partition_limit: int = 2000


class DescribeTopicPartitionsResponsePartition(Struct, frozen=True, kw_only=True):
    """A partition."""

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
    """A topic."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()


class DescribeTopicPartitionsResponse(Struct, frozen=True, kw_only=True):
    """The answer, always whole: there is never a next cursor."""

    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]


class DescribeConfigsResource(Struct, frozen=True, kw_only=True):
    """Whose settings: type 2 is a topic, 4 a broker."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(Struct, frozen=True, kw_only=True):
    """Which settings hold (KIP-133)."""

    resources: tuple[DescribeConfigsResource, ...]


class DescribeConfigsResourceResult(Struct, frozen=True, kw_only=True):
    """One setting; source 1: of the topic, 4: of the broker's file, 5: the default."""

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
    """The answer."""

    results: tuple[DescribeConfigsResult, ...]


class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    """An idempotent producer asks for its id (KIP-98); a transactional one is refused here."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    """The id."""

    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int = 0


class FindCoordinatorRequest(Struct, frozen=True, kw_only=True):
    """Who coordinates: key type 0 a group, 1 a transactional id; many keys since version 4."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


class Coordinator(Struct, frozen=True, kw_only=True):
    """Who coordinates one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class FindCoordinatorResponse(Struct, frozen=True, kw_only=True):
    """The answer, in the form of one key and in that of many."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node_id: int = NOBODY
    host: str = ""
    port: int = -1
    coordinators: tuple[Coordinator, ...] = ()


class JoinGroupRequestProtocol(Struct, frozen=True, kw_only=True):
    """A way to assign partitions that a member knows, and what it tells about itself in it."""

    name: str
    metadata: bytes


class JoinGroupRequest(Struct, frozen=True, kw_only=True):
    """A member wants to be in the group's next generation."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    client_id: str = ""
    names_itself: bool = False
    """Whether a first join is only told its member id (KIP-394, version 4 and later)."""


class JoinGroupResponseMember(Struct, frozen=True, kw_only=True):
    """A member, as its leader is told of it."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


class JoinGroupResponse(Struct, frozen=True, kw_only=True):
    """The generation that begins; its leader alone is told the members."""

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class SyncGroupRequestAssignment(Struct, frozen=True, kw_only=True):
    """What the leader assigns to a member."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader brings them all."""

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
    """A member lives."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(Struct, frozen=True, kw_only=True):
    """REBALANCE_IN_PROGRESS has the member join again."""

    error_code: ErrorCode = ErrorCode.none


class MemberIdentity(Struct, frozen=True, kw_only=True):
    """A member that leaves."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroupRequest(Struct, frozen=True, kw_only=True):
    """Members leave; one until version 2, many since (KIP-345)."""

    group_id: str
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


class MemberResponse(Struct, frozen=True, kw_only=True):
    """Whether a member could leave."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


class LeaveGroupResponse(Struct, frozen=True, kw_only=True):
    """The answer."""

    error_code: ErrorCode = ErrorCode.none
    members: tuple[MemberResponse, ...] = ()


class OffsetCommitRequestPartition(Struct, frozen=True, kw_only=True):
    """Up to where a partition was read."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Struct, frozen=True, kw_only=True):
    """A topic's offsets."""

    name: str
    partitions: tuple[OffsetCommitRequestPartition, ...]


class OffsetCommitRequest(Struct, frozen=True, kw_only=True):
    """Keep a group's offsets; generation -1 and no member: from outside of the group."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Struct, frozen=True, kw_only=True):
    """Whether an offset is kept."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


class OffsetCommitResponseTopic(Struct, frozen=True, kw_only=True):
    """Whether a topic's offsets are kept."""

    name: str
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Struct, frozen=True, kw_only=True):
    """Given when the offsets are committed in `__consumer_offsets`."""

    topics: tuple[OffsetCommitResponseTopic, ...]


class OffsetFetchRequestTopic(Struct, frozen=True, kw_only=True):
    """Which partitions of a topic."""

    name: str
    partition_indexes: tuple[int, ...]


class OffsetFetchRequestGroup(Struct, frozen=True, kw_only=True):
    """Of which group; `topics` None: all that it has."""

    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None


class OffsetFetchRequest(Struct, frozen=True, kw_only=True):
    """A group's offsets; many groups' since version 8 (KIP-709)."""

    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    groups: tuple[OffsetFetchRequestGroup, ...] = ()


class OffsetFetchResponsePartition(Struct, frozen=True, kw_only=True):
    """An offset; -1: none is kept."""

    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponseTopic(Struct, frozen=True, kw_only=True):
    """A topic's offsets."""

    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponseGroup(Struct, frozen=True, kw_only=True):
    """A group's offsets."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none


class OffsetFetchResponse(Struct, frozen=True, kw_only=True):
    """The answer, in the form of one group and in that of many."""

    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
