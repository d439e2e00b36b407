"""Finds a share group's lag: its unfinished records in each partition (KIP-932, KIP-1226)."""

from collections.abc import Callable, Collection, Mapping

from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kio.schema.describe_share_group_offsets.v1.response import DescribeShareGroupOffsetsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from cluster.kafka.beliefs import coordinator_of
from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place, by_topic
from cluster.kafka.wire import WireError
from cluster.protocol import CoordinatorKind, Endpoint

_ANSWER_S = 5.0
"""The time limit in seconds. Before its response, the coordinator must ask other nodes.

It asks the leaders and the share coordinator.
"""


def share_lags(
    endpoints: Mapping[str, Endpoint],
    answers: Callable[[str], bool],
    group: str,
    places: Collection[Place],
) -> dict[Place, int]:
    """Ask a share group's coordinator for the group's lag on each partition.

    Args:
        endpoints: The addresses of all brokers.
        answers: Returns whether a node is running and not paused.
        group: The group's id.
        places: The partitions, as (topic, partition).

    Returns:
        For each partition with a known lag: the number of records that the group must still accept,
        reject or give up.
    """
    lines = Lines(endpoints, answers)
    try:
        coordinator = coordinator_of(lines, CoordinatorKind.GROUP, group)
        if coordinator is None:
            return {}
        answer = lines.ask(
            coordinator,
            _question(group, places),
            DescribeShareGroupOffsetsResponse,
            timeout_s=_ANSWER_S,
        )
    except WireError:
        return {}
    finally:
        lines.close()
    return {
        (str(topic.topic_name), part.partition_index): part.lag
        for each in answer.groups
        if each.group_id == group and each.error_code is ErrorCode.none
        for topic in each.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none and part.lag >= 0
    }


def _question(group: str, places: Collection[Place]) -> DescribeShareGroupOffsetsRequest:
    topics = tuple(
        DescribeShareGroupOffsetsRequestTopic(
            topic_name=TopicName(topic), partitions=tuple(map(i32, partitions))
        )
        for topic, partitions in by_topic(places).items()
    )
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group), topics=topics)
    return DescribeShareGroupOffsetsRequest(groups=(asked,))
