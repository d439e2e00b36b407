"""May an attached cluster be shaken? Its file says so, or the user does, who types its id."""

import sys
from pathlib import Path

from cluster.protocol import UserError
from cluster.systems.attached.system import AttachedSystem
from cluster.systems.system import System

_PERMITTED: set[tuple[Path, str]] = set()
"""Files, each with its cluster, that this command may shake: its user is asked once."""


def permit(system: System) -> None:
    """Have a user permit that faults are dealt to a cluster that runs already.

    Args:
        system: Of the run; of another kind it needs no permission.

    Raises:
        UserError: It is not permitted.
    """
    if not isinstance(system, AttachedSystem) or system.attached.file.test_cluster:
        return
    path, cluster_id = system.attached.path, system.cluster_id()
    if not sys.stdin.isatty():
        raise UserError(
            f"{path} does not say that cluster {cluster_id} is one for tests; write `test_cluster ="
            " true` into it, or start the run at a terminal"
        )
    if (path, cluster_id) in _PERMITTED:
        return
    # Not by `input`, which asks on standard output: what is there may be read by a program.
    sys.stderr.write(
        f"Brokers of cluster {cluster_id} will be killed, paused and cut off, as {path} allows.\n"
        "If that is meant, type its id: "
    )
    sys.stderr.flush()
    try:
        typed = input().strip()
    except EOFError:
        typed = ""
    if not typed or typed != cluster_id:
        raise UserError(f"that is not the id of the cluster of {path}: nothing was done")
    _PERMITTED.add((path, cluster_id))
