"""A partition that is larger than the memory is told of before it is judged."""

from pathlib import Path

import pytest

from checkers.groups import reader_of
from checkers.room import ROW_BYTES, too_large
from checkers.run import judge_runs, judge_with
from checkers.spark.local import LocalEngine
from checkers.stored import load_facts
from tests.checkers.faithful import FaithfulRun


def test_only_a_partition_that_takes_more_than_is_free_is_told_of(tmp_path: Path) -> None:
    root = FaithfulRun(11).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    runs = {root: load_facts(root)}
    rows = reader_of(root, runs[root]).rows()
    place, most = max(rows.items(), key=lambda each: each[1])
    assert list(too_large(runs, most * ROW_BYTES)) == []
    (told,) = too_large(runs, most * ROW_BYTES - 1)
    assert f"partition {place[0]}-{place[2]} has {most:,} rows" in told
    assert list(too_large(runs)) == []  # On this machine.


def test_who_judges_is_warned_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = FaithfulRun(11).write(tmp_path / "t" / "run")
    told: list[str] = []
    for free in (1 << 40, 1000):
        monkeypatch.setattr("checkers.room._free_bytes", lambda free=free: free)
        judge_with(LocalEngine(), [root], warn=told.append)
    assert len(told) == 1
