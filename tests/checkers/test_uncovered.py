"""Where it cannot be worked out what was reached, that is said, and decides nothing."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from checkers import examine
from checkers.group import Group
from checkers.run import judge_runs
from checkers.transitions.tables import reached
from results.page.coverage import coverage
from results.record.paths import RunPaths
from results.record.verdict import UNCOVERED
from results.tables import RunTables
from tests.checkers.faithful import FaithfulRun


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return FaithfulRun(5).write(tmp_path / "t" / "run")


def fails_at(partition: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the work on one partition crash, as a bug of ours would."""

    def work(group: Group) -> dict[str, pa.Table]:
        if group.partition == partition:
            raise IndexError("no such step")
        return reached(group)

    monkeypatch.setattr(examine, "reached", work)


def test_a_crash_of_coverage_changes_no_verdict_and_loses_no_other_figure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sound,) = judge_runs([root], engine="local")
    assert UNCOVERED not in sound.stats
    lags = RunTables(RunPaths(root)).statistics("lag")
    fails_at(1, monkeypatch)
    (verdict,) = judge_runs([root], engine="local")
    told = ["log-0-1: IndexError: no such step"]
    assert verdict == replace(sound, stats={**sound.stats, UNCOVERED: told})
    tables = RunTables(RunPaths(root))
    assert lags.num_rows
    assert tables.statistics("lag").equals(lags)
    assert set(tables.statistics("transitions")["partition"].to_pylist()) <= {-1, 0}


def test_page_and_terminal_say_where_it_failed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at(1, monkeypatch)
    (verdict,) = judge_runs([root], engine="local")
    found = coverage(RunPaths(root), RunTables(RunPaths(root)), verdict, None)
    assert found is not None
    first, second = found.sentences()
    assert first == (
        "The reached transitions could not be found everywhere: log-0-1: IndexError: no such step."
    )
    assert second.startswith("The run reached ")
