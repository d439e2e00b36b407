"""`logquake heal`: what runs left behind whose controller is dead."""

from pathlib import Path

from nemesis.ledger import heal_dead_run
from results.store import Store, is_alive


def heal_store(root: Path) -> list[str]:
    """Undo what the dead runs of a store left on this machine; leave the living alone.

    Returns:
        What was done, a sentence each; empty if there was nothing.
    """
    if not root.exists():
        return []
    done: list[str] = []
    for run in Store(root).runs():
        if is_alive(run):
            done.append(f"{run.run_id} is still under way: left alone")
            continue
        done += [f"{run.run_id}: {sentence}" for sentence in heal_dead_run(run)]
    return done
