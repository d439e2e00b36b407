"""Simulated clients, against one broker of a few lines: what is recorded is what is in its log."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from kio.schema.errors import ErrorCode

from checkers.ingest import Unit, ingest
from cluster.files.batches import read_segment, records
from cluster.reference.log.batches import batch
from cluster.reference.log.files import LogFiles
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import recovered
from cluster.reference.machine import (
    Answered,
    Arrived,
    Effect,
    Event,
    Fired,
    Reply,
    Request,
    SetTimer,
)
from cluster.reference.messages.clients import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cluster.reference.messages.data import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.host import Booted, Host
from cluster.reference.simulator.network import Latency
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import Tasks
from harness.simulated.asking import WORK
from harness.simulated.consumer import Consumer
from harness.simulated.encoding import fetched_records, record_batch
from harness.simulated.leaders import Leaders
from harness.simulated.wishes import NO_COORDINATOR
from harness.simulated.worker import ClientHosts, SimulatedWorker
from results.record.clock import NS_PER_S, RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.runtime import within
from results.record.terms import Outcome, Phase
from results.record.topics import CreatedTopic
from results.record.values import decode_payload
from workloads.fleet import Fleet
from workloads.member import GroupMember

MS = 1_000_000


class OneBroker:
    """Leads everything in epoch 0; what is appended is committed. A fetch waits at most 100 ms."""

    def __init__(self, disk: SimulatedDisk, plan: Plan) -> None:
        self.plan = plan
        held = recovered(disk).logs
        self.logs = {
            (topic, part): (
                held[f"{topic}-{part}"].log()
                if f"{topic}-{part}" in held
                else Log(f"{topic}-{part}")
            )
            for topic, part in plan.topic_partitions
        }
        self.parked: list[Arrived] = []
        self.asked = 0

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        if isinstance(event, Fired):
            parked, self.parked = self.parked, []
            return [Reply(asker=each.asker, message=self.fetched(each.message)) for each in parked]
        if not isinstance(event, Arrived):
            return []
        self.asked += 1
        out: list[Effect] = []
        match event.message:
            case MetadataRequest():
                answer: object = self.metadata()
            case InitProducerIdRequest():
                answer = InitProducerIdResponse(producer_id=now)
            case ProduceRequest() as produce:
                answer = self.produced(produce, out)
            case _:
                self.parked.append(event)
                return [SetTimer(timer="fetch", after_ns=50 * MS, at_most_ns=50 * MS)]
        return [*out, Reply(asker=event.asker, message=answer)]

    def metadata(self) -> MetadataResponse:
        parts = tuple(
            MetadataResponsePartition(
                partition_index=part,
                leader_id=1,
                leader_epoch=0,
                replica_nodes=(1,),
                isr_nodes=(1,),
            )
            for part in range(self.plan.partitions)
        )
        topics = tuple(
            MetadataResponseTopic(name=name, partitions=parts) for name in self.plan.topic_names
        )
        return MetadataResponse(brokers=(), cluster_id=None, controller_id=1, topics=topics)

    def produced(self, request: ProduceRequest, out: list[Effect]) -> ProduceResponse:
        (asked,) = request.partitions
        log = self.logs[asked.topic, asked.partition]
        known = log.producers.check(batch(asked.records))
        error, offset = ErrorCode.none, -1
        if isinstance(known, ErrorCode):
            error = known
            if error is ErrorCode.none:
                offset = log.append_as_leader(asked.records, epoch=0, out=out).base_offset
        else:
            offset = known.base_offset
        return ProduceResponse(
            partitions=(
                ProducedPartition(
                    topic=asked.topic,
                    partition=asked.partition,
                    error_code=error,
                    base_offset=offset,
                ),
            )
        )

    def fetched(self, message: object) -> FetchResponse:
        assert isinstance(message, FetchRequest)
        return FetchResponse(
            partitions=tuple(
                FetchedPartition(
                    topic=each.topic,
                    partition=each.partition,
                    error_code=ErrorCode.none,
                    high_watermark=log.end_offset,
                    records=log.read(each.fetch_offset, max_bytes=1 << 20),
                )
                for each in message.partitions
                for log in [self.logs[each.topic, each.partition]]
            )
        )


def add_broker(simulation: Simulation, plan: Plan) -> Host:
    return simulation.add(
        1, lambda disk: Booted(machine=OneBroker(disk, plan), storage=LogFiles(disk))
    )


def fleet_of(simulation: Simulation, plan: Plan, folder: Path) -> Fleet:
    topics = [
        CreatedTopic(topic=name, topic_id=f"id-{name}", partitions=plan.partitions)
        for name in plan.topic_names
    ]
    return Fleet(
        plan,
        topics,
        "n1:9092",
        clock=RunClock(start_ns=0),
        paths=RunPaths(folder),
        worker=partial(SimulatedWorker, simulation=simulation),
    )


def play(folder: Path, seed: int, **settings: object) -> tuple[dict[str, pa.Table], SimulatedDisk]:
    """Play ten seconds with crashes, and return the tables and the broker's disk."""
    plan = plan_from(
        {"nodes": 1, "replication": 1, "min_insync": 1, "rate": 200, "seed": seed, **settings}
    )
    folder.mkdir(parents=True)
    simulation = Simulation(seed, latency=Latency(slow_share=0.01, mean_life_s=1.0))
    broker = add_broker(simulation, plan)
    broker.start()
    fleet = fleet_of(simulation, plan, folder)

    def work() -> None:
        fleet.start()
        pause_until(stopwatch_s() + 2)
        fleet.phase(Phase.MAIN)
        for _ in range(3):
            broker.kill()
            pause_until(stopwatch_s() + 0.3)
            broker.start()
            pause_until(stopwatch_s() + 2)
        assert fleet.counts().sent_ok > 300
        assert fleet.stop(5) == []

    tasks = Tasks(simulation.agenda)
    with within(tasks):
        tasks.run(work)
    live = RunPaths(folder).live
    tables: dict[str, list[pa.Table]] = {}
    for number in range(plan.crews):
        made, problems = ingest(
            Unit(run_id="r", name=f"worker-{number}", folder=live), lambda *_: []
        )
        assert not problems
        for name, table in made.items():
            tables.setdefault(name, []).append(table)
    return {name: pa.concat_tables(each).unify_dictionaries() for name, each in tables.items()}, (
        broker.disk
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_is_in_the_log_once_and_is_read(tmp_path: Path, seed: int) -> None:
    tables, disk = play(tmp_path / "live", seed)
    logged: dict[tuple[str, int, int], int] = {}
    for path in disk.paths():
        if path.endswith(".log"):
            topic, _, partition = path.split("/")[0].rpartition("-")
            for each in read_segment(disk.read(path)).batches:
                for record in records(each):
                    logged[topic, int(partition), record.offset] = (
                        decode_payload(record.value) or -1
                    )
    values = list(logged.values())
    assert len(values) == len(set(values)), "idempotence: a retry is not written twice"
    sends = tables["sends"].to_pylist()
    acked = [row for row in sends if row["acked"]]
    assert len(acked) > 500
    for row in acked:
        assert logged[row["topic"], row["partition"], row["offset"]] == row["value"]
    polls = tables["polls"].to_pylist()
    assert len(polls) > 500
    for row in polls:
        assert logged[row["topic"], row["partition"], row["offset"]] == row["value"]
    assert {row["phase"] for row in sends} == {"warmup", "main"}
    assert {row["outcome"] for row in tables["ops"].to_pylist()} <= {"ok", "info"}


def test_the_same_seed_gives_the_same_record(tmp_path: Path) -> None:
    play(tmp_path / "one", 5)
    play(tmp_path / "two", 5)
    play(tmp_path / "other", 6)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one") != contents(tmp_path / "other")


@pytest.mark.parametrize("workload", ["log", "groups"])
@pytest.mark.parametrize("limit_s", [1.0, -9.0], ids=["told to stop", "killed"])
def test_no_client_outlives_its_worker(tmp_path: Path, workload: str, limit_s: float) -> None:
    """A process takes its clients along: what they had in flight is not tried again."""
    plan = plan_from(
        {"nodes": 1, "replication": 1, "min_insync": 1, "rate": 200, "workload": workload}
    )
    simulation = Simulation(1)
    broker = add_broker(simulation, plan)
    fleet = fleet_of(simulation, plan, tmp_path)
    troubles: list[str] = []

    def work() -> None:
        fleet.start()
        pause_until(stopwatch_s() + 2)  # Nobody answers: there is much in flight.
        assert min(simulation.hosts) < 0, "clients have machines"
        assert fleet.counts().in_flight > 0
        troubles.extend(fleet.stop(limit_s))
        assert [number for number in simulation.hosts if number < 0] == []
        pause_until(stopwatch_s() + 1)  # What is on its way comes to nothing.
        broker.start()
        pause_until(stopwatch_s() + 30)

    tasks = Tasks(simulation.agenda)
    with within(tasks):
        tasks.run(work)
        tasks.end()
    assert len(troubles) == (plan.crews if limit_s < 0 else 0)
    assert broker.process is not None
    assert isinstance(broker.process.machine, OneBroker)
    assert broker.process.machine.asked == 0


class Silent:
    """Says that it coordinates every group, and nothing more."""

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        return []

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - the contract's
        if isinstance(event, Arrived) and isinstance(event.message, FindCoordinatorRequest):
            return [Reply(asker=event.asker, message=FindCoordinatorResponse(node_id=1))]
        return []


@pytest.mark.parametrize(
    ("is_found", "error", "at_most_s"),
    [
        pytest.param(False, NO_COORDINATOR, 7, id="no coordinator is found"),
        pytest.param(True, "_TRANSPORT", 22, id="the coordinator does not answer"),
    ],
)
def test_a_commit_is_waited_for_as_long_as_a_real_client_does(
    *, is_found: bool, error: str, at_most_s: float
) -> None:
    """For a session's time, which is 6 s, until it can be asked; two times 10 s for an answer."""
    plan, simulation = plan_from({"workload": "groups"}), Simulation(1)
    broker = simulation.add(1, lambda disk: Booted(machine=Silent(), storage=LogFiles(disk)))
    if is_found:
        broker.start()
    client = ClientHosts(simulation, plan, [1]).member(0, "group")
    member = GroupMember(client, group="group", clock=RunClock(start_ns=0))

    def work() -> None:
        key = (plan.topic_names[0], 0)
        said = member.commit({key: 1}, op_id=1, wait=True)
        assert said is not None
        assert said.startswith(error)
        assert stopwatch_s() <= at_most_s
        (told,) = member.told()
        assert (told.outcome, told.error) == (Outcome.INFO, said)

    tasks = Tasks(simulation.agenda)
    with within(tasks):
        tasks.run(work, limit_ns=60 * NS_PER_S)


def test_an_end_is_told_when_all_before_it_was_read() -> None:
    """A fetch may hold less than there is."""
    consumer, sizes = Consumer(Leaders(["t"], [1]), wake=lambda: None), (3, 2)
    consumer.assign({("t", 0): None})
    told = MetadataResponse(
        brokers=(),
        cluster_id=None,
        controller_id=1,
        topics=(MetadataResponseTopic(name="t", partitions=(_led_by(1),)),),
    )
    (asked,) = requests(consumer.start(0))
    (asked,) = requests(consumer.on(0, Answered(request=asked.number, message=told)))
    ends, at = [], 0
    for size in sizes:
        held = record_batch(range(at, at + size), payload_bytes=20, producer=(-1, -1, -1), at_ms=0)
        answer = fetched("t", at.to_bytes(8, "big") + held[8:], high_watermark=sum(sizes))
        (asked,) = requests(consumer.on(0, Answered(request=asked.number, message=answer)))
        ends.append(consumer.poll(100).ends)
        at += size
    assert ends == [{}, {("t", 0): 5}]


def test_a_metadata_request_without_a_response_is_repeated_only_after_a_while() -> None:
    """Else, clients would ask without end while no broker runs: each request fails at once."""
    consumer = Consumer(Leaders(["t"], [1, 2]), wake=lambda: None)
    consumer.assign({("t", 0): None})
    (asked,) = requests(consumer.start(0))
    (refused, early, late) = (MS, 100 * MS, 102 * MS)
    assert requests(consumer.on(refused, Answered(request=asked.number, message=None))) == []
    assert requests(consumer.on(early, Fired(timer=WORK))) == []
    (again,) = requests(consumer.on(late, Fired(timer=WORK)))
    assert again.to != asked.to


def _led_by(broker: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=0,
        leader_id=broker,
        leader_epoch=0,
        replica_nodes=(broker,),
        isr_nodes=(broker,),
    )


def fetched(topic: str, data: bytes, *, high_watermark: int) -> FetchResponse:
    part = FetchedPartition(
        topic=topic,
        partition=0,
        error_code=ErrorCode.none,
        high_watermark=high_watermark,
        records=data,
    )
    return FetchResponse(partitions=(part,))


def requests(effects: Sequence[Effect]) -> list[Request]:
    return [each for each in effects if isinstance(each, Request)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(RunPaths(folder).live.iterdir())}


def test_batches_are_what_readers_of_kafkas_files_read() -> None:
    data = record_batch([7, 1 << 40], payload_bytes=100, producer=(9, 1, 5), at_ms=1000)
    segment = read_segment(data)
    assert not segment.damage
    (batch,) = segment.batches
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 5)
    assert [decode_payload(each.value) for each in records(batch)] == [7, 1 << 40]
    assert fetched_records(data, offset=1) == ([(1, 1 << 40, -1, 0)], 2)
