"""`git bisect run` over a repository of patches of Kafka ends at the commit that broke it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.broken_kafka.compiling import source_of
from tests.harness.commands import HERE, LOGQUAKE, logquake, newest

ROOT = Path(__file__).parent.parent.parent
LOCAL_LOG = "org/apache/kafka/storage/internals/log/LocalLog.java"
APPEND = "        segments.activeSegment().append(lastOffset, records);\n"
END = "        updateLogEndOffset(lastOffset + 1);\n"
FEWER = (
    '        if (lastOffset % 16 != 15 || topicPartition.topic().startsWith("__"))\n'
    "            active.append(lastOffset, records);\n"
)
"""Acknowledges some batches that it never writes; the controllers' log has all of them."""
ACTIVE = "        LogSegment active = segments.activeSegment();\n"
HISTORY = (
    ("log: as released", APPEND + END),
    ("log: does not compile", APPEND + END.replace(";", "")),
    ("log: name the segment", f"{ACTIVE}        active.append(lastOffset, records);\n{END}"),
    ("log: write fewer batches", ACTIVE + FEWER + END),
    ("log: say what follows", f"{ACTIVE}{FEWER}        // The next offset to be given.\n{END}"),
    ("log: final", f"{ACTIVE.replace('        Log', '        final Log')}{FEWER}{END}"),
)
BROKEN = "log: write fewer batches"
PLAN = """
nodes = 1
replication = 1
min_insync = 1
hosts = "process"
seed = 4
nemesis = []
warmup_s = 1
time_limit_s = 5
[minimums]
ok_sends = 1
ok_polls = 1
"""
BUILD = """
import sys
from pathlib import Path

from benchmarks.broken_kafka.compiling import DoesNotCompileError, compiled

text = Path("LocalLog.java").read_text(encoding="utf-8")
try:
    compiled({sys.argv[1]: text}, Path(sys.argv[2]))
except DoesNotCompileError as refused:
    sys.exit(str(refused))
"""


def git(*words: str, folder: Path) -> str:
    """Run git, and return what it says."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False,
        timeout=1800, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def repository(folder: Path) -> Path:
    """Make a repository whose commits each have the source of a class of Kafka."""
    folder.mkdir()
    git("init", "-q", "-b", "trunk", folder=folder)
    released = source_of("kafka-storage", LOCAL_LOG)
    assert released.count(APPEND + END) == 1
    for title, append in HISTORY:
        text = released.replace(APPEND + END, append)
        (folder / "LocalLog.java").write_text(text, encoding="utf-8")
        git("add", "-A", folder=folder)
        git("commit", "-q", "-m", title, folder=folder)
    return folder


def built_here(repo: Path, classes: Path) -> None:
    argv = [sys.executable, "-c", BUILD, LOCAL_LOG, str(classes)]
    subprocess.run(argv, cwd=repo, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.mark.night
@pytest.mark.kafka
@pytest.mark.timeout(2400)
def test_git_bisect_run_ends_at_the_commit_that_broke_kafka(tmp_path: Path) -> None:
    repo, store, classes = repository(tmp_path / "repo"), tmp_path / "runs", tmp_path / "classes"
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    built_here(repo, tmp_path / "newest")
    system = f"kafka:4.3.1+{tmp_path / 'newest'}"
    done = logquake("run", str(plan), "--system", system, *HERE, store=store)
    assert done.returncode == 1, done.stdout + done.stderr
    run = newest(store).run_id

    script = tmp_path / "bisect.sh"
    build = shlex.join([sys.executable, "-c", BUILD, LOCAL_LOG, str(classes)])
    play = shlex.join(
        [LOGQUAKE, "repro", run, "--system", f"kafka:4.3.1+{classes}", "--bisect",
         "--times", "1", "--store", str(store), *HERE]
    )  # fmt: skip
    script.write_text(
        f"#!/bin/sh\nrm -rf {shlex.quote(str(classes))}\n{build} || exit 125\nexec {play}\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    git("bisect", "start", "HEAD", "HEAD~5", folder=repo)
    said = git("bisect", "run", str(script), folder=repo)
    assert "is the first bad commit" in said, said
    assert git("log", "-1", "--format=%s", "refs/bisect/bad", folder=repo).strip() == BROKEN
