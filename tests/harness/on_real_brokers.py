"""Stories on real brokers, by the command that a user types.

Whatever a test plays so, Kafka's own reader of segments (DumpLogSegments, of the same version) has
to read every segment as ours does: of the end, and of the copies of each step.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.kafka_dump import disagreements, segments_of
from cluster.java import find_java
from cluster.kafka.fetch import fetch_kafka
from results.record.paths import RunPaths
from results.record.plan import load_plan, plan_from

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 480
TEST_LIMIT_S = RUN_LIMIT_S + 60


def logquake(*words: str, store: Path) -> tuple[int, str, RunPaths]:
    """Play one run.

    Returns:
        The exit code, what was said, and the run.
    """
    done = subprocess.run(
        [LOGQUAKE, *words, "--store", str(store), "--engine", "local"],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    paths = RunPaths((store / "latest").resolve())
    assert paths.plan.exists(), done.stdout + done.stderr
    plan = plan_from(load_plan(paths.plan))
    distribution = fetch_kafka(plan.kafka_version, progress=print)
    assert segments_of(paths.root)
    assert disagreements(paths.root, java=find_java(), distribution=distribution) == []
    return done.returncode, done.stdout + done.stderr, paths
