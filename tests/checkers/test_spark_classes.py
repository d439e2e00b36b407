"""Spark's Java maps the classes that an earlier session left, and nothing wrong with them hurts."""

import os
from pathlib import Path

import pytest

from checkers.spark.classes import kept_classes
from checkers.spark.session import spark_session
from cluster.kept_classes import is_whole, noted_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "logquake" / "classes"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    path = tmp_path / "java"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def left_by_a_session(java: Path, scratch: Path, content: bytes | None) -> tuple[str, ...]:
    """Return the flags that a session of this content gives its Java."""
    with kept_classes(java, scratch) as flags:
        if content is not None:
            (scratch / "classes.jsa").write_bytes(content)
    return flags


def test_the_first_session_leaves_what_later_ones_take(
    cache: Path, java: Path, tmp_path: Path
) -> None:
    first = left_by_a_session(java, tmp_path, b"classes")
    assert f"-XX:ArchiveClassesAtExit={tmp_path}/classes.jsa" in first
    (archive,) = cache.glob("*.jsa")
    assert archive.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={archive}" in left_by_a_session(java, tmp_path, None)
    archive.write_bytes(b"cut")
    is_whole.cache_clear()
    assert left_by_a_session(java, tmp_path, None) == ()


def test_a_java_that_leaves_nothing_is_asked_three_times(
    cache: Path, java: Path, tmp_path: Path
) -> None:
    flags = [left_by_a_session(java, tmp_path, None) for _ in range(4)]
    assert [bool(each) for each in flags] == [True, True, True, False]
    (noted,) = cache.glob("*.json")
    assert noted_of(noted) == {"tries": "3"}


def test_two_sessions_at_once_do_not_both_keep_them(
    cache: Path, java: Path, tmp_path: Path
) -> None:
    with kept_classes(java, tmp_path) as mine, kept_classes(java, tmp_path) as others:
        assert mine
        assert others == ()
    assert cache.exists()


def test_a_session_that_fails_keeps_nothing(cache: Path, java: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.jsa").write_bytes(b"half")
    with pytest.raises(ValueError, match="a job"), kept_classes(java, tmp_path):
        raise ValueError("a job")
    assert {path.name for path in cache.iterdir()} == {"spark.lock"}


def test_without_a_cache_there_are_no_flags(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert left_by_a_session(java, tmp_path, None) == ()


@pytest.mark.spark
@pytest.mark.everything
@pytest.mark.usefixtures("cache")
def test_a_real_session_starts_with_what_another_one_left(cache: Path) -> None:
    said = []
    for _ in range(2):
        with spark_session("local[1]") as session:
            assert session.sparkContext.parallelize([1, 2], 1).sum() == 3
            jvm = session.sparkContext._jvm
            assert jvm is not None
            pid = int(jvm.java.lang.ProcessHandle.current().pid())
            maps = Path(f"/proc/{pid}/maps").read_text()
            said.append([os.fspath(each) for each in cache.glob("*.jsa") if str(each) in maps])
    assert said[0] == []
    assert len(said[1]) == 1
