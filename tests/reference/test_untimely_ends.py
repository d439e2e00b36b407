"""A node that ends between any two of its writes, with or without its power, and starts again."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import TypeVar
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from cluster.reference.broker.boot import Booted, boot
from cluster.reference.broker.node import Node
from cluster.reference.log.checkpoints import RECOVERY_POINTS, kafka_id, offsets_file
from cluster.reference.log.files import LogFiles
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import recovered
from cluster.reference.machine import (
    Answered,
    Append,
    DropLog,
    Effect,
    Flush,
    RemoveFile,
    Request,
    SetAside,
    Truncate,
    WriteFile,
)
from cluster.reference.messages.data import FetchedPartition, FetchResponse
from cluster.reference.messages.quorum import FetchSnapshotResponse
from cluster.reference.process.formatting import meta_properties
from cluster.reference.quorum.following import snapshot_path
from cluster.reference.quorum.member import Identity, Snapshot
from cluster.reference.quorum.quorum import Quorum
from cluster.reference.quorum.records import metadata_batch, snapshot_bytes
from cluster.reference.quorum.state import FOLDER, STATE_FILE, ElectionState, state_file
from cluster.reference.settings import Settings
from cluster.reference.simulator.disk import SimulatedDisk
from tests.reference.batch_maker import produced

SETTINGS = Settings(
    node_id=1,
    listeners="BROKER://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    controller_quorum_voters="1@127.0.0.1:2,2@127.0.0.1:3,3@127.0.0.1:4",
)
VOTERS = (1, 2, 3)
STATE = ElectionState(epoch=2, leader=2)
ON_DISK = Append | Flush | Truncate | DropLog | SetAside | WriteFile | RemoveFile
T = TypeVar("T")


class MortalDisk(SimulatedDisk):
    """It takes so many changes, and then no more: whoever uses it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def change(self, how: Callable[[], None]) -> None:
        if self.left == 0:
            raise OSError(errno.EIO, "ended")
        self.left = None if self.left is None else self.left - 1
        how()

    def append(self, path: str, data: bytes) -> None:
        self.change(lambda: super(MortalDisk, self).append(path, data))

    def flush(self, path: str) -> None:
        self.change(lambda: super(MortalDisk, self).flush(path))

    def truncate(self, path: str, size: int) -> None:
        self.change(lambda: super(MortalDisk, self).truncate(path, size))

    def replace(self, path: str, data: bytes) -> None:
        self.change(lambda: super(MortalDisk, self).replace(path, data))

    def remove(self, path: str) -> None:
        self.change(lambda: super(MortalDisk, self).remove(path))


def carried_out(disk: MortalDisk, effects: Sequence[Effect], *, segment_bytes: int) -> bool:
    """Carry effects out; returns whether the disk lived to see the last one."""
    try:
        files = LogFiles(disk, segment_bytes=segment_bytes)
        for effect in effects:
            if isinstance(effect, ON_DISK):
                files.write(effect)
    except OSError:
        return False
    return True


def every_end(make: Callable[[], tuple[MortalDisk, list[Effect]]]) -> list[tuple[int, MortalDisk]]:
    """Return the disks of nodes that ended after each number of writes, the last after all."""
    found = []
    for writes in count():
        disk, effects = make()
        disk.left = writes
        ended = not carried_out(disk, effects, segment_bytes=200)
        disk.left = None
        found.append((writes, disk))
        if not ended:
            return found
    raise AssertionError


def snapshot(end_offset: int) -> Snapshot:
    data = snapshot_bytes([], epoch=2, time_ms=1)
    return Snapshot(end_offset=end_offset, epoch=2, data=data)


def installing() -> tuple[MortalDisk, list[Effect]]:
    """Return a member's disk, and what it does when the leader's snapshot has come."""
    disk, log, out = MortalDisk(), Log(FOLDER), list[Effect]()
    for offset in range(10):
        batch = metadata_batch([b"record"], base_offset=offset, epoch=1, time_ms=1)
        log.append_as_follower(batch, out=out)
    log.flush(out)
    before = replace(snapshot(5), epoch=1, data=snapshot_bytes([], epoch=1, time_ms=1))
    out.append(WriteFile(path=snapshot_path(before), data=before.data))
    out.append(WriteFile(path=STATE_FILE, data=state_file(STATE, VOTERS)))
    assert carried_out(disk, out, segment_bytes=200)
    ids = {"cluster_id": kafka_id(UUID(int=5)), "directory_id": kafka_id(UUID(int=6))}
    disk.replace("meta.properties", meta_properties(1, **ids).encode())
    return disk, fetched(log, before, snapshot(50))


def fetched(log: Log, before: Snapshot, new: Snapshot) -> list[Effect]:
    quorum = Quorum(
        Identity(node=1, voters=VOTERS, cluster_id="c"),
        settings=SETTINGS,
        log=log,
        state=STATE,
        snapshot=before,
        numbers=count(1),
    )
    named = FetchedPartition(
        topic=FOLDER.removesuffix("-0"), partition=0, error_code=ErrorCode.none,
        snapshot_end_offset=new.end_offset, snapshot_epoch=new.epoch, current_leader=2,
        current_leader_epoch=2,
    )  # fmt: skip
    piece = FetchSnapshotResponse(
        error_code=ErrorCode.none, end_offset=new.end_offset, epoch=new.epoch, leader_id=2,
        leader_epoch=2, size=len(new.data), position=0, unaligned_records=new.data,
    )  # fmt: skip
    out = list(quorum.start(0))
    for answer in (FetchResponse(partitions=(named,)), piece):
        number = next(each.number for each in reversed(out) if isinstance(each, Request))
        out = list(quorum.on(0, Answered(request=number, message=answer)))
    return out


def started(disk: SimulatedDisk) -> tuple[Booted, Node]:
    """Start a node, and carry out what it does first."""
    booted = boot(SETTINGS, disk, incarnation=UUID(int=9))
    for effect in booted.machine.start(0):
        if isinstance(effect, ON_DISK):
            booted.storage.write(effect)
    return booted, booted.machine


@pytest.mark.parametrize("power", [True, False])
def test_an_installed_snapshot_is_there_or_what_was_before(*, power: bool) -> None:
    """Records that a majority counts on as stored are never forgotten together with it."""
    ends = []
    for writes, disk in every_end(installing):
        if power:
            disk.lose_power(Random(writes))
        _, node = started(disk)
        log = node.plane.quorum.log
        held = [path for path in disk.paths() if path.endswith(".checkpoint")]
        if held == [snapshot_path(snapshot(50))]:
            assert (log.start_offset, log.end_offset, log.last_epoch) == (50, 50, 2)
        else:
            assert (len(held), log.end_offset, log.last_epoch) == (1, 10, 1)
        assert node.plane.quorum.state == STATE
        ends.append(log.end_offset)
        again = started(disk)[1].plane.quorum.log
        assert (again.start_offset, again.end_offset) == (log.start_offset, log.end_offset)
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (10, 50)
    assert len(ends) > 8


def cutting() -> tuple[MortalDisk, list[Effect]]:
    """Return a follower's disk, and what it does when it is cut and fetches on."""
    disk, log, out = MortalDisk(), Log("t-0"), list[Effect]()
    log.create(out)
    for _ in range(9):
        log.append_as_leader(produced(b"first"), epoch=0, out=out)
    log.flush(out)
    out.append(WriteFile(path=RECOVERY_POINTS, data=offsets_file({("t", 0): 9})))
    assert carried_out(disk, out, segment_bytes=200)
    out = []
    log.truncate(4, out=out)
    for _ in range(4):
        log.append_as_leader(produced(b"other"), epoch=1, out=out)
    return disk, out


@pytest.mark.parametrize("power", [True, False])
def test_a_cut_log_is_what_it_was_before_or_a_beginning_of_what_comes(*, power: bool) -> None:
    before, after = Log("t-0"), Log("t-0")
    for number in range(9):
        before.append_as_leader(produced(b"first"), epoch=0, out=[])
        fresh = (b"first", 0) if number < 4 else (b"other", 1)
        after.append_as_leader(produced(fresh[0]), epoch=fresh[1], out=[])
    for writes, disk in every_end(cutting):
        if power:
            disk.lose_power(Random(writes))
        log = recovered(disk).logs["t-0"].log()
        mine = [each.data for each in log.batches()]
        assert log.end_offset >= 4
        assert mine in (
            [each.data for each in before.batches()][: len(mine)],
            [each.data for each in after.batches()][: len(mine)],
        )
        told = [(each.epoch, each.start_offset) for each in log.epochs.lines]
        assert told == ([(0, 0), (1, 4)] if mine[4:] and b"other" in mine[4] else [(0, 0)])
        out: list[Effect] = []
        log.flush(out)
        assert bool(out) == (log.recovery_point > recovered(disk).logs["t-0"].recovery_point)
