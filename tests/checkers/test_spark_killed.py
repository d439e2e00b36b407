"""Processes of Spark that are killed in the middle of their work, as the kernel does for memory."""

import os
import signal
from functools import partial
from pathlib import Path
from threading import Timer

import psutil
import pytest

from checkers.engine import EngineError
from checkers.spark.engine import spark_engine

pytestmark = [pytest.mark.spark, pytest.mark.everything, pytest.mark.timeout(300)]


def _square(mark: Path, number: int) -> int:
    """Square a number; the first process that comes to 2 is killed."""
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def _end_java(number: int) -> int:
    java = next(each for each in psutil.Process().parents() if "java" in each.name())
    java.kill()
    return number


def test_a_killed_task_is_done_again_and_a_killed_java_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "killed"
    with pytest.raises(
        EngineError, match=r"^Spark's Java process was ended from outside during its work"
    ):
        _work(mark)
    assert mark.exists()
    assert capfd.readouterr().err == ""


def _work(mark: Path) -> None:
    with spark_engine("local[2]") as engine:
        squares = engine.spread(partial(_square, mark), range(4))
        assert squares == [0, 1, 4, 9]
        engine.spread(_end_java, [1])


def test_java_whose_end_takes_a_while_is_the_same_sentence() -> None:
    """The kernel closes the connections of a killed process before it tells of its end."""
    with pytest.raises(EngineError, match=r"^Spark's Java process was ended from outside"):
        _lose_a_connection_a_second_early()


def _lose_a_connection_a_second_early() -> None:
    with spark_engine("local[1]"):
        java = next(each for each in psutil.Process().children() if "java" in each.name())
        Timer(1.0, java.kill).start()
        raise ConnectionResetError
