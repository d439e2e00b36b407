"""The metadata after all records of the metadata log: brokers, topics, partitions (KIP-500).

The objects in an image are frozen: an object that a caller keeps never changes. The image itself
changes with each record. The active controller has a second image, which also includes uncommitted
records.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from kio.static.primitive import i8, i16, i32, i64, u16

from cluster.files.messages import (
    LEADER_UNCHANGED,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    Message,
    PartitionChangeRecord,
    PartitionRecord,
    PlacedPartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from cluster.reference.messages.control import TOPIC_RESOURCE, Listener

NO_LEADER = -1
RECOVERED, RECOVERING = 0, 1
"""Whether a leader from outside the ISR has finished its recovery (KIP-704)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker.

    Attributes:
        broker_id: The broker's id.
        broker_epoch: The offset of the broker's registration. It grows with each incarnation of the
            broker.
        incarnation_id: The UUID of the broker's process.
        listeners: The broker's addresses.
        rack: The broker's rack.
        fenced: Whether the broker is fenced: a fenced broker may not lead or be in an ISR.
        in_controlled_shutdown: Whether the broker is handing over its leaderships.
        log_dirs: The ids of the broker's log dirs.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: UUID
    listeners: tuple[Listener, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[UUID, ...]

    @property
    def active(self) -> bool:
        """Whether the broker may lead and be in an ISR (KIP-841)."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The state of a partition.

    Attributes:
        topic, topic_id, partition: The partition's topic and number.
        replicas: The replicas in order of preference.
        isr: The in-sync replicas.
        adding, removing: Replicas that a reassignment adds and removes (KIP-455).
        leader: The leader's id; -1 if there is none.
        leader_epoch: A number that grows with each election.
        partition_epoch: A number that grows with each change of any kind (KIP-497).
        leader_recovery_state: `RECOVERED` or `RECOVERING`.
        directories: The log dir of each replica.
    """

    topic: str
    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    directories: tuple[UUID | None, ...] = ()

    def merged(self, change: PartitionChangeRecord) -> "PartitionImage":
        """Return the state after a change. If the change names a leader, a new epoch begins."""
        named = change.leader != LEADER_UNCHANGED
        recovery = int(change.leader_recovery_state)
        return replace(
            self,
            replicas=_either(change.replicas, self.replicas),
            isr=_either(change.isr, self.isr),
            adding=_either(change.adding_replicas, self.adding),
            removing=_either(change.removing_replicas, self.removing),
            leader=int(change.leader) if named else self.leader,
            leader_epoch=self.leader_epoch + int(named),
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery < 0 else recovery,
            directories=self.directories if change.directories is None else change.directories,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic and its partitions by number."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """A partition was created (no `before`), changed, or deleted (no `after`)."""

    before: PartitionImage | None
    after: PartitionImage | None

    @property
    def elected(self) -> bool:
        """Whether a new leader epoch began. Then leaders and followers must start again."""
        if self.before is None or self.after is None:
            return self.before is not self.after
        return (self.before.leader, self.before.leader_epoch) != (
            self.after.leader,
            self.after.leader_epoch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanged:
    """A broker was registered, fenced, unfenced or removed, or it began to shut down."""

    before: BrokerImage | None
    after: BrokerImage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """A config of a topic or a broker changed."""

    resource_type: int
    resource_name: str


Change = PartitionChanged | BrokerChanged | ConfigChanged


class MetadataImage:
    """The metadata that result from all records up to an offset.

    Attributes:
        offset: The offset of the last replayed record; -1 if there is none.
        epoch: The quorum epoch of that record.
        brokers: The brokers by id.
        topics: The topics by name.
        configs: Config names and values, by resource type and name.
        features: Feature levels by name.
        next_producer_id: The lowest producer id that was never given out.
    """

    def __init__(self) -> None:
        self.offset = -1
        self.epoch = 0
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._by_id: dict[UUID, TopicImage] = {}

    def topic(self, topic_id: UUID) -> TopicImage | None:
        """Return a topic by its id."""
        return self._by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return a partition; None if it does not exist."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def partitions(self) -> Iterator[PartitionImage]:
        """Yield all partitions, topic by topic. The oldest topic comes first."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def is_active(self, broker: int) -> bool:
        """Return whether a broker may lead and be in an ISR."""
        known = self.brokers.get(broker)
        return known is not None and known.active

    def config(self, resource_type: int, resource_name: str) -> dict[str, str]:
        """Return the configs that were set for a topic or a broker."""
        return self.configs.get((resource_type, resource_name), {})

    def copy(self) -> "MetadataImage":
        """Return an independent copy of the image."""
        mine = MetadataImage()
        mine.offset, mine.epoch = self.offset, self.epoch
        mine.brokers = dict(self.brokers)
        for topic in self.topics.values():
            mine._put_topic(replace(topic, partitions=dict(topic.partitions)))
        mine.configs = {key: dict(each) for key, each in self.configs.items()}
        mine.features = dict(self.features)
        mine.next_producer_id = self.next_producer_id
        return mine

    def replay(self, message: Message, offset: int) -> list[Change]:
        """Apply a record of the metadata log.

        Args:
            message: The record.
            offset: The record's offset in the metadata log.

        Returns:
            The changes that brokers must learn of.
        """
        self.offset = offset
        match message:
            case PartitionChangeRecord():
                return self._change_partition(message)
            case PartitionRecord():
                return self._add_partition(message)
            case TopicRecord(name=name, topic_id=UUID() as topic_id):
                self._put_topic(TopicImage(name=name, topic_id=topic_id, partitions={}))
            case RemoveTopicRecord(topic_id=UUID() as topic_id):
                return self._remove_topic(topic_id)
            case ConfigRecord():
                return self._configure(message)
            case FeatureLevelRecord(name=name, feature_level=level):
                self.features[name] = int(level)
            case ProducerIdsRecord(next_producer_id=next_id):
                self.next_producer_id = int(next_id)
            case _:
                return self._replay_broker(message)
        return []

    def records(self) -> Iterator[Message]:
        """Yield the records of a snapshot of this image."""
        for name, level in self.features.items():
            yield FeatureLevelRecord(name=name, feature_level=i16(level))
        for broker in self.brokers.values():
            yield registration(broker)
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions.values():
                yield placement(partition)
        for (kind, resource), values in self.configs.items():
            for name, value in values.items():
                yield ConfigRecord(
                    resource_type=i8(kind), resource_name=resource, name=name, value=value
                )
        if self.next_producer_id:
            yield ProducerIdsRecord(
                broker_id=i32(-1),
                broker_epoch=i64(-1),
                next_producer_id=i64(self.next_producer_id),
            )

    def changes_since(self, before: "MetadataImage") -> list[Change]:
        """Return what changed since an earlier image: a node that loads a snapshot needs this."""
        changes: list[Change] = []
        brokers = list(dict.fromkeys([*before.brokers, *self.brokers]))
        for broker in brokers:
            old, new = before.brokers.get(broker), self.brokers.get(broker)
            if old != new:
                changes.append(BrokerChanged(before=old, after=new))
        was = {(each.topic_id, each.partition): each for each in before.partitions()}
        now = {(each.topic_id, each.partition): each for each in self.partitions()}
        changes += [
            PartitionChanged(before=was.get(key), after=now.get(key))
            for key in dict.fromkeys([*was, *now])
            if was.get(key) != now.get(key)
        ]
        changes += [
            ConfigChanged(resource_type=kind, resource_name=name)
            for kind, name in dict.fromkeys([*before.configs, *self.configs])
            if before.config(kind, name) != self.config(kind, name)
        ]
        return changes

    def _put_topic(self, topic: TopicImage) -> None:
        self.topics[topic.name] = self._by_id[topic.topic_id] = topic

    def _add_partition(self, record: PartitionRecord) -> list[Change]:
        topic = self._by_id.get(record.topic_id or UUID(int=0))
        if topic is None:
            return []
        number = int(record.partition_id)
        placed = record.directories if isinstance(record, PlacedPartitionRecord) else ()
        after = PartitionImage(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=number,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            leader=int(record.leader),
            leader_epoch=int(record.leader_epoch),
            partition_epoch=int(record.partition_epoch),
            leader_recovery_state=int(record.leader_recovery_state),
            directories=placed,
        )
        before = topic.partitions.get(number)
        topic.partitions[number] = after
        return [PartitionChanged(before=before, after=after)]

    def _change_partition(self, record: PartitionChangeRecord) -> list[Change]:
        topic = self._by_id.get(record.topic_id or UUID(int=0))
        if topic is None:
            return []
        before = topic.partitions.get(int(record.partition_id))
        if before is None:
            return []
        after = topic.partitions[before.partition] = before.merged(record)
        return [PartitionChanged(before=before, after=after)]

    def _remove_topic(self, topic_id: UUID) -> list[Change]:
        topic = self._by_id.pop(topic_id, None)
        if topic is None:
            return []
        del self.topics[topic.name]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        return [PartitionChanged(before=each, after=None) for each in topic.partitions.values()]

    def _configure(self, record: ConfigRecord) -> list[Change]:
        key = int(record.resource_type), record.resource_name
        values = self.configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[key]
        return [ConfigChanged(resource_type=key[0], resource_name=key[1])]

    def _replay_broker(self, message: Message) -> list[Change]:
        match message:
            case RegisterBrokerRecord():
                after = _registered(message)
            case BrokerRegistrationChangeRecord():
                known = self.brokers.get(int(message.broker_id))
                if known is None or known.broker_epoch != message.broker_epoch:
                    return []
                after = _changed(known, message)
            case UnregisterBrokerRecord(broker_id=broker_id):
                gone = self.brokers.pop(int(broker_id), None)
                return [BrokerChanged(before=gone, after=None)] if gone else []
            case _:
                return []
        before = self.brokers.get(after.broker_id)
        self.brokers[after.broker_id] = after
        return [BrokerChanged(before=before, after=after)]


def registration(broker: BrokerImage) -> RegisterBrokerRecord:
    """Return the record that registers a broker in its present state."""
    return RegisterBrokerRecord(
        broker_id=i32(broker.broker_id),
        is_migrating_zk_broker=False,
        incarnation_id=broker.incarnation_id,
        broker_epoch=i64(broker.broker_epoch),
        end_points=tuple(
            Endpoint(
                name=each.name,
                host=each.host,
                port=u16(each.port),
                security_protocol=i16(each.security_protocol),
            )
            for each in broker.listeners
        ),
        features=(),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def placement(partition: PartitionImage) -> PlacedPartitionRecord:
    """Return the record that creates a partition in its present state."""
    unknown = (None,) * len(partition.replicas)
    return PlacedPartitionRecord(
        partition_id=i32(partition.partition),
        topic_id=partition.topic_id,
        replicas=ids(partition.replicas),
        isr=ids(partition.isr),
        removing_replicas=ids(partition.removing),
        adding_replicas=ids(partition.adding),
        leader=i32(partition.leader),
        leader_recovery_state=i8(partition.leader_recovery_state),
        leader_epoch=i32(partition.leader_epoch),
        partition_epoch=i32(partition.partition_epoch),
        directories=partition.directories or unknown,
    )


def ids(brokers: tuple[int, ...]) -> tuple[i32, ...]:
    """Return brokers' ids in the type that records use."""
    return tuple(i32(each) for each in brokers)


def _either(new: tuple[i32, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(int(each) for each in new)


def _registered(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        broker_id=int(record.broker_id),
        broker_epoch=int(record.broker_epoch),
        incarnation_id=record.incarnation_id or UUID(int=0),
        listeners=tuple(
            Listener(
                name=each.name,
                host=each.host,
                port=int(each.port),
                security_protocol=int(each.security_protocol),
            )
            for each in record.end_points
        ),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(each or UUID(int=0) for each in record.log_dirs),
    )


def _changed(broker: BrokerImage, change: BrokerRegistrationChangeRecord) -> BrokerImage:
    fenced = {1: True, -1: False}.get(int(change.fenced), broker.fenced)
    leaving = bool(change.in_controlled_shutdown) or broker.in_controlled_shutdown
    return replace(broker, fenced=fenced, in_controlled_shutdown=leaving)
