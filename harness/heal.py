"""`logquake heal`: what runs left behind whose controller is dead."""

from pathlib import Path

from cluster.hosts.heal import Healed, heal_trials
from harness.scratch import remove_scratch
from nemesis.ledger import heal_dead_run
from results.export.unpacking import remove_abandoned
from results.record.clock import WaitTimeoutError
from results.store import Store, is_alive


def heal_store(root: Path) -> Healed:
    """Undo what the dead runs of a store left on their hosts; leave the living alone.

    Returns:
        What was done, and what could not be done now, a sentence each that names the run.
    """
    done: list[str] = []
    failed: list[str] = []
    for run in Store(root).runs():
        if is_alive(run):
            done.append(f"{run.run_id} is still under way: left alone")
            continue
        healed = heal_dead_run(run)
        done += [f"{run.run_id}: {sentence}" for sentence in healed.done]
        failed += [f"{run.run_id}: {sentence}" for sentence in healed.failed]
        try:
            done += [f"{run.run_id}: {sentence}" for sentence in remove_scratch(run)]
        except WaitTimeoutError as late:
            failed.append(f"{run.run_id}: {late}")
    done += [f"removed {name}, of an import that was killed" for name in remove_abandoned(root)]
    trials = heal_trials()
    return Healed(done=(*done, *trials.done), failed=(*failed, *trials.failed))
