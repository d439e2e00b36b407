"""Spark's Java maps the classes that an earlier session left, and nothing wrong with them hurts."""

import errno
import os
from pathlib import Path

import pytest

from checkers.spark.classes import drop_classes, kept_classes
from checkers.spark.session import spark_context
from cluster.kept_classes import OLD_S, is_whole, keep, noted_of


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


def made_of_words(made: Path) -> None:
    made.write_text("classes")


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


@pytest.mark.parametrize("name", ["a b", "a:b", "a'b"])
def test_a_cache_whose_path_an_option_cannot_hold_keeps_none(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    for _ in range(2):
        assert left_by_a_session(java, tmp_path, b"classes") == ()
    assert not list((tmp_path / name).rglob("*.json"))


def test_what_a_java_left_that_ended_badly_does_not_count(
    cache: Path, java: Path, tmp_path: Path
) -> None:
    with kept_classes(java, tmp_path):
        (tmp_path / "classes.jsa").write_bytes(b"half")
        drop_classes(tmp_path)
    assert not list(cache.glob("*.jsa"))
    (noted,) = cache.glob("*.json")
    assert noted_of(noted) == {"tries": "1"}


def test_an_error_of_the_disk_counts_as_a_try(cache: Path) -> None:
    archive = cache / "spark-1-aa.jsa"

    def full(_made: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    keep(archive, full, lambda _: True)
    assert noted_of(archive) == {"tries": "1"}


def test_files_that_nobody_used_for_long_go_when_another_is_made(cache: Path) -> None:
    """Of the same program; and what others have left that were killed stays theirs."""
    cache.mkdir(parents=True)
    names = ("spark-1-aa", "spark-1-bb", "spark-2-aa", "4.3.1-17-aa")
    old = cache.stat().st_mtime - OLD_S - 100
    for name in names:
        for suffix in ("jsa", "json"):
            (cache / f"{name}.{suffix}").write_text("{}")
        os.utime(cache / f"{name}.jsa", (old, old))
    is_whole(cache / "spark-1-bb.jsa")  # It is used.
    mine, others = cache / "making-spark-1-cc-1", cache / "making-4.3.1-17-aa-1"
    mine.mkdir()
    others.mkdir()
    keep(cache / "spark-1-cc.jsa", made_of_words, lambda _: True)
    left = ("spark-1-bb", "spark-1-cc", "spark-2-aa", "4.3.1-17-aa")
    files = {f"{name}.{suffix}" for name in left for suffix in ("jsa", "json")}
    assert {each.name for each in cache.iterdir()} == {*files, others.name}


@pytest.mark.spark
@pytest.mark.night
@pytest.mark.usefixtures("cache")
def test_a_real_session_starts_with_what_another_one_left(cache: Path) -> None:
    said = []
    for _ in range(2):
        with spark_context("local[1]") as context:
            assert context.parallelize([1, 2], 1).sum() == 3
            jvm = context._jvm
            assert jvm is not None
            pid = int(jvm.java.lang.ProcessHandle.current().pid())
            maps = Path(f"/proc/{pid}/maps").read_text()
            said.append([os.fspath(each) for each in cache.glob("*.jsa") if str(each) in maps])
    assert said[0] == []
    assert len(said[1]) == 1
