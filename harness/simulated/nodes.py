"""The nodes of a simulated run: their settings, and how each is made of its disk."""

from collections.abc import Mapping
from random import Random
from uuid import UUID

from cluster.kafka.configuration import node_id
from cluster.kafka.properties import properties
from cluster.kafka.versions import FIRST_CONTROLLER, broker_names, controller_names
from cluster.reference.broker.boot import boot
from cluster.reference.log.checkpoints import kafka_id
from cluster.reference.process.formatting import META, meta_properties
from cluster.reference.settings import Settings, parsed
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Boot, Booted
from cluster.reference.simulator.streams import Streams
from results.record.plan import Plan

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
_SECOND_SCALE = {
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "250",
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
}
"""As on real hosts (`cluster.kafka.configuration`): faults last seconds."""


def node_properties(plan: Plan, number: int) -> str:
    """Return `server.properties` of a node; the plan's settings win over all of it."""
    name = f"n{number}"
    voters = ",".join(f"{each}@n{each}:{CONTROLLER_PORT}" for each in _voters(plan))
    return properties({
        **_identity(plan, number),
        "node.id": str(number),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": "data",
        **_SECOND_SCALE,
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(plan.replication),
        "num.partitions": str(plan.partitions),
        "min.insync.replicas": str(plan.min_insync),
        **({"bugs": plan.bug} if plan.bug else {}),
        **plan.broker,
        **plan.node.get(name, {}),
    })  # fmt: skip


def numbers(plan: Plan) -> list[int]:
    """Return the nodes' ids: brokers, then controllers of their own."""
    return [node_id(node) for node in (*broker_names(plan), *controller_names(plan))]


def _voters(plan: Plan) -> list[int]:
    return [node_id(node) for node in controller_names(plan) or broker_names(plan)]


def _identity(plan: Plan, number: int) -> dict[str, str]:
    """Return what a node is, and where it listens."""
    broker, controller = f"BROKER://n{number}:{BROKER_PORT}", f"n{number}:{CONTROLLER_PORT}"
    if number >= FIRST_CONTROLLER:
        return {"process.roles": "controller", "listeners": f"CONTROLLER://{controller}"}
    own = {"advertised.listeners": broker, "inter.broker.listener.name": "BROKER"}
    if controller_names(plan):
        return {"process.roles": "broker", "listeners": broker, **own}
    both = f"{broker},CONTROLLER://{controller}"
    return {"process.roles": "broker,controller", "listeners": both, **own}


def boots(plan: Plan, streams: Streams) -> Mapping[int, Boot]:
    """Return how each node is made of its disk, which is formatted at its first start."""
    cluster_id = _drawn_id(streams.of("cluster-id"))
    return {
        number: _Boot(
            parsed(node_properties(plan, number)),
            number,
            cluster_id=cluster_id,
            random=streams.of(f"n{number}/ids"),
        )
        for number in numbers(plan)
    }


class _Boot:
    """Makes a node of a disk; every incarnation has an id that is drawn from the node's stream."""

    def __init__(self, settings: Settings, number: int, *, cluster_id: str, random: Random) -> None:
        self._settings, self._number, self._random = settings, number, random
        self._cluster_id, self._directory_id = cluster_id, _drawn_id(random)

    def __call__(self, disk: SimulatedDisk) -> Booted:
        if META not in disk.paths():
            text = meta_properties(
                self._number, cluster_id=self._cluster_id, directory_id=self._directory_id
            )
            disk.replace(META, text.encode())
        booted = boot(self._settings, disk, incarnation=_uuid(self._random))
        return Booted(machine=booted.machine, storage=booted.storage, said=booted.said)


def _uuid(random: Random) -> UUID:
    return UUID(bytes=random.randbytes(16), version=4)


def _drawn_id(random: Random) -> str:
    while (text := kafka_id(_uuid(random))).startswith("-"):
        pass
    return text
