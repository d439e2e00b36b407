"""What a file system below data does to files, asked for as mfusepy does, without a mount."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.hosts.through import LOST, SHORT, TORN, Fault, Faults, Through

SEGMENT = "/t-0/00000000000000000000.log"


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system, and the folder below it."""

    below: Path
    faults: Faults
    through: Through

    def __post_init__(self) -> None:
        (self.below / "t-0").mkdir()

    def store(self, path: str, data: bytes) -> int:
        """Create a file and write to it, in one request; return how much of that was stored."""
        opened = self.through.create(path, 0o644)
        try:
            return self.through.write(path, data, 0, opened)
        finally:
            self.through.release(path, opened)

    def counts(self) -> object:
        return self.faults.told()["counts"]

    def lose_flushes(self) -> None:
        """Flush what is in `t-0`, and nothing in truth from then on."""
        self.faults.set(Fault(LOST, frozenset({"fsync"}), folders=frozenset({"t-0"})))
        self.through.flush_segments(["t-0"])

    def flushed(self) -> object:
        return self.faults.told()["flushed"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    faults = Faults()
    try:
        yield Disk(tmp_path, faults, Through(root, faults))
    finally:
        os.close(root)


@pytest.mark.parametrize("kind", [TORN, SHORT])
@pytest.mark.parametrize("suffix", ["", ".cleaned", ".swap", ".deleted"])
@pytest.mark.parametrize("index", ["index", "timeindex"])
def test_what_kafka_maps_is_never_torn_whatever_suffix_its_name_has(
    disk: Disk, kind: str, suffix: str, index: str
) -> None:
    disk.faults.set(Fault(kind, frozenset({"write"})))
    assert disk.store(f"/t-0/00000000000000000000.{index}{suffix}", b"mapped") == 6
    assert disk.counts() == {}


@pytest.mark.parametrize("name", ["0.log.cleaned", "0.txnindex", "0.txnindex.cleaned", "index"])
def test_what_kafka_does_not_map_is_torn(disk: Disk, name: str) -> None:
    disk.faults.set(Fault(SHORT, frozenset({"write"})))
    assert disk.store(f"/t-0/{name}", b"mapped") == 3
    assert disk.counts() == {"short write": 1}


@pytest.mark.parametrize("kind", [TORN, SHORT])
def test_a_byte_is_stored_whole_and_counts_as_nothing_that_was_broken(
    disk: Disk, kind: str
) -> None:
    disk.faults.set(Fault(kind, frozenset({"write"})))
    assert disk.store(SEGMENT, b"x") == 1
    assert disk.counts() == {}
    disk.faults.set(Fault("refused", frozenset({"write"})))
    with pytest.raises(OSError, match="Input/output error"):
        disk.store(SEGMENT, b"x")
    assert disk.counts() == {"refused write": 1}


def test_a_segment_that_goes_while_all_are_flushed_hides_none_of_the_others(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (disk.below / f"t-0/{number}.log").write_bytes(b"x" * number)
    listed = os.listdir

    def renamed_after(at: int) -> list[str]:
        names = sorted(listed(at))
        (disk.below / "t-0/0.log").rename(disk.below / "t-0/0.log.deleted")
        return names

    monkeypatch.setattr(os, "listdir", renamed_after)
    disk.through.flush_segments(["gone-0", "t-0"])
    assert disk.flushed() == {"t-0/1.log": 1, "t-0/2.log": 2}


def test_what_was_truncated_and_written_again_was_not_flushed(disk: Disk) -> None:
    disk.store(SEGMENT, b"x" * 100)
    disk.lose_flushes()
    opened = disk.through.open(SEGMENT, os.O_RDWR)
    disk.through.truncate(SEGMENT, 40, opened)
    disk.through.write(SEGMENT, b"y" * 60, 40, opened)
    disk.through.fsync(SEGMENT, 1, opened)
    disk.through.release(SEGMENT, opened)
    assert disk.flushed() == {SEGMENT[1:]: 40}
    disk.through.truncate(SEGMENT, 1000)
    assert disk.flushed() == {SEGMENT[1:]: 40}
    disk.store("/t-0/1.log", b"new")
    disk.through.truncate("/t-0/1.log", 2)
    assert disk.flushed() == {SEGMENT[1:]: 40}, "what is new there was never flushed"
    disk.through.release(SEGMENT, disk.through.open(SEGMENT, os.O_WRONLY | os.O_TRUNC))
    assert disk.flushed() == {SEGMENT[1:]: 0}


def test_a_segment_that_is_cut_off_while_it_is_flushed_counts_as_it_is(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.store(SEGMENT, b"x" * 100)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: disk.through.truncate(SEGMENT, 40))
        disk.lose_flushes()
    assert disk.flushed() == {SEGMENT[1:]: 40}


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (SEGMENT, f"{SEGMENT}.deleted", {SEGMENT[1:]: 0, "t-0/1.log": 7}),
        (SEGMENT, "/t-0/2.log", {SEGMENT[1:]: 0, "t-0/1.log": 7, "t-0/2.log": 5}),
        ("/t-0/1.log", SEGMENT, {SEGMENT[1:]: 7, "t-0/1.log": 0}),
        ("/t-0/0.log.swap", SEGMENT, {SEGMENT[1:]: 9, "t-0/1.log": 7}),
        ("/t-0/0.new", SEGMENT, {SEGMENT[1:]: 0, "t-0/1.log": 7}),
        ("/t-0", "/t-0.abc-delete", {SEGMENT[1:]: 0, "t-0/1.log": 0}),
        ("/t-00", "/t-01", {SEGMENT[1:]: 5, "t-0/1.log": 7}),
        (SEGMENT, "", {SEGMENT[1:]: 0, "t-0/1.log": 7}),
    ],
)
def test_what_was_flushed_of_a_segment_goes_where_it_goes(
    disk: Disk, old: str, new: str, left: dict[str, int]
) -> None:
    disk.store(SEGMENT, b"x" * 5)
    disk.store("/t-0/1.log", b"x" * 7)
    disk.store("/t-0/0.log.swap", b"x" * 9)
    disk.store("/t-0/0.new", b"x" * 9)
    disk.through.mkdir("/t-00", 0o755)
    disk.lose_flushes()
    if new:
        disk.through.rename(old, new)
    else:
        disk.through.unlink(old)
    assert disk.flushed() == left


def test_who_found_a_file_before_it_was_renamed_over_gets_it_or_looks_again(disk: Disk) -> None:
    hidden = "/t-0/.fuse_hidden0000000300000001"  # As libfuse does it, in these steps.
    disk.store(SEGMENT, b"old")
    disk.store("/t-0/new", b"newer")
    held = disk.through.open(SEGMENT, os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        disk.through.getattr(hidden)
    disk.through.rename(SEGMENT, hidden)
    disk.through.rename("/t-0/new", SEGMENT)
    found = disk.through.open(hidden, os.O_RDONLY)
    assert disk.through.read(hidden, 10, 0, found) == b"old"
    assert disk.through.access(hidden, os.R_OK) == 0
    disk.through.release(hidden, held)
    assert disk.through.getattr(hidden)["st_size"] == 3
    disk.through.release(hidden, found)
    disk.through.unlink(hidden)
    for deed in (disk.through.getattr, lambda path: disk.through.open(path, os.O_RDONLY)):
        with pytest.raises(OSError, match="Stale file handle"):
            deed(hidden)
    assert disk.through.getattr(SEGMENT)["st_size"] == 5
