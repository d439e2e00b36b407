"""Plays a run in virtual time into a folder, by the life that ships.

python play_in_virtual_time.py FOLDER PLAN

    FOLDER: Where the run goes.
    PLAN: Its keys, as JSON.
"""

import json
import os
import sys
from pathlib import Path

from rich.console import Console

from cluster.hosts.abilities import abilities_of, able
from harness.interrupt import Interrupts
from harness.plans import as_played, refuse_impossible
from harness.simulated.world import SimulatedWorld
from harness.stage import live
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import SIMULATED, dump_plan, plan_from


def play(folder: Path, keys: dict[str, object]) -> RunPaths:
    """Play it."""
    asked = plan_from({"system": "reference", "hosts": SIMULATED, "rate": 20, **keys})
    can = able(abilities_of(SIMULATED))
    refuse_impossible(asked, abilities=can)
    plan, paths = as_played(asked, SIMULATED, abilities=can), RunPaths(folder)
    paths.live.mkdir(parents=True)
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    world = SimulatedWorld(plan)
    with Path(os.devnull).open("w") as nobody:
        live(
            plan,
            paths,
            RunClock(start_ns=0),
            world=world,
            console=Console(file=nobody),
            interrupts=Interrupts(world.event),
        )
    return paths


if __name__ == "__main__":
    play(Path(sys.argv[1]), json.loads(sys.argv[2]))
