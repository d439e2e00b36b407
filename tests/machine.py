"""What this machine can do, and the one way to leave a test out.

A test that this machine cannot run says what it needs: by a mark that names it (`kafka`, `docker`,
`needs("root")`), or, in a fixture, by `require`. The product itself is asked whether that is here,
when the first test needs it. What is missing is the reason why a test is left out, with the remedy.

A test is not left out where the product refuses: it asks `abilities_of`, and expects the refusal.
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
"""Environment variable: a test runs in a hub, as another test outside has it run."""
LEFT_OUT = "left out: "
IMPLIED = {
    "docker": "docker",
    "kafka": "java",
    "namespaces": "namespaces",
    "spark": "java",
    "ssh": "ssh",
}
"""The marks that say what a test does, and so what it needs."""
OLDEST_GO = (1, 24)
AS_ROOT = "as an ordinary user this test cannot run; run the tests as root"


class LeftOut(Skipped):
    """A test is left out, because this machine lacks what it needs. Nothing else raises it."""


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that is left out where one of these is missing: see `NEEDS`."""
    assert {*names} <= {*NEEDS}, names
    return pytest.mark.needs(*names)


def require(*names: str) -> None:
    """Leave the test out that runs now, if one of these is missing."""
    if reason := next(filter(None, map(missing, names)), ""):
        raise LeftOut(f"{LEFT_OUT}{reason}")


def require_marked(item: pytest.Item) -> None:
    """Leave a test out if something is missing that its marks ask for."""
    if INSIDE not in os.environ:  # Who is inside was asked outside, maybe as another user.
        require(*needed_by(item))


def runs_here(item: pytest.Item) -> bool:
    """Tell whether nothing is missing that a test's marks ask for."""
    return not any(map(missing, needed_by(item)))


def needed_by(item: pytest.Item) -> list[str]:
    """Return what a test's marks ask for, in the order of `NEEDS`."""
    marked = {name for mark in item.iter_markers("needs") for name in mark.args}
    marked |= {IMPLIED[mark.name] for mark in item.iter_markers() if mark.name in IMPLIED}
    assert marked <= {*NEEDS}, f"{marked - {*NEEDS}} is none of {', '.join(NEEDS)}"
    return [name for name in NEEDS if name in marked]


@cache
def missing(name: str) -> str:
    """Return why something that tests need is missing, with the remedy; empty if it is here."""
    return NEEDS[name]()


def tun_opens() -> bool:
    """Tell whether this user may open the TUN device, without asking the product."""
    return _opens("/dev/net/tun")


@cache
def fuse_works() -> bool:
    """Tell whether this user can mount by FUSE, without asking what the product says of it.

    Its device opens, libfuse and mfusepy are found, and a mount works.
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
"""How reasons begin that hold on CI, too: what `./setup test` does not install."""


def wrongly_skipped(raised: object, longrepr: object) -> str:
    """Return why a test that was skipped has failed; empty if it was rightly left out.

    Args:
        raised: What ended it.
        longrepr: Its report.
    """
    if not isinstance(raised, LeftOut):  # By its class: anybody can write the words.
        return f"skipped, but only tests/machine.py leaves tests out: {longrepr}"
    if INSIDE in os.environ:
        return f"left out inside of a hub, where nobody would report it: {raised}"
    may_lack = str(raised).removeprefix(LEFT_OUT).startswith(MAY_LACK)
    if os.environ.get("CI") == "true" and os.geteuid() == 0 and not may_lack:
        return f"left out, though `./setup test` installs what it needs: {raised}"
    return ""


NO_TEST = "not played by any test: Tansu; docs/systems/README.md has the command that plays it"


def left_out(reports: Iterable[pytest.TestReport], *, whole: bool = False) -> list[str]:
    """Return a sentence for each reason why tests were left out, with how many.

    Args:
        reports: Of those that were skipped.
        whole: Whether nobody named the tests: then also what no test plays.
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
    """Return what is missing to start a Java program from its source: a JRE has no compiler."""
    if reason := _java():
        return reason
    modules = subprocess.run(
        [find_java().path, "--list-modules"], capture_output=True, text=True, check=True
    )
    if "jdk.compiler" in modules.stdout:
        return ""
    return "a Java compiler: this Java has none; type: apt-get install default-jdk-headless"


def _go() -> str:
    """Return what is missing to build the programs of `docs/systems`."""
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
    """Tests start a daemon themselves if none answers: they need root, and the programs."""
    if os.geteuid() != 0:
        return f"Docker: {AS_ROOT}"
    if not shutil.which("docker", path=search_path()):
        return "Docker: the command docker is missing; type: apt-get install docker-cli"
    answers = docker()
    if answers.works or shutil.which("dockerd", path=search_path()) is None:
        return _of(answers)
    return _namespaces()  # A daemon that tests start needs what these need, too.


def _ssh() -> str:
    """Return what is missing of machines with sshd, made of namespaces."""
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
"""What tests need beside Python, and how it is found out. Of several the first is reported."""
