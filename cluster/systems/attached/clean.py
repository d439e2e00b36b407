"""On an attached cluster, delete the topics and groups whose names have a run's prefix."""

from collections.abc import Iterator

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.types import GroupId

from cluster.kafka import orders
from cluster.kafka.lines import Lines
from cluster.kafka.wire import WireError, dialling
from cluster.protocol import ClusterError, Endpoint
from cluster.systems.attached.asking import Attached
from results.record.attached_file import PREFIX
from results.record.clock import WaitTimeoutError, wait_until

CLEAN_LIMIT_S = 45.0
"""Seconds to wait for the deletions.

A group can be deleted only after its members' sessions have ended. A topic can be deleted only
while the cluster has a controller.
"""
_GONE = {ErrorCode.none, ErrorCode.group_id_not_found}


def left_of(attached: Attached, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the topics and groups of a run that still exist, each with a description.

    Raises:
        UserError: No broker answers.
    """
    for name in _topics(attached, prefix):
        yield f"the topic {name}", "on the attached cluster"
    for at in attached.endpoints().values():
        for name in _groups(attached, at, prefix) or ():
            yield f"the group {name}", "on the attached cluster"


def _not_gone(attached: Attached, prefix: str) -> list[str]:
    """Return the topics and groups that may remain of a run.

    If a broker does not list its groups, some of them may belong to the run.
    """
    found = [what for what, _ in left_of(attached, prefix)]
    silent = (
        node for node, at in attached.endpoints().items() if _groups(attached, at, prefix) is None
    )
    return [*found, *(f"the groups of {node} (it does not list them)" for node in silent)]


def clean_up(attached: Attached, prefix: str) -> list[str]:
    """Delete the topics and groups of a run; return a sentence about each deletion.

    Args:
        attached: The cluster.
        prefix: The unique prefix of the run's names.

    Raises:
        ClusterError: Some topics or groups could not be deleted.
    """
    if not prefix.startswith(PREFIX) or prefix == PREFIX:
        raise ValueError(f"{prefix!r} is not the prefix of a run")
    done: dict[str, None] = {}

    def is_clean() -> bool:
        for what in _delete(attached, prefix):
            done[what] = None
        return not _not_gone(attached, prefix)

    try:
        wait_until(
            is_clean,
            timeout_s=CLEAN_LIMIT_S,
            what="the deletion of topics and groups",
            interval_s=0.5,
        )
    except WaitTimeoutError as late:
        left = ", ".join(_not_gone(attached, prefix))
        raise ClusterError(
            f"{left} could not be deleted; type: logquake heal {attached.path}"
        ) from late
    return [f"deleted {what}" for what in done]


def _delete(attached: Attached, prefix: str) -> Iterator[str]:
    endpoints = attached.endpoints()
    if topics := _topics(attached, prefix):
        with dialling(attached.dial):
            lines = Lines(endpoints, lambda _: True)
        try:
            orders.delete_topics(lines, topics, nodes=lines.nodes)
        finally:
            lines.close()
        yield from (f"the topic {name}" for name in topics)
    for at in endpoints.values():
        names = _groups(attached, at, prefix)
        if names:
            asked = DeleteGroupsRequest(groups_names=tuple(map(GroupId, names)))
            try:
                said = attached.ask((at.host, at.broker_port), asked, DeleteGroupsResponse)
            except WireError:
                continue  # Asked again while groups are left.
            yield from (f"the group {it.group_id}" for it in said.results if it.error_code in _GONE)


def _topics(attached: Attached, prefix: str) -> list[str]:
    names = (str(topic.name) for topic in attached.metadata(None).topics)
    return sorted(name for name in names if name.startswith(prefix))


def _groups(attached: Attached, at: Endpoint, prefix: str) -> list[str] | None:
    """Return the run's groups on one coordinator; None if the broker does not list its groups."""
    try:
        said = attached.ask((at.host, at.broker_port), ListGroupsRequest(), ListGroupsResponse)
    except WireError:
        return None
    if said.error_code is not ErrorCode.none:
        return None
    return sorted(str(it.group_id) for it in said.groups if str(it.group_id).startswith(prefix))
