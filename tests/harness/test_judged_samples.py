"""The package's stored runs, judged again: their verdicts are those of the checkers of today.

A stored verdict stays as it is where a check is added later: that one finds nothing that counts.
"""

from pathlib import Path

import pytest

from checkers.run import judge_runs
from harness.scenarios.choices import scenario_of
from harness.scenarios.expectations import differences, read_end
from results.record.paths import RunPaths
from results.record.plan import load_plan, plan_from
from results.record.story import load_story
from results.record.terms import Judge, Validity
from results.samples import copy_sample, sample_paths
from results.verdict_json import read_verdict


@pytest.mark.parametrize("folder", sample_paths(), ids=lambda path: path.name)
def test_a_stored_verdict_is_that_of_today_and_a_story_ends_as_it_declares(
    folder: Path, tmp_path: Path
) -> None:
    copy = copy_sample(RunPaths(folder), tmp_path)
    (verdict,) = judge_runs([copy.root], engine="local")
    stored = read_verdict(RunPaths(folder).verdict)
    assert stored is not None
    found, known = (
        {
            name: (each.count, each.allowed, [(one.sentence, one.cause) for one in each.examples])
            for name, each in said.anomalies.items()
            if name in stored.checked
        }
        for said in (verdict, stored)
    )
    assert (verdict.valid, found) == (stored.valid, known)
    new = [each for name, each in verdict.anomalies.items() if name not in stored.checked]
    assert [each for each in new if each.count > each.allowed] == []
    assert verdict.unknown_because == ()
    told = " ".join(sentence for each in verdict.basis for sentence in each.unshown)
    assert [name for name, rows in verdict.checked.items() if rows == 0 and not told] == []
    assert all(each.looked_at or each.given_up for each in verdict.basis)
    plan = plan_from(load_plan(copy.plan))
    if plan.scenario is not None:
        assert differences(scenario_of(plan).expected(plan), read_end(copy, verdict)) == ()
        story = load_story(RunPaths(folder).story)
        assert story is not None
        assert story.as_expected


@pytest.mark.parametrize("folder", sample_paths(), ids=lambda path: path.name)
def test_jepsens_judge_says_yes_or_no_of_stored_runs(folder: Path, tmp_path: Path) -> None:
    copy = copy_sample(RunPaths(folder), tmp_path)
    (verdict,) = judge_runs([copy.root], engine="local", judge=Judge.JEPSEN)
    assert verdict.unknown_because == ()
    good = folder.name in {"valid", "leader-epoch-1-leader-epoch"}  # The other loses by design.
    assert verdict.valid is (Validity.VALID if good else Validity.INVALID)
