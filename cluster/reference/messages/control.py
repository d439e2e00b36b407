"""The requests of brokers and clients to the active controller, and the responses.

Brokers send their own requests (registration, heartbeats, ISR changes, producer ids). They also
forward client requests (topics, elections, reassignments, configs). A controller that is not active
answers NOT_CONTROLLER. The controller responds when the records of its decision are committed in
the metadata log.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

PREFERRED, UNCLEAN = 0, 1
"""The types of elections (KIP-460)."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""The types of resources with configs."""

SET_CONFIG, DELETE_CONFIG, APPEND_CONFIG, SUBTRACT_CONFIG = 0, 1, 2, 3
"""The operations of `AlterableConfig` (KIP-339)."""


class Listener(Struct, frozen=True, kw_only=True):
    """An address at which a broker listens."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Feature(Struct, frozen=True, kw_only=True):
    """A feature that a broker supports, with its versions."""

    name: str
    min_supported_version: int
    max_supported_version: int


class BrokerRegistrationRequest(Struct, frozen=True, kw_only=True):
    """The registration of a broker's new process (KIP-500, KIP-631).

    Attributes:
        broker_id: The broker's node id.
        cluster_id: The cluster id in the broker's log dir.
        incarnation_id: A new UUID for each process.
        listeners: The broker's addresses for clients and other brokers.
        features: The features that the broker supports.
        rack: The broker's rack.
        log_dirs: The ids of the broker's log dirs (KIP-858).
        previous_broker_epoch: The epoch in the marker of a clean shutdown, or -1 (KIP-966).
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
    """The response to a broker's registration: the broker's new epoch.

    The epoch is the offset of the registration in the metadata log.
    """

    error_code: ErrorCode
    broker_epoch: int = -1


class BrokerHeartbeatRequest(Struct, frozen=True, kw_only=True):
    """A broker's heartbeat (KIP-631).

    Attributes:
        broker_id: The broker's node id.
        broker_epoch: The epoch from the response to the broker's registration.
        current_metadata_offset: The last offset of the metadata log that the broker replayed.
        want_fence: Whether the broker asks to stay fenced, because it is not ready.
        want_shut_down: Whether the broker wants to hand over its leaderships and then to end.
    """

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool


class BrokerHeartbeatResponse(Struct, frozen=True, kw_only=True):
    """The response to a broker's heartbeat: the broker's state as the controller knows it.

    Attributes:
        error_code: STALE_BROKER_EPOCH if an earlier incarnation sent the heartbeat; or
            NOT_CONTROLLER.
        is_caught_up: Whether the broker has replayed its own registration.
        is_fenced: Whether the broker is fenced: it may not lead or be in an ISR.
        should_shut_down: Whether the broker may end now.
    """

    error_code: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class UnregisterBrokerRequest(Struct, frozen=True, kw_only=True):
    """A request to remove a broker's registration for good."""

    broker_id: int


class UnregisterBrokerResponse(Struct, frozen=True, kw_only=True):
    """The result of removing a broker's registration."""

    error_code: ErrorCode
    error_message: str | None = None


class AlterPartition(Struct, frozen=True, kw_only=True):
    """A new ISR that a leader asks for (KIP-497).

    Attributes:
        topic_id: The topic's id.
        partition_index: The partition's number.
        leader_epoch: The epoch in which the leader leads.
        new_isr_with_epochs: The brokers of the new ISR. With each comes the broker epoch of its
            last fetch, or -1 (KIP-903).
        leader_recovery_state: 0: recovered; 1: after an unclean election (KIP-704).
        partition_epoch: The partition epoch that the leader knows.
    """

    topic_id: UUID
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[tuple[int, int], ...]
    partition_epoch: int
    leader_recovery_state: int = 0


class AlterPartitionRequest(Struct, frozen=True, kw_only=True):
    """A broker's request to change the ISRs of partitions that it leads."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartition, ...]


class AlteredPartition(Struct, frozen=True, kw_only=True):
    """A partition's state after the request, or the error."""

    topic_id: UUID
    partition_index: int
    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = -1


class AlterPartitionResponse(Struct, frozen=True, kw_only=True):
    """The response to `AlterPartitionRequest`: a result for each partition, in order."""

    error_code: ErrorCode
    partitions: tuple[AlteredPartition, ...] = ()


class AllocateProducerIdsRequest(Struct, frozen=True, kw_only=True):
    """A broker's request for a block of producer ids."""

    broker_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(Struct, frozen=True, kw_only=True):
    """A block of producer ids that no other broker gets."""

    error_code: ErrorCode
    producer_id_start: int = -1
    producer_id_len: int = 0


class CreatableTopic(Struct, frozen=True, kw_only=True):
    """A topic to create.

    Attributes:
        name: The topic's name.
        num_partitions: The number of partitions. -1 means the default, or the number in
            `assignments`.
        replication_factor: The number of replicas. -1 means the default, or the number in
            `assignments`.
        assignments: The replicas of each partition; empty: the controller chooses.
        configs: Names and values.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsRequest(Struct, frozen=True, kw_only=True):
    """A request to create topics."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class CreatableTopicResult(Struct, frozen=True, kw_only=True):
    """A created topic, or the error."""

    name: str
    error_code: ErrorCode
    topic_id: UUID | None = None
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicsResponse(Struct, frozen=True, kw_only=True):
    """The response to `CreateTopicsRequest`: a result for each topic.

    Each result is NOT_CONTROLLER if this controller is not active.
    """

    topics: tuple[CreatableTopicResult, ...]


class CreatePartitionsTopic(Struct, frozen=True, kw_only=True):
    """A topic that should get more partitions, `count` in total."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsRequest(Struct, frozen=True, kw_only=True):
    """A request to add partitions to topics."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class TopicResult(Struct, frozen=True, kw_only=True):
    """The result for one topic."""

    name: str | None
    error_code: ErrorCode
    topic_id: UUID | None = None
    error_message: str | None = None


class CreatePartitionsResponse(Struct, frozen=True, kw_only=True):
    """The response to `CreatePartitionsRequest`: a result for each topic."""

    results: tuple[TopicResult, ...]


class DeleteTopicState(Struct, frozen=True, kw_only=True):
    """A topic to delete, by its name or by its id."""

    name: str | None = None
    topic_id: UUID | None = None


class DeleteTopicsRequest(Struct, frozen=True, kw_only=True):
    """A request to delete topics."""

    topics: tuple[DeleteTopicState, ...]
    timeout_ms: int = 60_000


class DeleteTopicsResponse(Struct, frozen=True, kw_only=True):
    """The response to `DeleteTopicsRequest`: a result for each topic."""

    responses: tuple[TopicResult, ...]


class PartitionOutcome(Struct, frozen=True, kw_only=True):
    """The result for one partition."""

    topic: str
    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


class ElectLeadersRequest(Struct, frozen=True, kw_only=True):
    """A request to elect leaders (KIP-460).

    Attributes:
        election_type: `PREFERRED` or `UNCLEAN`.
        topic_partitions: The partitions; None: all that need an election.
        timeout_ms: The client's timeout.
    """

    election_type: int
    topic_partitions: tuple[tuple[str, int], ...] | None
    timeout_ms: int = 60_000


class ElectLeadersResponse(Struct, frozen=True, kw_only=True):
    """The response to `ElectLeadersRequest`: a result for each partition."""

    error_code: ErrorCode
    replica_election_results: tuple[PartitionOutcome, ...] = ()


class ReassignablePartition(Struct, frozen=True, kw_only=True):
    """The new replicas of a partition; None cancels the reassignment in progress."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...] | None


class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """A request to reassign partitions to other replicas (KIP-455)."""

    partitions: tuple[ReassignablePartition, ...]
    timeout_ms: int = 60_000


class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """The response to `AlterPartitionReassignmentsRequest`: a result for each partition."""

    error_code: ErrorCode
    error_message: str | None = None
    responses: tuple[PartitionOutcome, ...] = ()


class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """A request for the reassignments in progress. None means all partitions."""

    topic_partitions: tuple[tuple[str, int], ...] | None
    timeout_ms: int = 60_000


class OngoingReassignment(Struct, frozen=True, kw_only=True):
    """A partition with a reassignment in progress."""

    topic: str
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """The partitions with a reassignment in progress."""

    error_code: ErrorCode
    error_message: str | None = None
    partitions: tuple[OngoingReassignment, ...] = ()


class AlterableConfig(Struct, frozen=True, kw_only=True):
    """A change of one config, by an operation such as `SET_CONFIG`."""

    name: str
    config_operation: int
    value: str | None


class AlterConfigsResource(Struct, frozen=True, kw_only=True):
    """The config changes of a topic or a broker."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class IncrementalAlterConfigsRequest(Struct, frozen=True, kw_only=True):
    """A request to change configs (KIP-339)."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True):
    """The result for one resource."""

    error_code: ErrorCode
    resource_type: int
    resource_name: str
    error_message: str | None = None


class IncrementalAlterConfigsResponse(Struct, frozen=True, kw_only=True):
    """The response to `IncrementalAlterConfigsRequest`: a result for each resource."""

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
