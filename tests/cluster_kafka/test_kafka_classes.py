"""Classes that Java keeps: brokers use them, and nothing that is wrong with them hurts."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.java import Java, find_java
from cluster.kafka.class_keeping import keep_classes
from cluster.kafka.classes import archive_of, class_flags
from cluster.kafka.fetch import Distribution, fetch_kafka
from cluster.kafka.storage import java_argv
from cluster.kept_classes import is_whole, noted_of
from results.record.plan import Plan

pytestmark = pytest.mark.everything

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


BROKER = """
import os, pathlib, re, signal, socket, sys
arguments = sys.argv[1:]
if "-version" in arguments:
    sys.exit({version})
if "kafka.Kafka" in arguments:
    settings = pathlib.Path(arguments[-1]).read_text()
    (made,) = [each.partition("=")[2] for each in arguments if each.startswith("-XX:Ar")]
    pathlib.Path(made).write_text("classes")
    signal.signal(signal.SIGTERM, lambda *_: os._exit({end}))
    port = int(re.search(r"BROKER[^,]*?(\\d{4,})", settings)[1])
    server = socket.create_server(("127.0.0.1", port))
    while True:
        server.accept()
"""


def broker(*, version: int, end: int) -> str:
    """Return a program that keeps classes as a broker does."""
    text = BROKER.replace("{version}", str(version)).replace("{end}", str(end))
    return f"exec python3 - \"$@\" <<'END'\n{text}\nEND"


@pytest.mark.parametrize("text", ["exit 1", broker(version=1, end=143)])
def test_a_java_that_keeps_none_is_asked_once(cache: Path, tmp_path: Path, text: str) -> None:
    java, said = program(tmp_path, text), list[str]()
    keep_classes(java, JARS, progress=said.append)
    assert said == ["preparing Kafka 4.3.1 for faster starts (only once)"]
    calls = (tmp_path / "calls").read_text()
    assert noted_of(archive_of(java, JARS)) == {}
    keep_classes(java, JARS, progress=said.append)
    assert (tmp_path / "calls").read_text() == calls
    assert len(said) == 1
    assert class_flags(java, JARS) == ()
    assert [path.name for path in (cache / "classes").iterdir()] == [
        archive_of(java, JARS).with_suffix(".json").name
    ]


ENDS_EARLY = 'for each do case "$each" in -XX:Ar*) echo >"${each#*=}"; exit 1;; esac; done'


@pytest.mark.parametrize("text", [ENDS_EARLY, broker(version=0, end=1)])
def test_a_broker_that_ends_too_early_or_badly_is_tried_three_times(
    cache: Path, tmp_path: Path, text: str
) -> None:
    java, said = program(tmp_path, text), list[str]()
    for tries in (1, 2, 3):
        keep_classes(java, JARS, progress=said.append)
        assert noted_of(archive_of(java, JARS)) == {"tries": f"{tries}"}
        assert class_flags(java, JARS) == ()
    keep_classes(java, JARS, progress=said.append)
    assert len(said) == 3
    assert not archive_of(java, JARS).exists()
    java.path.write_text(java.path.read_text() + "\n")  # An update: it is asked anew.
    keep_classes(java, JARS, progress=said.append)
    assert len(said) == 4
    assert cache.exists()


def test_a_broker_that_ends_in_order_leaves_classes(cache: Path, tmp_path: Path) -> None:
    java = program(tmp_path, broker(version=0, end=143))
    left = cache / "classes" / f"making-{archive_of(java, JARS).stem}-by-who-was-killed"
    left.mkdir(parents=True)
    keep_classes(java, JARS, progress=print)
    archive = archive_of(java, JARS)
    assert archive.read_text() == "classes"
    assert f"-XX:SharedArchiveFile={archive}" in class_flags(java, JARS)
    assert class_flags(replace(java, elsewhere=True), JARS) == ()
    assert not left.exists()


def test_without_a_folder_to_keep_them_in_nothing_is_kept(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("no folder")
    keep_classes(program(tmp_path, "exit 0"), JARS, progress=print)
    assert class_flags(program(tmp_path, "exit 0"), JARS) == ()
    assert not (tmp_path / "calls").exists()
