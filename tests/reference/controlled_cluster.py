"""A quorum of three with its controllers, and brokers that are nothing but their heartbeats."""

from typing import TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.reference.controller.image import MetadataImage, PartitionImage
from cluster.reference.messages.control import (
    SET_CONFIG,
    AlterableConfig,
    AlterConfigsResource,
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    Listener,
    ReassignablePartition,
)
from cluster.reference.settings import Settings
from tests.reference.quorum_world import CLUSTER, World

T = TypeVar("T")


class Cluster:
    """A quorum of three with its controllers; brokers live as long as they are in `alive`."""

    def __init__(
        self, *, brokers: int = 3, seed: int = 5, settings: Settings | None = None
    ) -> None:
        self.world = World(3, seed=seed, planes=True, settings=settings)
        self.world.start_all()
        self.active = self.world.until_leader()
        self.epochs: dict[int, int] = {}
        self.alive = list(range(1, brokers + 1))
        for broker in self.alive:
            assert self.register(broker).error_code is ErrorCode.none
        for broker in self.alive:
            assert not self.heartbeat(broker).is_fenced

    @property
    def image(self) -> MetadataImage:
        return self.world.plane(self.active).image

    def ask(self, request: object, kind: type[T]) -> T:
        asked = self.world.ask(self.active, request)
        self.world.run(50)
        assert isinstance(asked.answer, kind)
        return asked.answer

    def register(self, broker: int, incarnation: int = 1) -> BrokerRegistrationResponse:
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER,
            incarnation_id=UUID(int=broker * 1000 + incarnation),
            listeners=(Listener(name="PLAINTEXT", host=f"n{broker}", port=9092),),
            log_dirs=(UUID(int=broker),),
        )
        answer = self.ask(request, BrokerRegistrationResponse)
        if answer.error_code is ErrorCode.none:
            self.epochs[broker] = answer.broker_epoch
        return answer

    def heartbeat(
        self, broker: int, *, fence: bool = False, leave: bool = False, behind: bool = False
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.epochs[broker],
            current_metadata_offset=0 if behind else self.image.offset,
            want_fence=fence,
            want_shut_down=leave,
        )
        return self.ask(request, BrokerHeartbeatResponse)

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            for broker in self.alive:
                self.heartbeat(broker)
            self.world.run(1000 - 50 * len(self.alive))

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> ErrorCode:
        topic = CreatableTopic(
            name=name,
            assignments=tuple(enumerate(replicas)),
            configs=tuple((key.replace("_", "."), value) for key, value in configs.items()),
        )
        answer = self.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        return answer.topics[0].error_code

    def partition(self, number: int = 0, topic: str = "t") -> PartitionImage:
        found = self.image.partition(topic, number)
        assert found is not None
        return found

    def alter(
        self,
        isr: tuple[int, ...],
        *,
        by: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        epochs: tuple[int, ...] | None = None,
    ) -> AlteredPartition:
        now = self.partition()
        broker = now.leader if by is None else by
        known = epochs or tuple(self.epochs[each] for each in isr)
        wish = AlterPartition(
            topic_id=now.topic_id,
            partition_index=0,
            leader_epoch=now.leader_epoch if leader_epoch is None else leader_epoch,
            new_isr_with_epochs=tuple(zip(isr, known, strict=True)),
            partition_epoch=now.partition_epoch if partition_epoch is None else partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=broker, broker_epoch=self.epochs[broker], partitions=(wish,)
        )
        return self.ask(request, AlterPartitionResponse).partitions[0]

    def reassign(self, replicas: tuple[int, ...] | None) -> ErrorCode:
        wanted = ReassignablePartition(topic="t", partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(partitions=(wanted,))
        return self.ask(request, AlterPartitionReassignmentsResponse).responses[0].error_code

    def elect(self, kind: int, *partitions: tuple[str, int]) -> list[ErrorCode]:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=partitions or None)
        answer = self.ask(request, ElectLeadersResponse)
        return [each.error_code for each in answer.replica_election_results]

    def configure(self, kind: int, resource: str, name: str, value: str) -> ErrorCode:
        config = AlterableConfig(name=name, config_operation=SET_CONFIG, value=value)
        wanted = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=(config,))
        request = IncrementalAlterConfigsRequest(resources=(wanted,))
        return self.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code
