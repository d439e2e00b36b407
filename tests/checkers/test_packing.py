"""A judged run is kept packed, and what is made of its record later is the same."""

import shutil
from pathlib import Path

import pytest

from checkers import compaction
from checkers.folder import notes_file
from checkers.packing import pack_streams
from checkers.run import judge_runs
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = FaithfulRun(5, steps=120).write(tmp_path_factory.mktemp("store") / "t" / "run")
    judge_runs([root], engine="local")
    return root


def tables(root: Path) -> dict[str, bytes]:
    return {name: RunPaths(root).table(name).read_bytes() for name in TABLES}


def streams(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in RunPaths(root).live.iterdir()}


@pytest.mark.parametrize("small_bytes", [0, compaction.SMALL_BYTES])
def test_tables_that_are_made_again_of_packed_streams_are_the_same_bytes(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: int
) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    monkeypatch.setattr(compaction, "SMALL_BYTES", small_bytes)
    (before,) = judge_runs([root], engine="local", reingest=True)
    was, written = streams(root), tables(root)
    pack_streams(RunPaths(root))
    now = streams(root)
    assert now.keys() == was.keys()
    assert now["polled.worker-0.arrows"].startswith(b"PAR1")
    assert sum(map(len, now.values())) < sum(map(len, was.values())) / 2
    (after,) = judge_runs([root], engine="local", reingest=True)
    assert after == before
    assert tables(root) == written


def test_a_run_without_whole_tables_keeps_its_streams_as_they_are(
    judged: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    notes_file(RunPaths(root)).unlink()
    was = streams(root)
    pack_streams(RunPaths(root))
    assert streams(root) == was


def test_where_another_check_reads_places_in_streams_they_stay_as_they_are(
    judged: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    was = streams(root)
    with compaction.alone(root):
        pack_streams(RunPaths(root))
    assert streams(root) == was
    pack_streams(RunPaths(root))
    assert streams(root) != was


def test_of_a_run_with_a_cut_stream_the_others_are_packed(judged: Path, tmp_path: Path) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    stream = RunPaths(root).live / "polled.worker-0.arrows"
    stream.write_bytes(cut := stream.read_bytes()[:-100])
    judge_runs([root], engine="local", reingest=True)
    pack_streams(RunPaths(root))
    assert stream.read_bytes() == cut
    assert streams(root)["send_invocations.worker-0.arrows"].startswith(b"PAR1")
    (verdict,) = judge_runs([root], engine="local", reingest=True)
    assert verdict.valid is Validity.UNKNOWN
    assert any("polled.worker-0.arrows is cut" in each for each in verdict.unknown_because)


def test_what_a_killed_packing_left_is_removed(judged: Path, tmp_path: Path) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    left = RunPaths(root).live / ".polled.worker-0.arrows.abcd1234"
    left.write_bytes(b"PAR1 half a file")
    pack_streams(RunPaths(root))
    assert not left.exists()
