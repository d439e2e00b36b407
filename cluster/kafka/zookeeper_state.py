"""Reads a Kafka cluster's registrations, leaders and ISRs from ZooKeeper.

The paths are the ones in `ZkData.scala` of Kafka's source. From 0.11 to 3.9, the data changed only
by some new fields.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cluster.kafka.questions import Place
from cluster.kafka.znodes import Znode, Znodes

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTruth:
    """The stored state of a partition.

    The controller writes this state; the leader updates the ISR.

    Attributes:
        leader: The leader's broker id; -1 if there is none.
        leader_epoch: The leader's epoch.
        isr: Broker ids in the order in which the leader wrote them.
        controller_epoch: The epoch of the controller that wrote the leader.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


class ZooKeeperState:
    """Reads a Kafka cluster's state from ZooKeeper.

    Every method raises `ZooKeeperError` if ZooKeeper does not answer within some seconds.

    Args:
        znodes: The connection to ZooKeeper.
    """

    def __init__(self, znodes: Znodes) -> None:
        self._znodes = znodes

    def registered(self) -> frozenset[int]:
        """Return the ids of the brokers that have a session."""
        names = self._znodes.children(BROKERS)
        return frozenset(int(name) for name in names if name.isdigit())

    def registration(self, broker: int) -> int | None:
        """Return the id of a broker's registration, or None if the broker is not registered.

        It is the id of the ZooKeeper transaction that registered the broker. So each registration
        has another id.
        """
        node = self._znodes.read(f"{BROKERS}/{broker}")
        return None if node is None else node.czxid

    def controller(self) -> int | None:
        """Return the controller's broker id, or None if there is no controller."""
        told = _object(self._znodes.read(CONTROLLER)).get("brokerid", NOBODY)
        return int(told) if isinstance(told, int) and told >= 0 else None

    def controller_epoch(self) -> int | None:
        """Return the epoch of the latest controller, or None before the first controller."""
        node = self._znodes.read(CONTROLLER_EPOCH)
        return None if node is None or not node.data.strip().isdigit() else int(node.data)

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return self._znodes.children(TOPICS)

    def assignments(self, topics: Iterable[str]) -> dict[Place, tuple[int, ...]]:
        """Return the replicas of each partition of some topics; the preferred leader first."""
        names = list(topics)
        nodes = self._znodes.read_all(f"{TOPICS}/{name}" for name in names)
        return {
            (name, int(partition)): _ids(replicas)
            for name, node in zip(names, nodes, strict=True)
            for partition, replicas in _mapping(_object(node).get("partitions")).items()
        }

    def partitions(self, places: Iterable[Place]) -> dict[Place, PartitionTruth]:
        """Return the stored state of each given partition that already has a state."""
        asked = list(places)
        nodes = self._znodes.read_all(
            f"{TOPICS}/{topic}/partitions/{partition}/state" for topic, partition in asked
        )
        truths = {place: _truth(node) for place, node in zip(asked, nodes, strict=True)}
        return {place: truth for place, truth in truths.items() if truth is not None}


def _truth(node: Znode | None) -> PartitionTruth | None:
    told = _object(node)
    if "leader" not in told:
        return None
    return PartitionTruth(
        leader=_number(told, "leader"),
        leader_epoch=_number(told, "leader_epoch"),
        isr=_ids(told.get("isr")),
        controller_epoch=_number(told, "controller_epoch"),
    )


def _object(node: Znode | None) -> Mapping[str, object]:
    """Return the JSON object in a ZooKeeper node; an empty mapping if the node has none yet."""
    try:
        return _mapping(json.loads(node.data)) if node is not None else {}
    except ValueError:
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _number(told: Mapping[str, object], key: str) -> int:
    value = told.get(key, NOBODY)
    return int(value) if isinstance(value, int | str) else NOBODY


def _ids(value: object) -> tuple[int, ...]:
    return tuple(int(each) for each in value) if isinstance(value, list) else ()
