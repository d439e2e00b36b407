"""Checks whose processes are killed, or whose disk is full, in the middle of their work."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.seeded import Shape, write_many
from checkers.engine import EngineError
from checkers.run import judge_runs
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.verdict import Verdict
from results.verdict_json import read_verdict
from tests.checkers.standalone import executors, standalone

pytestmark = [pytest.mark.spark, pytest.mark.everything, pytest.mark.timeout(600)]
OPS = 96_000
"""So many that the run is worked out in parts."""
CHECK = [sys.executable, "-c", "from harness.cli import main; main()", "check"]
Names = Callable[[psutil.Process], bool]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (root,) = write_many(tmp_path, 1, Shape(ops=OPS, partitions=8))
    return root


def parts(root: Path) -> list[Path]:
    return list((RunPaths(root).record / "parts").glob("*.parquet"))


def left(root: Path) -> set[str]:
    """Return what lies in a record beside its whole tables, notes and streams."""
    known = {"ingest.json", "live", *(f"{name}.parquet" for name in TABLES)}
    return {each.name for each in RunPaths(root).record.iterdir()} - known


def tables(root: Path) -> dict[str, pa.Table]:
    return {name: pq.read_table(RunPaths(root).table(name)) for name in TABLES}


def command(process: psutil.Process | None) -> str:
    try:
        return " ".join(process.cmdline()) if process else ""
    except psutil.Error:  # It has just ended.
        return ""


def a_worker(process: psutil.Process) -> bool:
    """A child of the process that forks Spark's Python workers; both have the same command."""
    return "checkers.spark.daemon" in command(process) and "daemon" in command(process.parent())


def a_java(process: psutil.Process) -> bool:
    return "SparkSubmit" in command(process)


def an_executor(process: psutil.Process) -> bool:
    return "CoarseGrainedExecutorBackend" in command(process)


def busiest(named: Names) -> psutil.Process:
    """Return the process below this one that took most of the processors, of a kind."""
    below = [each for each in psutil.Process().children(recursive=True) if named(each)]
    return max(below, key=lambda each: sum(each.cpu_times()[:2]))


@contextmanager
def killed_meanwhile(root: Path, named: Names, *, judging: bool = False) -> Iterator[list[int]]:
    """Kill a process below this one once a part of a run was written, or all of its tables."""
    killed: list[int] = []

    def kill() -> None:
        notes = RunPaths(root).record / "ingest.json"
        wait_until(lambda: notes.exists() if judging else parts(root), timeout_s=300, what="work")
        chosen = busiest(named)
        chosen.kill()
        killed.append(chosen.pid)

    thread = Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        thread.join()


def judged_alike(root: Path, verdict: Verdict) -> None:
    here = tables(root)
    (local,) = judge_runs([root], engine="local", reingest=True)
    assert replace(verdict, engine="local") == local
    assert here == tables(root)
    assert verdict.valid.value == "valid"


@pytest.mark.night
@pytest.mark.parametrize("judging", [False, True])
def test_a_check_whose_worker_is_killed_ends_with_the_right_verdict(
    run: Path, *, judging: bool
) -> None:
    with killed_meanwhile(run, a_worker, judging=judging) as killed:
        (verdict,) = judge_runs([run])
    assert killed
    assert left(run) == set()
    judged_alike(run, verdict)


@pytest.mark.night
def test_a_check_whose_java_is_killed_leaves_nothing_and_the_next_one_is_right(run: Path) -> None:
    with killed_meanwhile(run, a_java) as killed, pytest.raises(EngineError, match="was ended"):
        judge_runs([run])
    assert killed
    assert left(run) == set()
    assert not RunPaths(run).table("polls").exists()
    (verdict,) = judge_runs([run])
    judged_alike(run, verdict)


@pytest.mark.night
def test_a_check_that_is_killed_leaves_what_the_next_one_removes(run: Path) -> None:
    check = subprocess.Popen([*CHECK, run], stdout=subprocess.DEVNULL)
    wait_until(lambda: parts(run), timeout_s=300, what="a part")
    below = psutil.Process(check.pid).children(recursive=True)
    check.kill()
    check.wait()
    psutil.wait_procs(below, timeout=60)
    assert [each for each in below if each.is_running()] == []
    assert left(run) == {"parts"}
    draft = RunPaths(run).record / ".polls.parquet.abcdefgh"
    draft.write_bytes(b"PAR1")
    (verdict,) = judge_runs([run])
    assert left(run) == set()
    judged_alike(run, verdict)


@pytest.mark.night
def test_two_checks_of_a_run_at_a_time_disturb_each_other_in_nothing(run: Path) -> None:
    checks = [
        subprocess.Popen([*CHECK, run], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [each.communicate()[0] for each in checks]
    assert [each.returncode for each in checks] == [0, 0], said
    assert left(run) == set()
    verdict = read_verdict(RunPaths(run).verdict)
    assert verdict is not None
    judged_alike(run, verdict)


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_check_on_a_disk_that_fills_up_is_one_sentence(
    tmp_path: Path, run: Path, engine: str
) -> None:
    """A disk of 4 MiB more than the record has, where its tables and parts want more."""
    small = tmp_path / "small"
    small.mkdir()
    size = sum(each.stat().st_size for each in run.rglob("*") if each.is_file()) + (4 << 20)
    script = (
        'mount -t tmpfs -o size="$1" tmpfs "$2"; cp -r "$3" "$2/run"; shift 3;'
        ' "$@" small/run; code=$?; ls -A small/run/record; exit $code'
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(size), small, run,
         *CHECK, "--engine", engine],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (254, "live\n")
    assert re.fullmatch(r"logquake: .*parquet cannot be used: the disk is full; .*\n", done.stderr)


@pytest.mark.night
def test_a_check_on_a_cluster_whose_executor_is_killed_ends_with_the_right_verdict(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors(tmp_path, count=2)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with (
        standalone(tmp_path, workers=2) as master,
        killed_meanwhile(run, an_executor) as killed,
    ):
        (verdict,) = judge_runs([run], spark_master=master)
    assert killed
    assert left(run) == set()
    judged_alike(run, verdict)
