"""May an attached cluster be shaken? Its file says so, or the user does, who types its id."""

import sys

from cluster.protocol import UserError
from cluster.systems.attached.system import AttachedSystem
from cluster.systems.system import System


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
    typed = input(
        f"Brokers of cluster {cluster_id} will be killed, paused and cut off, as {path} allows.\n"
        "If that is meant, type its id: "
    )
    if typed.strip() != cluster_id:
        raise UserError(f"that is not the id of the cluster of {path}: nothing was done")
