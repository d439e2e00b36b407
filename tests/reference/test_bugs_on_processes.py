"""A bug that is switched on is found on nodes that are processes, by the command of its file."""

import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from cluster.reference.bugs import Bug
from results.record.paths import RunPaths
from results.record.plan import load_plan, plan_from
from results.verdict_json import read_verdict

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
BUGS = Path(__file__).parents[2] / "benchmarks" / "bugs"
LIMIT_S = 240


@pytest.mark.parametrize("bug", Bug)
def test_every_bug_has_a_plan_that_finds_it(bug: Bug) -> None:
    plan = plan_from(load_plan(BUGS / f"{bug}.toml"))
    assert plan.bug == bug
    assert plan.time_limit_s < 600
    assert plan.faults or plan.scenario


@pytest.mark.night
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_leader_that_acknowledges_too_early_is_found_out(tmp_path: Path) -> None:
    bug = Bug.ACK_BEFORE_COMMIT
    found = load_plan(BUGS / f"{bug}.toml")
    faults = found["faults"]
    assert isinstance(faults, list)
    plan = tmp_path / "plan.toml"
    # A broker's session ends after 3 s. The cut has to outlast that, and the election, on a machine
    # that is busy: with 4.5 s the old leader now and then led on, and nothing was lost.
    fault = {**faults[0], "at_s": 0.5, "hold_s": 10}
    quick = {"time_limit_s": 11, "warmup_s": 1, "faults": [fault]}
    plan.write_text(tomli_w.dumps({**found, **quick}))
    store = tmp_path / "runs"
    ended = subprocess.run(
        [LOGQUAKE, "run", str(plan), "--hosts", "process", "--engine", "local",
         "--store", str(store)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout + ended.stderr[-3000:]
    verdict = read_verdict(RunPaths((store / "latest").resolve()).verdict)
    assert verdict is not None
    assert verdict.anomalies[bug.anomaly].trusted
