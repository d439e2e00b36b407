"""The fault `power-loss`: what it cuts off real segments, and what a broker makes of the rest."""

from pathlib import Path

import pytest

from cluster.files.batches import RecordBatch, read_segment
from cluster.hosts.disk import LocalDisk
from cluster.hosts.process import ProcessHosts
from cluster.logs import RECOVERY_POINTS
from cluster.protocol import ClusterError
from cluster.systems.registry import LOGS
from nemesis.disk_effects import ReplicaCut
from nemesis.power_loss import cut_unflushed
from nemesis.scheduled import ScheduledFault
from nemesis.scripted import ScriptedFaults
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of
from tests.nemesis.conftest import World
from workloads.scripted import Script

DATA = Path(__file__).parents[1] / "cluster_files" / "data" / "n2" / "data"
SOURCE = DATA / "codecs-0" / f"{0:020}.log"
PLACE = ("codecs", 0)


@pytest.fixture
def batches() -> tuple[RecordBatch, ...]:
    found = read_segment(SOURCE.read_bytes()).batches
    assert len(found) >= 4
    return found


@pytest.fixture
def data(tmp_path: Path, batches: tuple[RecordBatch, ...]) -> Path:
    """Return a broker's log folder: a log of two segments, and the metadata log beside it."""
    data, bytes_ = tmp_path / "disk" / "data", SOURCE.read_bytes()
    folder = data / "codecs-0"
    folder.mkdir(parents=True)
    split = batches[2]
    (folder / SOURCE.name).write_bytes(bytes_[: split.position])
    second = folder / f"{split.base_offset:020}.log"
    second.write_bytes(bytes_[split.position :])
    for segment in (folder / SOURCE.name, second):
        for suffix in (".index", ".timeindex"):
            segment.with_suffix(suffix).write_bytes(b"stale")
    (folder / f"{batches[-1].end_offset:020}.snapshot").write_bytes(b"producers")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    metadata = data / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / SOURCE.name).write_bytes(bytes_)
    return data


def flushed(data: Path, offset: int) -> None:
    (data / RECOVERY_POINTS).write_text(f"0\n1\ncodecs 0 {offset}\n")


def test_a_damaged_checkpoint_is_told_in_one_sentence_and_nothing_is_cut(data: Path) -> None:
    (data / RECOVERY_POINTS).write_text("0\n1\n")
    before = {path: path.stat().st_size for path in data.rglob("*")}
    with pytest.raises(
        ClusterError, match="recovery-point-offset-checkpoint cannot be read: the f"
    ):
        cut_unflushed(LocalDisk(data.parent), None, LOGS)
    assert {path: path.stat().st_size for path in data.rglob("*")} == before


def names(data: Path) -> set[str]:
    return {path.name for path in (data / "codecs-0").iterdir()}


def test_what_was_never_flushed_is_gone(data: Path, batches: tuple[RecordBatch, ...]) -> None:
    size = SOURCE.stat().st_size
    assert cut_unflushed(LocalDisk(data.parent), None, LOGS) == [
        ReplicaCut(
            topic="codecs",
            partition=0,
            recovery_point=0,
            log_end_before=batches[-1].end_offset,
            log_end_after=0,
            bytes_cut=size,
        )
    ]
    assert names(data) == {SOURCE.name, "leader-epoch-checkpoint"}
    assert (data / "codecs-0" / SOURCE.name).stat().st_size == 0
    # Each append to the metadata log is flushed before it counts.
    assert (data / "__cluster_metadata-0" / SOURCE.name).stat().st_size == size


def test_the_segment_that_holds_the_recovery_point_is_cut_at_its_batch(
    data: Path, batches: tuple[RecordBatch, ...]
) -> None:
    flushed(data, batches[0].end_offset)
    (cut,) = cut_unflushed(LocalDisk(data.parent), [PLACE], LOGS)
    assert (cut.recovery_point, cut.log_end_after) == (batches[0].end_offset,) * 2
    assert (data / "codecs-0" / SOURCE.name).read_bytes() == (
        SOURCE.read_bytes()[: batches[1].position]
    )
    assert names(data) == {SOURCE.name, "leader-epoch-checkpoint"}


def test_a_segment_below_the_recovery_point_stays_whole(
    data: Path, batches: tuple[RecordBatch, ...]
) -> None:
    flushed(data, batches[2].end_offset)
    first = (data / "codecs-0" / SOURCE.name).read_bytes()
    (cut,) = cut_unflushed(LocalDisk(data.parent), None, LOGS)
    assert cut.log_end_after == batches[2].end_offset
    assert (data / "codecs-0" / SOURCE.name).read_bytes() == first
    assert {f"{0:020}.index", f"{0:020}.timeindex"} <= names(data)
    second = data / "codecs-0" / f"{batches[2].base_offset:020}.log"
    assert [each.base_offset for each in read_segment(second.read_bytes()).batches] == [
        batches[2].base_offset
    ]
    assert not second.with_suffix(".index").exists()


def test_what_was_flushed_to_its_end_loses_nothing(
    data: Path, batches: tuple[RecordBatch, ...]
) -> None:
    end = batches[-1].end_offset
    flushed(data, end)
    before = names(data)
    (cut,) = cut_unflushed(LocalDisk(data.parent), None, LOGS)
    assert (cut.log_end_before, cut.log_end_after, cut.bytes_cut) == (end, end, 0)
    assert names(data) == before


def test_what_a_broker_flushes_by_itself_is_not_cut(
    data: Path, batches: tuple[RecordBatch, ...]
) -> None:
    settings, end = data.parent / "server.properties", batches[-1].end_offset
    # Of fewer messages than the interval none may be on disk.
    wide = end - batches[-1].base_offset + 1
    for interval, kept in ((1, end), (wide, batches[-2].end_offset), (10**9, 0)):
        settings.write_text(f"log.flush.interval.messages={interval}\n")
        (cut,) = cut_unflushed(LocalDisk(data.parent), None, LOGS)
        assert cut.log_end_after == kept, interval
    flushed(data, end)


def test_a_partition_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(ClusterError, match="no log of codecs-7"):
        cut_unflushed(LocalDisk(data.parent), [("codecs", 7)], LOGS)


def test_a_plan_can_have_it_by_hand(world: World, data: Path) -> None:
    world.paths.node("n2").mkdir(parents=True)
    data.rename(world.paths.node("n2") / "data")
    nemesis = world.nemesis(
        ScheduledFault(fault_id=1, at_s=0, kind="power-loss", target="n2", hold_s=0)
    )
    nemesis.run(world.stop)
    (row,) = world.last_rows()
    assert row["healed_ns"] > row["confirmed_ns"]
    assert '"log_end_after": 0' in row["effect"]
    assert world.cluster.calls == ["kill n2", "start n2"]


def test_what_still_runs_is_not_cut_and_that_is_no_effect(
    world: World, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.paths.node("n2").mkdir(parents=True)
    data.rename(world.paths.node("n2") / "data")
    monkeypatch.setattr("nemesis.power_loss.GONE_LIMIT_S", 0.1)
    monkeypatch.setattr(world.cluster, "kill_node", lambda _node: None)
    nemesis = world.nemesis(
        ScheduledFault(fault_id=1, at_s=0, kind="power-loss", target="n2", hold_s=0)
    )
    nemesis.run(world.stop)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert "no log was truncated" in row["effect"]
    segment = world.paths.node("n2") / "data" / "codecs-0" / SOURCE.name
    assert segment.stat().st_size > 0


@pytest.mark.kafka
def test_a_real_broker_loses_what_it_had_not_flushed_and_nothing_that_it_had(
    tmp_path: Path,
) -> None:
    paths, clock = RunPaths(tmp_path / "log" / "run"), RunClock.starting_now()
    paths.live.mkdir(parents=True)
    plan = Plan(nodes=1, replication=1, min_insync=1)
    hosts = ProcessHosts(["n1"], paths.processes)
    hosts.up()
    try:
        cluster = brokers_of(plan, hosts, paths)
        cluster.start()
        (topic,) = cluster.create_topics(["story"], partitions=1, replication=1)
        script = Script(plan, topic, cluster.bootstrap(), clock=clock, live=paths.live)
        faults = ScriptedFaults(cluster=cluster, hosts=hosts, clock=clock, paths=paths, seed=0)
        script.send(2)
        faults.stop("n1")  # An orderly end flushes.
        faults.start("n1")
        script.send(3, together=True)
        faults.power_loss("n1", [("story", 0)])
        faults.start("n1")
        read = [record.name for record in script.read()]
        assert faults.heal_all().healed
        faults.close()
        script.close()
        cluster.close()
    finally:
        hosts.down()
    assert read == ["message1", "message2"]
