"""Which jars of a folder are a Kafka of the user's, and which folders are refused."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.protocol import UserError
from cluster.systems.builds import as_release, build_in, hashes_of, jars_named
from tests.systems.layouts import SERVER, VERSION_FILE, distribution, jar, tree

SNAPSHOT = "4.4.0-SNAPSHOT"


def names(folder: Path) -> list[str]:
    """Return the class path of a build, relative to its folder."""
    return [str(each.relative_to(folder)) for each in build_in(folder).classpath]


def test_a_distribution_is_all_jars_in_libs_that_run(tmp_path: Path) -> None:
    folder = distribution(tmp_path / "kafka 2.13")
    for name in ("kafka_2.13-4.4.0-sources", "kafka-clients-4.4.0-test", "kafka-clients-4.4.0-src"):
        jar(folder / f"libs/{name}.jar", SERVER)
    build = build_in(folder)
    assert (build.version, build.commit) == ("4.4.0", "abc123")
    assert names(folder) == [
        "libs/kafka-clients-4.4.0.jar", "libs/kafka-storage-4.4.0.jar",
        "libs/kafka_2.13-4.4.0.jar", "libs/log4j-slf4j-impl-2.25.4.jar",
        "libs/slf4j-api-1.7.36.jar",
    ]  # fmt: skip


def test_a_tree_is_what_its_server_needs_and_a_modules_own_jar_goes_before_a_copy(
    tmp_path: Path,
) -> None:
    folder = tree(tmp_path)
    # Copies of all classes, as old as when the benchmarks were built last.
    jar(folder / f"jmh-benchmarks/build/libs/kafka-jmh-benchmarks-{SNAPSHOT}.jar", SERVER)
    jar(folder / f"connect/api/build/libs/connect-api-{SNAPSHOT}.jar", "some.class")
    jar(folder / f"storage/build/libs/kafka-storage-{SNAPSHOT}-test.jar", "some.class")
    assert build_in(folder).version == SNAPSHOT
    assert names(folder) == [
        f"core/build/libs/kafka_2.13-{SNAPSHOT}.jar",
        f"clients/build/libs/kafka-clients-{SNAPSHOT}.jar",
        f"server-common/build/libs/kafka-server-common-{SNAPSHOT}.jar",
        f"storage/build/libs/kafka-storage-{SNAPSHOT}.jar",
        f"storage/api/build/libs/kafka-storage-api-{SNAPSHOT}.jar",
        "core/build/dependant-libs-2.13.18/scala-library-2.13.18.jar",
        "core/build/dependant-libs-2.13.18/slf4j-api-1.7.36.jar",
        f"tools/build/libs/kafka-tools-{SNAPSHOT}.jar",
        "tools/build/dependant-libs-2.13.18/log4j-slf4j-impl-2.25.4.jar",
    ]


def test_what_an_earlier_version_left_in_a_tree_is_not_run(tmp_path: Path) -> None:
    folder = tree(tree(tmp_path, "4.3.0"))
    for scala in ("2.12.20", "2.13.11"):
        jar(folder / f"core/build/dependant-libs-{scala}/scala-library-{scala}.jar", "some.class")
    jar(folder / f"core/build/libs/kafka_2.12-{SNAPSHOT}.jar", SERVER)
    assert build_in(folder).version == SNAPSHOT
    assert not [each for each in names(folder) if "4.3.0" in each or "2.12" in each]
    assert len(names(folder)) == 9


def test_a_module_that_lacks_its_own_jar_is_run_from_the_copy(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    shutil.rmtree(folder / "storage/build")
    assert f"core/build/dependant-libs-2.13.18/kafka-storage-{SNAPSHOT}.jar" in names(folder)


def test_a_tree_of_kafka_3_is_known_by_its_scala_alone(tmp_path: Path) -> None:
    folder = tree(tmp_path, "3.9.2", scala="2.13.14")
    (folder / "gradle.properties").unlink()
    assert build_in(folder).version == "3.9.2"


def test_links_are_followed_and_a_folder_may_be_one(tmp_path: Path) -> None:
    folder = distribution(tmp_path / "real")
    (tmp_path / "link").symlink_to(folder)
    kept = tmp_path / "elsewhere.jar"
    inside = folder / "libs/kafka-storage-4.4.0.jar"
    inside.rename(kept)
    inside.symlink_to(kept)
    assert tmp_path / "link/libs/kafka-storage-4.4.0.jar" in build_in(tmp_path / "link").classpath


def half_built(folder: Path) -> Path:
    shutil.rmtree(tree(folder) / "core/build/libs")
    return folder


def of_another_version(folder: Path) -> Path:
    shutil.rmtree(tree(folder) / "core/build/libs")
    jar(folder / "core/build/libs/kafka_2.13-4.3.0.jar", SERVER)
    return folder


def without_what_it_needs(folder: Path) -> Path:
    shutil.rmtree(tree(folder) / "core/build/dependant-libs-2.13.18")
    return folder


def never_built(folder: Path) -> Path:
    (folder / "clients/src").mkdir(parents=True)
    (folder / "build.gradle").touch()
    return folder


def two_versions(folder: Path) -> Path:
    (tree(tree(folder, "4.3.0")) / "gradle.properties").unlink()
    return folder


def two_unpacked(folder: Path) -> Path:
    return distribution(distribution(folder, "4.3.0"))


def two_scalas(folder: Path) -> Path:
    jar(distribution(folder) / "libs/kafka_2.12-4.4.0.jar", SERVER)
    return folder


def without_a_server(folder: Path) -> Path:
    (distribution(folder) / "libs/kafka_2.13-4.4.0.jar").unlink()
    return folder


def without_a_version(folder: Path) -> Path:
    jar(distribution(folder) / "libs/kafka-clients-4.4.0.jar", "some.class")
    return folder


def with_no_version_that_is_one(folder: Path) -> Path:
    clients = distribution(folder) / "libs/kafka-clients-4.4.0.jar"
    jar(clients, VERSION_FILE, text="commitId=1\nversion=unknown")
    return folder


def cut_off(folder: Path) -> Path:
    clients = distribution(folder) / "libs/kafka-clients-4.4.0.jar"
    clients.write_bytes(clients.read_bytes()[:-30])
    return folder


def libs(folder: Path) -> Path:
    return distribution(folder) / "libs"


def bin_folder(folder: Path) -> Path:
    found = distribution(folder) / "bin"
    found.mkdir()
    return found


def core_libs(folder: Path) -> Path:
    return tree(folder) / "core/build/libs"


def the_folder_around(folder: Path) -> Path:
    distribution(folder / "kafka_2.13-4.4.0")
    return folder


def archive(folder: Path) -> Path:
    found = folder / "kafka.tgz"
    found.touch()
    return found


def nothing(folder: Path) -> Path:
    (folder / "docs").mkdir()
    return folder / "docs"


def absent(folder: Path) -> Path:
    return folder / "kafka"


def colon(folder: Path) -> Path:
    return distribution(folder / "a:b")


@pytest.mark.parametrize(
    ("lay", "sentence"),
    [
        (
            half_built,
            r"the server in .* was not built, or not together with its clients.*gradlew jar",
        ),
        (of_another_version, r"core/build/libs has no jar of the clients' version.*gradlew jar"),
        (without_what_it_needs, r"no core/build/dependant-libs-2.13.18, .*gradlew jar"),
        (
            never_built,
            r"a Kafka source tree that was not built; type in that folder: ./gradlew jar",
        ),
        (two_versions, r"more than one Kafka \(.*4.3.0.jar, .*gradlew clean jar"),
        (two_unpacked, r"more than one Kafka .*unpack one version into an empty folder"),
        (two_scalas, r"more than one Kafka \(libs/kafka_2.12-4.4.0.jar, libs/kafka_2.13"),
        (without_a_server, r"no jar with kafka/Kafka.class, the server"),
        (without_a_version, r"does not contain its Kafka version: kafka/kafka-version"),
        (with_no_version_that_is_one, r"properties has no valid version"),
        (cut_off, r"kafka-clients-4.4.0.jar cannot be read as a jar"),
        (libs, r"libs is not a Kafka folder, but (\S+) is: use --system kafka:\1$"),
        (bin_folder, r"bin is not a Kafka folder, but (\S+) is: use --system kafka:\1$"),
        (core_libs, r"core/build/libs is not a Kafka folder, but (\S+) is: use --system kafka:\1$"),
        (the_folder_around, r"is not a Kafka folder, but \S+/kafka_2.13-4.4.0 is: use --system"),
        (archive, r"kafka.tgz is a file: unpack it"),
        (nothing, r"docs has no kafka-clients-\*.jar, neither in libs/ nor"),
        (absent, r"kafka is not a folder: --system kafka:PATH needs"),
        (colon, r"a:b has a colon, which would split Java's class path"),
    ],
)
def test_a_folder_that_is_no_whole_kafka_is_refused_with_the_remedy(
    lay: Callable[[Path], Path], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        build_in(lay(tmp_path))


def test_a_folder_may_be_named_from_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path / "kafka")
    monkeypatch.chdir(tmp_path / "kafka")
    assert build_in(Path()).classpath[0].is_absolute()


def test_jars_of_the_user_are_there_and_have_classes(tmp_path: Path) -> None:
    mine, classes = jar(tmp_path / "my patch.jar", "a/B.class"), tmp_path / "classes"
    (classes / "a").mkdir(parents=True)
    with pytest.raises(UserError, match=r"classes has no classes"):
        jars_named([str(mine), str(classes)])
    (classes / "a/B.class").touch()
    assert jars_named([str(mine), str(classes)]) == (mine, classes)
    with pytest.raises(UserError, match=r"b.jar does not exist: .* separated by commas"):
        jars_named([str(mine), "b.jar"])
    with pytest.raises(UserError, match=r"sources.jar has no classes"):
        jars_named([str(jar(tmp_path / "sources.jar", "a/B.java"))])
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"notes.txt has no classes"):
        jars_named([str(tmp_path / "notes.txt")])


def test_hashes_are_of_every_file_and_name_no_folder_above(tmp_path: Path) -> None:
    one, other = jar(tmp_path / "a/x.jar", "A.class"), jar(tmp_path / "b/x.jar", "B.class")
    (tmp_path / "classes/p").mkdir(parents=True)
    (tmp_path / "classes/p/C.class").write_bytes(b"")
    found = hashes_of([one, other, tmp_path / "classes"])
    assert list(found) == ["x.jar", "x.jar (1)", "classes/p/C.class"]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert found["classes/p/C.class"] == empty
    assert len({*found.values()}) == 3


@pytest.mark.parametrize(
    ("version", "told_as"), [("3.9.2", "3.9.2"), (SNAPSHOT, "4.3.1"), ("3.9.1-SNAPSHOT", "3.9.1")]
)
def test_a_build_is_told_as_the_release_that_it_is_nearest_to(
    version: str, told_as: str, tmp_path: Path
) -> None:
    folder = distribution(tmp_path, version)
    assert as_release(f"kafka:{folder}") == f"kafka:{told_as}"
    assert as_release(f"kafka:{folder}:combined") == f"kafka:{told_as}:combined"


@pytest.mark.parametrize("system", ["kafka:2.8.2", "reference", "attached:x.toml", "kafka:what"])
def test_all_else_is_told_as_what_it_is(system: str) -> None:
    assert as_release(system) == system
    assert as_release("kafka:2.8.2+a.jar,b.jar") == "kafka:2.8.2"


def test_a_pipe_with_a_jars_name_is_no_jar(tmp_path: Path) -> None:
    os.mkfifo(distribution(tmp_path) / "libs/kafka-clients-4.5.0.jar")
    assert build_in(tmp_path).version == "4.4.0"
