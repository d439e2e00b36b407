"""Plays a run in virtual time, by the life that ships.

python play_in_virtual_time.py STORE PLAN

    STORE: The folder of runs.
    PLAN: Its keys, as JSON.
"""

import json
import sys
from pathlib import Path

from benchmarks.playing import play_here
from results.record.paths import RunPaths
from results.record.plan import SIMULATED, plan_from


def play(store: Path, keys: dict[str, object]) -> RunPaths:
    """Play it; return where it is."""
    plan = plan_from({"system": "reference", "hosts": SIMULATED, "rate": 20, **keys})
    return play_here(plan, store).paths


if __name__ == "__main__":
    play(Path(sys.argv[1]), json.loads(sys.argv[2]))
