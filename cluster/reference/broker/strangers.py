"""What clients are refused that only nodes of the cluster may ask."""

from kio.schema.errors import ErrorCode

from cluster.reference.messages.data import FetchedPartition, FetchRequest, FetchResponse


def refused_as_replica(asked: FetchRequest) -> FetchResponse:
    """Return the answer to a client that calls itself a replica, and would move high watermarks.

    Kafka's, to whoever is not authorized for the cluster's own actions.
    """
    refused = (
        FetchedPartition(
            topic=each.topic,
            partition=each.partition,
            topic_id=each.topic_id,
            error_code=ErrorCode.topic_authorization_failed,
        )
        for each in asked.partitions
    )
    return FetchResponse(partitions=tuple(refused))
