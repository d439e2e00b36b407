"""A whole run in containers of an image with its own Kafka, then its kept cluster."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.docker.objects import container_of, traces_of
from cluster.kafka.fetch import fetch_kafka
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.docker_lab import daemon, docker
from tests.harness.commands import LOGQUAKE, newest
from tests.images.java_image import image_with_kafka

LIMIT_S = 280
PLAN = """
hosts = "docker"
warmup_s = 5
time_limit_s = 26
topics = 1
partitions = 2
rate = 200
[[faults]]
at_s = 3
kind = "isolate"
target = "n1"
hold_s = 4
[[faults]]
at_s = 12
kind = "pause"
target = "n2"
hold_s = 2
[[faults]]
at_s = 19
kind = "kill"
target = "n3"
hold_s = 1
"""
pytestmark = [
    pytest.mark.everything,
    pytest.mark.docker,
    pytest.mark.kafka,
    pytest.mark.timeout(LIMIT_S + 60),
]


@pytest.fixture
def image() -> Iterator[str]:
    kafka = fetch_kafka("4.3.1", progress=print)
    with daemon():
        yield image_with_kafka(kafka.classpath, kafka.version)


def logquake(store: Path, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [LOGQUAKE, name, "--store", str(store), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.night
def test_containers_are_shaken_judged_kept_and_gone(tmp_path: Path, image: str) -> None:
    store, plan = tmp_path / "store", tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    try:
        ran = logquake(store, "run", str(plan), "--image", image, "--keep", "--engine", "local")
        paths = newest(store)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:] + errors_of(paths)
        assert f"containers of {image}, with its own Kafka 4.3.1" in ran.stdout
        (audited,) = [each for each in load_milestones(paths.milestones) if each.name == "audited"]
        assert audited.detail == {}, "the daemon is as it was before"
        statistics = json.loads(paths.verdict.read_text())
        assert statistics["valid"] == "valid"
        look_inside(store, paths)
        ended = logquake(store, "node", "latest", "--end")
        assert f"removed the container {container_of(paths.root, 'n1')}" in ended.stdout
        assert traces_of(paths.root) == {}
        assert logquake(store, "heal").stdout == "nothing to heal\n"
    finally:
        logquake(store, "heal")


def errors_of(paths: RunPaths) -> str:
    """Return the first errors that each broker logged, such as the reason for UNKNOWN."""
    found = []
    for log in sorted(paths.nodes.glob("*/logs/server.log")):
        lines = log.read_text(errors="replace").splitlines()
        at = [number for number, line in enumerate(lines) if " ERROR " in line][:2]
        found += [f"{log.parts[-3]}: {line}" for each in at for line in lines[each : each + 6]]
    return "\n".join(["", *found])


def look_inside(store: Path, paths: RunPaths) -> None:
    """Look at the kept cluster by our command, and by Docker's own."""
    file = "data/log-0-0/leader-epoch-checkpoint"
    ours = logquake(store, "node", "latest", "n1", "--", "cat", file)
    assert ours.stdout.startswith("0\n"), ours.stderr
    container = container_of(paths.root, "n1")
    assert docker("exec", container, "cat", f"kept/nodes/n1/{file}") == ours.stdout.strip()
    assert container in logquake(store, "node", "latest").stdout
    listening = docker("exec", f"{container}-1", "cat", "/proc/net/tcp6", "/proc/net/tcp")
    assert f":{9092:04X} " in listening
    assert "java" in docker("top", f"{container}-1")
