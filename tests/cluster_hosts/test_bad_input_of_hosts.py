"""What users do wrong with hosts, by the command line: one sentence, 254, and nothing is left."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.docker.trials import TRIAL_LABEL, Owner
from cluster.protocol import ClusterError
from harness.cli import exit_code
from harness.exit_codes import BAD_ARGUMENTS
from results.record.clock import wait_until
from tests.docker_lab import docker
from tests.images.java_image import image_with_old_java, image_without_java, image_without_programs
from tests.ssh_lab import Lab, new_key


@pytest.fixture
def refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator["Refusal"]:
    yield Refusal(tmp_path / "runs", capfd)
    assert not list((tmp_path / "runs").glob("*/*")), "no run was begun"


class Refusal:
    """Runs `logquake run` and returns the one sentence by which it is refused."""

    def __init__(self, store: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._store, self._capfd = store, capfd

    def __call__(self, *options: str) -> str:
        self._capfd.readouterr()
        line = ["run", "--store", str(self._store), "--engine", "local", *options]
        assert exit_code(line) == BAD_ARGUMENTS
        said = self._capfd.readouterr().err.strip()
        assert "\n" not in said
        assert said.startswith("logquake: ")
        return said


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ("moon", "the plan's hosts cannot be 'moon': use one of auto"),
        ("ssh", "the plan's hosts cannot be 'ssh'"),
        ("docker:alpine", "the plan's hosts cannot be 'docker:alpine'"),
        ("ssh:/none/HOSTS.toml", "the hosts file /none/HOSTS.toml cannot be read"),
    ],
)
def test_hosts_that_are_none_are_refused(refused: Refusal, hosts: str, why: str) -> None:
    assert why in refused("--hosts", hosts)


def test_whatever_else_a_host_refuses_is_one_sentence_too(
    refused: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise ClusterError("the connection to lab1 was lost: it was closed")

    monkeypatch.setattr("cluster.hosts.ssh.hosts.try_hosts", lost)
    assert "connection to lab1 was lost" in refused("--hosts", "ssh:/etc/HOSTS.toml")


def test_a_daemon_that_does_not_run_is_told(
    refused: Refusal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    addresses = {
        f"unix://{tmp_path}/docker.sock": "the Docker daemon does not run",
        "tcp://10.0.0.1:2375": "is on another machine",
    }
    for address, why in addresses.items():
        monkeypatch.setenv("DOCKER_HOST", address)
        expected = why if os.geteuid() == 0 else "--hosts docker needs root"
        assert expected in refused("--hosts", "docker", "--image", "java")


@pytest.mark.docker
def test_images_that_will_not_do_are_told(refused: Refusal, java: str) -> None:
    assert "needs an image with Java" in refused("--hosts", "docker")
    for image, why in (
        ("no-such-image:1", "is not on this machine"),
        (image_without_java(), "has no Java"),
        (image_with_old_java(), "has Java 11, but 17 or later is needed"),
        (image_without_programs(), "lacks a shell"),
    ):
        assert why in refused("--hosts", "docker", "--image", image)
    assert java
    ours = f"label={TRIAL_LABEL}={Owner.me().label()}"
    wait_until(
        lambda: not docker("ps", "--all", "--quiet", "--filter", ours),
        timeout_s=20,
        what="the end of all trials",
    )


@pytest.mark.ssh
def test_ssh_hosts_that_will_not_do_are_told(refused: Refusal, lab: Lab, tmp_path: Path) -> None:
    new_key(tmp_path / "other")
    changed = tmp_path / "changed"
    kind, key, _ = (tmp_path / "other.pub").read_text().split()
    changed.write_text("".join(f"{each.address} {kind} {key}\n" for each in lab.machines))
    unknown = tmp_path / "unknown"
    unknown.touch()
    before = [each.run("sh", "-c", "ls -A /root /tmp; nft list tables") for each in lab.machines]
    for settings, why in (
        ({"port": 2222}, "cannot be reached"),
        ({"key": tmp_path / "other"}, "refuses the login of root"),
        ({"known_hosts": unknown}, "is unknown"),
        ({"known_hosts": changed}, "the key has changed, or another machine answers"),
        ({"user": "plain"}, "plain may not run nft as root"),
        ({"java": "/none/java"}, "has no Java"),
        ({"folder": "/run/full/here"}, "the disk of /run/full/here on lab1 is full"),
    ):
        assert why in refused("--hosts", f"ssh:{lab.hosts_file('bad.toml', **settings)}")
    assert "has 2 hosts" in refused("--hosts", f"ssh:{lab.hosts_file('few.toml', count=2)}")
    after = [each.run("sh", "-c", "ls -A /root /tmp; nft list tables") for each in lab.machines]
    assert after == before
