"""List the traces of a run on the hosts, to check that the run left nothing behind.

The audit compares the traces before and after a run. The audit counts only objects with the run's
mark, or with a name that only Logquake uses. The audit ignores all other changes on a machine.
"""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster.hosts.cuts import TABLE
from cluster.hosts.groups import groups_of
from cluster.hosts.leavings import leavings
from cluster.hosts.leftovers import leftovers
from cluster.hosts.links import BRIDGE

NFT_TIMEOUT_S = 10.0
_OCTAL = re.compile(rb"\\([0-7]{3})")
_OUR_LINKS = re.compile(rf"{BRIDGE}|lq\d+")


def local_traces(processes_file: Path) -> dict[str, str]:
    """Return the traces of a run on this machine, as far as the caller's namespaces show them.

    Args:
        processes_file: The file `RunPaths.processes` in the run's folder.

    Returns:
        The description of each trace, such as `{"process 4711": "java of n1"}`. A namespace without
        processes is not listed, because it vanishes with its links and tables.
    """
    return {
        **{f"process {left.process.pid}": left.what for left in leftovers(processes_file)},
        **{f"the file {path}": "outside of the store" for path in leavings(processes_file)},
        **{f"the control group {path}": "of a server" for path in groups_of(processes_file)},
        **{f"a mount at {path}": "in the run's folder" for path in _mounts(processes_file.parent)},
        **_network(),
    }


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return each trace that a run added, removed or changed, with a sentence about the change."""
    changed = {what for what in {*before, *after} if before.get(what) != after.get(what)}
    return {what: _change(before.get(what), after.get(what)) for what in sorted(changed)}


def _change(before: str | None, after: str | None) -> str:
    if before is None:
        return f"exists after the run, but did not exist before ({after})"
    if after is None:
        return f"existed before the run, but no longer exists ({before})"
    return f"was different before the run ({before}, now {after})"


def _mounts(folder: Path) -> list[str]:
    """Return the mount points in a folder or below it (man 5 proc, `/proc/PID/mountinfo`)."""
    listing = Path("/proc/self/mountinfo")
    if not listing.exists():
        return []
    root = folder.resolve()
    points = mount_points(listing.read_bytes())
    return sorted(point for point in points if Path(point).is_relative_to(root))


def mount_points(mountinfo: bytes) -> list[str]:
    """Return the mount points in the content of a mountinfo file.

    The file writes blanks as octal codes, which are decoded.
    """
    points = [line.split()[4] for line in mountinfo.splitlines()]
    return [os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), at)) for at in points]


def _network() -> dict[str, str]:
    """Return the machine's own network links and nft tables that have Logquake's names."""
    links = [name for _, name in socket.if_nameindex() if _OUR_LINKS.fullmatch(name)]
    return {f"the link {name}": "in the machine's own namespace" for name in links} | _tables()


def _tables() -> dict[str, str]:
    """Return nft tables with Logquake's name.

    The result is an empty mapping for a user who may not list tables.
    """
    if os.geteuid() != 0:
        return {}
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["nft", "list", "table", "ip", TABLE],  # noqa: S607 - found by PATH, as everywhere
            capture_output=True,
            text=True,
            timeout=NFT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {f"the nft table {TABLE}": "in the machine's own namespace"} if done.stdout else {}
