"""What clients ask any broker, or a group's coordinator: metadata, producer ids, groups, offsets.

Fields have the names of Kafka's schemas (https://kafka.apache.org/protocol), times end in `_ms`;
what this cluster does not use is left out, and what a version lacks has its default here.
"""

from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

NO_EPOCH = -1
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    """A topic that is asked about, by name, or by id if it has no name."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Who is there, and who leads; `topics` None: of all topics."""

    topics: tuple[MetadataRequestTopic, ...] | None = None
    allow_auto_topic_creation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseBroker:
    """A broker that is registered and not fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponsePartition:
    """A partition as the broker that answers believes it to be."""

    error_code: ErrorCode = ErrorCode.none
    partition_index: int
    leader_id: int
    leader_epoch: int = NO_EPOCH
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseTopic:
    """A topic, or why there is none."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """What a broker's own image of the metadata says."""

    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """Who is there (KIP-700), and of controllers too (KIP-919)."""

    endpoint_type: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterBroker:
    """A broker that is registered."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    """The answer."""

    error_code: ErrorCode = ErrorCode.none
    endpoint_type: int = 1
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    """A topic, by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """Partitions with their eligible leader replicas (KIP-966); none named: of all topics."""

    topics: tuple[TopicRequest, ...]
    response_partition_limit: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """A topic."""

    error_code: ErrorCode = ErrorCode.none
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """The answer, always whole: there is never a next cursor."""

    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource:
    """Whose settings: type 2 is a topic, 4 a broker."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Which settings hold (KIP-133)."""

    resources: tuple[DescribeConfigsResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """One setting; source 1: of the topic, 4: of the broker's file, 5: the default."""

    name: str
    value: str | None
    read_only: bool = False
    is_default: bool = False
    config_source: int = 5
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    """The settings of a resource."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """The answer."""

    results: tuple[DescribeConfigsResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """An idempotent producer asks for its id (KIP-98); a transactional one is refused here."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """The id."""

    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Who coordinates: key type 0 a group, 1 a transactional id; many keys since version 4."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """Who coordinates one key."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """The answer, in the form of one key and in that of many."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node_id: int = NOBODY
    host: str = ""
    port: int = -1
    coordinators: tuple[Coordinator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """A way to assign partitions that a member knows, and what it tells about itself in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """A member, as its leader is told of it."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The generation that begins; its leader alone is told the members."""

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """What the leader assigns to a member."""

    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    """A member asks for its assignment; the leader brings them all."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """A member's assignment."""

    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A member lives."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS has the member join again."""

    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """A member that leaves."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """Members leave; one until version 2, many since (KIP-345)."""

    group_id: str
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResponse:
    """Whether a member could leave."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """The answer."""

    error_code: ErrorCode = ErrorCode.none
    members: tuple[MemberResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """Up to where a partition was read."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """A topic's offsets."""

    name: str
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Keep a group's offsets; generation -1 and no member: from outside of the group."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """Whether an offset is kept."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Whether a topic's offsets are kept."""

    name: str
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """Given when the offsets are committed in `__consumer_offsets`."""

    topics: tuple[OffsetCommitResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Which partitions of a topic."""

    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """Of which group; `topics` None: all that it has."""

    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """A group's offsets; many groups' since version 8 (KIP-709)."""

    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    groups: tuple[OffsetFetchRequestGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """An offset; -1: none is kept."""

    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """A topic's offsets."""

    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """A group's offsets."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The answer, in the form of one group and in that of many."""

    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
