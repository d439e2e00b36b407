"""Stories on real brokers, by the command that a user types."""

import json
from pathlib import Path

import pytest

from results.record.steps import load_steps
from results.record.story import load_story
from tests.harness.on_real_brokers import TEST_LIMIT_S, logquake

pytestmark = [
    pytest.mark.everything,
    pytest.mark.kafka,
    pytest.mark.namespaces,
    pytest.mark.timeout(TEST_LIMIT_S),
]


@pytest.mark.night
def test_by_the_high_watermark_rule_message2_is_lost_and_the_page_may_tell_where(
    tmp_path: Path,
) -> None:
    code, said, paths = logquake("scenario", "run", "leader-epoch-1", store=tmp_path)
    assert code == 1, said
    assert (
        "as expected: invalid with committed-truncation, high-watermark-regression,"
        " inconsistent-offsets, log-divergence and lost-write, message2 is lost"
    ) in said
    verdict = json.loads(paths.verdict.read_text(encoding="utf-8"))
    example = verdict["anomalies"]["lost-write"]["examples"][0]["sentence"]
    assert "message2" in example.lower()
    assert "n2 truncated offset 1" in example
    steps = load_steps(paths.steps)
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    assert all(step.name == f"step-{step.number:02}" and not step.failed for step in steps)
    assert all(waited.came for step in steps for waited in step.waited)
    before, after = steps[1], steps[3]
    assert [(each.node, each.state) for each in before.nodes] == [
        ("n1", "up"), ("n2", "down"), ("n3", "up"),
    ]  # fmt: skip
    assert (before.leader, before.isr) == (1, (1,))
    assert (after.leader, after.isr) == (2, (2,))
    assert {each.node: each.leader for each in after.beliefs} == {"n2": 2, "n3": 2}
    cut = [line.text for line in steps[2].lines if line.node == "n2"]
    assert any("local high watermark 1" in text for text in cut)
    copies = paths.snapshots / "step-03" / "n2" / "data"
    assert (copies / "peter-test01-0" / "00000000000000000000.log").stat().st_size > 0
    story = load_story(paths.story)
    assert story is not None
    assert story.as_expected


@pytest.mark.night
def test_by_the_leader_epoch_rule_nothing_is_lost_also_if_a_plan_file_names_the_story(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[scenario]\nname = "leader-epoch-1"\nrule = "leader-epoch"\n', encoding="utf-8"
    )
    code, said, paths = logquake("run", str(plan), store=tmp_path)
    assert code == 0, said
    assert "as expected: valid, readers get message1, message2 and message3" in said
    last = load_steps(paths.steps)[-1]
    assert last.number == 6
    assert (last.leader, set(last.isr)) == (2, {1, 2})
    epochs = paths.snapshots / last.name / "n1" / "data/peter-test01-0/leader-epoch-checkpoint"
    assert epochs.read_text(encoding="utf-8").split("\n")[:4] == ["0", "2", "0 0", "2 2"]


@pytest.mark.night  # In virtual time a story that breaks off is told at each landing.
def test_a_state_that_never_comes_ends_unknown_with_the_step_and_what_was_seen(
    tmp_path: Path,
) -> None:
    # What the first step waits for on disk is written every ten minutes.
    setting = "replica.high.watermark.checkpoint.interval.ms=600000"
    words = ("scenario", "run", "leader-epoch-1", "--set", setting)
    code, said, paths = logquake(*words, store=tmp_path)
    assert code == 2, said
    verdict = json.loads(paths.verdict.read_text(encoding="utf-8"))
    assert verdict["valid"] == "unknown"
    why = " ".join(verdict["unknown_because"])
    assert 'step 1 of 6, "message1 and message2' in why
    assert "waited 40 s for replication-offset-checkpoint of n1 has 2; observed instead: " in why
    (step,) = load_steps(paths.steps)
    assert "observed instead: " in step.failed
    assert "NOT as expected: the story did not reach its end" in said
    assert (paths.node("n2") / "data").exists()
    story = load_story(paths.story)
    assert story is not None
    assert story.as_expected is False
