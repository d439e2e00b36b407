"""What this machine can do for hosts and for faults on them, each found out by trying."""

import errno
import functools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.hosts.agent import SHAPER
from cluster.hosts.cuts import cut_rules, drop_marked
from cluster.hosts.docker.image import try_daemon
from cluster.hosts.links import HUB_ADDRESS
from cluster.hosts.namespace import NODE_PREFIX, enter_prefix, search_path
from cluster.hosts.shaper import TRIAL
from cluster.protocol import UserError

TRIAL_TIMEOUT_S = 10.0
INSTALL = "type: apt-get install"
USE_ANOTHER = "faults that need it are left out"
BLOCKERS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Settings below /proc/sys that forbid user namespaces: the value that does, one that does not.

The first is Ubuntu's since 24.04, the second Debian's, the third every kernel's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was tried.

    Attributes:
        what: What was tried.
        works: Whether it works.
        detail: What was seen.
        remedy: What to do if it does not work, as an imperative; empty if it works.
    """

    what: str
    works: bool
    detail: str
    remedy: str


def examine() -> list[Finding]:
    """Return what works here, for `logquake doctor`; takes a second or so."""
    return [_user(), *namespace_trials(), _docker(), *_fault_trials(), *_devices()]


def namespace_trials() -> list[Finding]:
    """Return what namespace hosts need; the first that does not work is the reason."""
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


_NFT_LOSS_TRIAL = "table ip t {\nchain c {\nnumgen random mod 100 < 20 drop\n}\n}\n"


def _fault_trials() -> list[Finding]:
    return [
        _try("packet loss (nft numgen)", ["nft", _NFT_LOSS_TRIAL], remedy=USE_ANOTHER),
        _try(
            "delay (tc netem)",
            ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
            remedy=USE_ANOTHER,
        ),
        _try(
            "bandwidth (tc tbf)",
            ["sh", "-c", "tc qdisc add dev lo root tbf rate 1mbit burst 10k latency 10ms"],
            remedy=USE_ANOTHER,
        ),
        _try(
            "time namespaces",
            ["unshare", "--time", "--monotonic=10", "true"],
            remedy=USE_ANOTHER,
        ),
        disk_trial(),
    ]


@functools.cache
def disk_trial() -> Finding:
    """Return whether a node can have a file system of its own, that can be made read-only."""
    return _try(
        "a disk of its own (tmpfs)",
        [
            "sh",
            "-ec",
            "mount -t tmpfs -o size=1m tmpfs /tmp; mount -t tmpfs -o remount,ro tmpfs /tmp",
        ],
        remedy=USE_ANOTHER,
    )


@functools.cache
def shape_trial() -> Finding:
    """Return whether packets can be led through a program of ours, by a TUN device."""
    return _try(
        "shaping of links (TUN device)",
        [sys.executable, "-I", "-S", SHAPER, TRIAL],
        remedy=USE_ANOTHER,
    )


def _devices() -> list[Finding]:
    return [
        shape_trial(),
        _device("FUSE", Path("/dev/fuse")),
    ]


def _user() -> Finding:
    root = os.geteuid() == 0
    detail = "root" if root else f"an ordinary user (uid {os.geteuid()})"
    return Finding(what="user", works=True, detail=detail, remedy="")


def _docker() -> Finding:
    try:
        try_daemon()
    except UserError as refused:
        detail, _, remedy = str(refused).partition("; ")
        remedy = remedy or "use --hosts namespace"
        return Finding(what="Docker", works=False, detail=detail, remedy=remedy)
    return Finding(what="Docker", works=True, detail="the daemon answers", remedy="")


def _program(name: str, package: str) -> Finding:
    path = shutil.which(name, path=search_path())
    remedy = "" if path else f"{INSTALL} {package}"
    return Finding(
        what=f"the command {name}", works=bool(path), detail=path or "missing", remedy=remedy
    )


def _try(what: str, argv: Sequence[str], *, remedy: str) -> Finding:
    """Run a command in a hub of its own, which vanishes with it."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*enter_prefix(), *argv],
            capture_output=True,
            text=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UserError) as error:
        return Finding(what=what, works=False, detail=str(error), remedy=remedy)
    if done.returncode == 0:
        return Finding(what=what, works=True, detail="tried", remedy="")
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return Finding(what=what, works=False, detail=said[0], remedy=remedy)


def _device(what: str, path: Path) -> Finding:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        detail = f"{path}: {errno.errorcode.get(error.errno or 0, '?')} {error.strerror}"
        return Finding(what=what, works=False, detail=detail, remedy=USE_ANOTHER)
    return Finding(what=what, works=True, detail=f"{path} opened", remedy="")


def _namespace_remedy() -> str:
    """Return what to type so that namespaces work, by the setting that forbids them."""
    if os.geteuid() == 0:
        return (
            "root lacks CAP_SYS_ADMIN, as in most containers: start the container with --privileged"
        )
    for setting, forbidding, allowing in BLOCKERS:
        path = Path("/proc/sys") / setting
        if path.exists() and path.read_text().strip() == forbidding:
            return f"type as root: sysctl -w {setting.replace('/', '.')}={allowing}"
    return "user namespaces are forbidden here, as in most containers: run as root, or privileged"
