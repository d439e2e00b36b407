"""What a hunt leaves: its table, its page, the files of its failures; and its command."""

import shutil
from pathlib import Path

import pytest
import tomli_w

from harness.cli import exit_code
from harness.cli.hunting import changed
from harness.exit_codes import BAD_ARGUMENTS
from harness.suites.expansion import suite_named
from harness.suites.hunting.keeping import write_results_of_hunt
from harness.suites.hunting.seen import UNNAMED, reached_by
from harness.suites.hunting.telling import hunt_story
from harness.suites.journal import Journal, Reached
from harness.suites.suite import SuiteError, dump_suite, parse_suite
from results.export.bundle import read_bundle
from results.hunt_page import hunt_markdown
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.plan import load_plan, plan_from
from results.record.terms import Validity
from results.samples import find_sample
from results.store import Store
from tests.suites.made_hunts import NIGHT, Run, hunted, lines, part, run_of

INVALID = Validity.INVALID
HOSTILE = "<script>alert(1)</script>|`x`"
CONTROL = {"controls": {"kafka:3.6.1": "kafka:3.7.1"}}


def some_runs() -> list[Run]:
    first = run_of(2)
    return [
        Run(transitions=("election/leader-killed",)),
        Run(valid=INVALID, broken=("lost-write",), transitions=("b",), successions=(("a", "b"),)),
        Run(valid=Validity.UNKNOWN, plan={"system": "kafka:3.6.1"}),
        Run(valid=INVALID, broken=("lost-write",), why=Why.SAME_SEED, repeats=first),
        Run(why=Why.CONTROL, repeats=first, plan={"system": "kafka:3.7.1"}),
    ]


def test_a_story_counts_what_was_drawn_and_what_recurs() -> None:
    story = hunt_story(hunted(**CONTROL), [part(some_runs())], bundles={})
    assert story.outcomes == {"valid": 1, "unknown": 1, "invalid": 1}
    assert story.hours == 3 / 60
    (find,) = story.finds
    assert find.recurs.startswith("1 of 1 ")
    assert (find.control, find.minutes) == ("kafka:3.7.1", 2)
    assert find.on_control.startswith("0 of 1 ")
    assert find.command == "logquake run failures/kafka-3.6.1-lost-write.toml --seed 1"
    assert [each[1:] for each in story.growth] == [(1, 0), (2, 1), (2, 1)]
    assert story.first == [("election/leader-killed", 1), ("b", 2)]
    kill = next(each for each in story.values if each.value == "kill")
    assert (kill.choice, kill.runs) == ("family", 3)


def test_a_hunt_without_runs_is_a_story_too() -> None:
    story = hunt_story(hunted(), [part([])], bundles={})
    assert (story.hours, story.finds, story.growth) == (0, [], [])
    assert "no run." in hunt_markdown(story)


def test_nothing_of_others_is_markup(tmp_path: Path) -> None:
    run = Run(valid=INVALID, broken=(HOSTILE,), plan={"system": "kafka:3.6.1"})
    write_results_of_hunt(hunted(), [part([run])], tmp_path, store=None)
    assert "<script" not in (tmp_path / "hunt.html").read_text()
    assert "<script" not in (tmp_path / "hunt.md").read_text()


def stored(store: Path, run_id: str) -> RunPaths:
    paths = RunPaths(store / run_id)
    shutil.copytree(find_sample("sample:loss-acks-1"), paths.root)
    return paths


def test_each_failure_has_its_plan_and_its_run_in_one_file(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "hunt"
    paths = stored(store, run_of(2))
    folder.mkdir()
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    name = "kafka-3.6.1-lost-write"
    bundle = folder / "failures" / f"{name}.logquake.tar.gz"
    assert sorted(each.name for each in bundle.parent.iterdir()) == [bundle.name, f"{name}.toml"]
    assert plan_from(load_plan(folder / "failures" / f"{name}.toml")).nemesis == ("kill",)
    again = read_bundle(bundle, Store(tmp_path / "another"))
    assert again.plan.read_bytes() == paths.plan.read_bytes()
    assert f"failures/{bundle.name}" in (folder / "hunt.html").read_text()
    before = bundle.stat().st_mtime_ns
    shutil.rmtree(store)
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    assert bundle.stat().st_mtime_ns == before, "the run is gone, and its bundle stays"


def test_a_run_tells_what_it_broke_and_which_faults_took_effect(tmp_path: Path) -> None:
    paths = stored(tmp_path, "log/20261128T010000Z-1")
    line = reached_by(paths, 4, before=[])
    assert line.item == 4
    assert "lost-write" in line.broken
    assert line.faults
    assert all(fault.at_s >= 0 and fault.hold_s > 0 for fault in line.faults)
    assert reached_by(paths, 5, before=[line]).transitions == ()


def test_of_a_run_that_is_gone_nothing_is_told(tmp_path: Path) -> None:
    line = reached_by(RunPaths(tmp_path / "log" / "20261128T010000Z-1"), 1, before=[])
    assert line.model_copy(update={"at": 0}) == Reached(item=1, at=0, broken=(UNNAMED,))


def journal(folder: Path, night: str, runs: list[Run]) -> Path:
    path = folder / f"{night}.jsonl"
    Journal(path).write(*lines(runs, night))
    return path


def hunt_file(folder: Path) -> Path:
    path = folder / "hunt.toml"
    hunt = {"systems": ["kafka:3.6.1"], **CONTROL}
    path.write_text(tomli_w.dumps({"name": "made", "hunt": hunt}), encoding="utf-8")
    return path


def test_parts_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = journal(tmp_path, "20261127T010000Z", [Run(transitions=("a",))])
    two = journal(tmp_path, NIGHT, some_runs())
    into = tmp_path / "merged"
    words = ["hunt", str(hunt_file(tmp_path)), "--merge", "--into", str(into)]
    assert exit_code([*words, "--before", str(one), "--before", str(two)]) == 0
    assert "hunt.md" in capsys.readouterr().out
    text = (into / "hunt.md").read_text()
    assert "in 2 parts: 2 valid, 1 unknown, 1 invalid. 3 transitions were reached" in text
    assert text.count("| kafka:3.6.1 |") == 1


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hunt, empty = hunt_file(tmp_path), tmp_path / "empty.jsonl"
    empty.write_text("")
    suite = tmp_path / "suite.toml"
    suite.write_text('name = "suite"\n[axes]\nsystems = ["reference"]\n')
    for words, why in (
        ([str(suite)], "has no [hunt]; play it with: logquake suite run"),
        ([str(hunt), "--merge"], "--merge needs parts: name each with --before JOURNAL"),
        ([str(hunt), "--merge", "--before", str(empty)], "is not the journal of a hunt"),
        ([str(hunt), "--into", str(tmp_path)], "--into goes with --merge"),
    ):
        assert exit_code(["hunt", *words]) == BAD_ARGUMENTS
        assert why in " ".join(capsys.readouterr().err.split())


def test_options_change_a_hunt_and_nothing_else(tmp_path: Path) -> None:
    suite = suite_named(hunt_file(tmp_path))
    options: dict[str, str | tuple[str, ...] | None] = {
        "name": "other", "systems": ("kafka:3.4.0",), "control": "kafka:3.4.1",
        "workloads": ("txn", "log"), "nemesis": "kill,pause", "budget": "2h", "clients": (),
    }  # fmt: skip
    other = changed(suite, options)
    assert (other.name, other.budget) == ("other", 7200)
    assert other.hunt is not None
    assert suite.hunt is not None
    assert other.hunt == suite.hunt.model_copy(
        update={
            "systems": ("kafka:3.4.0",),
            "controls": {"kafka:3.4.0": "kafka:3.4.1"},
            "workloads": ("txn", "log"),
            "families": ("kill", "pause"),
        }
    )
    assert parse_suite(dump_suite(other), tmp_path) == other
    assert changed(suite, dict.fromkeys(options)) == suite


def test_another_system_has_not_the_control_of_the_file(tmp_path: Path) -> None:
    other = changed(suite_named(hunt_file(tmp_path)), {"systems": ("kafka:3.4.0",)})
    assert other.hunt is not None
    assert other.hunt.controls == {}


def test_an_option_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="there is no family 'nonsense' of faults"):
        changed(suite_named(hunt_file(tmp_path)), {"nemesis": "nonsense"})
