"""The log dir: what is written, what a crash leaves of it, what is repaired and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from benchmarks.kafka_dump import dump, read_here
from cluster.files.batches import read_segment, records
from cluster.files.checkpoints import leader_epochs, offset_checkpoint, partition_topic_id
from cluster.java import find_java
from cluster.kafka.fetch import fetch_kafka
from cluster.reference.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    clean_shutdown,
    offsets_file,
    partition_metadata,
)
from cluster.reference.log.disk import Disk, FolderDisk
from cluster.reference.log.files import LogFiles, segment_path
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import DamagedLogError, recovered
from cluster.reference.machine import DropLog, Effect, Flush, RollAt, SetAside, WriteFile
from cluster.reference.partition.strays import stray_name
from cluster.reference.simulator.disk import SimulatedDisk
from tests.reference.batch_maker import produced

FOLDER = "peter-test01-0"
TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
BATCH_BYTES = len(produced(b"message0"))
SEGMENT_BYTES = 3 * BATCH_BYTES


def write(disk: Disk, effects: list[Effect], *, segment_bytes: int = SEGMENT_BYTES) -> None:
    files = LogFiles(disk, segment_bytes=segment_bytes)
    for effect in effects:
        files.write(effect)


def filled(disk: Disk, *, count: int = 8) -> Log:
    """Write `count` messages of one batch each, three a segment, a new epoch every four."""
    log, out = Log(FOLDER), list[Effect]()
    log.create(out)
    for number in range(count):
        if number % 4 == 0:
            log.begin_epoch(number // 4, out=out)
        log.append_as_leader(produced(b"message%d" % number), epoch=number // 4, out=out)
    path = f"{FOLDER}/{PARTITION_METADATA}"
    out.append(WriteFile(path=path, data=partition_metadata(TOPIC_ID)))
    write(disk, out)
    return log


def paths_of(disk: Disk) -> list[str]:
    return [path for path in disk.paths() if path.endswith(".log")]


@pytest.fixture(name="folder")
def folder_disk(tmp_path: Path) -> Iterator[FolderDisk]:
    disk = FolderDisk(tmp_path / "data")
    yield disk
    disk.close()


@pytest.fixture(name="disk", params=["folder", "simulated"])
def any_disk(request: pytest.FixtureRequest, folder: FolderDisk) -> Disk:
    return folder if request.param == "folder" else SimulatedDisk()


def test_segments_are_rolled_and_named_by_their_first_offset(disk: Disk) -> None:
    filled(disk)
    assert paths_of(disk) == [segment_path(FOLDER, base) for base in (0, 3, 6)]
    values = [
        record.value
        for path in paths_of(disk)
        for batch in read_segment(disk.read(path)).batches
        for record in records(batch)
    ]
    assert values == [b"message%d" % number for number in range(8)]


def test_the_small_files_are_read_by_who_reads_kafkas(disk: Disk) -> None:
    filled(disk)
    epochs = leader_epochs(disk.read(f"{FOLDER}/{LEADER_EPOCHS}").decode())
    assert [(each.epoch, each.start_offset) for each in epochs] == [(0, 0), (1, 4)]
    metadata = disk.read(f"{FOLDER}/{PARTITION_METADATA}").decode()
    assert partition_topic_id(metadata) == str(TOPIC_ID)
    offsets = {("peter-test01", 0): 3, ("a-b", 11): 0}
    assert offset_checkpoint(offsets_file(offsets).decode()) == offsets


@pytest.mark.parametrize("offset", [0, 2, 3, 5, 6, 7])
def test_a_truncation_goes_to_all_segments(disk: Disk, offset: int) -> None:
    log, out = filled(disk), list[Effect]()
    log.truncate(offset, out=out)
    log.append_as_leader(produced(b"another"), epoch=2, out=out)
    write(disk, out)
    again = recovered(disk).logs[FOLDER].log()
    assert list(again.batches()) == list(log.batches())
    assert again.end_offset == offset + 1
    assert again.epochs.lines == log.epochs.lines


def test_a_log_that_restarts_elsewhere_begins_there_after_a_restart(disk: Disk) -> None:
    log, out = filled(disk), list[Effect]()
    log.restart_at(20, out=out)
    write(disk, out)
    assert paths_of(disk) == [segment_path(FOLDER, 20)]
    again = recovered(disk).logs[FOLDER].log()
    assert (again.start_offset, again.end_offset) == (20, 20)


def test_a_log_that_began_later_than_its_files_restarts_elsewhere_too(disk: Disk) -> None:
    """A member of the quorum that kept snapshots is told to go on behind a leader's (KIP-630)."""
    log, out = filled(disk), list[Effect]()
    log.delete_before(3)
    log.restart_at(20, out=out)
    log.append_as_leader(produced(b"behind it"), epoch=7, out=out)
    write(disk, out)
    found = recovered(disk)
    assert found.said == ()
    again = found.logs[FOLDER].log()
    assert (again.start_offset, again.end_offset) == (20, 21)


def test_lines_of_epochs_that_a_crash_left_are_not_said_of_later_batches(disk: Disk) -> None:
    log, out = Log(FOLDER), list[Effect]()
    for epoch in (0, 3):
        log.append_as_leader(produced(b"1"), epoch=epoch, out=out)
    log.truncate(1, out=out)
    assert isinstance(out.pop(), WriteFile)  # The crash comes before the epochs are written.
    write(disk, out)
    log, out = recovered(disk).logs[FOLDER].log(), []
    log.append_as_leader(produced(b"2"), epoch=0, out=out)
    write(disk, out)
    again = recovered(disk).logs[FOLDER].log()
    assert [(each.epoch, each.start_offset) for each in again.epochs.lines] == [(0, 0)]


def test_a_dropped_log_leaves_nothing(disk: Disk) -> None:
    filled(disk)
    write(disk, [DropLog(folder=FOLDER)])
    assert disk.paths() == []


@pytest.mark.parametrize("torn_at", [1, 60, BATCH_BYTES - 1])
def test_a_torn_tail_is_cut(disk: Disk, torn_at: int) -> None:
    filled(disk)
    disk.truncate(paths_of(disk)[-1], BATCH_BYTES + torn_at)
    found = recovered(disk)
    assert found.logs[FOLDER].log().end_offset == 7
    assert found.said == (
        f"[LogLoader partition={FOLDER}] Corruption found in segment 6, truncating to offset 7",
    )
    assert recovered(disk).said == ()  # It was repaired on the disk.


def test_a_tail_of_zeros_is_cut(disk: Disk) -> None:
    """A file can have grown before what was written to it came."""
    filled(disk)
    disk.append(paths_of(disk)[-1], bytes(500))
    assert recovered(disk).logs[FOLDER].log().end_offset == 8


def flipped(disk: Disk, path: str, position: int) -> None:
    data = bytearray(disk.read(path))
    data[position] ^= 1
    disk.replace(path, bytes(data))


def test_behind_a_bad_sum_all_is_cut(disk: Disk) -> None:
    filled(disk)
    flipped(disk, segment_path(FOLDER, 3), 2 * BATCH_BYTES - 1)
    found = recovered(disk)
    log = found.logs[FOLDER].log()
    assert (log.end_offset, log.epochs.latest) == (4, 0)
    assert paths_of(disk) == [segment_path(FOLDER, base) for base in (0, 3)]


def test_what_had_reached_the_disk_is_not_cut_but_refused(disk: Disk) -> None:
    filled(disk)
    disk.replace(RECOVERY_POINTS, offsets_file({("peter-test01", 0): 6}))
    flipped(disk, segment_path(FOLDER, 3), BATCH_BYTES - 1)
    before = {path: disk.read(path) for path in disk.paths()}
    with pytest.raises(DamagedLogError, match=r"the batch of offset 3 does not match its CRC.*had"):
        recovered(disk)
    assert {path: disk.read(path) for path in disk.paths()} == before


def test_after_a_clean_shutdown_nothing_may_be_missing(disk: Disk) -> None:
    filled(disk)
    disk.truncate(paths_of(disk)[-1], BATCH_BYTES + 5)
    disk.replace(CLEAN_SHUTDOWN, clean_shutdown(77))
    with pytest.raises(DamagedLogError, match=f"restore the file, or remove the folder {FOLDER}"):
        recovered(disk)


def test_the_mark_of_a_clean_shutdown_counts_once(disk: Disk) -> None:
    filled(disk)
    disk.replace(CLEAN_SHUTDOWN, clean_shutdown(77))
    found = recovered(disk)
    assert (found.clean, found.broker_epoch) == (True, 77)
    assert found.logs[FOLDER].recovery_point == 8
    again = recovered(disk)
    assert (again.clean, again.broker_epoch) == (False, -1)


def test_a_missing_segment_is_refused(disk: Disk) -> None:
    """The one behind it was begun when all of it had been flushed: what it held was safe."""
    filled(disk)
    disk.remove(segment_path(FOLDER, 3))
    with pytest.raises(
        DamagedLogError, match=r"6\.log: the segment begins at offset 6, but the previous segment"
    ):
        recovered(disk)
    assert paths_of(disk) == [segment_path(FOLDER, base) for base in (0, 6)]


@pytest.mark.parametrize("damaged", [None, b"", b"0\n3\n0 0\n", b"\xff\xfe", b"zero"])
def test_leader_epochs_follow_from_the_batches(disk: Disk, damaged: bytes | None) -> None:
    log = filled(disk)
    path = f"{FOLDER}/{LEADER_EPOCHS}"
    disk.remove(path)
    if damaged is not None:
        disk.replace(path, damaged)
    again, out = recovered(disk).logs[FOLDER].log(), list[Effect]()
    assert again.epochs.lines == log.epochs.lines
    again.mend(out)
    write(disk, out)
    found, out = recovered(disk), []
    assert (found.said, found.logs[FOLDER].epochs) == ((), log.epochs.lines)
    found.logs[FOLDER].log().mend(out)
    assert out == []


def test_a_recovery_point_of_before_a_truncation_is_not_believed(disk: Disk) -> None:
    """What was written again behind the cut is in the kernel's memory only, until it is flushed."""
    log, out = filled(disk), list[Effect]()
    disk.replace(RECOVERY_POINTS, offsets_file({("peter-test01", 0): 8}))
    log.truncate(7, out=out)
    log.append_as_leader(produced(b"another"), epoch=2, out=out)
    write(disk, out)
    again, out = recovered(disk).logs[FOLDER].log(), []
    again.flush(out)
    assert out == [Flush(folder=FOLDER)]
    assert again.recovery_point == again.end_offset == 8


def test_a_topics_segments_are_rolled_at_its_own_size(disk: Disk) -> None:
    log, out = Log(FOLDER), list[Effect]()
    out.append(RollAt(folder=FOLDER, segment_bytes=2 * BATCH_BYTES))
    for number in range(4):
        log.append_as_leader(produced(b"message%d" % number), epoch=0, out=out)
    write(disk, out)
    assert paths_of(disk) == [segment_path(FOLDER, base) for base in (0, 2)]


def test_a_segment_that_lies_over_another_is_refused(disk: Disk) -> None:
    filled(disk)
    data = disk.read(segment_path(FOLDER, 3))
    disk.remove(segment_path(FOLDER, 6))
    disk.append(segment_path(FOLDER, 5), data)
    with pytest.raises(
        DamagedLogError, match="the segment begins at offset 5, but the previous segment ends at 6"
    ):
        recovered(disk)


@pytest.mark.parametrize("damaged", [b"", b"version: 0\ntopic_id: nonsense", b"\xff\xfe"])
def test_a_log_of_nobody_knows_which_topic_is_refused(disk: Disk, damaged: bytes) -> None:
    filled(disk)
    disk.replace(f"{FOLDER}/{PARTITION_METADATA}", damaged)
    with pytest.raises(DamagedLogError, match=f"{PARTITION_METADATA}: .*restore the file, or"):
        recovered(disk)


@pytest.mark.parametrize("stranger", ["backup", "peter-test01-0/copy-1", "peter-one"])
def test_a_folder_that_is_no_logs_is_refused(disk: Disk, stranger: str) -> None:
    filled(disk)
    disk.append(f"{stranger}/{0:020d}.log", b"")
    with pytest.raises(
        DamagedLogError, match=f"{stranger}, which is not in the form of topic-part"
    ):
        recovered(disk)


def test_a_log_that_was_set_aside_is_nobodys(disk: Disk) -> None:
    filled(disk)
    name = stray_name(FOLDER, broker_epoch=7, number=0)
    write(disk, [SetAside(folder=FOLDER, name=name)])
    assert {path.rpartition("/")[0] for path in disk.paths()} == {name}
    found = recovered(disk)
    assert (found.logs, found.said) == ({}, (f"Loaded stray log: {name}",))


def test_a_stray_of_a_long_name_is_no_longer_than_a_file_may_be_called() -> None:
    names = [stray_name(f"{'t' * 249}-77", broker_epoch=1 << 40, number=each) for each in (1, 2)]
    assert [len(name) for name in names] == [255, 255]
    assert len(set(names)) == 2
    assert all(name.endswith("-stray") and "-77." in name for name in names)


def test_without_recovery_points_all_is_checked(disk: Disk) -> None:
    filled(disk)
    disk.replace(RECOVERY_POINTS, b"0\nmany\n")
    flipped(disk, segment_path(FOLDER, 3), BATCH_BYTES - 1)
    found = recovered(disk)
    assert found.logs[FOLDER].log().end_offset == 3
    assert "resetting the recovery checkpoint to 0" in found.said[0]


def test_damaged_high_watermarks_are_refused(disk: Disk) -> None:
    filled(disk)
    disk.replace(HIGH_WATERMARKS, offsets_file({("peter-test01", 0): 5}))
    assert recovered(disk).high_watermarks == {FOLDER: 5}
    disk.replace(HIGH_WATERMARKS, b"0\n2\npeter-test01 0 5\n")
    with pytest.raises(
        DamagedLogError, match=f"{HIGH_WATERMARKS}: the file announces 2 lines but has 1"
    ):
        recovered(disk)


def test_leftovers_of_a_crash_are_removed(disk: Disk) -> None:
    filled(disk)
    disk.append(f"{FOLDER}/{LEADER_EPOCHS}.tmp", b"0\n")
    recovered(disk)
    assert not [path for path in disk.paths() if path.endswith(".tmp")]


def test_a_folder_keeps_few_files_open(folder: FolderDisk) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(280):
        folder.append(f"t-{number}/{number:020d}.log", b"1")
    for number in range(280):
        folder.append(f"t-{number}/{number:020d}.log", b"2")
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 270
    assert {folder.read(path) for path in folder.paths()} == {b"12"}


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_costs_a_tail_only(seed: int) -> None:
    disk = SimulatedDisk()
    log, out = filled(disk), list[Effect]()
    log.flush(out)
    for number in range(8, 12):
        log.append_as_leader(produced(b"message%d" % number), epoch=3, out=out)
    write(disk, out)
    disk.lose_power(Random(seed))
    again = recovered(disk).logs[FOLDER].log()
    assert again.end_offset >= 8
    assert list(again.batches()) == list(log.batches())[: again.end_offset]
    assert again.epochs.latest == (3 if again.end_offset > 8 else 1)


@pytest.mark.kafka
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_kafkas_own_tool_reads_the_segments(
    version: str, folder: FolderDisk, tmp_path: Path
) -> None:
    log, out = filled(folder, count=9), list[Effect]()
    idempotent = produced(b"1", b"2", b"3", producer=(7, 1, 4), time=1700000000123)
    log.append_as_leader(idempotent, epoch=5, out=out)
    write(folder, out, segment_bytes=1 << 20)
    files = [tmp_path / "data" / path for path in paths_of(folder)]
    told = dump(find_java(), fetch_kafka(version, progress=print), files)
    assert len(files) == 3
    assert {file: told[str(file)] for file in files} == {
        file: read_here(file.read_bytes()) for file in files
    }
    last = told[str(files[-1])][-1]
    assert (last.offset, last.epoch, last.producer_id, last.sequence) == (11, 5, 7, 6)
