"""Derive the states of a broker's replicas from the metadata image, with pure functions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.reference.controller.image import (
    BrokerChanged,
    Change,
    ConfigChanged,
    MetadataImage,
    PartitionChanged,
    PartitionImage,
)
from cluster.reference.messages.control import TOPIC_RESOURCE
from cluster.reference.partition.state import PartitionState
from cluster.reference.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The effect of metadata changes on a broker's own replicas.

    Attributes:
        gone: The folders of deleted partitions, but not a folder that a new topic of the same name
            uses.
        states: The present states of new and changed partitions.
        brokers: Whether brokers were added, removed or fenced.
    """

    gone: tuple[str, ...]
    states: tuple[PartitionState, ...]
    brokers: bool


def told(changes: Iterable[Change], image: MetadataImage, settings: Settings) -> Told:
    """Return the effect of metadata changes. For each partition, only its last state counts."""
    states: dict[str, PartitionState] = {}
    gone: dict[str, None] = {}
    brokers = False
    for change in changes:
        match change:
            case PartitionChanged(after=PartitionImage() as after):
                # An earlier topic of this name may have been deleted before. The topic id decides
                # whether an existing log belongs to the new topic, as it may after a restart.
                gone.pop(_folder(after), None)
                states[_folder(after)] = state_of(after, image, settings)
            case PartitionChanged(before=PartitionImage() as before):
                states.pop(_folder(before), None)
                gone[_folder(before)] = None
            case ConfigChanged(resource_type=kind, resource_name=name) if kind == TOPIC_RESOURCE:
                for each in _partitions(image, name):
                    states[_folder(each)] = state_of(each, image, settings)
            case BrokerChanged():
                brokers = True
            case _:
                pass
    return Told(gone=tuple(gone), states=tuple(states.values()), brokers=brokers)


def state_of(partition: PartitionImage, image: MetadataImage, settings: Settings) -> PartitionState:
    """Return a partition's state in the form that its replica uses."""
    return PartitionState(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        settings=settings.topic(image.config(TOPIC_RESOURCE, partition.topic)),
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
        leader_recovery_state=partition.leader_recovery_state,
    )


def eligible(image: MetadataImage) -> dict[int, int]:
    """Return the epoch of each broker that may be in an ISR (KIP-841, KIP-903)."""
    live = (each for each in image.brokers.values() if each.active)
    return {each.broker_id: each.broker_epoch for each in live}


def _partitions(image: MetadataImage, topic: str) -> Iterator[PartitionImage]:
    known = image.topics.get(topic)
    if known is not None:
        yield from known.partitions.values()


def _folder(partition: PartitionImage) -> str:
    return f"{partition.topic}-{partition.partition}"
