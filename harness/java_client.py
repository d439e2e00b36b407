"""Fetch, compile and check Kafka's Java client for a run's workers.

Each worker talks to a Java program of Logquake (`workloads/clients/java/*.java`). That program is
compiled once for each version of the client. The compiler is `javac`, or Eclipse's compiler if the
installed Java has no `javac`.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import workloads.clients.java as program
from cluster.cache import cache_folder, locked, refused
from cluster.java import OLDEST, find_java
from cluster.protocol import UserError
from cluster.systems.client_jars import client_jars, compiler_jar
from results.record.plan import NEWEST, Plan, PlanError
from results.record.shares import FIRST_JAVA_WITH_SHARES, has_shares
from workloads.clients.java.bridge import AskedError, Bridge
from workloads.clients.java.frames import Role
from workloads.clients.java.settings import (
    Settings,
    consumer_settings,
    member_settings,
    producer_settings,
    share_settings,
    transactional_settings,
)

Say = Callable[[str], None]
LAST_FOR_OLD_BROKERS = "3.9.1"
"""The default client version for brokers before 2.1. Clients from 4.0 on are made for brokers from
2.1 on (KIP-896). But client 4.3.1 sends, polls, commits and runs transactions even with brokers of
version 0.11.0.3. So a plan may name any client version."""
_OLD_BROKERS = (2, 1)
_OLDEST_CLIENT = (2, 8)
"""The first client version that has all methods used by Logquake's Java program."""
_FLAGS = (
    # Leave the cores to the brokers: little memory, one GC thread, only the fast compiler.
    "-Xmx512m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
)  # fmt: skip
_MAIN, _OF_SHARES = "Bridge", "Sharing.java"
_COMPILE_S = 300.0
_JAVAC = ("--module", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none")
_NOWHERE = "127.0.0.1:1"
"""An address at which no server listens. It is for clients that are created and closed, but do not
connect."""


def with_client_version(plan: Plan) -> Plan:
    """Return the plan with the version of its Java client, so that a rerun uses the same version.

    Raises:
        UserError: Logquake's Java program does not support that version.
    """
    if not plan.wants_java:
        return plan
    usual = LAST_FOR_OLD_BROKERS if plan.version_numbers < _OLD_BROKERS else NEWEST
    version = (plan.client_kind or "").partition(":")[2] or usual
    if tuple(map(int, version.split("."))) < _OLDEST_CLIENT:
        raise UserError(
            f"--client-kind java:{version}: Logquake supports Kafka's Java client 2.8.0 and"
            " later; remove the version to use the default"
        )
    return plan.model_copy(update={"client_kind": f"java:{version}"})


def java_client(plan: Plan, say: Say = lambda _: None) -> tuple[str, ...]:
    """Return the command that starts a worker's Java client; fetch and compile missing parts.

    Args:
        plan: The run's plan.
        say: The function that prints what is fetched and compiled.

    Returns:
        The command, or an empty tuple if the plan's clients use librdkafka.

    Raises:
        UserError: There is no such version, no Java or no compiler, or a download failed.
    """
    if not plan.wants_java:
        return ()
    version = (with_client_version(plan).client_kind or "").partition(":")[2]
    java = str(find_java().path)
    jars = client_jars(version, say)
    classes = _compiled(java, version, jars, say)
    path = os.pathsep.join(map(str, (classes, *jars)))
    return (java, *_FLAGS, "-cp", path, _MAIN)


def try_java_client(plan: Plan, argv: Sequence[str]) -> None:
    """Create a plan's clients but do not connect them, so that Kafka's code checks the settings.

    Args:
        plan: The run's plan.
        argv: The command from `java_client`. If it is empty, nothing is checked.

    Raises:
        PlanError: One sentence with the setting that the client refuses.
    """
    if not argv:
        return
    bridge, known = Bridge(argv, quiet=True), set[str]()
    try:
        for role, settings in _samples(plan):
            known |= _tried(bridge, role, settings)
    finally:
        bridge.close()
    for key in plan.client:
        if key not in known:
            raise PlanError(
                f"the plan's client.{key} is not a setting of Kafka's Java client: remove it, or"
                " remove --client-kind to use librdkafka"
            )


def _samples(plan: Plan) -> list[tuple[Role, Settings]]:
    sender = (
        transactional_settings(plan, bootstrap=_NOWHERE, thread=0)
        if plan.transactional
        else producer_settings(plan, bootstrap=_NOWHERE, worker=0)
    )
    reader = (
        member_settings(plan, bootstrap=_NOWHERE, client_id="check", group="check")
        if plan.is_grouped
        else consumer_settings(plan, bootstrap=_NOWHERE, client_id="check")
    )
    sharers = [(Role.SHARER, _sharer(plan))] if has_shares(plan) else []
    return [(Role.PRODUCER, sender), (Role.CONSUMER, reader), *sharers]


def _sharer(plan: Plan) -> Settings:
    return share_settings(plan, bootstrap=_NOWHERE, client_id="check", group="check")


def _tried(bridge: Bridge, role: Role, settings: Settings) -> frozenset[str]:
    """Return the names of the settings that a client of this role supports."""
    try:
        return bridge.check(role, settings.plans, settings.own)
    except AskedError as refused:
        _, _, why = str(refused).partition(": ")
        raise PlanError(
            f"Kafka's Java client rejects the plan's client settings: {why}"
        ) from refused


def _sources(version: str) -> list[Path]:
    """Return those sources of Logquake's Java program that compile with this client version."""
    numbers = tuple(map(int, version.split(".")))
    found = sorted(Path(program.__file__).parent.glob("*.java"))
    return [each for each in found if numbers >= FIRST_JAVA_WITH_SHARES or each.name != _OF_SHARES]


def _compiled(java: str, version: str, jars: Sequence[Path], say: Say) -> Path:
    """Return the folder with the compiled Java program; compile new sources first."""
    sources = _sources(version)
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    folder = cache_folder() / "clients" / f"java-{version}-{digest}"
    if not folder.is_dir():
        with locked(folder.parent / "lock", say):
            if not folder.is_dir():
                say(f"compiling clients for Kafka's Java client {version}")
                _compile(java, jars, sources, folder=folder, say=say)
    return folder


def _compile(
    java: str, jars: Sequence[Path], sources: Sequence[Path], *, folder: Path, say: Say
) -> None:
    with refused(folder.parent):
        made = Path(mkdtemp(prefix="making-", dir=folder.parent))
    try:
        argv = [
            *_compiler(java, say), "--release", str(OLDEST), "-nowarn", "-encoding", "UTF-8",
            "-cp", os.pathsep.join(map(str, jars)), "-d", str(made), *map(str, sources),
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - a Java, and our own program
                argv, capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise UserError(
                f"the Java clients could not be compiled within {_COMPILE_S:g} s"
            ) from late
        if done.returncode:
            first = next(iter((done.stderr or done.stdout).splitlines()), "it said nothing")
            raise UserError(f"Logquake's Java program does not compile with these jars: {first}")
        with refused(folder.parent):
            made.rename(folder)
    finally:
        with suppress(OSError):
            rmtree(made)


def _compiler(java: str, say: Say) -> list[str]:
    """Return the command of a compiler: `javac` of the installed Java, or Eclipse's compiler."""
    modules = subprocess.run(  # noqa: S603 - a Java
        [java, "--list-modules"], capture_output=True, text=True, check=False
    )
    if "jdk.compiler@" in modules.stdout:
        return [java, *_JAVAC]
    return [java, "-jar", str(compiler_jar(say)), "-proc:none"]
