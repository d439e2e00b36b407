"""What a run left behind whose controller is dead; its system is not at hand any more."""

from cluster.hosts.heal import Healed
from cluster.systems.registry import LOGS
from nemesis import ledger
from results.record.paths import RunPaths


def heal_dead_run(paths: RunPaths) -> Healed:
    """Undo what a run left behind; see `nemesis.ledger.heal_dead_run`. Idempotent."""
    return ledger.heal_dead_run(paths, LOGS)
