"""Plays one run of a night, without judging it: `python -m harness.suites.player`.

Standard input and output are pipes to whoever leads the night. What to play comes as one JSON line.
When the run has its folder, its id is told, and nothing is started before the answer `go`: so the
journal knows of each run before there is anything to heal. At the end comes a line that says how it
went. When the pipe closes, this process dies, and with it all that the run started (see
`harness.stage`).
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
    """Play what standard input says."""
    order = json.loads(sys.stdin.readline())
    night = Night.model_validate(order["night"])
    staging = Staging(plan_from(order["plan"]), Path(order["store"]), Console(quiet=True))
    try:
        with staging.played(begun=lambda paths: _begin(paths, night)) as played:
            # Whatever was written is on disk before anybody is told that it is there.
            os.sync()
            # Of virtual time nothing passes on the night's clock.
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
        # The next leader may have looked for the runs of its night before this one was there.
        note_cut_short(paths, at_ns=0)
        sys.exit("nobody leads the night any more")
    die_with_parent()


def _tell(**words: object) -> None:
    print(json.dumps(words), flush=True)  # noqa: T201 - a line of the protocol


def _sentence(result: StageResult) -> str:
    return "" if result.ending is Ending.PLAYED else result.sentence or result.ending.value


def main_phase_s(paths: RunPaths) -> tuple[float, float]:
    """Return when a run's main phase began, since its start, and its length; zeros: it had none."""
    at = {each.name: each.at_ns for each in load_milestones(paths.milestones)}
    # A story has no other main phase.
    for begins, ends in (("main", "main-ended"), ("ready", "healed")):
        if begins in at and ends in at:
            return at[begins] / NS_PER_S, (at[ends] - at[begins]) / NS_PER_S
    return 0.0, 0.0


if __name__ == "__main__":
    main()
