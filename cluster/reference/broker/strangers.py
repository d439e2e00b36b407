"""Refuse client requests that only nodes of the cluster may send."""

from kio.schema.errors import ErrorCode

from cluster.reference.messages.data import FetchedPartition, FetchRequest, FetchResponse


def refused_as_replica(asked: FetchRequest) -> FetchResponse:
    """Return the response that refuses a fetch if a client pretends to be a replica.

    Such a fetch could move high watermarks. Kafka sends the same response to clients without the
    right to act for the cluster.
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
