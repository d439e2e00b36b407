"""Reassignments of partitions to other replicas (KIP-455).

During a reassignment a partition has its old and its new replicas. The reassignment ends by itself
when all added replicas are in sync (`partitions.change`).
"""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from cluster.reference.controller.draft import Draft
from cluster.reference.controller.image import PartitionImage
from cluster.reference.controller.partitions import change, target_of
from cluster.reference.controller.topics import RefusedError, check_replicas
from cluster.reference.messages.control import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    PartitionOutcome,
    ReassignablePartition,
)


def alter_reassignments(
    draft: Draft, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin, change or cancel reassignments."""
    outcomes = []
    for wanted in request.partitions:
        error, why = ErrorCode.none, None
        try:
            _reassign(draft, wanted)
        except RefusedError as refused:
            error, why = refused.error, refused.why
        outcomes.append(
            PartitionOutcome(
                topic=wanted.topic,
                partition_index=wanted.partition_index,
                error_code=error,
                error_message=why,
            )
        )
    return AlterPartitionReassignmentsResponse(error_code=ErrorCode.none, responses=tuple(outcomes))


def list_reassignments(
    draft: Draft, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress."""
    asked = request.topic_partitions
    ongoing = tuple(
        OngoingReassignment(
            topic=each.topic,
            partition_index=each.partition,
            replicas=each.replicas,
            adding_replicas=each.adding,
            removing_replicas=each.removing,
        )
        for each in draft.image.partitions()
        if (each.adding or each.removing)
        and (asked is None or (each.topic, each.partition) in asked)
    )
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.none, partitions=ongoing)


def _reassign(draft: Draft, wanted: ReassignablePartition) -> None:
    partition = draft.image.partition(wanted.topic, wanted.partition_index)
    if partition is None:
        raise RefusedError(ErrorCode.unknown_topic_or_partition, "Unable to find the partition.")
    if wanted.replicas is None:
        _call_off(draft, partition)
        return
    check_replicas(draft, wanted.replicas)
    before = [each for each in partition.replicas if each not in partition.adding]
    removing = tuple(each for each in before if each not in wanted.replicas)
    adding = tuple(each for each in wanted.replicas if each not in before)
    # The new order applies at once: removed replicas come after all remaining ones (KIP-455).
    target = replace(
        target_of(partition),
        replicas=wanted.replicas + removing,
        isr=tuple(each for each in partition.isr if each in wanted.replicas + removing),
        adding=adding,
        removing=removing,
    )
    if not target.isr:
        raise RefusedError(ErrorCode.invalid_replica_assignment, "no remaining replica is in sync")
    change(draft, partition, target)


def _call_off(draft: Draft, partition: PartitionImage) -> None:
    if not partition.adding and not partition.removing:
        raise RefusedError(
            ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."
        )
    isr = tuple(each for each in partition.isr if each not in partition.adding)
    if not isr:
        raise RefusedError(
            ErrorCode.invalid_replica_assignment,
            "the reassignment cannot be cancelled, because only replicas that are being added are"
            " in sync",
        )
    target = replace(
        target_of(partition),
        replicas=tuple(each for each in partition.replicas if each not in partition.adding),
        isr=isr,
        adding=(),
        removing=(),
    )
    change(draft, partition, target)
