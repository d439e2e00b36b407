"""Containers: what is special of them, looked at with Docker's own command and with TCP."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import docker as docker_sdk
import pytest
from docker.errors import APIError
from docker.models.containers import Container

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import HostKind, choose_hosts
from cluster.hosts.docker import containers, image, line, trials
from cluster.hosts.docker import hosts as hosts_module
from cluster.hosts.docker.containers import wait_attached
from cluster.hosts.docker.daemon import connect, socket_path
from cluster.hosts.docker.hosts import DockerHosts
from cluster.hosts.docker.objects import (
    NODE_LABEL,
    RUN_LABEL,
    STORE_LABEL,
    container_of,
    heal_docker,
    labels_of,
    prefix_of,
)
from cluster.hosts.docker.trials import TRIAL_LABEL, Owner
from cluster.hosts.heal import heal_trials
from cluster.kafka.fetch import fetch_kafka
from cluster.protocol import Ability, ClusterError, Command, Quality, UserError
from harness.plans import refuse_another_kafka
from results.record.clock import wait_until
from results.record.plan import Plan
from tests.cluster_hosts.crashes import crash
from tests.docker_lab import answers, container_of_process, docker, inspected
from tests.images.java_image import (
    image_with_kafka,
    image_with_old_java,
    image_without_java,
    image_without_programs,
)
from tests.machine import tun_opens

pytestmark = [
    pytest.mark.everything,
    pytest.mark.docker,
    pytest.mark.usefixtures("java"),
]
NODES = ("n1", "n2", "n3")
LINKS = list(itertools.permutations(NODES, 2))
POOLS = ("172.18.0.0/15", "172.20.0.0/14", "172.24.0.0/13", "192.168.0.0/16")
"""From which the daemon takes subnets by default (moby, `ipamutils`), beside that of docker0."""
PORT = 9000
SERVER = f"""
import socket
server = socket.create_server(("", {PORT}))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
DIES_IN_A_TRIAL = """
import os, signal, sys
from cluster.hosts.docker import image
image.start = lambda made, _: (print(made.id, flush=True), os.kill(os.getpid(), signal.SIGKILL))
image.try_image(sys.argv[1])
"""
KNOCK = f"""
import socket, sys
socket.create_connection((sys.argv[1], {PORT}), timeout=float(sys.argv[2])).close()
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run, whose objects are removed after the test."""
    root = tmp_path / "store" / "log" / "20261121T220000Z-7"
    root.mkdir(parents=True)
    yield root
    heal_docker(root)


@contextmanager
def hosts_of(root: Path, image: str) -> Iterator[DockerHosts]:
    hosts = DockerHosts(NODES, root / "processes.jsonl", image=image)
    try:
        hosts.up()
        yield hosts
    finally:
        hosts.down()


def sleeping(root: Path) -> Command:
    return Command(argv=["sleep", "1000"], log=root / "log", cwd=root)


def inside(root: Path, node: str) -> list[str]:
    """Return what runs a command of this machine in a node's network."""
    (found,) = inspected("ps", "--quiet", "--filter", f"name=^{container_of(root, node)}$")
    return ["nsenter", f"--net=/proc/{found['State']['Pid']}/ns/net", "--"]


def reaches(root: Path, source: str, address: str) -> bool:
    """Tell whether a TCP connection can be made, by a program that is neither fault nor agent."""
    knock = [*inside(root, source), sys.executable, "-c", KNOCK, address, "2"]
    return subprocess.run(knock, capture_output=True, check=False).returncode == 0


@contextmanager
def listening(root: Path, node: str) -> Iterator[None]:
    argv = [*inside(root, node), sys.executable, "-c", SERVER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdout.readline() == "listening\n"
        try:
            yield
        finally:
            server.kill()


def test_every_object_carries_the_run_and_its_store(run: Path, java: str) -> None:
    with hosts_of(run, java) as hosts:
        hosts.spawn("n2", sleeping(run))
        those = inspected("ps", "--quiet", "--filter", f"name={prefix_of(run)}")
        assert sorted(each["Config"]["Labels"][NODE_LABEL] for each in those) == [
            *("n1", "n2", "n2"),
            "n3",
        ]
        (network,) = inspected("network", "ls", "--quiet", "--filter", f"name={prefix_of(run)}")
        assert network["Internal"], "no way out"
        for labels in [*(each["Config"]["Labels"] for each in those), network["Labels"]]:
            assert labels[RUN_LABEL] == "log/20261121T220000Z-7"
            assert labels[STORE_LABEL] == str(run.parent.parent)
        assert len(hosts.traces()) == 5
    assert hosts.traces() == {}
    assert inspected("ps", "--quiet", "--all", "--filter", f"name={prefix_of(run)}") == []


def test_a_cut_stops_tcp_until_it_is_joined_and_outlives_the_broker(run: Path, java: str) -> None:
    with hosts_of(run, java) as hosts:
        address = hosts.address("n2")
        broker = hosts.spawn("n2", sleeping(run))
        with listening(run, "n2"):
            assert reaches(run, "n1", address)
            hosts.cut("c", [("n1", "n2")])
            assert not reaches(run, "n1", address)
            assert reaches(run, "n3", address)
            hosts.send_signal(broker, signal.SIGKILL)
            wait_until(lambda: hosts.state_of(broker) is None, timeout_s=20, what="its end")
            hosts.spawn("n2", sleeping(run))
            assert hosts.address("n2") == address
            assert not reaches(run, "n1", address), "what was cut stays cut"
            hosts.join("c")
            assert reaches(run, "n1", address)


def test_cuts_add_up_and_each_is_joined_by_itself(run: Path, java: str) -> None:
    def arrived() -> set[tuple[str, str]]:
        return {link for link, arrives in hosts.probe(LINKS).items() if arrives}

    with hosts_of(run, java) as hosts:
        assert arrived() == set(LINKS)
        hosts.cut("first", [("n1", "n2"), ("n2", "n1")])
        hosts.cut("second", [("n1", "n2"), ("n3", "n2")])
        assert arrived() == set(LINKS) - {("n1", "n2"), ("n2", "n1"), ("n3", "n2")}
        assert min(hosts.dropped("first").values()) > 0
        assert min(hosts.dropped("second").values()) > 0
        hosts.join("first")
        assert arrived() == set(LINKS) - {("n1", "n2"), ("n3", "n2")}
        hosts.join("second")
        assert arrived() == set(LINKS)


def test_docker_itself_sees_a_pause_and_a_kill(run: Path, java: str) -> None:
    with hosts_of(run, java) as hosts:
        broker = hosts.spawn("n1", sleeping(run))
        (found,) = [container_of_process(broker.pid)]
        assert found
        assert found["State"]["Status"] == "running"
        name = found["Name"].removeprefix("/")
        for _ in range(2):  # Both are idempotent.
            assert hosts.send_signal(broker, signal.SIGSTOP)
        assert docker("inspect", "--format", "{{.State.Status}}", name) == "paused"
        for _ in range(2):
            assert hosts.send_signal(broker, signal.SIGCONT)
        assert docker("inspect", "--format", "{{.State.Status}}", name) == "running"
        os.kill(broker.pid, signal.SIGSTOP)  # What a stranger does, the daemon does not see.
        wait_until(lambda: hosts.state_of(broker) == "T", timeout_s=20, what="its stop")
        assert docker("inspect", "--format", "{{.State.Status}}", name) == "running"
        os.kill(broker.pid, signal.SIGCONT)
        wait_until(lambda: hosts.state_of(broker) == "S", timeout_s=20, what="its going on")
        hosts.send_signal(broker, signal.SIGSTOP)
        assert hosts.send_signal(broker, signal.SIGKILL), "a paused one can be killed, too"
        wait_until(lambda: hosts.state_of(broker) is None, timeout_s=20, what="its end")
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "137"
        assert not hosts.send_signal(broker, signal.SIGCONT)


def test_what_a_container_wrote_is_ours_to_read_and_remove(run: Path, java: str) -> None:
    with hosts_of(run, java) as hosts:
        folder = run / "nodes" / "n1"
        script = "umask 077; mkdir data; echo kept > data/file; exec sleep 1000"
        writer = hosts.spawn(
            "n1", Command(argv=["sh", "-c", script], log=folder / "logs" / "stdout.log", cwd=folder)
        )
        disk = hosts.disk("n1")
        wait_until((folder / "data" / "file").exists, timeout_s=20, what="the file")
        hosts.send_signal(writer, signal.SIGKILL)
        wait_until(lambda: hosts.state_of(writer) is None, timeout_s=20, what="its end")
        assert disk.read("data/file") == b"kept\n", "files survive a kill"
        assert (folder / "data" / "file").stat().st_uid == os.geteuid()
    disk.remove("data")
    assert not (folder / "data").exists()


@contextmanager
def foreign_objects(run: Path, image: str) -> Iterator[None]:
    """Objects that are somebody else's, as like ours as can be; they must be found unchanged."""
    other_run = labels_of(run) | {RUN_LABEL: "log/20261121T220000Z-70"}
    other_store = labels_of(run) | {STORE_LABEL: f"{run.parent.parent}-2"}
    only_one = {RUN_LABEL: labels_of(run)[RUN_LABEL]}
    with closing(connect()) as client:
        made = [
            client.containers.run(
                image,
                ["sleep", "1000"],
                name=f"{prefix_of(run)}-n9{number}",
                labels=labels,
                detach=True,
            )
            for number, labels in enumerate((other_run, other_store, only_one, {}))
        ]
        networks = [
            client.networks.create(f"{prefix_of(run)}-{number}", labels=labels, internal=True)
            for number, labels in enumerate((other_run, {}))
        ]
        volume = client.volumes.create(prefix_of(run), labels=other_run)
        names = [str(each.id) for each in (*made, *networks, volume)]
        try:
            before = docker("inspect", *names)
            yield
            assert docker("inspect", *names) == before
        finally:
            for container in made:
                container.remove(force=True, v=True)
            for network in networks:
                network.remove()
            volume.remove()


def test_objects_of_others_stay_as_they_are(run: Path, java: str) -> None:
    with foreign_objects(run, java):
        with hosts_of(run, java) as hosts:
            broker = hosts.spawn("n1", sleeping(run))
            hosts.send_signal(broker, signal.SIGSTOP)
            hosts.cut("c", LINKS)
        assert heal_docker(run) == []


def test_heal_removes_a_paused_container_and_says_so(run: Path, java: str) -> None:
    hosts = DockerHosts(NODES, run / "processes.jsonl", image=java)
    with foreign_objects(run, java):
        hosts.up()
        try:
            broker = hosts.spawn("n1", sleeping(run))
            hosts.send_signal(broker, signal.SIGSTOP)
            said = heal_docker(run)
        finally:
            hosts.down()
    assert f"removed the container {container_of(run, 'n1')}-1" in said
    assert f"removed the network {prefix_of(run)}" in said
    assert len(said) == 5
    assert container_of_process(broker.pid) is None


@pytest.mark.parametrize(
    "part", ["session", pytest.param("frozen", marks=pytest.mark.night), "agent"]
)
def test_of_a_killed_harness_nothing_is_left_after_heal(
    part: str, tmp_path: Path, java: str
) -> None:
    rng = Random(f"20261121/docker/{part}")
    killed = crash(Plan(hosts="docker", image=java), tmp_path, rng, part=part)
    assert killed.left == (), killed


def own_trials() -> list[dict[str, Any]]:
    """Return our own trials' containers; other workers may try images, too."""
    return inspected(
        "ps", "--quiet", "--all", "--filter", f"label={TRIAL_LABEL}={Owner.me().label()}"
    )


REFUSALS = (
    (None, "needs an image with Java: add"),
    (
        "logquake-test:never-made",
        "is not on this machine; type: docker pull logquake-test:never-made",
    ),
    (image_without_java, "has no Java"),
    (image_with_old_java, "has Java 11, but 17 or later is needed"),
    (image_without_programs, "lacks a shell, cat or sleep"),
)


@pytest.mark.parametrize(
    ("image", "sentence"), REFUSALS, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_an_image_that_cannot_be_a_host_is_refused_and_nothing_is_left(
    image: Callable[[], str] | str | None, sentence: str
) -> None:
    name = image() if callable(image) else image
    with pytest.raises(UserError, match=sentence):
        choose_hosts("docker", image=name)
    assert own_trials() == []


def test_a_good_image_is_chosen_and_nothing_is_left(java: str) -> None:
    choice = choose_hosts("docker", image=java)
    assert (choice.kind, choice.kafka) == (HostKind.DOCKER, "")
    assert own_trials() == []


def test_hosts_of_a_bad_image_leave_nothing(run: Path) -> None:
    hosts = DockerHosts(NODES, run / "processes.jsonl", image=image_without_java())
    with pytest.raises(UserError, match="has no Java"):
        hosts.up()
    assert hosts.traces() == {}


def test_links_of_strict_machines_can_be_made_bad(run: Path, java: str) -> None:
    """A network namespace begins with this machine's own settings, which may be strict."""
    with hosts_of(run, java) as hosts:
        strict = "echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter"
        subprocess.run([*inside(run, "n1"), "sh", "-c", strict], check=True)
        if abilities_of("docker")[Ability.SHAPE]:
            assert not tun_opens()
            with pytest.raises(ClusterError, match="/dev/net/tun"):
                hosts.shape("s", [("n1", "n2")], Quality(delay_ms=150, seed=1))
            return
        hosts.shape("s", [("n1", "n2")], Quality(delay_ms=150, seed=1))
        assert min(hosts.measure([("n1", "n2")], count=5)["n1", "n2"].round_trip_ms) >= 150


def test_hosts_that_cannot_be_held_are_refused_and_leave_nothing(
    run: Path, java: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would end them with their harness: the daemon refuses one that is not there."""
    gone = [sys.executable, "-I", "-S", line.__file__, socket_path(), "no-such-container"]
    monkeypatch.setattr(hosts_module, "line_to", lambda _: gone)
    with pytest.raises(ClusterError, match=r"n1 is not held open: .*no-such-container .*404"):
        DockerHosts(NODES, run / "processes.jsonl", image=java).up()
    assert inspected("ps", "--quiet", "--all", "--filter", f"name={prefix_of(run)}") == []


def test_heal_removes_the_container_of_a_trial_that_was_killed(java: str) -> None:
    """It is not started yet, so that the daemon does not remove it by itself."""
    died = subprocess.run(
        [sys.executable, "-c", DIES_IN_A_TRIAL, java],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    with closing(connect()) as client, image._trial_container(client, java) as living:
        assert heal_trials().failed == ()
        there = docker("ps", "--quiet", "--all", "--no-trunc").split()
        assert died.stdout.strip()
        assert died.stdout.strip() not in there
        assert living.id in there, "it is being tried right now"


FOREIGN_TRIALS = (
    "boot pid:[1] 1 1",  # Of who shares the daemon from another namespace, or of a later version.
    f"{Owner.me().world}-too 4194305 1",
    "what is this",
    "",
)


def test_heal_leaves_alone_what_somebody_else_may_be_trying(java: str) -> None:
    with closing(connect()) as client, ExitStack() as made:
        foreign = list[str]()
        for label in FOREIGN_TRIALS:
            each = client.containers.create(java, ["true"], labels={TRIAL_LABEL: label})
            made.callback(docker, "rm", "--force", f"{each.id}")
            foreign.append(f"{each.id}")
        assert heal_trials().failed == ()
        assert {*foreign} <= {*docker("ps", "--quiet", "--all", "--no-trunc").split()}
        older, younger = map(client.containers.get, (foreign[0], foreign[-1]))
        now = younger.attrs["Created"]
        assert trials.age_s(older, now) > 0 == trials.age_s(younger, now)


@pytest.mark.parametrize("label", FOREIGN_TRIALS)
def test_what_nobody_can_be_trying_any_more_is_left_over(label: str) -> None:
    assert not trials.is_left_over(label, age_s=trials.TRIAL_S)
    assert trials.is_left_over(label, age_s=trials.FORGOTTEN_S + 1)


@pytest.mark.parametrize(
    ("said", "sentence"), [("refused\n", "refused"), (None, "printed nothing")]
)
def test_a_line_that_says_nothing_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, sentence: str
) -> None:
    monkeypatch.setattr(containers, "ATTACH_TIMEOUT_S", 0.1)
    log = tmp_path / "log"
    if said:
        log.write_text(said)
    holder = Container(attrs={"Id": "abc", "Name": "/lq-n1"})
    with pytest.raises(ClusterError, match=f"lq-n1 is not held open: .*{sentence}"):
        wait_attached(holder, log, runs=lambda: True)


def test_an_image_with_another_kafka_than_the_plan_s_is_refused() -> None:
    kafka = fetch_kafka("4.3.1", progress=print)
    image = image_with_kafka(kafka.classpath, kafka.version)
    choice = choose_hosts("docker", image=image)
    assert choice.kafka == "4.3.1"
    refuse_another_kafka(Plan(image=image), image_has=choice.kafka)
    with pytest.raises(UserError, match=r"has Kafka 4.3.1, but the plan has kafka:4.1.0"):
        refuse_another_kafka(Plan(image=image, system="kafka:4.1.0"), image_has=choice.kafka)


def test_an_image_s_own_kafka_takes_the_place_of_ours(run: Path, java: str) -> None:
    kafka = fetch_kafka("4.3.1", progress=print)
    jars = ":".join(map(str, kafka.classpath))
    say = Command(argv=["sh", "-c", 'echo "$0"; ls "$1"', jars, str(kafka.classpath[0])],
                  log=run / "log", cwd=run)  # fmt: skip
    for which, said in (
        (image_with_kafka(kafka.classpath, kafka.version), "/opt/kafka/libs/*\n"),
        (java, f"{jars}\n{kafka.classpath[0]}\n"),
    ):
        (run / "log").unlink(missing_ok=True)
        with hosts_of(run, which) as hosts:
            hosts.provide("n1", kafka.classpath)
            process = hosts.spawn("n1", say)
            wait_until(lambda: hosts.state_of(process) is None, timeout_s=20, what="its end")  # noqa: B023 - called at once
        assert (run / "log").read_text().partition("ls: ")[0] == said


def test_software_of_the_users_is_seen_even_if_it_is_a_link_and_an_image_has_a_kafka(
    run: Path, tmp_path: Path
) -> None:
    kafka = fetch_kafka("4.3.1", progress=print)
    link, classes = tmp_path / "libs/link.jar", tmp_path / "classes"
    (tmp_path / "kept.jar").write_text("a")
    link.parent.mkdir()
    link.symlink_to(tmp_path / "kept.jar")
    classes.mkdir()
    (classes / "Kafka.class").write_text("b")
    software = [link, classes]
    say = Command(argv=["sh", "-c", 'echo "$0"; cat "$1" "$2"/*', ":".join(map(str, software)),
                        str(link), str(classes)], log=run / "log", cwd=run)  # fmt: skip
    image = image_with_kafka(kafka.classpath, kafka.version)
    hosts = DockerHosts(NODES, run / "processes.jsonl", image=image, own_software=True)
    try:
        hosts.up()
        hosts.provide("n1", software)
        process = hosts.spawn("n1", say)
        wait_until(lambda: hosts.state_of(process) is None, timeout_s=20, what="its end")
    finally:
        hosts.down()
    assert (run / "log").read_text() == f"{link}:{classes}\nab"


def test_a_daemon_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert not answers()
    with pytest.raises(UserError, match=r"the Docker daemon does not run .*systemctl start docker"):
        choose_hosts("docker", image="any")
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(UserError, match="is on another machine"):
        choose_hosts("docker", image="any")


def test_an_ordinary_user_is_told_what_he_lacks() -> None:
    os.seteuid(65534)
    try:
        with pytest.raises(UserError, match=r"needs root.*use --hosts namespace"):
            choose_hosts("docker", image="any")
        with pytest.raises(UserError, match="have no access to the Docker daemon"):
            connect()
    finally:
        os.seteuid(0)


@contextmanager
def no_addresses_left() -> Iterator[None]:
    """Take all of the daemon's own address pools, as far as others leave us any of them."""
    with closing(connect()) as client, ExitStack() as undo:
        for number in itertools.count():
            subnet = POOLS[number] if number < len(POOLS) else None
            pools = [docker_sdk.types.IPAMPool(subnet=subnet)] if subnet else []
            try:
                made = client.networks.create(
                    f"logquake-test-{number}",
                    ipam=docker_sdk.types.IPAMConfig(pool_configs=pools) if pools else None,
                )
            except APIError:
                if subnet is None:
                    break
            else:
                undo.callback(made.remove)
        yield


def test_a_daemon_without_addresses_is_told_and_nothing_is_left(run: Path, java: str) -> None:
    hosts = DockerHosts(NODES, run / "processes.jsonl", image=java)
    with no_addresses_left(), pytest.raises(UserError, match=r"no subnet left .*network prune"):
        hosts.up()
    assert hosts.traces() == {}
