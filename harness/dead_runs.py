"""Undo what a run left behind when its command died, without an object for the tested system."""

from cluster.hosts.heal import Healed
from cluster.systems.registry import LOGS
from nemesis import ledger
from results.record.paths import RunPaths


def heal_dead_run(paths: RunPaths) -> Healed:
    """Undo the changes that a dead run left on its hosts; see `nemesis.ledger`. Idempotent."""
    return ledger.heal_dead_run(paths, LOGS)
