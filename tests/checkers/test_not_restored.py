"""host-not-restored: what the audit found makes a run unknown, with either engine."""

from dataclasses import replace
from pathlib import Path

from checkers import not_restored, unavailable
from checkers.run import judge_runs
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.partition_rows import (
    A,
    S,
    facts,
    found,
    group,
    reason,
    sentences,
    timed_out,
    whole_run,
)

LEFT = {"process 4711": "exists after the run, but did not exist before (java of n1)"}


def audited(detail: dict[str, str]) -> Milestone:
    return Milestone(name="audited", at_ns=99, detail=detail)


def test_hosts_that_are_as_before_are_no_anomaly() -> None:
    about = facts(milestones=(*facts().milestones, audited({})))
    assert sentences(not_restored.CHECKER, whole_run(about)) == []
    assert found(not_restored.CHECKER, whole_run(about)).rows == 1


def test_each_thing_that_was_left_is_one() -> None:
    more = {"n2: nft table logquake": "existed before the run, but no longer exists (1 chain)"}
    about = facts(milestones=(*facts().milestones, audited({**LEFT, **more})))
    assert sentences(not_restored.CHECKER, whole_run(about)) == [
        "n2: nft table logquake existed before the run, but no longer exists (1 chain)",
        "process 4711 exists after the run, but did not exist before (java of n1)",
    ]


def test_hosts_that_could_not_be_checked_are_not_called_changed() -> None:
    about = facts(
        milestones=(
            *facts().milestones,
            audited({"the hosts": "could not be checked after the run"}),
        )
    )
    assert reason(not_restored.CHECKER, whole_run(about)).startswith("the run may have left")
    left = facts(milestones=(*facts().milestones, audited(LEFT)))
    assert reason(not_restored.CHECKER, whole_run(left)).startswith("the run created it")


def test_a_run_of_before_there_was_an_audit_promises_nothing() -> None:
    assert not not_restored.CHECKER.applies(facts())


def test_a_run_that_died_before_its_audit_is_unknown_and_one_of_before_there_was_one_is_not(
    tmp_path: Path,
) -> None:
    """Killed between `collected` and `audited`, it may be whole, and its hosts may not be."""
    looked = Milestone(name="looked", at_ns=0)
    for name, stones, validity in (
        ("of-before", (), Validity.VALID),
        ("killed", (looked,), Validity.UNKNOWN),
        ("audited", (looked, audited({})), Validity.VALID),
    ):
        root = FaithfulRun(5, steps=120).write(tmp_path / "t" / name)
        path = RunPaths(root).milestones
        played = path.read_bytes()
        path.unlink()
        for stone in stones[:1]:
            append_milestone(path, stone)
        with path.open("ab") as file:
            file.write(played)
        for stone in stones[1:]:
            append_milestone(path, stone)
        (verdict,) = judge_runs([root], engine="local")
        assert verdict.valid is validity
        if validity is Validity.UNKNOWN:
            (why,) = verdict.unknown_because
            assert "before its hosts were compared with their earlier state" in why


def test_a_faithful_run_whose_host_was_not_restored_is_unknown(tmp_path: Path) -> None:
    for name, detail, validity in (
        ("restored", {}, Validity.VALID),
        ("left", LEFT, Validity.UNKNOWN),
    ):
        root = FaithfulRun(5, steps=120).write(tmp_path / "t" / name)
        append_milestone(RunPaths(root).milestones, audited(detail))
        (verdict,) = judge_runs([root], engine="local")
        assert verdict.valid is validity
        assert verdict.checked["host-not-restored"] == 1
    assert verdict.unknown_because == (
        (
            "host-not-restored: process 4711 exists after the run, but did not exist before"
            " (java of n1)"
        ),
    )


def test_an_audit_is_no_time_in_which_a_send_could_have_succeeded() -> None:
    """The run died 20 s after the last heal; its hosts were looked at 200 s later."""
    died = Milestone(name="failed", at_ns=120 * S)
    later = 320 * S
    lost = {**timed_out(A), "process": 1, "invoke_ns": 100 * S, "complete_ns": later}
    for stones, outages in (
        ((died,), 0),
        ((died, replace(audited({}), at_ns=later)), 0),
        ((replace(died, at_ns=later),), 1),
    ):
        about = facts(calm_from_ns=100 * S, milestones=(*facts().milestones, *stones))
        assert len(sentences(unavailable.CHECKER, group(about, sends=[lost]))) == outages
