import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cluster.cache import cache_folder, refused
from cluster.kafka.fetch import _HASHES as HASHES
from cluster.kafka.fetch import cached_versions, fetch_kafka
from cluster.protocol import UserError
from results.record.plan import plan_from

VERSION = "4.9.1"
NEEDED = {
    ("org.apache.kafka", "kafka-clients", VERSION),
    ("org.slf4j", "slf4j-api", "1.7.36"),
    ("org.apache.logging.log4j", "log4j-core", "2.25.4"),
}
TOOLS = ("org.apache.kafka", "kafka-tools", VERSION)
BINDING = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; the connection of what is in `cuts` ends half-way, once."""

    cuts: set[str] = set()  # noqa: RUF012 - set by a test, for the one server there is

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass

    def copyfile(self, source, outputfile) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        if self.path in self.cuts:
            self.cuts.discard(self.path)
            outputfile.write(source.read(100))
        else:
            super().copyfile(source, outputfile)


class Repository:
    """A Maven repository in a folder, served on the loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()

    def put(self, group: str, artifact: str, version: str, *, needs: str = "") -> Path:
        place = self.folder / group.replace(".", "/") / artifact / version
        place.mkdir(parents=True)
        (place / f"{artifact}-{version}.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion>"
            f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version><dependencies>{needs}</dependencies></project>"
        )
        jar = place / f"{artifact}-{version}.jar"
        jar.write_bytes(artifact.encode() * 1000)
        publish_checksum(jar)
        return jar

    def list_versions(self, artifact: str, versions: list[str]) -> None:
        listed = "".join(f"<version>{each}</version>" for each in versions)
        (self.folder / "org/apache/kafka" / artifact / "maven-metadata.xml").write_text(
            f"<metadata><versioning><versions>{listed}</versions></versioning></metadata>"
        )


def dependencies(needed: set[tuple[str, str, str]]) -> str:
    return "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><scope>runtime</scope></dependency>"
        for group, artifact, version in sorted(needed)
    )


def publish_checksum(jar: Path) -> None:
    digest = hashlib.sha1(jar.read_bytes(), usedforsecurity=False).hexdigest()
    jar.with_name(f"{jar.name}.sha1").write_text(digest)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    served = Repository(tmp_path / "central")
    for one in {*NEEDED, BINDING, TOOLS}:
        served.put(*one)
    served.put("org.apache.kafka", "kafka_2.13", VERSION, needs=dependencies(NEEDED))
    served.list_versions("kafka_2.13", ["4.9.0", VERSION, "4.9.2-rc1"])
    yield served
    served.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The jars of this repository have the names of real ones, and other bytes.
    monkeypatch.setattr("cluster.kafka.fetch._HASHES", tmp_path / "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "logquake"


def fetch(repository: Repository, version: str = VERSION) -> list[Path]:
    said: list[str] = []
    return list(fetch_kafka(version, progress=said.append, repository=repository.url).classpath)


def kafka_jar(cache: Path) -> Path:
    return cache / f"maven/org/apache/kafka/kafka_2.13/{VERSION}/kafka_2.13-{VERSION}.jar"


def test_everything_that_kafka_needs_is_fetched_and_what_makes_it_log(
    repository: Repository,
) -> None:
    said: list[str] = []
    distribution = fetch_kafka(VERSION, progress=said.append, repository=repository.url)
    names = {jar.name for jar in distribution.classpath}
    expected = {f"{artifact}-{version}.jar" for _, artifact, version in {*NEEDED, BINDING}}
    assert names == expected | {f"kafka_2.13-{VERSION}.jar"}
    assert said[-1] == f"fetching Kafka {VERSION}: 6 of 6 files, 0 MB"
    assert cached_versions() == [VERSION]


def test_later_runs_need_no_network(repository: Repository) -> None:
    first = fetch(repository)
    repository.close()
    assert fetch(repository) == first


def test_a_jar_that_was_cut_short_is_fetched_again(repository: Repository, cache: Path) -> None:
    fetch(repository)
    whole = kafka_jar(cache).read_bytes()
    kafka_jar(cache).write_bytes(whole[:100])
    fetch(repository)
    assert kafka_jar(cache).read_bytes() == whole


def test_a_jar_of_the_right_length_with_wrong_bytes_is_fetched_again(
    repository: Repository, cache: Path
) -> None:
    fetch(repository)
    whole = kafka_jar(cache).read_bytes()
    kafka_jar(cache).write_bytes(bytes(len(whole)))
    fetch(repository)
    assert kafka_jar(cache).read_bytes() == whole


def test_a_jar_that_was_cut_short_is_not_taken_without_network(
    repository: Repository, cache: Path
) -> None:
    fetch(repository)
    kafka_jar(cache).write_bytes(b"half")
    repository.close()
    with pytest.raises(UserError, match=r"cannot be reached \(no connection\).*HTTPS_PROXY"):
        fetch(repository)


def test_a_connection_that_ends_early_is_tried_again(repository: Repository) -> None:
    Handler.cuts = {f"/org/apache/kafka/kafka_2.13/{VERSION}/kafka_2.13-{VERSION}.jar"}
    assert len(fetch(repository)) == 5
    assert not Handler.cuts


def test_a_jar_that_is_not_what_its_checksum_says_is_never_taken(
    repository: Repository, cache: Path
) -> None:
    path = f"org/apache/kafka/kafka-clients/{VERSION}/kafka-clients-{VERSION}.jar"
    broken = repository.folder / path
    broken.write_bytes(b"tampered with")
    with pytest.raises(UserError, match=r"kafka-clients-4\.9\.1\.jar does not match.*try again"):
        fetch(repository)
    assert not (cache / "maven" / path).exists()
    assert cached_versions() == []
    publish_checksum(broken)
    assert len(fetch(repository)) == 5


CLIENTS = f"org/apache/kafka/kafka-clients/{VERSION}/kafka-clients-{VERSION}.jar"


def test_14_a_jar_that_is_another_than_the_one_fetched_before_is_never_taken(
    repository: Repository, cache: Path
) -> None:
    fetch(repository)
    (cache / "maven" / CLIENTS).unlink()
    (repository.folder / CLIENTS).write_bytes(b"tampered with")
    publish_checksum(repository.folder / CLIENTS)
    with pytest.raises(UserError, match=r"kafka-clients-4\.9\.1\.jar does not match its known SHA"):
        fetch(repository)
    assert not (cache / "maven" / CLIENTS).exists()


@pytest.fixture
def shipped(
    repository: Repository, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the file of hashes that ships for a version, which was fetched."""
    fetch(repository)
    rows = json.loads((cache / "kafka" / f"{VERSION}.json").read_text())
    file = tmp_path / "hashes" / f"{VERSION}.sha256"
    file.parent.mkdir()
    file.write_text("".join(f"{row['sha256']}  {row['path']}\n" for row in rows))
    monkeypatch.setattr("cluster.kafka.fetch._HASHES", file.parent)
    return file


def test_14_a_jar_that_is_another_than_the_one_that_ships_is_never_taken(
    repository: Repository, cache: Path, shipped: Path
) -> None:
    assert len(fetch(repository)) == 5
    digest = hashlib.sha256((repository.folder / CLIENTS).read_bytes()).hexdigest()
    shipped.write_text(shipped.read_text().replace(digest, "0" * 64))
    with pytest.raises(UserError, match=r"does not match its known SHA-256 0000"):
        fetch(repository)
    assert not (cache / "maven" / CLIENTS).exists()


def test_14_a_jar_that_only_the_repository_adds_is_never_taken(
    repository: Repository, cache: Path, shipped: Path
) -> None:
    lines = [line for line in shipped.read_text().splitlines() if CLIENTS not in line]
    shipped.write_text("\n".join(lines))
    shutil.rmtree(cache)
    assert CLIENTS not in {jar.relative_to(cache / "maven").as_posix() for jar in fetch(repository)}


@pytest.mark.usefixtures("shipped")
def test_jars_that_are_listed_need_no_description_and_the_tools_are_known_among_them(
    repository: Repository, cache: Path
) -> None:
    before = fetch_kafka(VERSION, progress=print, repository=repository.url)
    shutil.rmtree(cache)
    for each in (*repository.folder.rglob("*.pom"), *repository.folder.rglob("*.sha1")):
        each.unlink()
    after = fetch_kafka(VERSION, progress=print, repository=repository.url)
    assert set(after.classpath) == set(before.classpath)
    assert after.tools == before.tools != ()
    assert "/org/apache/kafka/" in str(after.classpath[0])


def test_14_a_listed_jar_whose_name_is_another_than_its_folder_says_is_not_taken(
    repository: Repository, cache: Path, shipped: Path
) -> None:
    shipped.write_text(shipped.read_text().replace("4.9.1.jar", "4.9.1-linux.jar"))
    shutil.rmtree(cache)
    with pytest.raises(UserError, match=r"is not in Logquake's list of the jars of this version"):
        fetch(repository)


def test_14_what_a_version_rests_on_is_said_when_it_is_fetched(
    repository: Repository, cache: Path, shipped: Path
) -> None:
    def said() -> str:
        told: list[str] = []
        shutil.rmtree(cache)
        fetch_kafka(VERSION, progress=told.append, repository=repository.url)
        return "\n".join(told)

    assert "no hashes" not in said()
    shipped.unlink()
    assert (
        "Logquake has no hashes of this version, so only the repository's own hashes are checked"
    ) in said()


def test_each_version_that_ships_has_hashes_of_all_its_jars() -> None:
    for file in sorted(HASHES.glob("*.sha256")):
        lines = file.read_text().splitlines()
        assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in lines)
        paths = [line.split("  ")[1] for line in lines]
        assert paths == sorted(set(paths))
        assert any(re.search(rf"/kafka_2\.1[123]-{file.stem}\.jar$", path) for path in paths)
        assert any(path.endswith(f"/kafka-clients-{file.stem}.jar") for path in paths)


def test_the_default_version_is_fetched_as_it_ships() -> None:
    version = plan_from({}).system.removeprefix("kafka:")
    listed = (HASHES / f"{version}.sha256").read_text().splitlines()
    paths = [
        line.split("  ")[1] for line in listed if re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line)
    ]
    assert len(paths) == len(listed) > 40
    assert f"org/apache/kafka/kafka-clients/{version}/kafka-clients-{version}.jar" in paths


def test_13_a_manifest_that_names_a_file_outside_of_the_cache_is_not_believed(
    repository: Repository, cache: Path
) -> None:
    whole = fetch(repository)
    manifest, outside = cache / "kafka" / f"{VERSION}.json", cache / "maven" / ".." / "planted.jar"
    outside.write_bytes(b"planted")
    rows = json.loads(manifest.read_text())
    rows[0] |= {
        "path": "../planted.jar", "size": 7, "sha256": hashlib.sha256(b"planted").hexdigest()
    }  # fmt: skip
    manifest.write_text(json.dumps(rows))
    assert fetch(repository) == whole


def test_half_a_description_left_by_a_dead_process_is_not_believed(
    repository: Repository, cache: Path
) -> None:
    pom = kafka_jar(cache).with_suffix(".pom")
    pom.parent.mkdir(parents=True)
    pom.write_text("<project><modelVersion>4.0.0</mod")
    (cache / "maven" / "unfinished").touch()
    assert len(fetch(repository)) == 5
    assert not (cache / "maven" / "unfinished").exists()


def test_an_unknown_version_names_those_that_are(repository: Repository) -> None:
    with pytest.raises(
        UserError, match=r"Kafka 9\.9\.9 is not .*it has, for example: 4\.9\.1, 4\.9"
    ):
        fetch(repository, "9.9.9")


def test_a_listed_version_that_cannot_be_had_whole_says_what_is_missing(
    repository: Repository,
) -> None:
    for file in (repository.folder / "org/slf4j/slf4j-api/1.7.36").iterdir():
        file.unlink()
    with pytest.raises(UserError, match=r"is incomplete at .*slf4j-api.*such as --system"):
        fetch(repository)


def test_an_old_version_brings_what_its_list_forgets_and_not_the_logging_that_is_replaced(
    repository: Repository,
) -> None:
    old = "0.11.0.3"
    named = {("log4j", "log4j", "1.2.17"), ("org.slf4j", "slf4j-log4j12", "1.7.25")}
    beside = {
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
        ("ch.qos.reload4j", "reload4j", "1.2.19"),
        ("javax.xml.bind", "jaxb-api", "2.3.1"),
    }
    for one in named | beside:
        repository.put(*one)
    repository.put("org.apache.kafka", "kafka_2.11", old, needs=dependencies(named))
    repository.list_versions("kafka_2.11", [old])
    names = {jar.name for jar in fetch(repository, old)}
    assert names == {f"kafka_2.11-{old}.jar"} | {f"{each[1]}-{each[2]}.jar" for each in beside}


def test_a_zookeeper_that_a_new_java_cannot_run_is_replaced(repository: Repository) -> None:
    old, named = "2.3.1", ("org.apache.zookeeper", "zookeeper", "3.4.14")
    beside = {
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
        ("ch.qos.reload4j", "reload4j", "1.2.19"),
        ("org.apache.zookeeper", "zookeeper", "3.4.12"),
    }
    for one in {named} | beside:
        repository.put(*one)
    repository.put("org.apache.kafka", "kafka_2.12", old, needs=dependencies({named}))
    repository.list_versions("kafka_2.12", [old])
    names = {jar.name for jar in fetch(repository, old)}
    assert names == {f"kafka_2.12-{old}.jar"} | {f"{each[1]}-{each[2]}.jar" for each in beside}


def test_tools_are_no_part_of_the_server(repository: Repository) -> None:
    distribution = fetch_kafka(VERSION, progress=print, repository=repository.url)
    assert [jar.name for jar in distribution.tools] == [f"kafka-tools-{VERSION}.jar"]
    assert not set(distribution.tools) & set(distribution.classpath)


def test_a_cache_from_before_the_tools_is_made_whole_and_used_as_it_is_without_network(
    repository: Repository, cache: Path
) -> None:
    first = fetch(repository)
    manifest = cache / "kafka" / f"{VERSION}.json"
    rows = json.loads(manifest.read_text())
    old = [{key: row[key] for key in ("path", "size", "sha256")} for row in rows if not row["tool"]]
    manifest.write_text(json.dumps(old))
    assert len(fetch_kafka(VERSION, progress=print, repository=repository.url).tools) == 1
    manifest.write_text(json.dumps(old))
    repository.close()
    assert fetch(repository) == first


def test_a_page_that_is_no_description_is_named(repository: Repository) -> None:
    pom = repository.folder / f"org/apache/kafka/kafka_2.13/{VERSION}/kafka_2.13-{VERSION}.pom"
    pom.write_text("<html>please log in")
    with pytest.raises(UserError, match="is not a Maven description"):
        fetch(repository)


def test_a_cache_that_cannot_be_made_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"file/logquake cannot be used.*set XDG_CACHE_HOME"):
        fetch(repository)


def test_a_full_disk_is_named_with_the_remedy(tmp_path: Path) -> None:
    sentence = r"the disk of .* is full; free some space .* XDG_CACHE_HOME"
    with (
        pytest.raises(UserError, match=sentence),
        refused(tmp_path),
        Path("/dev/full").open("w") as full,
    ):
        full.write("x")


def test_two_processes_that_fetch_at_once_both_get_it_whole(
    repository: Repository, cache: Path
) -> None:
    program = (
        "import sys; from pathlib import Path; from cluster.kafka import fetch;"
        " fetch._HASHES = Path('none'); fetch_kafka = fetch.fetch_kafka;"
        "print(len(fetch_kafka(sys.argv[1], progress=str, repository=sys.argv[2]).classpath))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, VERSION, repository.url],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == ["5\n", "5\n"]
    rows = json.loads((cache / "kafka" / f"{VERSION}.json").read_text())
    assert len(rows) == 6


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)  # In no password file.
    with pytest.raises(UserError, match="no home folder for the cache; set XDG_CACHE_HOME"):
        cache_folder()


@pytest.mark.needs("root")
@pytest.mark.parametrize("linked", [False, True])
def test_13_nothing_is_taken_from_a_cache_that_is_somebody_else_s(
    *, linked: bool, tmp_path: Path, repository: Repository, cache: Path
) -> None:
    fetch(repository)
    if linked:
        cache.rename(tmp_path / "theirs")
        cache.symlink_to(tmp_path / "theirs")
    os.chown(cache, 65534, -1)
    with pytest.raises(
        UserError, match=r"nobody can put any program into the cache .* only you can write"
    ):
        fetch(repository)


@pytest.mark.parametrize("part", ["", "kafka", f"kafka/{VERSION}.json", f"maven/{CLIENTS}"])
def test_13_nothing_is_taken_from_a_cache_that_everybody_can_write(
    part: str, repository: Repository, cache: Path
) -> None:
    fetch(repository)
    (cache / part).chmod(0o777)
    with pytest.raises(UserError, match="everybody can put any program into the cache"):
        fetch(repository)
    (cache / part).chmod(0o755)
    fetch(repository)


@pytest.mark.needs("root")
def test_13_nothing_is_taken_from_a_part_of_a_cache_that_is_somebody_else_s(
    repository: Repository, cache: Path
) -> None:
    fetch(repository)
    os.chown(cache / "maven" / CLIENTS, 65534, -1)
    with pytest.raises(UserError, match=r"nobody can put any program into the cache"):
        fetch(repository)


@pytest.mark.needs("root")
def test_a_cache_of_root_s_is_taken_by_everybody(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(repository)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    fetch(repository)


@pytest.mark.parametrize(
    "whose", ["open", pytest.param("foreign", marks=pytest.mark.needs("root"))]
)
def test_13_nothing_is_taken_from_a_cache_that_somebody_else_can_swap(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = tmp_path / "above"
    monkeypatch.setenv("XDG_CACHE_HOME", str(above / "mine"))
    folder = cache_folder()
    assert folder.is_dir(), "else another could make it after the look"
    if whose == "open":
        above.chmod(0o777)
    else:
        os.chown(above, 65534, -1)
    with pytest.raises(UserError, match=r"can put any program into the cache .*parent folders"):
        cache_folder()
    os.chown(above, os.geteuid(), -1)
    above.chmod(0o1777)
    assert cache_folder() == folder, "as in /tmp: only its owner can rename it"
    (tmp_path / "link").symlink_to(above / "mine")
    above.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    with pytest.raises(UserError, match="everybody can put any program"):
        cache_folder()
