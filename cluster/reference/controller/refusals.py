"""Build the responses of a controller that is not active.

Each request has its own form of refusal.
"""

from collections.abc import Callable, Mapping

from kio.schema.errors import ErrorCode

from cluster.reference.messages.control import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsResourceResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControlRequest,
    ControlResponse,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    TopicResult,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_PLAIN: Mapping[type[ControlRequest], Callable[..., ControlResponse]] = {
    BrokerRegistrationRequest: BrokerRegistrationResponse,
    BrokerHeartbeatRequest: BrokerHeartbeatResponse,
    UnregisterBrokerRequest: UnregisterBrokerResponse,
    AlterPartitionRequest: AlterPartitionResponse,
    AllocateProducerIdsRequest: AllocateProducerIdsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse,
}
CONTROL_REQUESTS = (
    *_PLAIN,
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
"""The types of requests that go to the controller."""


def refusal(request: ControlRequest, error: ErrorCode) -> ControlResponse:
    """Return the response that refuses a whole request with one error."""
    match request:
        case CreateTopicsRequest(topics=topics):
            results = [CreatableTopicResult(name=each.name, error_code=error) for each in topics]
            return CreateTopicsResponse(topics=tuple(results))
        case CreatePartitionsRequest(topics=more):
            refused = [TopicResult(name=each.name, error_code=error) for each in more]
            return CreatePartitionsResponse(results=tuple(refused))
        case DeleteTopicsRequest(topics=gone):
            kept = [
                TopicResult(name=each.name, topic_id=each.topic_id, error_code=error)
                for each in gone
            ]
            return DeleteTopicsResponse(responses=tuple(kept))
        case IncrementalAlterConfigsRequest(resources=resources):
            unchanged = [
                AlterConfigsResourceResponse(
                    error_code=error,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in resources
            ]
            return IncrementalAlterConfigsResponse(responses=tuple(unchanged))
        case _:
            return _PLAIN[type(request)](error_code=error)
