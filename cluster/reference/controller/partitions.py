"""The controller's rules for partition leaders and ISRs. Each change is checked and recorded.

In the order of the assignment, the first replica that is active and in the ISR becomes leader. An
ISR changes when the partition's leader requests this (KIP-497), or when a broker is fenced or shuts
down. The leader's request is checked against the partition's epochs, and against the epochs of the
brokers that the request names (KIP-841, KIP-903).
"""

from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from cluster.files.messages import LEADER_UNCHANGED, PartitionChangeRecord
from cluster.reference.controller.draft import Draft
from cluster.reference.controller.image import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    PartitionImage,
    ids,
)
from cluster.reference.messages.control import (
    PREFERRED,
    TOPIC_RESOURCE,
    AlteredPartition,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionOutcome,
)

UNCLEAN_CONFIG = "unclean.leader.election.enable"
NOBODY = -1


class Election(Enum):
    """The ways to choose a leader."""

    ANY = "any"
    """Keep the leader if possible; otherwise take the first active replica that is in sync."""
    PREFERRED = "preferred"
    """Take the first replica if it is in sync and active."""
    UNCLEAN = "unclean"
    """Take any active replica if no in-sync replica is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The wanted state of a partition. The leader is chosen only when the record is written."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovery: int


def target_of(partition: PartitionImage) -> Target:
    """Return a partition's present state as a target."""
    return Target(
        replicas=partition.replicas,
        isr=partition.isr,
        adding=partition.adding,
        removing=partition.removing,
        recovery=partition.leader_recovery_state,
    )


def change(
    draft: Draft,
    partition: PartitionImage,
    target: Target,
    *,
    election: Election = Election.ANY,
) -> bool:
    """Write the record that gives a partition its target state; return False if nothing changes.

    Args:
        draft: Receives the record.
        partition: The present state.
        target: The wanted state.
        election: The way to choose the leader.
    """
    target = _completed(target)
    leader, isr, recovery = _elected(draft, partition, target, election=election)
    new_replicas = target.replicas != partition.replicas
    # The new epoch stops a removed replica from following or leading in the present epoch.
    bump = new_replicas and bool(set(partition.replicas) - set(target.replicas))
    named = leader != partition.leader or bump
    record = PartitionChangeRecord(
        partition_id=i32(partition.partition),
        topic_id=partition.topic_id,
        isr=ids(isr) if isr != partition.isr else None,
        leader=i32(leader) if named else i32(LEADER_UNCHANGED),
        replicas=ids(target.replicas) if new_replicas else None,
        removing_replicas=ids(target.removing) if target.removing != partition.removing else None,
        adding_replicas=ids(target.adding) if target.adding != partition.adding else None,
        leader_recovery_state=i8(
            recovery if recovery != partition.leader_recovery_state else NOBODY
        ),
        directories=_directories(draft, target.replicas) if new_replicas else None,
    )
    unchanged = PartitionChangeRecord(partition_id=record.partition_id, topic_id=record.topic_id)
    if record == unchanged:
        return False
    draft.write(record)
    return True


def leave_isrs(draft: Draft, broker: int) -> None:
    """Remove a broker from all ISRs and leaderships, because it is fenced or shuts down.

    The last member of an ISR stays in the ISR, because no other replica is known to have all
    committed records.
    """
    for partition in list(draft.image.partitions()):
        if broker in partition.isr or partition.leader == broker:
            rest = tuple(each for each in partition.isr if each != broker)
            target = replace(target_of(partition), isr=rest or partition.isr)
            change(draft, partition, target)


def find_leaders(draft: Draft) -> None:
    """Elect leaders for partitions without a leader: a broker has returned, or a config changed."""
    for partition in list(draft.image.partitions()):
        if partition.leader == NO_LEADER:
            change(draft, partition, target_of(partition))


def alter_partitions(draft: Draft, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change ISRs as a leader requests, if the leader's request is still valid (KIP-497)."""
    broker = draft.image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.stale_broker_epoch)
    altered = tuple(_alter(draft, request.broker_id, wish) for wish in request.partitions)
    return AlterPartitionResponse(error_code=ErrorCode.none, partitions=altered)


def elect_leaders(draft: Draft, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders as an operator requests: for some named partitions, or for all (KIP-460)."""
    election = Election.PREFERRED if request.election_type == PREFERRED else Election.UNCLEAN
    asked = request.topic_partitions
    if asked is None:
        everything = [(each.topic, each.partition) for each in draft.image.partitions()]
        outcomes = [_elect(draft, *each, election=election) for each in everything]
        needed = [each for each in outcomes if each.error_code != ErrorCode.election_not_needed]
        return ElectLeadersResponse(
            error_code=ErrorCode.none, replica_election_results=tuple(needed)
        )
    return ElectLeadersResponse(
        error_code=ErrorCode.none,
        replica_election_results=tuple(_elect(draft, *each, election=election) for each in asked),
    )


def has_leaderships(draft: Draft, broker: int) -> bool:
    """Return whether a broker leads any partition."""
    return any(each.leader == broker for each in draft.image.partitions())


def _completed(target: Target) -> Target:
    """End a reassignment as soon as all added replicas are in sync (KIP-455)."""
    if not target.adding and not target.removing:
        return target
    replicas = tuple(each for each in target.replicas if each not in target.removing)
    isr = tuple(each for each in target.isr if each not in target.removing)
    if not isr or any(each not in isr for each in target.adding):
        return target
    return replace(target, replicas=replicas, isr=isr, adding=(), removing=())


def _elected(
    draft: Draft, partition: PartitionImage, target: Target, *, election: Election
) -> tuple[int, tuple[int, ...], int]:
    """Choose a leader; return the leader, the new ISR, and the leader's recovery state."""
    active = draft.image.is_active
    clean = [each for each in target.replicas if each in target.isr and active(each)]
    if clean:
        preferred = target.replicas[0] if election is Election.PREFERRED else NOBODY
        stays = partition.leader in clean
        leader = partition.leader if stays else clean[0]
        return preferred if preferred in clean else leader, target.isr, target.recovery
    if election is Election.UNCLEAN or _may_be_unclean(draft, partition.topic):
        live = [each for each in target.replicas if active(each)]
        if live:
            # The leader comes from outside the ISR. It may lack committed records (KIP-704:
            # RECOVERING).
            return live[0], (live[0],), RECOVERING
    return NO_LEADER, target.isr, target.recovery


def _may_be_unclean(draft: Draft, topic: str) -> bool:
    told = draft.image.config(TOPIC_RESOURCE, topic).get(UNCLEAN_CONFIG)
    return draft.settings.unclean_leader_election_enable if told is None else told == "true"


def _directories(draft: Draft, replicas: tuple[int, ...]) -> tuple[UUID | None, ...]:
    return tuple(directory_of(draft, each) for each in replicas)


def directory_of(draft: Draft, broker: int) -> UUID | None:
    """Return the id of a broker's log dir.

    The result is None if the broker reported none or several (KIP-858).
    """
    known = draft.image.brokers.get(broker)
    return known.log_dirs[0] if known is not None and len(known.log_dirs) == 1 else None


def _alter(draft: Draft, broker: int, wish: AlterPartition) -> AlteredPartition:
    topic = draft.image.topic(wish.topic_id)
    if topic is None:
        return _refused(wish, ErrorCode.unknown_topic_id)
    partition = topic.partitions.get(wish.partition_index)
    if partition is None:
        return _refused(wish, ErrorCode.unknown_topic_or_partition)
    error = _objection(draft, broker, partition, wish=wish)
    if error is not ErrorCode.none:
        return _refused(wish, error)
    isr = tuple(each for each, _ in wish.new_isr_with_epochs)
    in_order = tuple(each for each in partition.isr if each in isr)
    joined = tuple(each for each in isr if each not in in_order)
    target = replace(
        target_of(partition), isr=in_order + joined, recovery=wish.leader_recovery_state
    )
    change(draft, partition, target)
    after = draft.image.partition(partition.topic, partition.partition)
    assert after is not None
    # The end of a reassignment may have taken the leadership from the asking broker.
    moved = after.leader_epoch != partition.leader_epoch
    return AlteredPartition(
        topic_id=wish.topic_id,
        partition_index=wish.partition_index,
        error_code=ErrorCode.new_leader_elected if moved else ErrorCode.none,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def _objection(
    draft: Draft, broker: int, partition: PartitionImage, *, wish: AlterPartition
) -> ErrorCode:
    """Return why a leader's ISR request is refused (KIP-497). The order of checks is Kafka's."""
    if (
        wish.leader_epoch > partition.leader_epoch
        or wish.partition_epoch > partition.partition_epoch
    ):
        # The asking broker knows newer metadata than this controller.
        return ErrorCode.not_controller
    if wish.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if broker != partition.leader:
        return ErrorCode.invalid_request
    if wish.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    return _objection_to_isr(draft, partition, wish)


def _objection_to_isr(draft: Draft, partition: PartitionImage, wish: AlterPartition) -> ErrorCode:
    isr = [each for each, _ in wish.new_isr_with_epochs]
    valid = len(set(isr)) == len(isr) and all(each in partition.replicas for each in isr)
    if not valid or partition.leader not in isr:
        return ErrorCode.invalid_request
    recovering = wish.leader_recovery_state == RECOVERING
    if recovering and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.invalid_request
    for member, epoch in wish.new_isr_with_epochs:
        known = draft.image.brokers.get(member)
        # A broker that is fenced or shuts down must not join (KIP-841). A broker that restarted
        # after its last fetch must not join either (KIP-903), because its records may be lost.
        if known is None or not known.active or epoch not in (-1, known.broker_epoch):
            return ErrorCode.ineligible_replica
    return ErrorCode.none


def _refused(wish: AlterPartition, error: ErrorCode) -> AlteredPartition:
    return AlteredPartition(
        topic_id=wish.topic_id, partition_index=wish.partition_index, error_code=error
    )


def _elect(draft: Draft, topic: str, number: int, *, election: Election) -> PartitionOutcome:
    partition = draft.image.partition(topic, number)
    if partition is None:
        return PartitionOutcome(
            topic=topic,
            partition_index=number,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message="No such partition",
        )
    if election is Election.PREFERRED:
        needless = partition.leader == partition.replicas[0]
        unavailable = ErrorCode.preferred_leader_not_available
    else:
        needless = partition.leader != NO_LEADER
        unavailable = ErrorCode.eligible_leaders_not_available
    error = ErrorCode.none
    if needless:
        error = ErrorCode.election_not_needed
    elif not change(draft, partition, target_of(partition), election=election):
        error = unavailable
    return PartitionOutcome(topic=topic, partition_index=number, error_code=error)
