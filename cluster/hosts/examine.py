"""Test which kinds of hosts this machine supports, and which faults these hosts support."""

import functools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.hosts import clock, groups, sockets
from cluster.hosts.agent import SHAPER
from cluster.hosts.cuts import cut_rules, drop_marked
from cluster.hosts.faulty_disk import TRIAL as DISK_TRIAL
from cluster.hosts.faulty_disk import reason
from cluster.hosts.faulty_disks import PROGRAM, own_mounts
from cluster.hosts.links import HUB_ADDRESS
from cluster.hosts.namespace import NODE_PREFIX, SHARED_MEMORY, enter_prefix, search_path
from cluster.hosts.shaper import TRIAL, TUN
from cluster.protocol import UserError

TRIAL_TIMEOUT_S = 10.0
INSTALL = "type: apt-get install"
NO_REMEDY = "Logquake leaves out the faults that need it"
OPEN_TO_ALL = (
    f"run as root, or let every user open {TUN}: until the next boot by sudo chmod 0666 {TUN}, or"
    ' permanently by the udev rule KERNEL=="tun", MODE="0666"'
)
FUSE = "/dev/fuse"
OPEN_FUSE = f"run as root, or let every user open {FUSE} (the default rules of udev do so)"
MAKE_FUSE = f"type as root: modprobe fuse; in a container, start it with --device {FUSE}"
MAKE_TUN = f"type as root: modprobe tun; in a container, start it with --device {TUN}"
BLOCKERS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Settings below /proc/sys that can forbid user namespaces. Each entry has the path, the value that
forbids user namespaces, and the value that allows user namespaces.

The first setting exists in Ubuntu since 24.04, the second in Debian, the third in every kernel.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one trial on this machine.

    Attributes:
        what: The tried feature.
        works: Whether the feature works.
        detail: The trial's observation.
        remedy: An instruction for the user if the feature does not work; otherwise an empty string.
    """

    what: str
    works: bool
    detail: str
    remedy: str


def examine() -> list[Finding]:
    """Return the results of all trials, for `logquake doctor`. This takes about a second."""
    tried = (
        docker, disk_trial, faulty_disk_trial, shape_trial, reset_trial, clock_trial, groups_trial,
    )  # fmt: skip
    return [_user(), *namespace_trials(), *(trial() for trial in tried)]


def namespace_trials() -> list[Finding]:
    """Return the results of the tests on which namespace hosts depend.

    The first failed test is the reason why namespace hosts do not work.
    """
    if platform.system() != "Linux":
        detail = f"this is {platform.system()}"
        remedy = "use --hosts process"
        return [Finding(what="network namespaces", works=False, detail=detail, remedy=remedy)]
    programs = [
        _program("unshare", "util-linux"),
        _program("ip", "iproute2"),
        _program("nft", "nftables"),
    ]
    if not all(finding.works for finding in programs):
        return programs
    own = "network namespaces" if os.geteuid() == 0 else "user and network namespaces"
    inside = _try(own, [*NODE_PREFIX, "true"], remedy=_namespace_remedy())
    if not inside.works:
        return [*programs, inside]
    return [
        *programs,
        inside,
        _try(
            "bridge and veth pairs",
            ["sh", "-ec", "ip link add br0 type bridge; ip link add v0 type veth peer name v1"],
            remedy="type as root: modprobe bridge; modprobe veth",
        ),
        _try(
            "nft rules with counters and marks",
            ["nft", drop_marked() + cut_rules("trial", {"n1": HUB_ADDRESS})],
            remedy="type as root: modprobe nf_tables",
        ),
    ]


@functools.cache
def disk_trial() -> Finding:
    """Test whether a node can have a separate file system that can be made read-only."""
    return _try(
        "a separate disk for each node (tmpfs)",
        [
            "sh",
            "-ec",
            "mount -t tmpfs -o size=1m tmpfs /tmp; mount -t tmpfs -o remount,ro tmpfs /tmp",
        ],
        remedy=NO_REMEDY,
    )


@functools.cache
def faulty_disk_trial() -> Finding:
    """Test whether Logquake's own file system (FUSE) can be mounted over a node's data."""
    what = "disks with slow or failing requests (FUSE)"
    if platform.system() != "Linux":
        return Finding(
            what=what, works=False, detail=f"this is {platform.system()}", remedy=NO_REMEDY
        )
    try:
        os.close(os.open(FUSE, os.O_RDWR))
    except OSError as refused:
        detail, remedy = _refused(FUSE, refused, OPEN_FUSE, MAKE_FUSE)
        return Finding(what=what, works=False, detail=detail, remedy=remedy)
    argv = [*own_mounts(), sys.executable, "-P", str(PROGRAM), DISK_TRIAL, SHARED_MEMORY]
    tried = _run(what, argv, remedy=NO_REMEDY, why=reason)
    detail, _, remedy = tried.detail.partition("; ")
    return replace(tried, detail=detail, remedy=remedy or tried.remedy)


@functools.cache
def shape_trial() -> Finding:
    """Test whether a TUN device can route packets through one of our programs."""
    what = "shaping of links (TUN device)"
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as refused:
        detail, remedy = _refused(TUN, refused, OPEN_TO_ALL, MAKE_TUN)
        return Finding(what=what, works=False, detail=detail, remedy=remedy)
    return _try(what, [sys.executable, "-I", "-S", SHAPER, TRIAL], remedy=MAKE_TUN)


@functools.cache
def reset_trial() -> Finding:
    """Test whether the kernel resets a TCP connection on request."""
    program = f"{sys.executable} -I -S {sockets.__file__}"
    return _try(
        "reset of connections (CONFIG_INET_DIAG_DESTROY)",
        ["sh", "-ec", f"ip link set lo up; {program}"],
        remedy="use a kernel that was built with it, or type as root: modprobe tcp_diag",
    )


def _refused(device: str, refused: OSError, to_open: str, to_make: str) -> tuple[str, str]:
    """Return the reason why a device cannot be opened, and the remedy."""
    if isinstance(refused, FileNotFoundError):
        return f"there is no {device}", to_make
    if isinstance(refused, PermissionError) and os.geteuid() != 0:
        seen = Path(device).stat()
        owner = f"{device} belongs to uid {seen.st_uid}, mode {seen.st_mode & 0o7777:04o}"
        return owner, to_open
    return f"{device}: {refused.strerror}", to_make


def clock_trial() -> Finding:
    """Test whether libfaketime can shift a broker's clock."""
    detail, _, remedy = clock.why_not().partition("; ")
    return Finding(
        what="shifting of clocks (libfaketime)",
        works=not detail,
        detail=detail or "tried",
        remedy=(remedy or NO_REMEDY) if detail else "",
    )


def groups_trial() -> Finding:
    """Test whether control groups can limit a broker's processor share and memory."""
    detail, _, remedy = groups.why_not().partition("; ")
    return Finding(
        what="limits of processors and memory (cgroup)",
        works=not detail,
        detail=detail or "tried",
        remedy=remedy,
    )


def _user() -> Finding:
    root = os.geteuid() == 0
    detail = "root" if root else f"an ordinary user (uid {os.geteuid()})"
    return Finding(what="user", works=True, detail=detail, remedy="")


def docker() -> Finding:
    """Test whether containers can be hosts on this machine. The test uses no image."""
    from cluster.hosts.docker.image import try_daemon  # noqa: PLC0415 - only who asks waits for it

    try:
        try_daemon()
    except UserError as refused:
        detail, _, remedy = str(refused).partition("; ")
        if os.geteuid() == 0 and not shutil.which("dockerd", path=search_path()):
            detail, remedy = "dockerd is missing", f"{INSTALL} docker.io, or use --hosts namespace"
        remedy = remedy or "use --hosts namespace"
        return Finding(what="Docker", works=False, detail=detail, remedy=remedy)
    return Finding(what="Docker", works=True, detail="the daemon answers", remedy="")


def _program(name: str, package: str) -> Finding:
    path = shutil.which(name, path=search_path())
    remedy = "" if path else f"{INSTALL} {package}"
    return Finding(
        what=f"the command {name}", works=bool(path), detail=path or "missing", remedy=remedy
    )


def _first_line(said: str) -> str:
    return said.strip().splitlines()[0]


def _try(what: str, argv: Sequence[str], *, remedy: str) -> Finding:
    """Run a test command in a separate hub namespace, which vanishes with the command."""
    try:
        inside = [*enter_prefix(), *argv]
    except UserError as error:
        return Finding(what=what, works=False, detail=str(error), remedy=remedy)
    return _run(what, inside, remedy=remedy)


def _run(
    what: str, argv: Sequence[str], *, remedy: str, why: Callable[[str], str] = _first_line
) -> Finding:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv,
            capture_output=True,
            text=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(what=what, works=False, detail=str(error), remedy=remedy)
    if done.returncode == 0:
        return Finding(what=what, works=True, detail="tried", remedy="")
    detail = why(done.stderr) if done.stderr.strip() else f"exit code {done.returncode}"
    return Finding(what=what, works=False, detail=detail, remedy=remedy)


def _namespace_remedy() -> str:
    """Return the command that allows namespaces, given the setting that forbids them."""
    if os.geteuid() == 0:
        return (
            "root lacks CAP_SYS_ADMIN, as in most containers: start the container with --privileged"
        )
    for setting, forbidding, allowing in BLOCKERS:
        path = Path("/proc/sys") / setting
        if path.exists() and path.read_text().strip() == forbidding:
            return f"type as root: sysctl -w {setting.replace('/', '.')}={allowing}"
    return (
        "user namespaces are forbidden on this machine, as in most containers: run as root, or"
        " start the container with --privileged"
    )
