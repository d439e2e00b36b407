"""The fault `lost-flush`: what it cuts off real segments, and how it is proven on real disks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from cluster.files.batches import RecordBatch, read_segment
from cluster.hosts.disk import LocalDisk
from cluster.protocol import Ability, ClusterError
from nemesis import lost_flush
from nemesis.lost_flush import LostFlush
from nemesis.protocol import Patience
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from nemesis.undo import MendDisk, Restart
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault
from tests.nemesis.broken_disks import FakeFaultyDisks, aimed
from tests.nemesis.conftest import World
from tests.nemesis.proofs import Proof, Seen

SOON = Patience(limit_s=0.1)
DATA = Path(__file__).parents[1] / "cluster_files" / "data" / "n2" / "data"
SOURCE = DATA / "codecs-0" / f"{0:020}.log"
FIRST = PurePosixPath("data/codecs-0", SOURCE.name)


def _lost_what_it_had(_: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether a broker ended in order, and its log is shorter than it was meanwhile."""
    now = looks[-1]
    in_order = not now["brokers"] and ".kafka_cleanshutdown" in now["folders"]
    return in_order and now["size"] < max(look["size"] for look in looks)


PROOF_OF = [
    (
        "lost-flush",
        Proof(
            witness="written files",
            shows=_lost_what_it_had,
            gone=lambda before, after: (
                len(after["brokers"]) == 1
                and after["brokers"].keys() != before["brokers"].keys()
                and after["size"] > before["size"]
            ),
            from_start=True,
        ),
    )
]


@pytest.fixture
def batches() -> tuple[RecordBatch, ...]:
    return read_segment(SOURCE.read_bytes()).batches


@pytest.fixture
def make(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[FakeFaultyDisks], LostFlush]:
    """Make the fault on a broker with a log, and a metadata log beside it."""
    monkeypatch.setattr(lost_flush, "WRITES_S", (0.0, 0.01))
    for folder in ("codecs-0", "__cluster_metadata-0"):
        log = tmp_path / "disk" / "data" / folder / SOURCE.name
        log.parent.mkdir(parents=True)
        log.write_bytes(SOURCE.read_bytes())
        log.with_suffix(".index").write_bytes(b"stale")

    def made(hosts: FakeFaultyDisks) -> LostFlush:
        site = replace(world.site(), hosts=hosts, disk_of=lambda _: LocalDisk(tmp_path / "disk"))
        return LostFlush(aimed(1, "n1"), site)

    return made


Made = Callable[[FakeFaultyDisks], LostFlush]


def test_what_was_not_flushed_in_truth_is_gone(
    world: World, make: Made, tmp_path: Path, batches: tuple[RecordBatch, ...]
) -> None:
    hosts = FakeFaultyDisks()
    hosts.lost = {FIRST: batches[2].position}
    fault = make(hosts)
    assert fault.undo() == (MendDisk(node="n1"), Restart(node="n1"))
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    (cut,) = effect.replicas  # The metadata log is none.
    assert (cut.topic, cut.log_end_before) == ("codecs", batches[-1].end_offset)
    assert cut.log_end_after == cut.recovery_point == batches[1].end_offset
    assert cut.bytes_cut == SOURCE.stat().st_size - batches[2].position
    data = tmp_path / "disk" / "data"
    assert (data / "codecs-0" / SOURCE.name).stat().st_size == batches[2].position
    assert not (data / "codecs-0" / SOURCE.with_suffix(".index").name).exists()
    metadata = data / "__cluster_metadata-0"
    assert (metadata / SOURCE.name).read_bytes() == SOURCE.read_bytes()
    assert (metadata / SOURCE.with_suffix(".index").name).exists()
    assert effect.graceful == ("n1",)
    assert effect.told.startswith("7 flushes on n1 were confirmed but not done; this lost ")
    fault.heal()
    assert hosts.broken == {}
    assert fault.confirm_healed(SOON) is not None
    assert world.cluster.calls == ["stop n1", "start n1"]


def test_a_flush_that_lies_within_a_batch_keeps_none_of_it(
    make: Made, tmp_path: Path, batches: tuple[RecordBatch, ...]
) -> None:
    hosts = FakeFaultyDisks()
    hosts.lost = {FIRST: batches[2].position - 1}
    fault = make(hosts)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.replicas[0].log_end_after == batches[0].end_offset
    assert effect.replicas[0].bytes_cut == SOURCE.stat().st_size - batches[1].position
    log = tmp_path / "disk" / "data" / "codecs-0" / SOURCE.name
    assert log.stat().st_size == batches[1].position  # Kafka appends there and recovers nothing.


def test_a_segment_that_was_begun_meanwhile_is_gone(make: Made, tmp_path: Path) -> None:
    hosts = FakeFaultyDisks()
    hosts.lost = {FIRST.with_name(f"{7:020}.log"): 100}  # Which was cleaned up since.
    fault = make(hosts)
    fault.inject()
    assert fault.confirm(SOON) is not None
    assert (tmp_path / "disk" / "data" / "codecs-0" / SOURCE.name).read_bytes() == b""


@pytest.mark.parametrize("why", ["nothing behind the flush", "no flush"])
def test_where_nothing_was_lost_there_is_no_effect(make: Made, why: str) -> None:
    hosts = FakeFaultyDisks()
    hosts.lost = {} if why == "no flush" else {FIRST: SOURCE.stat().st_size}
    hosts.deaf = why == "no flush"
    fault = make(hosts)
    fault.inject()
    assert fault.confirm(SOON) is None


def test_flushes_that_are_still_lost_are_not_healed(
    make: Made, batches: tuple[RecordBatch, ...]
) -> None:
    hosts = FakeFaultyDisks()
    hosts.lost, hosts.stuck = {FIRST: batches[2].position}, True
    fault = make(hosts)
    fault.inject()
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    hosts.stuck = False
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


@pytest.mark.parametrize("kind", [name for name, each in KINDS.items() if each.confirm_s])
def test_by_hand_it_waits_for_what_takes_long_to_begin(kind: str) -> None:
    target = (KINDS[kind].only or ("n1",))[0]
    first = PlannedFault(kind=kind, target=target, at_s=0, hold_s=5)
    at_s = 5 + KINDS[kind].settles_s("namespace")  # As of a fault that begins at once.
    then = PlannedFault(kind="lost-flush", target="n1", at_s=at_s, hold_s=5)
    with pytest.raises(PlanError, match=f"must not overlap with '{kind}' at 0 s"):
        deal_schedule(Plan(faults=(first, then)), abilities=frozenset(Ability))


def test_what_was_cut_is_told_though_no_flush_was_asked_for(
    make: Made, batches: tuple[RecordBatch, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a broker that was killed at last: without an effect nothing is said to be lost."""
    hosts = FakeFaultyDisks()
    hosts.lost = {FIRST: batches[2].position}
    monkeypatch.setattr(hosts, "disk_counts", lambda _: {})
    fault = make(hosts)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.told.startswith("0 flushes on n1 were confirmed but not done; this lost ")
    assert effect.replicas[0].bytes_cut > 0


def test_one_that_does_not_end_loses_nothing(
    world: World, make: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_flush, "GONE_LIMIT_S", 0.05)
    monkeypatch.setattr(world.cluster, "stop_node", lambda *_: False)
    fault = make(FakeFaultyDisks())
    with pytest.raises(ClusterError, match="n1 did not exit, so no log was truncated"):
        fault.inject()
    log = tmp_path / "disk" / "data" / "codecs-0" / SOURCE.name
    assert log.read_bytes() == SOURCE.read_bytes()


def test_hosts_that_lose_no_flush_are_refused(world: World) -> None:
    with pytest.raises(ClusterError, match="these hosts cannot make disks drop flushes"):
        LostFlush(aimed(1, "n1"), world.site())
    with pytest.raises(ClusterError, match="the harness cannot access the disks of this cluster"):
        LostFlush(aimed(1, "n1"), replace(world.site(), hosts=FakeFaultyDisks()))
