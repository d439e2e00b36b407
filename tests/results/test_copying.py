"""A copy of a run that is not one's own: what its files hold, however large they say they are."""

import os
import shutil
from pathlib import Path

import pytest

from results.export.copying import copy_plain
from results.record.atomic import StoreError
from results.record.paths import RunPaths

TEBIBYTE = 1 << 40


def run_with(path: Path, *, begins: bytes = b"", ends: bytes = b"") -> RunPaths:
    """Return a run whose node has a log of a tebibyte that takes no room."""
    paths = RunPaths(path / "log" / "20261121T104500Z-7")
    log = paths.root / "nodes/n1/data/t-0/00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(begins)
    os.truncate(log, TEBIBYTE)
    with log.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(ends)
    return paths


@pytest.mark.timeout(20)
def test_holes_of_a_stranger_s_files_stay_holes(tmp_path: Path) -> None:
    paths = run_with(tmp_path / "runs", begins=b"begins", ends=b"ends")
    (tmp_path / "copies").mkdir()
    copy = copy_plain(paths, tmp_path / "copies")
    (log,) = copy.root.rglob("*.log")
    assert log.stat().st_size == TEBIBYTE + 4
    assert log.stat().st_blocks * 512 < 1 << 20
    with log.open("rb") as file:
        assert file.read(8) == b"begins\0\0"
        file.seek(-6, os.SEEK_END)
        assert file.read() == b"\0\0ends"


def test_what_has_no_room_is_refused_before_a_byte_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = run_with(tmp_path / "runs", begins=b"x" * 100_000)
    (tmp_path / "copies").mkdir()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=50_000))
    with pytest.raises(StoreError, match=r"needs 1\d\d,\d{3} bytes.*only 50,000 free; set TMPDIR"):
        copy_plain(paths, tmp_path / "copies")
    assert list((tmp_path / "copies").iterdir()) == []
