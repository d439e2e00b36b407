"""What a dry run says of a night: how long it takes, by what that is measured, what is dropped."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.suites.choosing import JUDGING_S
from harness.suites.conductor import Conductor
from harness.suites.estimates import ALONE_S, SIDE_BY_SIDE_S, Estimate, estimate, refresh
from harness.suites.expansion import entries_of, excluded
from harness.suites.journal import Planned
from harness.suites.night import folded
from harness.suites.preview import print_preview
from harness.suites.slots import Slots
from harness.suites.source import Entries
from harness.suites.suite import Repeat, Suite, parse_suite
from harness.suites.summary import summary_markdown
from results.index import open_index
from results.record.clock import unix_s
from results.record.night import Night
from results.store import Store
from tests.results.planted import plant
from tests.suites.made_nights import Run, lines, stored_night

NIGHT = "20261123T010000Z"
SUITE = """
name = "made"
parallel = 1
[plan]
warmup_s = 5
time_limit_s = 15
[axes]
hosts = ["process"]
workloads = ["log", "txn"]
nemeses = ["kill", "none"]
[[exclude]]
workload = "txn"
nemesis = "none"
"""
KILLS, CALM = "log/kafka:4.3.1/process/kill#1", "log/kafka:4.3.1/process/none#1"


def made(text: str = SUITE) -> Suite:
    return parse_suite(text, Path("made.toml"))


def preview(suite: Suite, store: Path) -> list[str]:
    console = Console(width=500, file=io.StringIO())
    print_preview(suite, store, console)
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def takes(store: Path, *, at_once: int = 1) -> dict[str, Estimate]:
    with open_index(Store(store)) as index:
        refresh(index)
        return {
            each.name: estimate(each, each.plan(1), index, suite="made", at_once=at_once)
            for each in entries_of(made())
        }


def test_a_run_is_estimated_by_its_entry_then_by_its_kind_then_by_default(tmp_path: Path) -> None:
    """A planted run ends 50 s after its start; its plan has a main phase of 25 s or 15 s."""
    told = Night(suite="made", night=NIGHT, entry=KILLS)
    plan = {"hosts": "process", "warmup_s": 5}
    plant(tmp_path, f"{NIGHT[:9]}010100Z", plan={**plan, "time_limit_s": 25}, night=told)
    for number in (2, 3):
        plant(tmp_path, f"{NIGHT[:9]}01{number:02}00Z", plan={**plan, "time_limit_s": 15})
    plant(tmp_path, f"{NIGHT[:9]}020000Z", plan={**plan, "workload": "groups"})
    plant(tmp_path, f"{NIGHT[:9]}030000Z", plan={**plan, "workload": "txn"}, judged=False)
    found = takes(tmp_path)
    assert found[KILLS] == Estimate(
        takes_s=20 + (50 - 30) + JUDGING_S, source="1 run of this entry", measured=True
    )
    assert found[CALM] == Estimate(
        takes_s=20 + (50 - 20) + JUDGING_S, source="median of 3 runs of this kind", measured=True
    )
    others = {each.source for name, each in found.items() if name.startswith("txn")}
    assert others == {"default"}


@pytest.mark.parametrize(("at_once", "overhead_s"), [(1, ALONE_S), (2, SIDE_BY_SIDE_S)])
def test_the_default_includes_start_stop_and_judging(
    tmp_path: Path, at_once: int, overhead_s: float
) -> None:
    found = takes(tmp_path / "none", at_once=at_once)
    assert {each.takes_s for each in found.values()} == {20 + overhead_s + JUDGING_S}
    assert not (tmp_path / "none").exists()


def test_a_dry_run_says_by_what_each_figure_is_measured(tmp_path: Path) -> None:
    told = Night(suite="made", night=NIGHT, entry=KILLS)
    plant(tmp_path, f"{NIGHT[:9]}010100Z", plan={"hosts": "process"}, night=told)
    said = preview(made(), tmp_path)
    assert f"{KILLS} 1 fresh {20 + max(0, 50 - 65) - 15 + 5} 1 run of this entry" in said
    assert f"txn/kafka:4.3.1/process/kill#1 1 fresh {20 + 18 + 5} default" in said
    assert any(line.startswith("default: warm-up and main phase, plus start") for line in said)
    assert any(line.endswith("without reruns; the budget is 30 min") for line in said)


def test_a_dry_run_says_what_is_left_out_and_why(tmp_path: Path) -> None:
    assert excluded(made()) == 1
    said = preview(made(SUITE.replace('"kill", ', '"all", "network", ')), tmp_path)
    assert "[[exclude]] removes 1 combination of the axes" in said
    (main,) = (line for line in said if "they do not fit into a main phase of 15 s" in line)
    assert "all#1 and 1 more entry: faults of " in main
    assert "kill" in main
    (links,) = (
        line for line in said if "there are no links between them" in line and "all#1" in line
    )
    assert "faults of partition, splits, clients, network" in links
    assert "client-connections are left out" in links
    (named,) = (line for line in said if "network#1 and 1 more entry: it cannot run" in line)
    assert "nemesis 'network' needs hosts that can" in named
    assert not any("entries that do not fit" in line for line in said)
    tight = preview(made(f'budget = "1m"\n{SUITE}'), tmp_path)
    assert "entries that do not fit are left out tonight and run first in the next night" in tight


def test_hosts_that_do_not_work_here_are_named(tmp_path: Path) -> None:
    said = preview(made(SUITE.replace('"process"', '"ssh:/nowhere/hosts.toml"')), tmp_path)
    (line,) = (each for each in said if "it cannot run on this machine" in each)
    assert "/nowhere/hosts.toml" in line


def test_a_run_that_is_left_out_says_how_much_time_was_missing(tmp_path: Path) -> None:
    conductor = Conductor(
        suite=made(), source=Entries({}, Repeat(), tmp_path), store=tmp_path,
        folder=stored_night(tmp_path, NIGHT, []),
        slots=Slots(runs=1), deadline=unix_s() + 9.6,
    )  # fmt: skip
    planned = Planned(item=1, entry="e", seed=1, lasts_s=20, takes_s=43, measured=True)
    item = folded([planned]).items[1]
    assert conductor._no_time(item) in {
        f"{left} s of the budget were left, but the entry needs about 43 s" for left in (9, 10)
    }
    conductor.deadline = unix_s() - 1
    assert conductor._no_time(item) == "the budget was used up before its turn"
    conductor.deadline = 0
    assert conductor._no_time(item) == "the night was not resumed"


def test_a_summary_names_the_faults_that_schedules_left_out() -> None:
    why = "faults of disk are left out: they do not fit into a main phase of 15 s"
    night = [
        each.model_copy(update={"dropped": (why,)}) if each.event == "played" else each
        for each in lines(NIGHT, [Run(entry="a"), Run(entry="b")])
    ]
    text = summary_markdown(folded(night), [])
    assert f"## Faults that were left out\n\n- {why}: a, b\n" in text
    assert "left out" not in summary_markdown(folded(lines(NIGHT, [Run(entry="a")])), [])
