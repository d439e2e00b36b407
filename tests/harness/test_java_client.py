"""Which of Kafka's own clients a run has, and what is refused."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cluster.java import find_java
from cluster.protocol import UserError
from cluster.systems.client_jars import client_jars
from cluster.systems.registry import system_of
from harness.elsewhere import refuse_elsewhere
from harness.java_client import (
    _compile,
    _compiler,
    _sources,
    java_client,
    try_java_client,
    with_client_version,
)
from results.record.clock import wait_until
from results.record.plan import Plan, PlanError, plan_from
from workloads.clients.java.bridge import Bridge


@pytest.mark.parametrize(
    ("system", "asked", "version"),
    [
        ("kafka:4.3.1", "java", "4.3.1"),
        ("kafka:2.1.1", "java", "4.3.1"),
        ("kafka:2.0.1", "java", "3.9.1"),
        ("kafka:0.11.0.3", "java", "3.9.1"),
        ("kafka:2.0.1", "java:3.7.2", "3.7.2"),
        ("kafka:2.0.1", "java:4.3.1", "4.3.1"),
        ("kafka:4.3.1", "java:4.1.0", "4.1.0"),
    ],
)
def test_a_plan_names_the_version_that_is_played(system: str, asked: str, version: str) -> None:
    plan = with_client_version(Plan(system=system, client_kind=asked))
    assert plan.client_kind == f"java:{version}"
    assert with_client_version(plan) == plan


@pytest.mark.parametrize("kind", [None, "librdkafka"])
def test_without_a_word_the_clients_are_librdkafkas(kind: str | None) -> None:
    plan = Plan(client_kind=kind)
    assert with_client_version(plan) == plan
    assert java_client(plan) == ()


def test_clients_that_are_too_old_for_our_program_are_refused() -> None:
    with pytest.raises(UserError, match=r"2\.8\.0 and later"):
        with_client_version(Plan(client_kind="java:2.0.0"))


@pytest.mark.parametrize("kind", ["go", "java:", "java:4", "java:4.3.1; rm", "jav"])
def test_what_is_no_kind_is_refused(kind: str) -> None:
    with pytest.raises(PlanError, match=r"client_kind cannot be .* use java, java:VERSION"):
        plan_from({"client_kind": kind})


def test_a_version_of_librdkafka_is_none_of_java() -> None:
    with pytest.raises(PlanError, match=r"2\.3\.0 is a version of librdkafka"):
        plan_from({"client_kind": "java", "client_version": "2.3.0"})


def test_simulated_clients_and_those_of_stories_are_no_java() -> None:
    simulated = Plan(system="reference", hosts="simulated", client_kind="java")
    with pytest.raises(UserError, match="remove --client-kind"):
        refuse_elsewhere(simulated, system_of(simulated))


def test_a_version_that_there_is_not_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"java:4\.9\.9: Kafka 4\.9\.9 is not on Maven Central"):
        java_client(Plan(client_kind="java:4.9.9"))
    assert not list((tmp_path / "logquake").rglob("*.jar"))
    assert not (tmp_path / "logquake" / "clients").exists()


def test_without_java_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.java._candidates", list)
    with pytest.raises(UserError, match="Java 17 or later is needed, but Logquake found none"):
        java_client(Plan(client_kind="java:4.3.1"))


@pytest.mark.everything
@pytest.mark.kafka
def test_what_the_client_refuses_is_said_in_a_sentence() -> None:
    argv = java_client(Plan(client_kind="java:4.3.1"))
    try_java_client(plan_from({"workload": "groups", "client_kind": "java"}), argv)
    try_java_client(plan_from({"workload": "txn", "client_kind": "java"}), argv)
    with pytest.raises(PlanError, match=r"client\.socket\.nagle is not a setting of Kafka's Java"):
        try_java_client(Plan(client={"socket.nagle": "1"}), argv)
    with pytest.raises(
        PlanError, match="rejects the plan's client settings: Must set retries to non-zero"
    ):
        try_java_client(Plan(retries=0), argv)


@pytest.mark.everything
@pytest.mark.kafka
def test_the_jvm_ends_with_whoever_started_it() -> None:
    argv = java_client(Plan(client_kind="java:4.3.1"))
    bridge = Bridge(argv, quiet=True)
    bridge.close()
    assert bridge._process.returncode == 0, "it ended by itself"
    text = (
        "import sys\n"
        "from workloads.clients.java.bridge import Bridge, Role\n"
        f"bridge = Bridge({argv!r}, quiet=True)\n"
        "print(bridge._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        jvm = int(owner.stdout.readline())
        assert psutil.pid_exists(jvm)
        owner.kill()
    wait_until(lambda: not psutil.pid_exists(jvm), timeout_s=30, what="the end of the JVM")


def test_what_older_clients_lack_is_not_compiled_with_them() -> None:
    old, new = ({each.name for each in _sources(version)} for version in ("4.1.1", "4.2.0"))
    assert new - old == {"Sharing.java"}
    assert "Bridge.java" in old


@pytest.mark.everything
@pytest.mark.kafka
def test_eclipses_compiler_makes_the_same_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = subprocess.CompletedProcess([], 0, stdout="java.base@17")
    java, jars = str(find_java().path), client_jars("3.9.1", print)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", lambda *_args, **_more: asked)
        compiler = _compiler(java, print)
    assert compiler[1] == "-jar"
    monkeypatch.setattr("harness.java_client._compiler", lambda *_: compiler)
    _compile(java, jars, _sources("3.9.1"), folder=tmp_path / "classes", say=print)
    assert (tmp_path / "classes" / "Bridge.class").is_file()
