"""`logquake heal`: report runs whose command died, and undo what they left behind.

If a run died while it was played, `heal` adds the milestone `failed` to the run. So a second heal
does not report the run again, and the verdict of the run explains why the record is incomplete.
"""

from contextlib import ExitStack
from pathlib import Path

from cluster.hosts.heal import Healed, heal_trials
from cluster.protocol import ClusterError, UserError
from cluster.systems.attached.marker import Marker, read_marker
from cluster.systems.attached.mending import mend_attached
from harness.dead_runs import heal_dead_run
from harness.endings import note
from harness.scratch import remove_scratch
from nemesis.ledger import open_entries
from results.export.contents import MANIFEST
from results.export.unpacking import remove_abandoned
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S, WaitTimeoutError
from results.record.milestones import STOPPING, Milestone, load_milestones
from results.record.paths import RunPaths
from results.store import Store, hold_run, is_alive, is_copy, typed
from results.trust import NotOursError, UntrustedRunError, refuse_unless_own

DIED = "died"
"""The `kind` of the milestone `failed` if the run's command died."""
_SINCE = {
    "looked": "before its cluster started",
    "started": "while its brokers started",
    "ready": "before its clients began",
    "warmup": "in its warm-up",
    "main": "in its main phase",
    "main-ended": "while its faults were healed",
    "healed": "while it recovered",
    "recovered": "while it recovered",
    STOPPING: "while its clients stopped",
    "final-reads": "during its final reads",
    "noted": "while its brokers stopped",
    "stopped": "while its files were collected",
}
"""For each milestone that can be the last of a run: the phase in which the run died."""


def heal_store(root: Path) -> Healed:
    """Undo what a store's dead runs left on their hosts. Runs in progress are left alone.

    Returns:
        One sentence for each thing that was done or failed. Each sentence names the run.
    """
    done: list[str] = []
    failed: list[str] = []
    others: list[str] = []  # A shared store may have thousands.
    for run in Store(root).runs():
        try:
            refuse_unless_own(run)
            if is_alive(run):
                done.append(f"{run.run_id} is still running, so it was not changed")
                continue
            with hold_run(run):
                done_here, failed_here = _heal_run(run)
        except NotOursError as left_alone:
            others.append(str(left_alone))
        except UntrustedRunError as refused:
            failed.append(str(refused))
        except Exception as refused:  # noqa: BLE001 - one failure must not stop the heal of others
            known = isinstance(refused, (StoreError, ClusterError, OSError, ValueError))
            why = refused if known else f"a bug of Logquake: {type(refused).__name__}: {refused}"
            failed.append(f"{run.run_id}: {why}")
        else:
            done += [f"{run.run_id}: {sentence}" for sentence in done_here]
            failed += [f"{run.run_id}: {sentence}" for sentence in failed_here]
    if others:
        rest = len(others) - 1
        more = f" (and {rest} more {'is' if rest == 1 else 'are'} not yours)" if rest else ""
        done.append(f"{others[0]}{more}")
    done += [f"removed {name}, the folder of a killed import" for name in remove_abandoned(root)]
    trials = heal_trials()
    return Healed(done=(*done, *trials.done), failed=(*failed, *trials.failed))


def heal_attached(file: Path, root: Path) -> Healed:
    """Undo what a store's dead runs left on an attached cluster.

    Args:
        file: The path that the user typed for the attached cluster's file.
        root: The store.

    Returns:
        See `heal_store`.

    Raises:
        PlanError, UserError: The file cannot be used, or a run is in progress on that cluster.
    """
    file = file.expanduser().absolute()
    dead: dict[RunPaths, Marker] = {}
    for run in Store(root).runs():
        marker = read_marker(run.attached)
        if marker is None or not _is_same(file, marker.file):
            continue
        refuse_unless_own(run)
        if is_alive(run):
            raise UserError(f"{run.run_id} is running on that cluster; end it first")
        dead[run] = marker
    with ExitStack() as held:
        for run in dead:
            held.enter_context(hold_run(run))
        mended = mend_attached(file, [*dead.values()])
        done, failed = list(mended.done), list(mended.failed)
        for run, marker in dead.items():
            if marker.prefix in mended.whole:
                run.attached.unlink(missing_ok=True)
            done_here, failed_here = _heal_run(run)
            done += [f"{run.run_id}: {sentence}" for sentence in done_here]
            failed += [f"{run.run_id}: {sentence}" for sentence in failed_here]
    return Healed(done=tuple(done), failed=tuple(failed))


def _is_same(file: Path, named: str) -> bool:
    """Return whether a stored path and a file are the same file, after all links are resolved."""
    try:
        return Path(named).resolve() == file.resolve()
    except (OSError, RuntimeError, ValueError):  # The path is not valid, or its links form a loop.
        return False


def _heal_run(run: RunPaths) -> tuple[list[str], list[str]]:
    """Heal a dead run; return sentences about what was undone, and sentences about what failed."""
    in_force = len(open_entries(run.ledger))
    died = _note_died(run)
    healed = heal_dead_run(run)
    done, failed = list(healed.done), list(healed.failed)
    if marker := read_marker(run.attached):
        failed.append(
            "to undo the run's changes on its attached cluster, the cluster's file is needed;"
            f" type: logquake heal {marker.file}"
        )
    try:
        done += remove_scratch(run)
    except WaitTimeoutError as late:
        failed.append(str(late))
    if in_force and died and not failed:
        faults = "1 fault was" if in_force == 1 else f"{in_force} faults were"
        done.append(f"{faults} in force; no fault is in force any more")
    if died:
        done = [died, *(done or ["no processes or changes of the run were left"])]
    if done and run.milestones.exists() and not run.verdict.exists():
        done.append(
            f"the run has no verdict; to judge its record, type: logquake check {typed(run)}"
        )
    return done, failed


def _note_died(run: RunPaths) -> str:
    """Record that a run died while it was played; return a sentence with the time of its death.

    The result is empty if the run ended by itself. The function ignores an imported or copied run,
    because such a run may still be in progress elsewhere.
    """
    if (run.root / MANIFEST).exists() or is_copy(run):
        return ""
    reached = load_milestones(run.milestones)
    names = {each.name for each in reached}
    if names & {"failed", "collected", "audited"}:
        return ""  # The run ended by itself.
    last = next((each for each in reversed(reached) if each.name in _SINCE), None)
    if last is None:
        return ""
    sentence = f"the run's command ended {_SINCE[last.name]}"
    detail = {"kind": DIED, "sentence": sentence}
    note(run, Milestone(name="failed", at_ns=last.at_ns, detail=detail))
    return f"{sentence}, {last.at_ns / NS_PER_S:.0f} s after its start or later"
