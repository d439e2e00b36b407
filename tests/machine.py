"""Find out which tests this machine can run, and leave out the others with a reason.

A test declares what it needs by a mark (`kafka`, `docker`, `needs("root")`), or a fixture calls
`require`. When the first test needs something, Logquake's own checks decide whether the machine has
it. If it is missing, the test is left out, with a reason and a remedy.

A test is not left out because Logquake itself refuses something. Such a test asks `abilities_of`,
and expects the refusal.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from _pytest.outcomes import Skipped

from cluster.hosts.choose import choose_hosts
from cluster.hosts.examine import Finding, clock_trial, docker, faulty_disk_trial, groups_trial
from cluster.hosts.namespace import search_path
from cluster.java import find_java
from cluster.protocol import UserError
from harness.doctor import browser, ssh_lab

INSIDE = "LOGQUAKE_TEST_INSIDE"
"""An environment variable for a test that another test runs inside a hub."""
LEFT_OUT = "left out: "
IMPLIED = {
    "docker": "docker",
    "kafka": "java",
    "namespaces": "namespaces",
    "spark": "java",
    "ssh": "ssh",
}
"""The marks that describe what a test does, each with the thing that the test then needs."""
OLDEST_GO = (1, 24)
AS_ROOT = "as an ordinary user this test cannot run; run the tests as root"


class LeftOut(Skipped):
    """The exception that leaves a test out, because this machine lacks something.

    No other code may raise it.
    """


def needs(*names: str) -> pytest.MarkDecorator:
    """Return a mark that leaves a test out if one of these things is missing; see `NEEDS`."""
    assert {*names} <= {*NEEDS}, names
    return pytest.mark.needs(*names)


def require(*names: str) -> None:
    """Leave out the current test if one of these things is missing."""
    if reason := next(filter(None, map(missing, names)), ""):
        raise LeftOut(f"{LEFT_OUT}{reason}")


def require_marked(item: pytest.Item) -> None:
    """Leave out a test if something is missing that its marks declare as needed."""
    if INSIDE not in os.environ:  # In a hub, the check was made outside, maybe as another user.
        require(*needed_by(item))


def runs_here(item: pytest.Item) -> bool:
    """Return whether this machine has everything that a test's marks declare as needed."""
    return not any(map(missing, needed_by(item)))


def needed_by(item: pytest.Item) -> list[str]:
    """Return the names of things that a test's marks declare as needed, in the order of `NEEDS`."""
    marked = {name for mark in item.iter_markers("needs") for name in mark.args}
    marked |= {IMPLIED[mark.name] for mark in item.iter_markers() if mark.name in IMPLIED}
    assert marked <= {*NEEDS}, f"{marked - {*NEEDS}} is none of {', '.join(NEEDS)}"
    return [name for name in NEEDS if name in marked]


@cache
def missing(name: str) -> str:
    """Return why a thing is missing, with the remedy; an empty string if the machine has it."""
    return NEEDS[name]()


def tun_opens() -> bool:
    """Return whether this user may open the TUN device, without Logquake's own check."""
    return _opens("/dev/net/tun")


@cache
def fuse_works() -> bool:
    """Return whether this user can mount by FUSE, without Logquake's own check.

    The device must open, libfuse and mfusepy must be present, and a mount must work.
    """
    if not _opens("/dev/fuse"):
        return False
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = ["unshare", *own_user, "--mount", "--", sys.executable, "-c", _MOUNTS]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([*mount, folder], capture_output=True, check=False, timeout=30)
    return ran.returncode == 0


_MOUNTS = """
import os, sys, threading, time
import mfusepy
class Nothing(mfusepy.Operations):
    use_ns = True
def look():
    for _ in range(500):
        if os.path.ismount(sys.argv[1]):
            os._exit(0)
        time.sleep(0.01)
    os._exit(1)
threading.Thread(target=look, daemon=True).start()
mfusepy.FUSE(Nothing(), sys.argv[1], foreground=True)
os._exit(1)
"""


def _opens(device: str) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


MAY_LACK = ("Go: ",)
"""The beginnings of reasons that are allowed on CI, too: `./setup test` does not install these."""


def wrongly_skipped(raised: object, longrepr: object) -> str:
    """Return why a skipped test counts as failed; an empty string if it was rightly left out.

    Args:
        raised: The exception that ended the test.
        longrepr: The test's report.
    """
    if not isinstance(raised, LeftOut):  # Compare the class, because any code can write the words.
        return f"skipped, but only tests/machine.py leaves tests out: {longrepr}"
    if INSIDE in os.environ:
        return f"left out inside of a hub, where nobody would report it: {raised}"
    may_lack = str(raised).removeprefix(LEFT_OUT).startswith(MAY_LACK)
    if os.environ.get("CI") == "true" and os.geteuid() == 0 and not may_lack:
        return f"left out, though `./setup test` installs what it needs: {raised}"
    return ""


NO_TEST = "not played by any test: Tansu; docs/systems/README.md has the command that plays it"


def left_out(reports: Iterable[pytest.TestReport], *, whole: bool = False) -> list[str]:
    """Return a sentence for each reason why tests were left out, with the number of tests.

    Args:
        reports: The reports of the skipped tests.
        whole: Whether the session ran all tests. If so, a sentence names the system that no test
            plays.
    """
    said = [each.longrepr[2] for each in reports if isinstance(each.longrepr, tuple | list)]
    reasons = [text.partition(LEFT_OUT)[2] for text in said if LEFT_OUT in text]
    return [
        f"{LEFT_OUT}{count} test{'s' if count > 1 else ''}: {reason}"
        for reason, count in Counter(reasons).most_common()
    ] + [NO_TEST] * whole


def _zsh() -> str:
    return "" if shutil.which("zsh") else "zsh: it is not here; type: apt-get install zsh"


def _fish() -> str:
    return "" if shutil.which("fish") else "fish: it is not here; type: apt-get install fish"


def _root() -> str:
    return "" if os.geteuid() == 0 else f"root: {AS_ROOT}"


def _java() -> str:
    try:
        find_java()
    except UserError as refused:
        return f"Java: {refused}"
    return ""


def _compiler() -> str:
    """Return why a Java program cannot be started from its source: a JRE has no compiler."""
    if reason := _java():
        return reason
    modules = subprocess.run(
        [find_java().path, "--list-modules"], capture_output=True, text=True, check=True
    )
    if "jdk.compiler" in modules.stdout:
        return ""
    return "a Java compiler: this Java has none; type: apt-get install default-jdk-headless"


def _go() -> str:
    """Return why the programs of `docs/systems` cannot be built."""
    remedy = "install Go from its own site, as distributions have older ones"
    if not shutil.which("go"):
        return f"Go: the command go is missing; {remedy}"
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    version = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if version and tuple(map(int, version.groups())) >= OLDEST_GO:
        return ""
    oldest = ".".join(map(str, OLDEST_GO))
    return f"Go: {said.stdout.strip() or 'this one'} is older than {oldest}; {remedy}"


def _namespaces() -> str:
    try:
        choose_hosts("namespace")
    except UserError as refused:
        return f"namespaces: {refused}"
    return ""


def _docker() -> str:
    """Return why tests cannot use Docker.

    If no daemon answers, tests start one. For this they need root and Docker's programs.
    """
    if os.geteuid() != 0:
        return f"Docker: {AS_ROOT}"
    if not shutil.which("docker", path=search_path()):
        return "Docker: the command docker is missing; type: apt-get install docker-cli"
    answers = docker()
    if answers.works or shutil.which("dockerd", path=search_path()) is None:
        return _of(answers)
    return _namespaces()  # A daemon that tests start needs what these need, too.


def _ssh() -> str:
    """Return why machines with sshd, made of namespaces, cannot run here."""
    if os.geteuid() != 0:
        return f"sshd: {AS_ROOT}"
    if not Path("/usr/bin/python3").exists():
        return "sshd: its machines have only /usr/bin/python3; type: apt-get install python3"
    return _of(ssh_lab()) or _namespaces() or _java()


def _of(finding: Finding) -> str:
    return "" if finding.works else f"{finding.what}: {finding.detail}; {finding.remedy}"


def _full() -> str:
    return "" if Path("/dev/full").exists() else "/dev/full: only Linux has it; use Linux"


def _proc() -> str:
    return "" if Path("/proc/self/fd").exists() else "/proc: only Linux has it; use Linux"


def _ipv6() -> str:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ""
    except OSError as refused:
        return f"IPv6: the loopback has no address of it ({refused}); switch it on"


NEEDS: Mapping[str, Callable[[], str]] = {
    "root": _root,
    "docker": _docker,
    "ssh": _ssh,
    "chromium": lambda: _of(browser()),
    "faketime": lambda: _of(clock_trial()),
    "cgroup": lambda: _of(groups_trial()),
    "fuse": lambda: _of(faulty_disk_trial()),
    "java": _java,
    "compiler": _compiler,
    "namespaces": _namespaces,
    "go": _go,
    "/dev/full": _full,
    "/proc": _proc,
    "ipv6": _ipv6,
    "zsh": _zsh,
    "fish": _fish,
}
"""The things that tests need besides Python, each with a function that returns why it is missing.

If several are missing, the first one is reported.
"""
