"""What a file system below data does to files, asked for as mfusepy does, without a mount."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.hosts.through import SHORT, TORN, Fault, Faults, Through

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
    assert disk.through.flushed(["gone-0", "t-0"]) == {"t-0/1.log": 1, "t-0/2.log": 2}
