"""The plan of a run on a Kafka of the user's, and what is started of it."""

from pathlib import Path

import pytest

from cluster.hosts.docker.hosts import DockerHosts
from cluster.hosts.docker.image import Contents
from cluster.java import Java
from cluster.kafka.programs import KafkaPrograms, Seat
from cluster.protocol import Endpoint, UserError
from cluster.systems.builds import build_in
from cluster.systems.kafka import distribution_of
from cluster.systems.loggers import with_logging
from cluster.systems.registry import system_of
from harness.plans import refuse_another_kafka
from harness.scenarios.choices import refuse_another_story, scenario_named, story_values
from harness.scenarios.every import parts
from results.record.plan import Plan, PlanError, dump_plan, plan_from
from results.record.reading import parse_toml
from results.record.terms import Mode
from tests.systems.layouts import distribution, jar, tree


def settled(system: str) -> Plan:
    return system_of(Plan(system=system)).settled(print)


@pytest.mark.parametrize(
    ("version", "mode"),
    [("4.4.0-SNAPSHOT", Mode.COMBINED), ("3.9.2", Mode.COMBINED), ("2.8.2", Mode.ZOOKEEPER)],
)
def test_the_version_of_the_jars_decides_what_a_plan_means(
    version: str, mode: Mode, tmp_path: Path
) -> None:
    plan = settled(f"kafka:{distribution(tmp_path, version)}")
    assert (plan.version, plan.kafka_version, plan.mode) == (version, version, mode)
    assert plan.version_numbers == min(
        (4, 3, 1), (*map(int, version.partition("-")[0].split(".")),)
    )
    assert plan_from(parse_toml(dump_plan(plan))) == plan, "it can be played again as it is stored"


def test_a_mode_is_taken_if_the_version_has_it(tmp_path: Path) -> None:
    folder = distribution(tmp_path, "3.9.2")
    assert settled(f"kafka:{folder}:zookeeper").mode is Mode.ZOOKEEPER
    assert settled(f"kafka:{folder}:controllers").mode is Mode.CONTROLLERS
    distribution(tmp_path / "new", "4.4.0")
    with pytest.raises(PlanError, match=r"Kafka 4.4.0 does not support ZooKeeper"):
        settled(f"kafka:{tmp_path / 'new'}:zookeeper")
    distribution(tmp_path / "old", "2.8.2")
    with pytest.raises(PlanError, match=r"Logquake runs Kafka 2.8.2 only with ZooKeeper"):
        settled(f"kafka:{tmp_path / 'old'}:combined")


def test_zookeeper_is_refused_on_ssh_hosts_as_soon_as_the_jars_ask_for_it(tmp_path: Path) -> None:
    plan = Plan(system=f"kafka:{distribution(tmp_path, '2.8.2')}", hosts="ssh:lab.toml")
    system_of(plan).refuse(keep=False)
    with pytest.raises(UserError, match="needs ZooKeeper, which does not run on ssh hosts"):
        system_of(plan).settled(print)


def test_paths_become_absolute_so_that_the_plan_can_be_played_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path / "my kafka")
    jar(tmp_path / "a.jar", "A.class")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for system in ("kafka:./my kafka", "kafka:~/my kafka"):
        assert settled(system).system == f"kafka:{tmp_path}/my kafka"
    assert settled("kafka:4.3.1+a.jar,./a.jar:combined").system == (
        f"kafka:4.3.1+{tmp_path}/a.jar,{tmp_path}/a.jar:combined"
    )
    monkeypatch.chdir(tmp_path / "my kafka")
    assert settled("kafka:.").system == f"kafka:{tmp_path}/my kafka"


def test_another_version_than_a_stored_plan_has_is_what_the_jars_say_now(tmp_path: Path) -> None:
    plan = settled(f"kafka:{distribution(tmp_path, '4.4.0')}")
    for each in (tmp_path / "libs").glob("kafka*"):
        each.unlink()
    distribution(tmp_path, "4.5.0")
    assert system_of(plan).settled(print).version == "4.5.0"


def test_a_tree_without_a_logging_library_is_lent_that_of_a_release(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    assert with_logging(build_in(folder), print) == build_in(folder).classpath
    for each in folder.glob("tools/build/*/log4j*"):
        each.unlink()
    said: list[str] = []
    lent = [each.name for each in with_logging(build_in(folder), said.append)]
    assert "the library of Kafka 4.3.1 is used" in said[-1]
    assert [each for each in lent if "log4j" in each] == [
        "log4j-api-2.25.4.jar", "log4j-core-2.25.4.jar", "log4j-slf4j-impl-2.25.4.jar",
    ]  # fmt: skip
    assert [each for each in lent if "slf4j-api" in each] == ["slf4j-api-1.7.36.jar"]


def test_a_snapshot_that_still_logged_by_reload4j_is_told_so(tmp_path: Path) -> None:
    folder = distribution(tmp_path, "4.0.0-SNAPSHOT")
    (folder / "libs/log4j-slf4j-impl-2.25.4.jar").unlink()
    jar(folder / "libs/slf4j-reload4j-1.7.36.jar", "A.class")
    jar(folder / "libs/reload4j-1.2.25.jar", "A.class")
    plan = settled(f"kafka:{folder}")
    programs = KafkaPrograms(plan, distribution_of(plan, print), Java(path=Path("java"), major=17))
    endpoints = {"n1": Endpoint(host="127.0.0.1", broker_port=1, controller_port=2)}
    seat = Seat(plan=plan, node="n1", folder=tmp_path, endpoints=endpoints, inner_ports={})
    programs.configure(seat)
    assert (tmp_path / "log4j.properties").exists()
    assert not (tmp_path / "log4j2.properties").exists()


def test_containers_see_the_users_jars_even_if_their_image_has_a_kafka(tmp_path: Path) -> None:
    kept, link = jar(tmp_path / "kept.jar", "A.class"), tmp_path / "libs/link.jar"
    link.parent.mkdir()
    link.symlink_to(kept)
    argv = ["java", "-cp", str(link), "kafka.Kafka"]
    for own, sees, runs in (
        (True, {link: kept}, argv),
        (False, {}, ["java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka"]),
    ):
        hosts = DockerHosts(["n1"], tmp_path / "processes.jsonl", image="x", own_software=own)
        hosts._contents = Contents(java=Path("/java"), kafka="4.1.0")
        hosts._software = [link]
        assert hosts._shown_software() == sees
        assert hosts._as_in_the_image(argv) == runs
    refuse_another_kafka(Plan(system="kafka:4.3.1+a.jar"), image_has="4.1.0")
    with pytest.raises(UserError, match=r"the image None has Kafka 4.1.0"):
        refuse_another_kafka(Plan(system="kafka:4.3.1"), image_has="4.1.0")


def test_a_story_is_told_on_a_build_if_its_version_suits(tmp_path: Path) -> None:
    story = scenario_named("late-leader-and-isr")
    old = f"kafka:{distribution(tmp_path / 'old', '2.8.2')}"
    plan = plan_from(story_values(story, {}, system=old))
    refuse_another_story(plan)
    assert (plan.system, plan.version, plan.mode) == (old, "2.8.2", Mode.ZOOKEEPER)
    new = f"kafka:{distribution(tmp_path / 'new', '4.4.0')}"
    with pytest.raises(PlanError, match=r"it needs the mode zookeeper"):
        refuse_another_story(plan_from(story_values(story, {}, system=new)))


def test_a_story_finds_its_mode_on_a_build_as_on_a_release(tmp_path: Path) -> None:
    story = scenario_named("leader-epoch-1")
    build = f"kafka:{distribution(tmp_path, '3.9.1')}"
    told = {
        system: plan_from(story_values(story, {}, system=system))
        for system in (build, "kafka:3.9.1", "kafka:3.9.1+a.jar")
    }
    assert [each.mode for each in told.values()] == [Mode.ZOOKEEPER] * 3
    assert told[build].system == f"{build}:zookeeper"
    assert told["kafka:3.9.1+a.jar"].system == "kafka:3.9.1+a.jar:zookeeper"
    own = {"system", "version"}
    assert told[build].model_dump(exclude=own) == told["kafka:3.9.1"].model_dump(exclude=own)


def test_all_stories_of_a_release_are_played_on_a_build_of_it(tmp_path: Path) -> None:
    build = f"kafka:{distribution(tmp_path, '3.9.1')}"
    of_release = [each.name for each in parts(system="kafka:3.9.1")]
    assert [each for each in of_release if each.endswith(":zookeeper")]
    assert [each.name for each in parts(system=build)] == [
        each.replace("kafka:3.9.1", build) for each in of_release
    ]


def test_the_plan_of_a_release_stays_as_it_is() -> None:
    plan = Plan(system="kafka:3.9.1:zookeeper")
    assert system_of(plan).settled(print) is plan
