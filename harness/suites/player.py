"""Play one run of a suite's night, without judging it: `python -m harness.suites.player`.

Standard input and output are pipes to the night's main process. One JSON line names the run to
play. When the run has its folder, this process sends the run's id. Until the response `go` comes,
it starts no other process. So each run is in the journal before it can leave anything to heal. The
last line reports how the run ended. When the pipe closes, this process dies, and with it all
processes of the run (see `harness.stage`).
"""

import json
import os
import sys
from pathlib import Path

from rich.console import Console

from cluster.protocol import ClusterError, UserError
from harness.endings import Ending, StageResult
from harness.interrupt import die_with_parent
from harness.staging import Staging
from harness.suites.lines import GO
from harness.suites.playing import note_cut_short
from results.nights import write_night
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S, unix_s
from results.record.milestones import load_milestones
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import PlanError, plan_from


def main() -> None:
    """Play the run that a line of standard input names."""
    order = json.loads(sys.stdin.readline())
    night = Night.model_validate(order["night"])
    staging = Staging(plan_from(order["plan"]), Path(order["store"]), Console(quiet=True))
    try:
        with staging.played(begun=lambda paths: _begin(paths, night)) as played:
            # Sync all files to disk before the leader learns of them.
            os.sync()
            # Virtual time takes none of the night's time.
            at_s, main_s = (0.0, 0.0) if played.plan.is_simulated else main_phase_s(played.paths)
            _tell(
                run_id=played.paths.run_id,
                ending=played.result.ending.value,
                sentence=_sentence(played.result),
                main_at=unix_s() - played.clock.now_ns() / NS_PER_S + at_s,
                main_s=main_s,
                dropped=played.dropped,
            )
    except (UserError, PlanError, StoreError, ClusterError) as refused:
        _tell(refused=str(refused))


def _begin(paths: RunPaths, night: Night) -> None:
    write_night(paths.night, night)
    try:
        _tell(run_id=paths.run_id)
        answer = sys.stdin.readline().strip()
    except BrokenPipeError:
        answer = ""
    if answer != GO:
        # The next leader may have searched for this night's runs before this folder existed.
        note_cut_short(paths, at_ns=0)
        sys.exit("the night's leading process has ended")
    die_with_parent()


def _tell(**words: object) -> None:
    print(json.dumps(words), flush=True)  # noqa: T201 - a line of the protocol


def _sentence(result: StageResult) -> str:
    return "" if result.ending is Ending.PLAYED else result.sentence or result.ending.value


def main_phase_s(paths: RunPaths) -> tuple[float, float]:
    """Return how long after its start a run began its main phase, and how long the phase lasted.

    Return `0, 0` if the run had no main phase.
    """
    at = {each.name: each.at_ns for each in load_milestones(paths.milestones)}
    # The second pair is a story's main phase.
    for begins, ends in (("main", "main-ended"), ("ready", "healed")):
        if begins in at and ends in at:
            return at[begins] / NS_PER_S, (at[ends] - at[begins]) / NS_PER_S
    return 0.0, 0.0


if __name__ == "__main__":
    main()
