"""A Kafka of the user's, played: laid out as its archive does, as a build does, with jars in front.

The jars are those of 4.3.1, as links; the patched class is compiled against them.
"""

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.java import find_java
from cluster.kafka.fetch import fetch_kafka
from cluster.protocol import ClusterError, UserError
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of
from tests.harness.commands import LOGQUAKE, newest
from tests.systems.layouts import real_distribution, real_tree

pytestmark = pytest.mark.kafka

LIMIT_S = 300
COMMIT = "26b251a451ce941d"
"""Of 4.3.1, as its jars have it."""
TOO_NEW = 99
"""A version of class files that no Java reads."""
PLAN = """
nodes = 1
replication = 1
min_insync = 1
topics = 1
partitions = 2
rate = 100
concurrency = 4
workers = 1
warmup_s = 1
time_limit_s = 6
seed = 5
[minimums]
ok_sends = 20
ok_polls = 5
around_faults = 1
[[faults]]
at_s = 2
kind = "pause"
target = "n1"
hold_s = 1
"""


def played(system: str, folder: Path, *words: str) -> RunPaths:
    """Play a short run by the user's command, and see that it is valid."""
    plan = folder / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    store = folder / "store"
    argv = [LOGQUAKE, "run", str(plan), "--system", system, "--hosts", "process"]
    done = subprocess.run(
        [*argv, "--store", str(store), "--engine", "local", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return newest(store)


def brokers_in(paths: RunPaths) -> dict[str, object]:
    """Return what a run's environment says of its brokers; it names no folder of theirs."""
    text = paths.environment.read_text()
    told = json.loads(text)
    jars = told["brokers"]["jars"]
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in jars.values())
    assert not [each for each in jars if each.startswith(("/", ".."))]
    assert text.count("my kafka") == told["system"].count("my kafka") == 1
    brokers: dict[str, object] = told["brokers"]
    return brokers


@pytest.mark.night
def test_a_run_on_an_unpacked_distribution_is_valid_and_says_what_it_was(tmp_path: Path) -> None:
    real_distribution(tmp_path / "my kafka")
    java = find_java().path.resolve().parent.parent
    paths = played("kafka:./my kafka", tmp_path, "--java", str(java))
    brokers = brokers_in(paths)
    assert (brokers["version"], brokers["commit"]) == ("4.3.1", COMMIT)
    jars = brokers["jars"]
    assert isinstance(jars, dict)
    assert {f"kafka_2.13-{brokers['version']}.jar", "kafka-clients-4.3.1.jar"} <= jars.keys()
    page = paths.report.read_text()
    assert f"4.3.1 (commit {COMMIT})" in page
    assert f"kafka:{tmp_path}/my kafka" in page


@pytest.mark.night
def test_a_run_on_a_build_tree_is_valid_and_runs_what_was_built_last(tmp_path: Path) -> None:
    paths = played(f"kafka:{real_tree(tmp_path / 'my kafka')}:controllers", tmp_path)
    brokers = brokers_in(paths)
    assert (brokers["version"], brokers["commit"]) == ("4.3.1", COMMIT)
    jars = brokers["jars"]
    assert isinstance(jars, dict)
    assert "kafka-storage-4.3.1.jar" in jars
    assert "kafka-storage-4.3.0.jar" not in jars


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one class of Kafka's, patched."""
    folder = tmp_path_factory.mktemp("patched") / "my classes"
    release = fetch_kafka("4.3.1", progress=print)
    compiler = [str(find_java().path), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    classpath = ":".join(map(str, release.classpath))
    source = str(Path(__file__).with_name("Kafka.java"))
    subprocess.run([*compiler, "-cp", classpath, "-d", str(folder), source], check=True)
    return folder


def started(system: str, root: Path) -> None:
    """Start the one broker of a plan's system."""
    paths = RunPaths(root / "run")
    paths.live.mkdir(parents=True)
    hosts = ProcessHosts(["n1"], paths.processes)
    hosts.up()
    try:
        plan = Plan(system=system, nodes=1, replication=1, min_insync=1)
        brokers_of(plan, hosts, paths).start()
    finally:
        hosts.down()


def test_classes_of_the_users_go_before_kafkas_own(classes: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ClusterError, match=r"n1 exited during its start.*a Kafka of mine, beside 4\.3\.1"
    ):
        started(f"kafka:4.3.1+{classes}", tmp_path)


def test_a_class_that_is_too_new_for_the_java_is_told_in_kafkas_own_words(
    classes: Path, tmp_path: Path
) -> None:
    newer = bytearray((classes / "kafka/Kafka.class").read_bytes())
    newer[6:8] = TOO_NEW.to_bytes(2)
    jar = tmp_path / "newer.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        # What formats the disks is started first.
        archive.writestr("kafka/tools/StorageTool.class", bytes(newer))
    told = r"its Java is too old: .*compiled by a more recent version .*class file version 99\.0"
    with pytest.raises(UserError, match=f"{told}.*--java"):
        started(f"kafka:4.3.1+{jar}", tmp_path)
