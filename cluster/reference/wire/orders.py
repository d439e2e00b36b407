"""Convert client requests that a broker forwards to the controller, and their responses.

These are requests about topics, elections, reassignments and configs.
"""

from cluster.reference.messages.control import (
    AlterableConfig,
    AlterConfigsResource,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicState,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
)
from cluster.reference.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
)
from cluster.reference.wire.data import METADATA_TOPIC, by_topic
from cluster.reference.wire.translation import Theirs, inner, made, milliseconds


def read_create_topics(said: Theirs) -> CreateTopicsRequest:
    """Convert a CreateTopicsRequest to our message."""
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    (each.partition_index, tuple(each.broker_ids)) for each in topic.assignments
                ),
                configs=tuple((each.name, each.value) for each in topic.configs),
            )
            for topic in said.topics
        ),
        timeout_ms=milliseconds(said.timeout),
        validate_only=said.validate_only,
    )


def write_created_topics(own: CreateTopicsResponse, form: type) -> Theirs:
    """Convert our response to a CreateTopicsResponse."""
    of_topic = inner(form, "topics")
    topics = tuple(
        made(
            of_topic,
            name=each.name,
            topic_id=each.topic_id,
            error_code=each.error_code,
            error_message=each.error_message,
            num_partitions=each.num_partitions,
            replication_factor=each.replication_factor,
            configs=(),
        )
        for each in own.topics
    )
    return made(form, topics=topics)


def read_create_partitions(said: Theirs) -> CreatePartitionsRequest:
    """Convert a CreatePartitionsRequest to our message."""
    return CreatePartitionsRequest(
        topics=tuple(
            CreatePartitionsTopic(
                name=topic.name,
                count=topic.count,
                assignments=None
                if topic.assignments is None
                else tuple(tuple(each.broker_ids) for each in topic.assignments),
            )
            for topic in said.topics
        ),
        timeout_ms=milliseconds(said.timeout),
        validate_only=said.validate_only,
    )


def read_delete_topics(said: Theirs) -> DeleteTopicsRequest:
    """Convert a DeleteTopicsRequest to our message."""
    named = getattr(said, "topic_names", ())  # Until version 5.
    states = getattr(said, "topics", ())
    return DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=name) for name in named)
        + tuple(DeleteTopicState(name=it.name, topic_id=it.topic_id) for it in states),
        timeout_ms=milliseconds(said.timeout),
    )


def read_elect_leaders(said: Theirs) -> ElectLeadersRequest:
    """Convert an ElectLeadersRequest to our message; version 0 has only preferred elections."""
    asked = said.topic_partitions
    return ElectLeadersRequest(
        election_type=getattr(said, "election_type", 0),
        topic_partitions=None
        if asked is None
        else tuple((topic.topic, each) for topic in asked for each in topic.partitions),
        timeout_ms=milliseconds(said.timeout),
    )


def write_elected_leaders(own: ElectLeadersResponse, form: type) -> Theirs:
    """Convert our response to an ElectLeadersResponse."""
    of_topic = inner(form, "replica_election_results")
    of_partition = inner(of_topic, "partition_result")
    results = tuple(
        made(
            of_topic,
            topic=topic,
            partition_result=tuple(
                made(
                    of_partition,
                    partition_id=each.partition_index,
                    error_code=each.error_code,
                    error_message=each.error_message,
                )
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(own.replica_election_results)
    )
    return made(form, error_code=own.error_code, replica_election_results=results)


def read_reassign(said: Theirs) -> AlterPartitionReassignmentsRequest:
    """Convert an AlterPartitionReassignmentsRequest to our message."""
    return AlterPartitionReassignmentsRequest(
        partitions=tuple(
            ReassignablePartition(
                topic=topic.name,
                partition_index=each.partition_index,
                replicas=None if each.replicas is None else tuple(each.replicas),
            )
            for topic in said.topics
            for each in topic.partitions
        ),
        timeout_ms=milliseconds(said.timeout),
    )


def write_reassigned(own: AlterPartitionReassignmentsResponse, form: type) -> Theirs:
    """Convert our response to an AlterPartitionReassignmentsResponse."""
    of_topic = inner(form, "responses")
    of_partition = inner(of_topic, "partitions")
    topics = tuple(
        made(
            of_topic,
            name=topic,
            partitions=tuple(
                made(
                    of_partition,
                    partition_index=each.partition_index,
                    error_code=each.error_code,
                    error_message=each.error_message,
                )
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(own.responses)
    )
    return made(form, error_code=own.error_code, error_message=own.error_message, responses=topics)


def read_list_reassignments(said: Theirs) -> ListPartitionReassignmentsRequest:
    """Convert a ListPartitionReassignmentsRequest to our message."""
    asked = said.topics
    return ListPartitionReassignmentsRequest(
        topic_partitions=None
        if asked is None
        else tuple((topic.name, each) for topic in asked for each in topic.partition_indexes),
        timeout_ms=milliseconds(said.timeout),
    )


def write_listed_reassignments(own: ListPartitionReassignmentsResponse, form: type) -> Theirs:
    """Convert our response to a ListPartitionReassignmentsResponse."""
    of_topic = inner(form, "topics")
    of_partition = inner(of_topic, "partitions")
    topics = tuple(
        made(
            of_topic,
            name=topic,
            partitions=tuple(
                made(
                    of_partition,
                    partition_index=each.partition_index,
                    replicas=each.replicas,
                    adding_replicas=each.adding_replicas,
                    removing_replicas=each.removing_replicas,
                )
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(own.partitions)
    )
    return made(form, error_code=own.error_code, error_message=own.error_message, topics=topics)


def read_alter_configs(said: Theirs) -> IncrementalAlterConfigsRequest:
    """Convert an IncrementalAlterConfigsRequest to our message."""
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple(
                    AlterableConfig(
                        name=each.name,
                        config_operation=each.config_operation,
                        value=each.value,
                    )
                    for each in resource.configs
                ),
            )
            for resource in said.resources
        ),
        validate_only=said.validate_only,
    )


def read_describe_quorum(_said: Theirs) -> DescribeQuorumRequest:
    """Convert a DescribeQuorumRequest to our message; there is only one quorum."""
    return DescribeQuorumRequest()


def write_described_quorum(own: DescribeQuorumResponse, form: type) -> Theirs:
    """Convert our response to a DescribeQuorumResponse."""
    of_topic = inner(form, "topics")
    of_partition = inner(of_topic, "partitions")
    of_voter, of_observer = inner(of_partition, "current_voters"), inner(of_partition, "observers")

    def state(each: ReplicaState, of_replica: type) -> object:
        return made(
            of_replica,
            replica_id=each.replica_id,
            replica_directory_id=each.replica_directory_id,
            log_end_offset=each.log_end_offset,
        )

    partition = made(
        of_partition,
        partition_index=0,
        error_code=own.error_code,
        leader_id=own.leader_id,
        leader_epoch=own.leader_epoch,
        high_watermark=own.high_watermark,
        current_voters=tuple(state(each, of_voter) for each in own.current_voters),
        observers=tuple(state(each, of_observer) for each in own.observers),
    )
    return made(form, topics=(made(of_topic, topic_name=METADATA_TOPIC, partitions=(partition,)),))
