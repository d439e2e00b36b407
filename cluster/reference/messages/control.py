"""What brokers and clients ask the active controller, and what it answers.

Brokers ask for themselves (registration, heartbeats, ISR changes, producer ids) and hand on what
their clients ask (topics, elections, reassignments, configs). A controller that is not active
answers NOT_CONTROLLER. Answers come once what they say is committed in the metadata log.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

PREFERRED, UNCLEAN = 0, 1
"""Types of elections (KIP-460)."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""Types of resources that have configs."""

SET_CONFIG, DELETE_CONFIG, APPEND_CONFIG, SUBTRACT_CONFIG = 0, 1, 2, 3
"""What `AlterableConfig` does (KIP-339)."""


class Listener(Struct, frozen=True, kw_only=True):
    """Where a broker listens."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Feature(Struct, frozen=True, kw_only=True):
    """A feature that a broker can do, and in which versions."""

    name: str
    min_supported_version: int
    max_supported_version: int


class BrokerRegistrationRequest(Struct, frozen=True, kw_only=True):
    """A broker's process begins (KIP-500, 631).

    Attributes:
        broker_id: Its node id.
        cluster_id: The cluster that its log folder belongs to.
        incarnation_id: New for each process.
        listeners: Where clients and other brokers reach it.
        features: What it can do.
        rack: Where it stands.
        log_dirs: Its log folders' ids (KIP-858).
        previous_broker_epoch: From the file of a clean shutdown, or -1 (KIP-966).
    """

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = -1


class BrokerRegistrationResponse(Struct, frozen=True, kw_only=True):
    """The epoch of the broker from now on: the offset of its registration in the metadata log."""

    error_code: ErrorCode
    broker_epoch: int = -1


class BrokerHeartbeatRequest(Struct, frozen=True, kw_only=True):
    """A broker lives (KIP-631).

    Attributes:
        broker_id: Its node id.
        broker_epoch: As its registration was answered.
        current_metadata_offset: The last offset of the metadata log that it replayed.
        want_fence: Whether it wants to be fenced, as it is not ready.
        want_shut_down: Whether it wants to hand over its leaderships and end.
    """

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool


class BrokerHeartbeatResponse(Struct, frozen=True, kw_only=True):
    """What the broker is to the controller.

    Attributes:
        error_code: STALE_BROKER_EPOCH of a former incarnation, NOT_CONTROLLER.
        is_caught_up: Whether it has replayed its own registration.
        is_fenced: Whether it may not lead, nor be in an ISR.
        should_shut_down: Whether it may end now.
    """

    error_code: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class UnregisterBrokerRequest(Struct, frozen=True, kw_only=True):
    """Forget a broker that will not come back."""

    broker_id: int


class UnregisterBrokerResponse(Struct, frozen=True, kw_only=True):
    """Whether it is forgotten."""

    error_code: ErrorCode
    error_message: str | None = None


class AlterPartition(Struct, frozen=True, kw_only=True):
    """An ISR as a leader wants it (KIP-497).

    Attributes:
        topic_id: Of the topic.
        partition_index: Its number.
        leader_epoch: In which the leader leads.
        new_isr_with_epochs: Brokers and their epochs as they fetched last, or -1 (KIP-903).
        leader_recovery_state: 0: recovered; 1: after an unclean election (KIP-704).
        partition_epoch: The state that the leader starts from.
    """

    topic_id: UUID
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[tuple[int, int], ...]
    partition_epoch: int
    leader_recovery_state: int = 0


class AlterPartitionRequest(Struct, frozen=True, kw_only=True):
    """A broker wants ISRs of partitions that it leads to change."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartition, ...]


class AlteredPartition(Struct, frozen=True, kw_only=True):
    """A partition as it stands after the request, or why it was refused."""

    topic_id: UUID
    partition_index: int
    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = -1


class AlterPartitionResponse(Struct, frozen=True, kw_only=True):
    """An answer for each partition, in the order asked."""

    error_code: ErrorCode
    partitions: tuple[AlteredPartition, ...] = ()


class AllocateProducerIdsRequest(Struct, frozen=True, kw_only=True):
    """A broker needs ids for idempotent producers."""

    broker_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(Struct, frozen=True, kw_only=True):
    """A block of ids that nobody else gets."""

    error_code: ErrorCode
    producer_id_start: int = -1
    producer_id_len: int = 0


class CreatableTopic(Struct, frozen=True, kw_only=True):
    """A topic that is wanted.

    Attributes:
        name: Its name.
        num_partitions: -1: the default, or as `assignments` say.
        replication_factor: -1: the default, or as `assignments` say.
        assignments: The replicas of each partition, if they are not to be chosen.
        configs: Names and values.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsRequest(Struct, frozen=True, kw_only=True):
    """Make topics."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatableTopicResult(Struct, frozen=True, kw_only=True):
    """A topic that was made, or why it was not."""

    name: str
    error_code: ErrorCode
    topic_id: UUID | None = None
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsResponse(Struct, frozen=True, kw_only=True):
    """An answer for each topic; each fails with NOT_CONTROLLER if this is not the active one."""

    topics: tuple[CreatableTopicResult, ...]


class CreatePartitionsTopic(Struct, frozen=True, kw_only=True):
    """A topic that shall have more partitions: `count` of them in all."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(Struct, frozen=True, kw_only=True):
    """Give topics more partitions."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class TopicResult(Struct, frozen=True, kw_only=True):
    """How it went with a topic."""

    name: str | None
    error_code: ErrorCode
    topic_id: UUID | None = None
    error_message: str | None = None


class CreatePartitionsResponse(Struct, frozen=True, kw_only=True):
    """An answer for each topic."""

    results: tuple[TopicResult, ...]


class DeleteTopicState(Struct, frozen=True, kw_only=True):
    """A topic by its name or by its id."""

    name: str | None = None
    topic_id: UUID | None = None


class DeleteTopicsRequest(Struct, frozen=True, kw_only=True):
    """Remove topics."""

    topics: tuple[DeleteTopicState, ...]
    timeout_ms: int = 60_000


class DeleteTopicsResponse(Struct, frozen=True, kw_only=True):
    """An answer for each topic."""

    responses: tuple[TopicResult, ...]


class PartitionOutcome(Struct, frozen=True, kw_only=True):
    """How it went with a partition."""

    topic: str
    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


class ElectLeadersRequest(Struct, frozen=True, kw_only=True):
    """Elect leaders anew (KIP-460).

    Attributes:
        election_type: `PREFERRED` or `UNCLEAN`.
        topic_partitions: None: all that need it.
        timeout_ms: Of the client.
    """

    election_type: int
    topic_partitions: tuple[tuple[str, int], ...] | None
    timeout_ms: int = 60_000


class ElectLeadersResponse(Struct, frozen=True, kw_only=True):
    """An answer for each partition."""

    error_code: ErrorCode
    replica_election_results: tuple[PartitionOutcome, ...] = ()


class ReassignablePartition(Struct, frozen=True, kw_only=True):
    """The replicas that a partition shall have; None: what is under way is called off."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...] | None


class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """Move replicas (KIP-455)."""

    partitions: tuple[ReassignablePartition, ...]
    timeout_ms: int = 60_000


class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """An answer for each partition."""

    error_code: ErrorCode
    error_message: str | None = None
    responses: tuple[PartitionOutcome, ...] = ()


class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """Which replicas move; None: of all partitions."""

    topic_partitions: tuple[tuple[str, int], ...] | None
    timeout_ms: int = 60_000


class OngoingReassignment(Struct, frozen=True, kw_only=True):
    """A partition whose replicas move."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """The partitions whose replicas move."""

    error_code: ErrorCode
    error_message: str | None = None
    partitions: tuple[OngoingReassignment, ...] = ()


class AlterableConfig(Struct, frozen=True, kw_only=True):
    """A config to change: `SET_CONFIG` and so on."""

    name: str
    config_operation: int
    value: str | None


class AlterConfigsResource(Struct, frozen=True, kw_only=True):
    """What to change of a topic or a broker."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class IncrementalAlterConfigsRequest(Struct, frozen=True, kw_only=True):
    """Change configs (KIP-339)."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True):
    """How it went with a resource."""

    error_code: ErrorCode
    resource_type: int
    resource_name: str
    error_message: str | None = None


class IncrementalAlterConfigsResponse(Struct, frozen=True, kw_only=True):
    """An answer for each resource."""

    responses: tuple[AlterConfigsResourceResponse, ...]


ControlRequest = (
    BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | UnregisterBrokerRequest
    | AlterPartitionRequest
    | AllocateProducerIdsRequest
    | CreateTopicsRequest
    | CreatePartitionsRequest
    | DeleteTopicsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | IncrementalAlterConfigsRequest
)
ControlResponse = (
    BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | UnregisterBrokerResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | CreateTopicsResponse
    | CreatePartitionsResponse
    | DeleteTopicsResponse
    | ElectLeadersResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | IncrementalAlterConfigsResponse
)
