"""A partition that is larger than the memory is told of before it is judged."""

from pathlib import Path

from checkers.groups import reader_of
from checkers.room import ROW_BYTES, too_large
from checkers.run import judge_runs
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
