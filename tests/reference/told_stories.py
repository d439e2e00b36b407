"""Tells stories in virtual time: `python -m tests.reference.told_stories FOLDER` tells them all.

It prints the hash of every file that came of each, by the part's name.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from harness.interrupt import Interrupts
from harness.scenarios.choices import story_values
from harness.scenarios.every import Part, parts
from harness.simulated.world import SimulatedWorld
from harness.stage import live
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from

STORIES = list(parts(system="reference"))


def plan_of(part: Part) -> Plan:
    """Return the plan of a story that is told in virtual time."""
    values = story_values(part.scenario, part.choices, system=part.system)
    return plan_from({**values, "hosts": "simulated"})


def told(plan: Plan, root: Path) -> RunPaths:
    """Tell a story into a folder; nobody judges it."""
    paths, world = RunPaths(root), SimulatedWorld(plan)
    paths.live.mkdir(parents=True)
    live(
        plan,
        paths,
        RunClock(start_ns=0),
        world=world,
        console=Console(quiet=True),
        interrupts=Interrupts(world.event),
    )
    return paths


def hashes(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the hash of every file in a folder."""
    for file in sorted(each for each in root.rglob("*") if each.is_file()):
        yield str(file.relative_to(root)), hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    """Tell every story into the folder that is the first argument."""
    folder = Path(sys.argv[1])
    found = {
        part.name: dict(hashes(told(plan_of(part), folder / str(number)).root))
        for number, part in enumerate(STORIES)
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
