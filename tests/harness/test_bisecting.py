"""What runs on a build say of it, as `git bisect run` reads exit codes."""

import errno
from pathlib import Path

import pytest
from rich.console import Console

from cluster.kafka.failures import sentence
from cluster.protocol import FullDiskError, UserError
from harness.bisecting import failure_of, settled_by, unbuilt
from harness.cli import exit_code
from harness.errors import InternalError, UnplayedError
from harness.repro import Repeat, SameFailure, Tally
from harness.session import Session
from harness.stage import result_of
from harness.staging import Staging
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, dump_plan, plan_from
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Verdict, Words
from results.verdict_json import write_verdict
from tests.harness.test_repro import verdict_of
from tests.results.told import told

LOST = SameFailure(title="invalid with lost-write", kinds=frozenset({"lost-write"}))
TWO = SameFailure(
    title="invalid", kinds=frozenset({"lost-write"}), beside=frozenset({"epoch-mismatch"})
)
RUN = "log/20261121T104500Z-7"


def run_of(
    verdict: str, *kinds: str, differs: bool = True, interrupted: bool = False,
    started: bool = True, blind: str = "",
) -> Repeat:  # fmt: skip
    return Repeat(
        run_id="log/1",
        verdict=verdict,
        kinds=frozenset(kinds),
        differs=("otherwise",) if differs else (),
        took_s=1.0,
        interrupted=interrupted,
        started=started,
        blind=frozenset({blind}),
    )


GOOD, UNKNOWN = run_of("valid"), run_of("unknown")
BAD = run_of("invalid", "lost-write", differs=False)
OTHER, IN_PART = run_of("invalid", "unseen"), run_of("invalid", "epoch-mismatch")


@pytest.mark.parametrize(
    ("runs", "times", "code"),
    [
        ([GOOD], 2, None),
        ([GOOD, GOOD], 2, 0),
        ([GOOD, OTHER], 2, 0),
        ([BAD], 3, 1),
        ([GOOD, run_of("valid", blind="unseen")], 2, 0),
        ([GOOD, run_of("valid", blind="lost-write")], 2, 125),
        ([run_of("invalid", "unseen", blind="lost-write")], 1, 125),
        ([UNKNOWN, GOOD, BAD], 3, 1),
        ([UNKNOWN, GOOD, GOOD], 3, 125),
        ([GOOD, IN_PART], 2, 125),
        ([run_of("unknown", started=False)], 3, 125),
        ([run_of("invalid", "lost-write", differs=False, started=False)], 3, 125),
        ([GOOD, run_of("invalid", interrupted=True)], 2, 130),
        # Ctrl-C ended it before it could be whole: it counts for nothing, whatever it found.
        ([run_of("invalid", "lost-write", differs=True, interrupted=True)], 2, 130),
    ],
)
def test_the_exit_code_is_known_as_soon_as_no_run_can_change_it(
    runs: list[Repeat], times: int, code: int | None
) -> None:
    wanted = TWO if IN_PART in runs else LOST
    settled = settled_by(Tally(wanted=wanted, times=times, repeats=tuple(runs)))
    assert (settled and settled[0]) == code


def test_the_same_failure_breaks_the_promise_whatever_else_it_breaks(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    more = verdict_of(Validity.INVALID, "lost-write", "epoch-mismatch", "unseen")
    assert TWO.differences(more, paths) == ()
    assert TWO.differences(verdict_of(Validity.INVALID, "lost-write"), paths) == ()
    assert TWO.differences(verdict_of(Validity.INVALID, "epoch-mismatch"), paths) == (
        "no lost-write",
    )
    assert TWO.differences(verdict_of(Validity.UNKNOWN, "lost-write"), paths) == (
        "unknown, not invalid",
    )


def test_what_is_allowed_is_no_failure_of_that_way(tmp_path: Path) -> None:
    lost = AnomalySummary(anomaly_class=AnomalyClass.SAFETY, count=1, allowed=1, trusted=1)
    unseen = AnomalySummary(anomaly_class=AnomalyClass.SAFETY, count=1, allowed=0, trusted=1)
    verdict = Verdict(
        run_id=RUN,
        valid=Validity.INVALID,
        judge="contract",
        engine="local",
        anomalies={"lost-write": lost, "unseen": unseen},
    )
    assert LOST.differences(verdict, RunPaths(tmp_path)) == ("no lost-write",)


def test_a_failure_is_what_weighs_most_and_symptoms_are_no_part_of_it() -> None:
    words = Words(one="loss", many="losses", means="", explains={"unseen": "nobody can see it"})
    verdict = verdict_of(Validity.INVALID, "lost-write", "unseen")
    verdict.words["lost-write"] = words
    assert failure_of(verdict, Plan(), run_id=RUN) == LOST
    both = verdict_of(Validity.INVALID, "lost-write", "high-watermark-ahead")
    found = failure_of(both, Plan(), run_id=RUN)
    assert found.kinds == {"lost-write"}
    assert found.beside == {"high-watermark-ahead"}


@pytest.mark.parametrize("valid", [Validity.VALID, Validity.UNKNOWN])
def test_a_run_that_broke_nothing_is_not_looked_for(valid: Validity) -> None:
    with pytest.raises(PlanError, match=f"{RUN} is {valid}: name an invalid run"):
        failure_of(verdict_of(valid), Plan(), run_id=RUN)


def test_a_folder_without_a_whole_kafka_is_a_build_that_failed_and_no_folder_a_mistake(
    tmp_path: Path,
) -> None:
    assert "no kafka-clients" in unbuilt(Plan(system=f"kafka:{tmp_path}"))
    assert unbuilt(Plan(system=f"kafka:{tmp_path}/none")) == ""
    assert unbuilt(Plan()) == ""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a store with a run that lost a write."""
    paths = RunPaths(tmp_path / "runs" / RUN)
    paths.root.mkdir(parents=True)
    paths.plan.write_text(dump_plan(Plan(seed=7, hosts="process")), encoding="utf-8")
    write_verdict(paths, verdict_of(Validity.INVALID, "lost-write"))
    return tmp_path / "runs"


def bisect(store: Path, *words: str) -> int:
    return exit_code(["repro", RUN, "--bisect", "--store", str(store), *words])


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (["--system", "kafka:{empty}"], (125, "skip: ")),
        (["--system", "kafka:{empty}/none"], (254, "is not a folder")),
        (["--system", "kafka:4.3.1+{empty}/none.jar"], (254, "none.jar does not exist")),
        (["--system", "nonsense"], (254, "system cannot be 'nonsense'")),
        (["--system", "reference", "--system", "kafka:4.3.1"], (254, "one --system")),
        (["--page", "nowhere/page.html"], (254, "there is no folder nowhere")),
        (["--rule", "leader-epoch"], (254, "remove them for a stored run")),
    ],
)
def test_a_broken_build_is_skipped_and_a_mistake_ends_the_bisection(
    words: list[str], ends: tuple[int, str], stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ends
    empty = stored.parent / "empty"
    empty.mkdir()
    assert bisect(stored, *(word.format(empty=empty) for word in words)) == code
    told = capsys.readouterr()
    assert said in told.out + told.err


def test_a_missing_run_and_a_story_by_name_are_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(tmp_path) == 254
    assert exit_code(["repro", "leader-epoch-1", "--bisect", "--store", str(tmp_path)]) == 254
    assert "name a failed run of this scenario" in capsys.readouterr().err


def played(
    monkeypatch: pytest.MonkeyPatch, store: Path, *verdicts: Verdict | BaseException,
    ready: bool = True,
) -> list[Plan]:  # fmt: skip
    """Have runs end so, in turn; return the plans that were played."""
    plans: list[Plan] = []

    def run(self: Session, **_: object) -> Verdict:
        plans.append(self.plan)
        end = verdicts[len(plans) - 1]
        if isinstance(end, BaseException):
            raise end
        paths = RunPaths(store / end.run_id)
        if ready:
            append_milestone(paths.milestones, Milestone(name="ready", at_ns=1))
        return end

    monkeypatch.setattr(Session, "run", run)
    return plans


def test_all_good_runs_are_played_and_one_bad_run_is_enough(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = verdict_of(Validity.VALID), verdict_of(Validity.INVALID, "lost-write", "unseen")
    plans = played(monkeypatch, stored, good, good)
    assert bisect(stored, "--times", "2", "--system", "reference") == 0
    assert [(each.system, each.seed) for each in plans] == [("reference", 7)] * 2
    said = capsys.readouterr().out
    assert "invalid with lost-write (as on kafka:4.3.1; rerun on reference)" in said
    assert "good: none of 2 runs had that failure" in said
    plans = played(monkeypatch, stored, bad)
    assert bisect(stored, "--times", "9") == 1
    assert len(plans) == 1


def test_a_build_that_does_not_start_is_tried_once(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = played(monkeypatch, stored, verdict_of(Validity.UNKNOWN), ready=False)
    assert bisect(stored, "--times", "9") == 125
    assert len(plans) == 1
    assert "the build does not start" in capsys.readouterr().out


def test_ctrl_c_and_what_the_user_can_mend_end_the_bisection_whenever_they_come(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = verdict_of(Validity.VALID)
    for ends in ([KeyboardInterrupt()], [good, KeyboardInterrupt()]):
        played(monkeypatch, stored, *ends)
        assert bisect(stored, "--times", "3") == 130
    played(monkeypatch, stored, good, FullDiskError("the disk is full"))
    assert bisect(stored, "--times", "3") == 254


def test_a_build_that_ends_its_run_is_skipped_and_a_bug_of_ours_ends_the_bisection(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = sentence("the broker of n1 ended", "java.lang.IllegalArgumentException: no such magic")
    played(monkeypatch, stored, verdict_of(Validity.VALID), UnplayedError(str(ended)))
    assert bisect(stored, "--times", "3") == 125
    said = capsys.readouterr().out
    assert "skip: the run did not reach its end (the broker of n1 ended: it rejects" in said
    for ends in ([InternalError("a bug")], [verdict_of(Validity.VALID), InternalError("a bug")]):
        played(monkeypatch, stored, *ends)
        assert bisect(stored, "--times", "3") == 255


@pytest.mark.parametrize(
    ("failed", "raised"),
    [
        (UserError("it refuses a setting"), UnplayedError),
        (sentence("n1 ended", "java.io.IOException: No space left on device"), FullDiskError),
        (OSError(errno.ENOSPC, "no space"), FullDiskError),
    ],
)
def test_a_session_tells_a_full_disk_from_what_the_system_ended(
    failed: Exception, raised: type[UserError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = result_of(failed, RunPaths(tmp_path))
    monkeypatch.setattr(Staging, "_play", lambda *_: ended)
    plan = plan_from({"hosts": "simulated", "system": "reference"})
    session = Session(plan, tmp_path, Console(quiet=True))
    with pytest.raises(raised) as caught:
        session.run(engine="local", spark_master=None)
    assert type(caught.value) is raised


def test_without_bisect_exit_codes_are_as_ever(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repro = ["repro", RUN, "--store", str(stored), "--times", "1"]
    played(monkeypatch, stored, told(verdict_of(Validity.INVALID, "lost-write")))
    assert exit_code(repro) == 0
    played(monkeypatch, stored, verdict_of(Validity.VALID))
    assert exit_code(repro) == 2
    played(monkeypatch, stored, KeyboardInterrupt())
    assert exit_code(repro) == 2
