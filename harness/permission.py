"""Ask for permission before faults are injected into an attached cluster.

No question is needed if the cluster's file permits faults. Otherwise the user must type the
cluster's id.
"""

import sys
from pathlib import Path

from cluster.protocol import UserError
from cluster.systems.attached.system import AttachedSystem
from cluster.systems.system import System

_PERMITTED: set[tuple[Path, str]] = set()
"""The attached clusters (file and id) for which the user already gave this command permission."""


def permit(system: System) -> None:
    """Ask the user for permission to inject faults into an attached cluster.

    Args:
        system: The run's system. Systems that Logquake starts itself need no permission.

    Raises:
        UserError: The user did not permit the faults.
    """
    if not isinstance(system, AttachedSystem) or system.attached.file.test_cluster:
        return
    path, cluster_id = system.attached.path, system.cluster_id()
    if not sys.stdin.isatty():
        raise UserError(
            f"{path} does not declare cluster {cluster_id} as a test cluster; write `test_cluster"
            " = true` into this file, or start the run at a terminal"
        )
    if (path, cluster_id) in _PERMITTED:
        return
    # `input` would ask on standard output, which a program may read.
    sys.stderr.write(
        f"Brokers of cluster {cluster_id} will be killed, paused and cut off, as {path}"
        " allows.\nTo confirm, type the id of the cluster: "
    )
    sys.stderr.flush()
    try:
        typed = input().strip()
    except EOFError:
        typed = ""
    if not typed or typed != cluster_id:
        raise UserError(f"this is not the id of the cluster of {path}, so nothing was done")
    _PERMITTED.add((path, cluster_id))
