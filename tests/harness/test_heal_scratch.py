"""Temporary files of a judgement lie in the run's folder, and go with its end, or by heal."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cluster.hosts.audit import local_traces
from cluster.hosts.heal import Healed
from cluster.hosts.ledger import RUN_MARK
from cluster.hosts.leftovers import kill_leftovers
from harness.heal import heal_store
from harness.scratch import kill_scratched, scratch_in
from results.record.paths import RunPaths
from results.store import Store

LOOK = f"import os, tempfile; print(tempfile.mkdtemp(), os.environ['{RUN_MARK}'])"


def test_temporary_files_of_all_processes_lie_in_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    before = tempfile.gettempdir()
    paths = RunPaths(tmp_path)
    with scratch_in(paths):
        ours = Path(tempfile.mkdtemp())
        child = subprocess.run(
            [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
        )
        made, marked = child.stdout.split()
        assert {ours.parent, Path(made).parent} == {paths.scratch}
        assert marked == str(paths.scratch / "processes.jsonl"), "so that heal ends it"
    assert not paths.scratch.exists()
    assert RUN_MARK not in os.environ
    assert (os.environ["TMPDIR"], tempfile.gettempdir()) == ("/elsewhere", before)


def test_what_an_interrupted_judgement_started_is_killed_and_its_files_are_removed(
    tmp_path: Path,
) -> None:
    paths, started = RunPaths(tmp_path), list["subprocess.Popen[bytes]"]()

    def judge() -> None:
        with scratch_in(paths):
            started.append(subprocess.Popen(["sleep", "600"]))
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            judge()
        assert started[0].wait(timeout=20) == -9
    finally:
        for child in started:
            child.kill()
            child.wait()
    assert not paths.scratch.exists()


def test_what_a_judgement_started_is_not_what_a_run_left_on_its_hosts(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    with scratch_in(paths), subprocess.Popen(["sleep", "600"]) as child:
        try:
            assert local_traces(paths.processes) == {}
            assert kill_leftovers(paths.processes) == []
            assert child.poll() is None
            assert kill_scratched(paths) == [f"killed sleep (process {child.pid})"]
        finally:
            child.kill()


def test_a_folder_that_java_could_not_be_told_is_not_used(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "my runs")
    paths.root.mkdir()
    with scratch_in(paths):
        assert not paths.scratch.exists()


def test_what_a_killed_judgement_left_running_is_ended(tmp_path: Path) -> None:
    with Store(tmp_path / "runs").create("dead", 1) as paths:
        paths.scratch.mkdir()
    marked = os.environ | {RUN_MARK: str(paths.scratch / "processes.jsonl")}
    with subprocess.Popen(["sleep", "600"], env=marked) as child:
        try:
            assert heal_store(tmp_path / "runs").done == (
                f"{paths.run_id}: killed sleep (process {child.pid})",
                f"{paths.run_id}: removed the temporary files in {paths.scratch}",
            )
        finally:
            child.kill()


def test_what_a_killed_judgement_left_is_removed(tmp_path: Path) -> None:
    with Store(tmp_path / "runs").create("dead", 1) as paths:
        (paths.scratch / "logquake-spark-1").mkdir(parents=True)
        assert heal_store(tmp_path / "runs").done == (
            f"{paths.run_id} is still running, so it was not changed",
        )
        assert paths.scratch.exists()
    assert heal_store(tmp_path / "runs").done == (
        f"{paths.run_id}: removed the temporary files in {paths.scratch}",
    )
    assert heal_store(tmp_path / "runs") == Healed()
