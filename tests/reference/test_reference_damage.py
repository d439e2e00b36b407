"""Files of a node that was stopped are broken; it is started again, as a process.

What Kafka recovers from is recovered from, what it refuses is refused with a sentence.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from cluster.files.batches import read_segment
from cluster.files.checkpoints import leader_epochs
from cluster.reference.broker.boot import Booted, BootError, boot
from cluster.reference.log.disk import FolderDisk
from cluster.reference.log.recovery import DamagedLogError
from cluster.reference.process.formatting import cluster_key, format_log_dirs
from cluster.reference.settings import parsed
from results.record.clock import wait_until
from tests.reference.node_processes import LIMIT_S, NodeProcesses, node_processes

SEGMENT = "00000000000000000000.log"
METADATA = "__cluster_metadata-0"
SNAPSHOT = f"{METADATA}/00000000000000000003-0000000001.checkpoint"
PARTITIONS = 5
Break = Callable[[Path], object]


def torn(path: Path) -> None:
    """Take the last bytes of a segment: its last batch is torn."""
    path.write_bytes(path.read_bytes()[:-7])


def flipped(path: Path) -> None:
    """Turn a bit in the second batch: its sum is wrong."""
    data = bytearray(path.read_bytes())
    first, second = read_segment(bytes(data)).batches[:2]
    assert first.end_offset == second.base_offset
    data[_size_of_first(data) + 65] ^= 4
    path.write_bytes(bytes(data))


def _size_of_first(data: bytes | bytearray) -> int:
    return int.from_bytes(data[8:12], "big") + 12


def spoiled(path: Path) -> None:
    path.write_text("0\nwhat?\n")


def lost(path: Path) -> None:
    path.unlink()


class Damaged:
    """A cluster whose node was killed, found its files broken, and has caught up again."""

    def __init__(self, cluster: NodeProcesses) -> None:
        self.cluster = cluster
        cluster.create("t", partitions=PARTITIONS)
        self.produce()
        self.node = next(node for node in cluster.ids if node != cluster.wait_led("t"))
        cluster.kill(self.node)
        data = cluster.folder(self.node) / "data"
        torn(data / "t-0" / SEGMENT)
        flipped(data / "t-1" / SEGMENT)
        lost(data / "t-2" / "partition.metadata")
        shutil.rmtree(data / "t-3")
        for number in range(PARTITIONS - 1):
            if number != 3:
                spoiled(data / f"t-{number}" / "leader-epoch-checkpoint")
        lost(data / "t-4" / "leader-epoch-checkpoint")
        torn(data / METADATA / SEGMENT)
        lost(data / METADATA / "quorum-state")
        lost(data / "replication-offset-checkpoint")
        spoiled(data / "recovery-point-offset-checkpoint")
        spoiled(data / "log-start-offset-checkpoint")
        cluster.start([self.node])
        self.produce()
        wait_until(self.is_mended, timeout_s=LIMIT_S, what="equal segments")
        cluster.wait_led("t")
        self.said = cluster.said(self.node)

    def is_mended(self) -> bool:
        """Whether all have all of it: a broker that was killed passes for live until it is not."""
        return all(len(set(self.logs(number))) == 1 for number in range(PARTITIONS))

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all",
                             "enable.idempotence": True})  # fmt: skip
        for number in range(4):
            for partition in range(PARTITIONS):
                producer.produce("t", b"%d" % number, partition=partition)
            assert producer.flush(LIMIT_S) == 0  # A batch of its own.

    def logs(self, number: int) -> list[bytes]:
        folders = [self.cluster.folder(node) / "data" for node in self.cluster.ids]
        files = [folder / f"t-{number}" / SEGMENT for folder in folders]
        return [file.read_bytes() if file.exists() else b"" for file in files]


@pytest.fixture(name="damaged", scope="module")
def damaged_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with node_processes(tmp_path_factory.mktemp("damaged")) as cluster:
        damaged = Damaged(cluster)
        assert set(cluster.stop().values()) == {0}
        yield damaged


@pytest.mark.parametrize(
    "line",
    [
        "[LogLoader partition=t-0] Corruption found in segment 0, truncating to offset 3",
        "[LogLoader partition=t-1] Corruption found in segment 0, truncating to offset 1",
        "Found stray log dir t-2: it has no partition.metadata",
        "Log in t-2 marked stray and renamed to t-2.",
        "t-0/leader-epoch-checkpoint is damaged ('what?' is not a number): recreated from the log",
        f"[LogLoader partition={METADATA}] Corruption found in segment 0, truncating to offset",
        (
            "reading recovery-point-offset-checkpoint ('what?' is not a number), resetting the"
            " recovery"
        ),
        (
            "reading log-start-offset-checkpoint ('what?' is not a number), resetting the log start"
            " off"
        ),
        "Epoch from quorum store file is 0, which is smaller than last written epoch",
    ],
)
def test_a_node_says_what_it_repairs(damaged: Damaged, line: str) -> None:
    assert line in damaged.said


def test_a_repaired_node_has_what_the_others_have(damaged: Damaged) -> None:
    for number in range(PARTITIONS):
        first, *others = damaged.logs(number)
        assert others == [first, first]
        assert read_segment(first).batches[-1].end_offset == 8
    folders = [damaged.cluster.folder(node) / "data" for node in damaged.cluster.ids]
    for number in range(PARTITIONS):
        mine = [folder / f"t-{number}" for folder in folders]
        assert len({(each / "partition.metadata").read_text() for each in mine}) == 1
        for each in mine:  # A last leader has a line of its own, and wrote nothing.
            lines = leader_epochs((each / "leader-epoch-checkpoint").read_text())
            told = {line.epoch: line.start_offset for line in lines if line.start_offset < 8}
            assert told == _epochs_of((each / SEGMENT).read_bytes())
    (stray,) = (damaged.cluster.folder(damaged.node) / "data").glob("t-2.*-stray")
    assert read_segment((stray / SEGMENT).read_bytes()).batches[-1].end_offset == 4


def _epochs_of(data: bytes) -> dict[int, int]:
    """Return the first offset of each leader epoch in a segment."""
    batches = reversed(read_segment(data).batches)
    return {each.leader_epoch: each.base_offset for each in batches}


def booted(damaged: Damaged, root: Path, *breaks: tuple[str, Break]) -> Booted:
    """Begin a node on a copy of its files, some of which are broken."""
    home = damaged.cluster.folder(damaged.node)
    shutil.copytree(home / "data", root / "data")
    for path, broken in breaks:
        broken(root / "data" / path)
    text = (home / "server.properties").read_text().replace(str(home), str(root))
    return boot(parsed(text), FolderDisk(root / "data"), incarnation=uuid4())


def of_another(path: Path) -> None:
    path.write_text(path.read_text().replace("node.id=", "node.id=4"))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / SEGMENT).write_bytes(b"")


def begun_late(path: Path) -> None:
    """Take the first batch away, as if its segment were lost."""
    data = path.read_bytes()
    begin = read_segment(data).batches[0].end_offset
    path.with_name(f"{begin:020d}.log").write_bytes(data[_size_of_first(data) :])
    path.unlink()


@pytest.mark.parametrize(
    ("breaks", "sentence"),
    [
        (("meta.properties", lost), r"is not formatted: it has no meta\.properties"),
        (("meta.properties", spoiled), r"meta\.properties is damaged: .*: restore the file"),
        (("meta.properties", emptied), r"is damaged: there is no 'cluster\.id': restore the file"),
        (
            ("meta.properties", of_another),
            r"belongs to node 4\d, but node\.id is \d: use another folder",
        ),
        ((f"{METADATA}/quorum-state", spoiled), r"quorum-state is damaged: .*: restore the file"),
        ((f"{METADATA}/quorum-state", emptied), r"quorum-state is damaged: .*: restore the file"),
        ((SNAPSHOT, emptied), r"snapshot .*\.checkpoint is incomplete: restore the file; or"),
        (
            (f"{METADATA}/{SEGMENT}", begun_late),
            r"begins at offset 1, but no snapshot has",
        ),
        ((f"{METADATA}/{SEGMENT}", torn), r"the disk has lost data: restore the file, or remove"),
        (
            ("replication-offset-checkpoint", spoiled),
            r"'what\?' is not a number: restore the file, or",
        ),
        (
            ("t-0/partition.metadata", spoiled),
            r"t-0/partition\.metadata: .*: restore the file, or",
        ),
        (
            (f"t-0/{SEGMENT}", torn),
            r"t-0/.*; all of it had been flushed, so the disk has lost data",
        ),
        (
            ("backup", a_folder),
            r"Found directory backup, which is not in the form of topic-partition",
        ),
    ],
    ids=lambda it: f"{it[0]} {it[1].__name__}" if isinstance(it, tuple) else "",
)
def test_what_no_crash_leaves_is_refused_and_left_alone(
    damaged: Damaged, breaks: tuple[str, Break], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises((BootError, DamagedLogError), match=sentence):
        booted(damaged, tmp_path, breaks)
    left = {file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file()}
    assert Path("data/.kafka_cleanshutdown") in left


def test_a_node_that_refuses_says_so_and_ends_with_1(damaged: Damaged, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(damaged.cluster.folder(damaged.node), home)
    settings = home / "server.properties"
    old = str(damaged.cluster.folder(damaged.node))
    settings.write_text(settings.read_text().replace(old, str(home)))
    spoiled(home / "data" / METADATA / "quorum-state")
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "cluster.reference.process", str(settings)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "quorum-state is damaged: this is not a quorum state" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.strip() in (home / "logs" / "server.log").read_text()


@pytest.mark.parametrize("broken", [lost, spoiled, emptied, torn])
def test_a_key_that_is_none_is_refused(tmp_path: Path, broken: Break) -> None:
    """Without it no other node listens to this one."""
    format_log_dirs({node: tmp_path / f"n{node}" for node in (1, 2)})
    assert cluster_key(tmp_path / "n1") == cluster_key(tmp_path / "n2")
    broken(tmp_path / "n1" / "cluster.key")
    with pytest.raises(BootError, match=r"cluster\.key .*: copy this file from another node"):
        cluster_key(tmp_path / "n1")


@pytest.mark.parametrize("broken", [lost, spoiled, emptied])
def test_a_mark_of_a_clean_shutdown_that_says_nothing_costs_nothing(
    damaged: Damaged, broken: Break, tmp_path: Path
) -> None:
    begun = booted(damaged, tmp_path, (".kafka_cleanshutdown", broken))
    assert [line for line in begun.said if "stray" not in line] == []
    assert not (tmp_path / "data/.kafka_cleanshutdown").exists()
