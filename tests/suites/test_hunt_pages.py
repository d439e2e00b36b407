"""What a hunt leaves: its table, its page, the files of its failures; and its command."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w

from harness.cli import exit_code
from harness.cli.hunting import changed, hunt, words_of
from harness.exit_codes import BAD_ARGUMENTS, UNKNOWN
from harness.plans import completed_plan
from harness.suites.expansion import suite_named
from harness.suites.hunting.hunter import Hunter
from harness.suites.hunting.keeping import MAX_BUNDLE_BYTES, write_results_of_hunt
from harness.suites.hunting.parts import distinct, keep, part_of
from harness.suites.hunting.plans import plan_of, values_of
from harness.suites.hunting.seen import UNNAMED, reached_by
from harness.suites.hunting.telling import hunt_story
from harness.suites.journal import Begun, Journal, Judged, Planned, Reached, Unplayed
from harness.suites.leading import Resumption, opened
from harness.suites.night import Phase
from harness.suites.nights import NightFolder, nights_of, suite_folder
from harness.suites.reports import write_results
from harness.suites.retention import spared_runs
from harness.suites.suite import Keep, Suite, SuiteError, dump_suite, parse_suite
from nemesis.aftermath import Strikes
from results.export.bundle import read_bundle
from results.hunt_page import hunt_markdown
from results.nights import write_night
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import load_plan, plan_from
from results.record.terms import Validity
from results.samples import find_sample
from results.store import Store
from tests.suites.made_hunts import NIGHT, Run, hunted, lines, part, run_of

INVALID = Validity.INVALID
ROOT = Path(__file__).parents[2]
HOSTILE = "<script>alert(1)</script>|`x`"
NAME = run_of(2).replace("/", "-")
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
    assert find.minutes == 2
    (control,) = find.controls
    assert control.startswith("kafka:3.7.1: 0 of 1 ")
    assert find.command == f"logquake run failures/{NAME}.toml --seed 1"
    assert [each[1:] for each in story.growth] == [(1, 0), (2, 1), (2, 1)]
    assert story.first == [("election/leader-killed", 1), ("b", 2)]
    kill = next(each for each in story.values if each.value == "kill")
    assert (kill.choice, kill.runs) == ("family", 3)


def test_what_a_run_with_a_plan_of_another_version_reached_counts() -> None:
    old = Run(transitions=("election/leader-killed",), plan={"nonsense": 1})
    failed = Run(valid=INVALID, broken=("lost-write",), plan={"nonsense": 1})
    # This run reached the election, too, but a journal's later lines do not repeat it.
    story = hunt_story(hunted(), [part([old, Run(transitions=("b",)), failed])], bundles={})
    assert story.first == [("election/leader-killed", 1), ("b", 2)]
    assert "election/leader-killed" not in story.never
    assert (story.hours, story.finds[0].minutes) == (3 / 60, 3)
    assert {each.runs for each in story.values} == {1}


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
    bundle = folder / "failures" / f"{NAME}.logquake.tar.gz"
    assert sorted(each.name for each in bundle.parent.iterdir()) == [bundle.name, f"{NAME}.toml"]
    assert plan_from(load_plan(folder / "failures" / f"{NAME}.toml")).nemesis == ("kill",)
    again = read_bundle(bundle, Store(tmp_path / "another"))
    assert again.plan.read_bytes() == paths.plan.read_bytes()
    assert f"failures/{bundle.name}" in (folder / "hunt.html").read_text()
    before = bundle.stat().st_mtime_ns
    shutil.rmtree(store)
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    assert bundle.stat().st_mtime_ns == before, "the run is gone, and its bundle stays"


def grown(paths: RunPaths, file: str) -> None:
    """Let a file of a run be larger than a bundle may be, and not to be packed any denser."""
    path = paths.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Random(1).randbytes(MAX_BUNDLE_BYTES + 1))


def test_a_bundle_that_is_too_large_leaves_out_the_logs_of_nodes(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "hunt"
    grown(stored(store, run_of(2)), "nodes/n1/logs/server.log")
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    again = read_bundle(folder / "failures" / f"{NAME}.logquake.tar.gz", Store(tmp_path / "other"))
    assert again.verdict.exists()
    assert not [*again.root.glob("nodes/*/logs/*")]
    for name in ("hunt.md", "hunt.html"):
        assert "without the logs of nodes" in (folder / name).read_text()
    merged = tmp_path / "merged"
    files = [folder / "failures"]
    write_results_of_hunt(hunted(), [part(some_runs())], merged, store=None, files=files)
    assert "without the logs of nodes" in (merged / "hunt.md").read_text()


def test_a_run_that_cannot_be_packed_says_why(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "hunt"
    paths = stored(store, run_of(2))
    verdict = paths.verdict.read_bytes()
    paths.verdict.unlink()
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    for name in ("hunt.md", "hunt.html"):
        assert f"{run_of(2)} was never judged" in (folder / name).read_text()
    paths.verdict.write_bytes(verdict)
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    assert f"failures/{NAME}.logquake.tar.gz" in (folder / "hunt.md").read_text()


def test_the_table_has_all_of_a_failure_and_the_systems_without_one() -> None:
    runs = [*some_runs(), Run(plan={"system": "kafka:3.5.1"}), Run(plan={"system": "kafka:3.5.1"})]
    runs += [Run(valid=INVALID, broken=("lost-write",))] * 6
    runs += [Run(valid=INVALID, broken=("phantom",), why=Why.FRESH_SEED, repeats=run_of(2))]
    text = hunt_markdown(hunt_story(hunted(**CONTROL), [part(runs)], bundles={}))
    assert "| kafka:3.5.1 | no failure in 2 minutes, 2 runs |" in text
    assert f"- seen in: 7 runs: {run_of(2)}, {run_of(8)}, " in text
    assert f"{run_of(11)} and 2 more" in text
    assert "- repeats: 1 of 2 (9 % to 91 %), 1 broke phantom" in text
    assert f"- broke another promise: 1 run: {run_of(14)}" in text
    assert "- date: 1970-01-01" in text
    assert "- run: log, librdkafka, kill" in text
    again = f"logquake run failures/{NAME}.toml --seed 1"
    assert f"- on the control: `{again} --system kafka:3.7.1`" in text


def test_parts_tell_their_controls_and_how_they_were_drawn() -> None:
    changed = Run(parent=run_of(1))
    blind = replace(part([changed], "20261127T010000Z"), guided=False)
    story = hunt_story(hunted(guided=False), [blind, part([*some_runs(), changed])], bundles={})
    assert story.way == "blind and guided"
    (find,) = story.finds
    assert find.controls[0].startswith("kafka:3.7.1: 0 of 1 ")


def test_a_run_too_large_for_a_bundle_is_told_of(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "hunt"
    grown(stored(store, run_of(2)), "record/ops.parquet")
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    files = sorted(each.name for each in (folder / "failures").iterdir())
    assert files == [f"{NAME}.toml", f"{NAME}.too-large.txt"]
    why = f"of more than 5 MB are not kept; to export it, type: logquake export {run_of(2)}"
    assert why in (folder / "hunt.md").read_text()
    assert why in (folder / "hunt.html").read_text()


def test_a_draft_of_a_bundle_that_was_killed_is_of_no_harm(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "hunt"
    stored(store, run_of(2))
    draft = folder / "failures" / f".{NAME}.logquake.tar.gz"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"cut off")
    write_results_of_hunt(hunted(), [part(some_runs())], folder, store=store)
    assert not draft.exists()
    read_bundle(folder / "failures" / f"{NAME}.logquake.tar.gz", Store(tmp_path / "another"))


@pytest.mark.parametrize("whom", [*Strikes])
def test_a_fault_in_an_aftermath_can_be_played_by_its_node(tmp_path: Path, whom: Strikes) -> None:
    paths = stored(tmp_path, "log/20261128T010000Z-1")
    table = pq.read_table(paths.table("faults"))
    specs = [json.loads(row["spec"]) for row in table.to_pylist()]
    told = pa.array([json.dumps({**spec, "target": whom.value}) for spec in specs])
    pq.write_table(table.set_column(table.column_names.index("spec"), "spec", told),
                   paths.table("faults"))  # fmt: skip
    faults = reached_by(paths, 4, before=[]).faults
    nodes = [row["targets"][0] for row in table.to_pylist() if row["confirmed_ns"] is not None]
    assert [fault.target for fault in faults] == nodes
    written = [fault.model_dump(exclude_none=True) for fault in faults]
    values = values_of(plan_from(load_plan(paths.plan)), but={"nemesis", "faults"})
    assert completed_plan({**values, "faults": written}, {}, broker={}, client={}).faults == faults


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


def test_a_part_that_is_given_twice_counts_once() -> None:
    one, two = part([Run()], "20261127T010000Z"), part([Run(), Run()])
    shorter = part([Run()])
    assert distinct([two, one, two, shorter, one]) == [one, two]


def test_the_oldest_part_comes_first() -> None:
    late, early = part([Run()]), replace(part([Run()]), night="20261127T010000Z", begun_at=10)
    assert distinct([late, early]) == [early, late]


def night_of(store: Path, suite: Suite, runs: list[Run], night: str = NIGHT) -> NightFolder:
    """Return the folder of a part, as a conductor would have left it."""
    folder = NightFolder(root=suite_folder(store, suite.name) / night)
    Journal(folder.journal).write(*lines(runs, night))
    folder.suite.write_text(dump_suite(suite), encoding="utf-8")
    return folder


def test_parts_of_other_stores_stay_with_a_part(tmp_path: Path) -> None:
    store, suite, run = tmp_path / "store", hunted(), Run(transitions=("a",))
    folder = night_of(store, suite, [Run(transitions=("a", "b"))])
    elsewhere = night_of(tmp_path / "elsewhere", suite, some_runs(), "20261127T010000Z")
    bundle = (
        elsewhere.root
        / "failures"
        / f"{run_of(2, elsewhere.night)}.logquake.tar.gz".replace("/", "-")
    )
    bundle.parent.mkdir()
    bundle.write_bytes(b"a run")
    for _ in range(2):
        keep([elsewhere.journal, folder.journal], folder)
    assert len(folder.kept) == 1
    shutil.rmtree(tmp_path / "elsewhere")
    later = night_of(store, suite, [run], "20261129T010000Z")
    for each, count in ((folder, 2), (later, 3)):
        write_results(store, suite.name, each)
        text = (each.root / "hunt.md").read_text()
        assert f"in {count} parts" in text
        assert f"failures/{bundle.name}" in text
        assert (each.root / "failures" / bundle.name).read_bytes() == b"a run"


def test_a_part_goes_on_with_what_it_kept(tmp_path: Path) -> None:
    path = journal(tmp_path, "20261127T010000Z", [Run(transitions=("a",))])
    store, suite = tmp_path / "store", hunted()
    night_of(store, suite, [Run()])
    for before in ([path], []):
        with opened(tmp_path, store, mode=Resumption.RESUME, before=before, changed=suite) as lead:
            source = lead.conductor.source
            assert isinstance(source, Hunter)
            assert [each.night for each in source.before] == ["20261127T010000Z"]


def test_a_part_goes_on_as_it_began_or_not_at_all(tmp_path: Path) -> None:
    store, asked = tmp_path / "store", hunted(systems=["kafka:4.3.1"], repeats=3)
    folder = night_of(store, hunted(), [Run()])
    before = folder.journal.read_bytes()
    with (
        pytest.raises(SuiteError) as refused,
        opened(tmp_path, store, mode=Resumption.RESUME, changed=asked),
    ):
        pass
    said = str(refused.value)
    assert "hunt.systems was kafka:3.6.1, but is now kafka:4.3.1" in said
    assert "hunt.repeats was 5, but is now 3" in said
    assert "--new" in said
    assert folder.journal.read_bytes() == before


def test_a_budget_that_is_too_small_for_any_run_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hunt.toml"
    hunt = {"systems": ["reference"], "hosts": "simulated", "workloads": ["log"]}
    values = {"name": "made", "budget": "5s", "engine": "local", "hunt": hunt}
    path.write_text(tomli_w.dumps(values), encoding="utf-8")
    assert exit_code(["hunt", str(path), "--store", str(tmp_path / "store")]) == UNKNOWN
    said = capsys.readouterr().out
    assert re.search(r"left out log/reference/\S+#1: [45] s of the budget were left", said)


def test_a_copy_that_was_cut_off_keeps_no_part_from_going_on(tmp_path: Path) -> None:
    path = journal(tmp_path, "20261127T010000Z", [Run(transitions=("a",))])
    store, suite = tmp_path / "store", hunted()
    folder = night_of(store, suite, [Run()])
    folder.before.mkdir()
    (folder.before / "1.jsonl").write_text("")
    (folder.before / "2.jsonl").write_bytes(path.read_bytes()[:-9])
    with opened(tmp_path, store, mode=Resumption.RESUME, before=[path], changed=suite) as lead:
        source = lead.conductor.source
        assert isinstance(source, Hunter)
        (earlier,) = source.before
        assert [each.phase for each in earlier.items.values()] == [Phase.JUDGED]
        assert earlier.items[1].reached is not None


def test_the_files_of_failures_are_copied_before_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = night_of(tmp_path / "store", hunted(), [Run()])
    path = journal(tmp_path, "20261127T010000Z", [Run()])
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "x.toml").write_text("x")
    (tmp_path / "failures" / ".x.draft").write_text("half")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            keep([path], folder)
    assert folder.kept == []
    keep([path], folder)
    assert [each.name for each in folder.kept] == ["1.jsonl"]
    assert [each.name for each in (folder.before / "failures").glob("*.toml")] == ["x.toml"]
    assert not (folder.before / "failures" / ".x.draft").exists()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"hosts": "ssh:hosts.toml"}, "the hosts ssh:hosts.toml of its run drawn#1 reaches beyond"),
        (
            {"system": "command:made.toml"},
            "names the system command:made.toml, whose file determines",
        ),
    ],
)
def test_a_strangers_journal_reaches_nothing_beyond_its_runs(
    tmp_path: Path, plan: dict[str, object], why: str
) -> None:
    path = journal(tmp_path, NIGHT, [Run(plan=plan)])
    path.chmod(0o666)
    with pytest.raises(SuiteError, match=re.escape(why)):
        part_of(path)
    if "hosts" in plan:
        path.chmod(0o600)
        assert part_of(path).night == NIGHT


def test_a_part_of_another_hunt_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = journal(tmp_path, NIGHT, [Run()]), hunt_file(tmp_path)
    words = [
        "hunt",
        str(file),
        "--merge",
        "--into",
        str(tmp_path / "merged"),
        "--before",
        str(path),
    ]
    assert exit_code(words) == 0
    assert capsys.readouterr().err == ""
    assert exit_code([*words, "--name", "other"]) == 0
    assert "belongs to the hunt made, not to other" in " ".join(capsys.readouterr().err.split())


def test_a_killed_part_is_wound_up_before_a_hunt_is_refused(tmp_path: Path) -> None:
    store, suite = tmp_path / "store", hunted(systems=["reference"], hosts="simulated")
    folder = night_of(store, suite, [Run()])
    asked = hunted(systems=["reference"], hosts="simulated", workloads=["txn"])
    with (
        pytest.raises(SuiteError, match="cannot find valid settings"),
        opened(tmp_path, store, mode=Resumption.NEW, changed=asked),
    ):
        pass
    assert folder.state().ended
    assert len(nights_of(store, "made")) == 1


def test_valid_drawn_runs_go_during_a_part_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, suite = tmp_path / "store", hunted().model_copy(update={"keep": Keep(gib=1e-9)})
    night_of(store, suite, [*some_runs(), Run(valid=None)])
    for item in range(1, 6):
        paths = RunPaths(store / run_of(item))
        paths.root.mkdir(parents=True)
        paths.plan.write_text("a plan")
        write_night(paths.night, Night(suite="made", night=NIGHT, entry="b"))
    walked = os.walk
    # While a run is judged, drafts come and go in its folder.
    monkeypatch.setattr(os, "walk", lambda root: [*walked(root), (root, [], ["gone.draft"])])
    with opened(tmp_path, store, mode=Resumption.RESUME, changed=suite) as lead:
        lead.changed(lead.conductor.state, Reached(item=1))
        assert lead.conductor.folder.state().dropped == (run_of(1),)
    assert [(store / run_of(item)).exists() for item in range(1, 6)] == [False] + 4 * [True]


def test_the_failures_of_earlier_parts_stay_with_their_reruns(tmp_path: Path) -> None:
    failed = Run(valid=INVALID, broken=("lost-write",))
    other: dict[str, object] = {"system": "kafka:3.7.1"}
    earlier = "20261127T010000Z"
    runs = [
        Run(), failed, replace(failed, plan=other),
        Run(why=Why.SAME_SEED, repeats=run_of(3, earlier), plan=other), failed,
        Run(valid=Validity.UNKNOWN),
    ]  # fmt: skip
    told = [
        each.model_copy(update={"signature": "alike"})
        if isinstance(each, Judged) and each.valid is INVALID else each
        for each in lines(runs, earlier)
    ]  # fmt: skip
    Journal(suite_folder(tmp_path, "made") / earlier / "journal.jsonl").write(*told)
    night_of(tmp_path, hunted(), [Run()])
    for item in range(1, 7):
        (tmp_path / run_of(item, earlier)).mkdir(parents=True)
    assert spared_runs(tmp_path, "made") == {run_of(item, earlier) for item in range(2, 6)}


def test_a_run_that_was_not_played_leaves_its_time_to_another(tmp_path: Path) -> None:
    store, suite = tmp_path / "store", hunted()
    night_of(store, suite, [Run(valid=None)])
    with opened(tmp_path, store, mode=Resumption.RESUME, changed=suite) as lead:
        lead.conductor._has_more = False
        lead.conductor.write(Unplayed(item=1, sentence="no"))
        assert lead.conductor._has_more


def test_the_status_of_a_hunt_with_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, file = tmp_path / "store", hunt_file(tmp_path)
    night_of(store, hunted().model_copy(update={"name": "other"}), [Run()])
    words = ["suite", "status", str(file), "--store", str(store)]
    assert exit_code(words) == BAD_ARGUMENTS
    capsys.readouterr()
    exit_code([*words, "--name", "other"])
    assert "1 valid" in capsys.readouterr().out


def test_the_status_of_a_suite_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night_of(tmp_path, hunted().model_copy(update={"name": "other"}), [Run()])
    exit_code(["suite", "status", "other", "--store", str(tmp_path)])
    assert "1 valid" in capsys.readouterr().out
    assert exit_code(["suite", "status", "another", "--store", str(tmp_path)]) == BAD_ARGUMENTS
    assert "the suite another cannot be read" in capsys.readouterr().err


def test_a_dry_run_of_a_hunt_points_to_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["suite", "run", str(hunt_file(tmp_path)), "--dry-run", "--store", str(tmp_path)]
    assert exit_code(words) == BAD_ARGUMENTS
    assert "logquake hunt FILE --dry-run" in " ".join(capsys.readouterr().err.split())


def test_the_budgets_of_the_published_hunt_are_those_of_its_runs() -> None:
    suite = suite_named(ROOT / "docs" / "hunt" / "hunt.toml")
    kinds = {system: {"kill": ("kill",)} for system in ("kafka:4.3.1",)}
    planned = Hunter(suite, lambda: kinds, []).draw(part([]))
    assert planned is not None
    budgets = plan_of(planned).budgets
    assert (budgets.heal_s, budgets.isr_s) == (40, 45)


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
    again = [*words, "--before", str(two), "--before", str(one), "--before", str(two)]
    assert exit_code(again) == 0
    assert (into / "hunt.md").read_text() == text


def test_merged_parts_bring_the_files_of_their_failures(tmp_path: Path) -> None:
    store, suite, into = tmp_path / "store", hunted(), tmp_path / "merged"
    stored(store, run_of(2))
    folder = night_of(store, suite, some_runs())
    write_results(store, suite.name, folder)
    shutil.rmtree(store / "log")
    words = ["hunt", str(hunt_file(tmp_path)), "--merge", "--into", str(into)]
    assert exit_code([*words, "--before", str(folder.journal)]) == 0
    bundle = f"failures/{NAME}.logquake.tar.gz"
    assert (into / bundle).read_bytes() == (folder.root / bundle).read_bytes()
    assert (into / "failures" / f"{NAME}.toml").exists()
    assert bundle in (into / "hunt.md").read_text()


@pytest.mark.parametrize("blocked", [".", "merged/failures"])
def test_a_folder_that_cannot_be_made_is_one_sentence(
    blocked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = journal(tmp_path, NIGHT, some_runs())
    file = tmp_path / "into" / blocked
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("a file")
    words = ["hunt", str(hunt_file(tmp_path)), "--merge", "--before", str(part)]
    assert exit_code([*words, "--into", str(tmp_path / "into" / "merged")]) == BAD_ARGUMENTS
    said = capsys.readouterr().err
    assert "cannot be used" in said
    assert "Traceback" not in said


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hunt, empty, other = (tmp_path / name for name in ("hunt.toml", "empty.jsonl", "other.jsonl"))
    hunt_file(tmp_path)
    empty.write_text("")
    Journal(other).write(
        Planned(item=1, entry="of a suite", seed=1), Begun(suite="s", night=NIGHT, budget_s=60)
    )
    suite = tmp_path / "suite.toml"
    suite.write_text('name = "suite"\n[axes]\nsystems = ["reference"]\n')
    for words, why in (
        ([str(suite)], "has no [hunt]; run it with: logquake suite run"),
        ([str(hunt), "--merge"], "--merge needs parts: name each part with --before JOURNAL"),
        ([str(hunt), "--merge", "--before", str(empty)], "is not the journal of a hunt"),
        ([str(hunt), "--before", str(other)], "is not the journal of a hunt"),
        ([str(hunt), "--into", str(tmp_path)], "--into needs --merge"),
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


def test_the_command_that_goes_on_is_the_one_that_was_typed(tmp_path: Path) -> None:
    one, two = (journal(tmp_path, night, []) for night in ("20261126T010000Z", NIGHT))
    pairs = [
        ("--name", "other"), ("--system", "kafka:3.4.0"), ("--system", "kafka:3.5.1"),
        ("--control", "kafka:3.7.1"), ("--workload", "txn"), ("--nemesis", "kill,pause"),
        ("--client", "java"), ("--budget", "2h"), ("--before", str(one)), ("--before", str(two)),
    ]  # fmt: skip
    typed = [word for pair in pairs for word in pair]
    told = hunt.make_context("hunt", [str(hunt_file(tmp_path)), *typed]).params
    keys = ("name", "systems", "control", "workloads", "nemesis", "clients", "budget", "parts")
    assert [*words_of({key: told[key] for key in keys})] == typed


def test_another_system_has_not_the_control_of_the_file(tmp_path: Path) -> None:
    other = changed(suite_named(hunt_file(tmp_path)), {"systems": ("kafka:3.4.0",)})
    assert other.hunt is not None
    assert other.hunt.controls == {}


def test_an_option_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="the fault family 'nonsense' does not exist"):
        changed(suite_named(hunt_file(tmp_path)), {"nemesis": "nonsense"})
