"""A repeat measures the run that failed: it keeps what a swarm drew for it, whatever its seed."""

from pathlib import Path

from harness.suites.expansion import Entry
from harness.suites.journal import Planned
from harness.suites.repeats import plan_of
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.plan import dump_plan

RUN = "log/20261128T034500Z-3"
SWARM = Entry(name="log#1", values={"swarm": True, "hosts": "process"})


def planned(seed: int, *, repeats: str = "") -> Planned:
    why = Why.FRESH_SEED if repeats else Why.PLANNED
    return Planned(item=1, entry=SWARM.name, seed=seed, why=why, repeats=repeats)


def test_a_repeat_with_a_new_seed_keeps_what_was_drawn(tmp_path: Path) -> None:
    first = plan_of(SWARM, planned(3), tmp_path)
    fresh = plan_of(SWARM, planned(4), tmp_path)
    assert first == SWARM.plan(3)
    assert first.swarmed
    assert first.swarmed != fresh.swarmed
    paths = RunPaths(tmp_path / RUN)
    paths.root.mkdir(parents=True)
    paths.plan.write_text(dump_plan(first), encoding="utf-8")
    again = plan_of(SWARM, planned(4, repeats=RUN), tmp_path)
    assert again == first.model_copy(update={"seed": 4})


def test_of_a_run_that_is_gone_and_of_an_entry_without_a_swarm_the_suite_decides(
    tmp_path: Path,
) -> None:
    assert plan_of(SWARM, planned(4, repeats=RUN), tmp_path) == SWARM.plan(4)
    plain = Entry(name="log#1", values={"hosts": "process"})
    assert plan_of(plain, planned(4, repeats=RUN), tmp_path) == plain.plan(4)
