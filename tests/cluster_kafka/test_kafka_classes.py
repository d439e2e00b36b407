"""Classes that Java keeps: brokers use them, and nothing that is wrong with them hurts."""

import subprocess
from pathlib import Path

import pytest

from cluster.kafka.class_keeping import keep_classes
from cluster.kafka.classes import archive_of, class_flags, is_whole, noted_of
from cluster.kafka.fetch import Distribution, fetch_kafka
from cluster.kafka.java import Java, find_java
from cluster.kafka.storage import java_argv
from results.record.plan import Plan

JARS = Distribution(version="4.3.1", classpath=(Path("/some/kafka.jar"),))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "logquake"


def program(folder: Path, text: str) -> Java:
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho called >> {folder}/calls\n{text}\n")
    path.chmod(0o755)
    return Java(path=path, major=17)


def keep(archive: Path, content: bytes, noted: str) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(content)
    archive.with_suffix(".json").write_text(noted)
    is_whole.cache_clear()


@pytest.mark.kafka
def test_a_broker_ends_in_order_and_its_classes_are_there_for_the_next_java() -> None:
    """In the user's own cache: all tests after this one start their brokers with it."""
    java, kafka = find_java(), fetch_kafka(Plan().kafka_version, progress=print)
    keep_classes(java, kafka, progress=print)
    assert class_flags(java, kafka)
    argv = java_argv(java, kafka, "-Xshare:on", "-Xlog:class+load", "kafka.tools.StorageTool")
    ended = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=False)
    loaded = [line for line in ended.stdout.splitlines() if " kafka.server.KafkaConfig " in line]
    assert all("shared objects file" in line for line in loaded), loaded
    assert loaded, ended.stdout[-2000:]


def test_what_is_not_as_it_was_noted_is_not_given_to_java(cache: Path) -> None:
    java = Java(path=Path("/some/java"), major=17)
    archive = archive_of(java, JARS)
    assert archive.is_relative_to(cache)
    assert class_flags(java, JARS) == ()
    whole = '{"sha256": "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"}'
    keep(archive, b"aaa", whole)
    flags = class_flags(java, JARS)
    assert f"-XX:SharedArchiveFile={archive}" in flags
    assert set(flags) < set(java_argv(java, JARS, "kafka.Kafka"))
    for content, noted in ((b"aa", whole), (b"aaa", "{}"), (b"aaa", "["), (b"aaa", "")):
        keep(archive, content, noted)
        assert class_flags(java, JARS) == ()
    keep(archive, b"aaa", whole)
    archive.unlink()
    assert class_flags(java, JARS) == ()


def test_another_java_and_other_jars_have_classes_of_their_own(cache: Path) -> None:
    other = Distribution(version="4.3.1", classpath=(Path("/other/kafka.jar"),))
    javas = [Java(path=Path("/one"), major=17), Java(path=Path("/other"), major=17),
             Java(path=Path("/one"), major=21)]  # fmt: skip
    archives = {archive_of(java, jars) for java in javas for jars in (JARS, other)}
    assert len(archives) == 6
    assert all(archive.is_relative_to(cache) for archive in archives)


@pytest.mark.parametrize(
    "text",
    [
        "exit 1",
        'for each do [ "$each" = format ] && exit 0; done; exit 3',
        # It keeps some, with which no Java starts.
        'for each do case "$each" in -XX:Ar*) >"${each#*=}";; -version) exit 1; esac; done',
    ],
)
def test_a_java_that_keeps_none_is_asked_once(cache: Path, tmp_path: Path, text: str) -> None:
    java, said = program(tmp_path, text), list[str]()
    keep_classes(java, JARS, progress=said.append)
    assert said == ["preparing Kafka 4.3.1 for quicker starts, once"]
    calls = (tmp_path / "calls").read_text()
    assert noted_of(archive_of(java, JARS)) == {}
    keep_classes(java, JARS, progress=said.append)
    assert (tmp_path / "calls").read_text() == calls
    assert len(said) == 1
    assert class_flags(java, JARS) == ()
    assert [path.name for path in (cache / "classes").iterdir()] == [
        archive_of(java, JARS).with_suffix(".json").name
    ]


def test_without_a_folder_to_keep_them_in_nothing_is_kept(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("no folder")
    keep_classes(program(tmp_path, "exit 0"), JARS, progress=print)
    assert class_flags(program(tmp_path, "exit 0"), JARS) == ()
    assert not (tmp_path / "calls").exists()
