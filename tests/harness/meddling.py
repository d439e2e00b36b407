"""A run that a test meddles with while it goes on, as no fault of the product would."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from tests.harness.commands import LOGQUAKE, RUN_LIMIT_S

Meddle = Callable[[RunPaths], object]


def in_its_main_phase(run: RunPaths) -> bool:
    """Tell whether clients and nemesis are at work."""
    return any(each.name == "main" for each in load_milestones(run.milestones))


def meddled_run(
    plan: str,
    folder: Path,
    meddle: Meddle,
    *,
    once: Callable[[RunPaths], bool] = in_its_main_phase,
    environment: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], RunPaths]:
    """Play a plan, and do something to the run once it is so far.

    Args:
        plan: The text of a plan.
        folder: For the plan and the run.
        meddle: What is done.
        once: Tells whether the run is so far.
        environment: Variables beside those of the test.

    Returns:
        The verdict, and the run.
    """
    file, store = folder / "plan.toml", folder / "runs"
    file.write_text(plan, encoding="utf-8")
    words = [LOGQUAKE, "run", str(file), "--engine", "local", "--json", "--store", str(store)]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **(environment or {})},
    ) as running:  # fmt: skip

        def so_far() -> RunPaths | None:
            assert running.poll() is None, running.stderr and running.stderr.read()
            runs = [RunPaths(each.parent) for each in store.glob("*/*/milestones.jsonl")]
            return next((run for run in runs if once(run)), None)

        run = wait_until(
            so_far, timeout_s=RUN_LIMIT_S, what="the moment to meddle", interval_s=0.02
        )
        meddle(run)
        stdout, stderr = running.communicate(timeout=RUN_LIMIT_S)
    assert stdout.startswith("{"), stdout + stderr[-3000:]
    return json.loads(stdout), run
