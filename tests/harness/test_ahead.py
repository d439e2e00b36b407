"""The engine of a judgement is made ready while the run goes on, and nothing of it is left."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkers.engine import EngineError
from harness import ahead
from harness.ahead import Ahead
from harness.interrupt import JUDGING, SIGNALS, Answers
from harness.judgement import Engine
from results.record.clock import WaitTimeoutError, wait_until
from results.record.milestones import STOPPING, Milestone, append_milestone
from results.record.paths import RunPaths

LIMIT_S = 30.0
SPARK = Engine(name="spark")


class Fake:
    """Stands for Spark: its engine, and a process that it starts."""

    name = "fake"

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.fails: Exception | None = None
        self.fails_at_end: Exception | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def entered(self, _choice: Engine, *, warm: bool = False) -> Iterator["Fake"]:
        assert warm
        with subprocess.Popen(["sleep", "600"]) as self.process:
            self.began.set()
            try:
                wait_until(
                    lambda: self.go_on.is_set() or self.process.poll() is not None,  # type: ignore[union-attr]
                    timeout_s=LIMIT_S,
                    what="the word to go on",
                )
                if self.process.poll() is not None:
                    raise EngineError("Spark did not start: it was killed")
                if self.fails is not None:
                    raise self.fails
                yield self
                if self.fails_at_end is not None:
                    raise self.fails_at_end
            finally:
                self.process.kill()
                self.ended.set()


@pytest.fixture(name="spark")
def fake_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    fake = Fake()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr(ahead, "entered", fake.entered)
    monkeypatch.setattr(ahead, "_load", lambda: None)
    yield fake
    for number, handler in before.items():  # A command that a signal ended ignores more of them.
        signal.signal(number, handler)
    assert "engine" not in {each.name for each in threading.enumerate()}


def reach(paths: RunPaths, name: str) -> None:
    append_milestone(paths.milestones, Milestone(name=name, at_ns=0))


def test_an_engine_is_started_when_all_is_recovered_and_is_ready_for_the_judgement(
    spark: Fake, tmp_path: Path
) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    with engine.watching(paths):
        for name in ("ready", "main", "main-ended", "healed"):
            reach(paths, name)
        with pytest.raises(WaitTimeoutError):
            wait_until(spark.began.is_set, timeout_s=3 * ahead.LOOK_S, what="a start too early")
        reach(paths, "recovered")
        assert spark.began.wait(LIMIT_S)
        assert paths.scratch.exists()
        spark.go_on.set()
        with engine.worker(paths) as worker:
            assert worker.name == spark.name
            assert not spark.ended.is_set()
        engine.wait_gone()
        assert spark.ended.is_set()
        assert not paths.scratch.exists()


def test_a_run_that_reached_nothing_is_judged_all_the_same(spark: Fake, tmp_path: Path) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    spark.go_on.set()
    with engine.watching(paths), engine.worker(paths) as worker:
        assert worker.name == spark.name


def test_what_keeps_an_engine_from_its_start_is_raised_where_it_is_asked_for(
    spark: Fake, tmp_path: Path
) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    spark.fails = EngineError("Spark did not start with master local[2]: no memory")
    spark.go_on.set()
    with engine.watching(paths):
        reach(paths, STOPPING)
        assert spark.began.wait(LIMIT_S)
        with (
            pytest.raises(EngineError, match="did not start with master"),
            engine.worker(paths),
        ):
            pass
    assert not paths.scratch.exists()


def test_what_keeps_an_engine_from_its_end_is_raised_once_the_page_is_drawn(
    spark: Fake, tmp_path: Path
) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    spark.go_on.set()
    spark.fails_at_end = OSError("it does not end")
    with engine.watching(paths):
        with engine.worker(paths):
            pass
        with pytest.raises(OSError, match="it does not end"):
            engine.wait_gone()
    assert not paths.scratch.exists()


def test_what_fails_in_the_judgement_reaches_the_engine(spark: Fake, tmp_path: Path) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    spark.go_on.set()
    with (
        pytest.raises(ValueError, match="a job failed"),
        engine.watching(paths),
        engine.worker(paths),
    ):
        raise ValueError("a job failed")
    assert spark.ended.is_set()
    assert not paths.scratch.exists()


def test_a_run_that_is_not_judged_has_its_engine_ended(spark: Fake, tmp_path: Path) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    spark.go_on.set()
    with engine.watching(paths):
        reach(paths, "final-reads")
        assert spark.began.wait(LIMIT_S)
    assert spark.ended.is_set()
    assert not paths.scratch.exists()


def test_a_run_that_ends_before_its_clients_stop_starts_no_engine(
    spark: Fake, tmp_path: Path
) -> None:
    paths, engine = RunPaths(tmp_path), Ahead(SPARK)
    with engine.watching(paths):
        reach(paths, "ready")
    assert not spark.began.is_set()
    assert not paths.scratch.exists()


def test_ctrl_c_while_an_engine_starts_ends_it_at_once(spark: Fake, tmp_path: Path) -> None:
    paths, engine, said = RunPaths(tmp_path), Ahead(SPARK), list[str]()

    def judge() -> None:
        with Answers("log/1", said.append) as answers, engine.watching(paths):
            answers.stage_ended(0)
            answers.cut(JUDGING, "log/1 was not judged")
            thread = threading.Thread(target=interrupt_when_begun)
            thread.start()
            try:
                with engine.worker(paths):
                    pytest.fail("it never became ready")
            finally:
                thread.join()

    def interrupt_when_begun() -> None:
        assert spark.began.wait(LIMIT_S)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="log/1 was not judged"):
        judge()
    assert said == [JUDGING]
    assert spark.process is not None
    assert spark.process.wait(LIMIT_S) == -signal.SIGKILL
    assert not paths.scratch.exists()


def test_a_stage_that_starts_meanwhile_misses_no_signal(spark: Fake, tmp_path: Path) -> None:
    """A thread that would take signals while the main thread postpones them loses them to it."""
    masks = list[set[int]]()

    class Looking(Ahead):
        def _make(self, paths: RunPaths) -> None:
            masks.append({*signal.pthread_sigmask(signal.SIG_BLOCK, [])})
            super()._make(paths)

    with Looking(SPARK).watching(RunPaths(tmp_path)):
        wait_until(lambda: masks, timeout_s=LIMIT_S, what="the thread")
    assert masks[0] >= {*SIGNALS}
    assert not spark.began.is_set()


@pytest.mark.parametrize(
    "choice", [Engine(name="local"), Engine(name="spark", spark_master="spark://far:7077")]
)
def test_other_engines_start_with_the_judgement(
    choice: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = list[Engine]()

    @contextmanager
    def enter(choice: Engine, *, warm: bool = False) -> Iterator[str]:
        assert not warm
        entered.append(choice)
        yield "worker"

    monkeypatch.setattr(ahead, "entered", enter)
    paths, engine = RunPaths(tmp_path), Ahead(choice)
    with engine.watching(paths):
        reach(paths, STOPPING)
        assert "engine" not in {each.name for each in threading.enumerate()}
        assert not entered
        with engine.worker(paths) as worker:
            assert str(worker) == "worker"
    assert entered == [choice]
