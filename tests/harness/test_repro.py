"""Runs again and again: what counts as the same, and what is said of it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from cluster.protocol import UserError
from harness.cli import exit_code
from harness.errors import InternalError
from harness.repro import AsExpected, Repeat, SameAsBefore, Tally, kinds_of, repeat
from results.index import RunQuery, open_index
from results.record.milestones import Milestone, append_milestone
from results.record.night import Why
from results.record.paths import RunPaths
from results.record.story import Story, dump_story
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Verdict
from results.repeats import RANGE, Rate
from results.store import Store
from tests.results.told import told

LOST = SameAsBefore(
    title="invalid with lost-write", verdict=Validity.INVALID, kinds=frozenset({"lost-write"})
)


def verdict_of(valid: Validity, *names: str, harness: Sequence[str] = ()) -> Verdict:
    classes = dict.fromkeys(names, AnomalyClass.SAFETY)
    classes |= dict.fromkeys(harness, AnomalyClass.HARNESS)
    return told(
        Verdict(
            run_id="log/20261121T104500Z-7",
            valid=valid,
            judge="contract",
            engine="local",
            anomalies={
                name: AnomalySummary(anomaly_class=each, count=1, allowed=0, trusted=1)
                for name, each in classes.items()
            },
        )
    )


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "log" / "20261121T104500Z-7")
    made.root.mkdir(parents=True)
    return made


def repeated(*names: str, differs: tuple[str, ...] = (), interrupted: bool = False) -> Repeat:
    return Repeat(
        run_id="log/1",
        verdict="invalid",
        kinds=frozenset(names),
        differs=differs,
        took_s=1.5,
        interrupted=interrupted,
    )


@pytest.mark.parametrize(
    ("verdict", "differs"),
    [
        (verdict_of(Validity.INVALID, "lost-write"), ()),
        # What the harness failed at says nothing of the brokers.
        (verdict_of(Validity.INVALID, "lost-write", harness=["not-enough-traffic"]), ()),
        (verdict_of(Validity.VALID), ("valid, not invalid", "no lost-write")),
        (verdict_of(Validity.INVALID, "lost-write", "unseen"), ("unseen as well",)),
        (verdict_of(Validity.UNKNOWN, "lost-write"), ("unknown, not invalid",)),
    ],
)
def test_the_same_way_is_the_same_verdict_with_the_same_kinds(
    verdict: Verdict, differs: tuple[str, ...], paths: RunPaths
) -> None:
    assert LOST.differences(verdict, paths) == differs


def test_of_a_scenario_its_own_comparison_counts(paths: RunPaths) -> None:
    wanted, verdict = AsExpected(title="valid"), verdict_of(Validity.VALID)
    assert wanted.differences(verdict, paths) == (
        ("the run was not compared with the expected result"),
    )
    story = Story(name="s", title="S")
    dump_story(story, paths.story)
    assert wanted.differences(verdict, paths) == (
        ("the run was not compared with the expected result"),
    )
    dump_story(story.model_copy(update={"as_expected": True}), paths.story)
    assert wanted.differences(verdict, paths) == ()
    differs = {"as_expected": False, "differs": ("lost is nothing, not message2",)}
    dump_story(story.model_copy(update=differs), paths.story)
    assert wanted.differences(verdict, paths) == ("lost is nothing, not message2",)


def test_a_run_is_compared_and_an_interrupted_one_is_told(paths: RunPaths) -> None:
    verdict = verdict_of(Validity.INVALID, "lost-write", harness=["not-enough-traffic"])
    once = repeat(lambda: (verdict, paths), LOST, first=True)
    assert (once.run_id, once.verdict, once.differs) == (paths.run_id, "invalid", ())
    assert once.kinds == kinds_of(verdict) == {"lost-write"}
    detail = {"kind": "interrupted", "sentence": "ended early by Ctrl-C"}
    append_milestone(paths.milestones, Milestone(name="failed", at_ns=1, detail=detail))
    again = repeat(lambda: (verdict, paths), LOST, first=False)
    assert again.interrupted
    assert again.differs == ("it was interrupted",)


def test_what_the_user_can_mend_ends_the_first_and_only_counts_later() -> None:
    def refused() -> tuple[Verdict, RunPaths]:
        raise UserError("the disk is full")

    with pytest.raises(UserError):
        repeat(refused, LOST, first=True)
    later = repeat(refused, LOST, first=False)
    assert (later.run_id, later.verdict, later.differs) == (None, "", ("the disk is full",))


def test_a_bug_of_ours_counts_as_not_the_same() -> None:
    def broken() -> tuple[Verdict, RunPaths]:
        raise InternalError("a bug")

    assert repeat(broken, LOST, first=True).differs == ("a bug",)


def test_a_tally_says_k_of_n_with_its_interval() -> None:
    runs = (repeated("lost-write"), repeated("lost-write", "unseen", differs=("unseen as well",)))
    tally = Tally(wanted=LOST, times=2, repeats=runs)
    assert not tally.whole
    assert tally.sentences() == [
        "1 of 2 (9 % to 91 %) had the same result: invalid with lost-write",
        "2 of 2 (34 % to 100 %) had lost-write",
        RANGE,
    ]
    told = tally.as_json()
    assert (told["same"], told["of"]) == (1, 2)
    assert told["interval_95"] == [0.094531, 0.905469]
    assert [run["same"] for run in told["runs"]] == [True, False]  # type: ignore[attr-defined]  # JSON


def test_an_interrupted_run_counts_for_nothing() -> None:
    ended = repeated(differs=("it was interrupted",), interrupted=True)
    tally = Tally(wanted=LOST, times=2, repeats=(repeated("lost-write"), ended))
    assert len(tally.counted) == tally.same == 1
    assert not tally.whole
    assert Tally(wanted=LOST, times=1, repeats=(repeated("lost-write"),)).whole


def test_the_table_shows_each_run_and_the_one_that_is_played() -> None:
    runs = (repeated("lost-write"), repeated(differs=("no lost-write",)))
    console = Console(width=120, record=True, quiet=False, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(Tally(wanted=LOST, times=5, repeats=runs).table(playing_s=7.4))
    shown = capture.get()
    assert "no: no lost-write" in shown
    assert "3 of 5" in shown
    assert "is being played" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "there is no run 'nonsense'"),
        (["sample:valid", "--rule", "leader-epoch"], "choices work only with scenarios"),
        (["leader-epoch-1", "--late", "new-leader"], "--late"),
        (["latest", "--times", "0"], "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_a_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["repro", "--store", str(tmp_path), *words]) == 254
    assert said in capsys.readouterr().err


def test_a_run_without_a_verdict_cannot_be_compared_with(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.plan.write_text("seed = 7\n", encoding="utf-8")
    store = str(paths.root.parent.parent)
    assert exit_code(["repro", "latest", "--store", store]) == 254
    assert "has no verdict to compare with" in capsys.readouterr().err


@pytest.mark.night
@pytest.mark.kafka
def test_a_stored_run_is_played_again_with_its_own_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'nodes = 1\nreplication = 1\nmin_insync = 1\nhosts = "process"\nseed = 4\n'
        "nemesis = []\nwarmup_s = 1\ntime_limit_s = 5\n"
        "[minimums]\nok_sends = 1\nok_polls = 1\n",
        encoding="utf-8",
    )
    store = ["--store", str(tmp_path / "runs"), "--engine", "local"]
    assert exit_code(["run", str(plan), *store]) == 0
    capsys.readouterr()
    code = exit_code(["repro", "latest", "--times", "1", "--json", *store])
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert code == 0, said.err
    assert (told["same"], told["of"], told["wanted"]) == (1, 1, "valid")
    (run,) = told["runs"]
    again = RunPaths(tmp_path / "runs" / run["run_id"])
    assert again.root.name.endswith("-4")
    assert "warm-up" in (again.root / "stage.log").read_text(encoding="utf-8")


def test_ctrl_c_between_two_runs_tells_what_was_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def play_and_stop(*_: object, **__: object) -> Verdict:
        if played:
            raise KeyboardInterrupt
        played.append(True)
        return verdict_of(Validity.INVALID, "lost-write")

    played: list[bool] = []
    monkeypatch.setattr("harness.session.Session.run", play_and_stop)
    words = ["leader-epoch-1", "--times", "3", "--json", "--store", str(tmp_path)]
    assert exit_code(["repro", *words]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["times"], told["of"]) == (3, 1)


@pytest.mark.night
def test_a_simulated_run_is_simulated_again_and_counts_as_its_repeat(tmp_path: Path) -> None:
    here = ["--engine", "local", "--store", str(tmp_path)]
    bug = ["--bug", "ack-before-commit", "--judge", "strict", "--nemesis", "partition"]
    short = ["--seed", "3", "--rate", "60", "--time-limit", "25"]
    simulated = ["run", "--system", "reference", "--hosts", "simulated"]
    assert exit_code([*simulated, *bug, *short, *here]) == 1
    # Of a bisection the first run that fails in that way is enough, and says so by 1.
    page = tmp_path / "page.html"
    shown = ["--page", str(page)]
    assert exit_code(["repro", "latest", "--bisect", "--times", "5", *shown, *here]) == 1
    assert "1 of 1 (21 % to 100 %)" in page.read_text(encoding="utf-8")
    with open_index(Store(tmp_path)) as index:
        index.refresh()
        first, again = sorted(index.runs(RunQuery()), key=lambda row: row.run_id)
        assert (again.why, again.repeats) == (Why.SAME_SEED.value, first.run_id)
        assert index.repeats(first.signature).same_seed == Rate(times=1, of=1)
        assert not index.nights()


def test_a_name_of_nothing_is_neither_run_nor_scenario(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert exit_code(["repro", "leader-epoch-9", "--store", str(tmp_path)]) == 254
    assert "no scenario has that name" in capsys.readouterr().err
