"""The two leader-epoch examples in all their forms, as they are written: no broker is needed."""

from collections.abc import Iterator

import pytest

from harness.scenarios.actions import (
    Action,
    Cut,
    Join,
    Kill,
    Pause,
    Produce,
    Resume,
    Start,
    Stop,
)
from harness.scenarios.choices import story_values, systems_of
from harness.scenarios.leader_epoch_1 import ARTICLE
from harness.scenarios.leader_epoch_1 import SCENARIO as LOSS
from harness.scenarios.leader_epoch_2 import SCENARIO as DIVERGENCE
from harness.scenarios.protocol import Condition, Scenario, Step
from results.record.plan import Plan, plan_from
from results.record.terms import Judge, Rule, Validity

EXAMPLES = (LOSS, DIVERGENCE)
FORMS: tuple[dict[str, str], ...] = (
    {"form": "article"},
    {"form": "clean", "way": "restart"},
    {"form": "clean", "way": "move"},
)
OLD, NEW = Rule.HIGH_WATERMARK, Rule.LEADER_EPOCH
Story = tuple[Scenario, dict[str, str], str]


def stories() -> Iterator[Story]:
    for scenario in EXAMPLES:
        for form in FORMS:
            for system in systems_of(scenario, form):
                yield scenario, form, system


def named(story: Story) -> str:
    scenario, form, system = story
    return " ".join((scenario.name, *form.values(), system))


def plan_of(story: Story, rule: Rule) -> Plan:
    scenario, form, system = story
    return plan_from(story_values(scenario, {**form, "rule": rule.value}, system=system))


def actions_of(step: Step) -> list[Action]:
    return [move for move in step.moves if not isinstance(move, Condition)]


every_story = pytest.mark.parametrize("story", list(stories()), ids=named)
by_both_rules = pytest.mark.parametrize("rule", [OLD, NEW])


@every_story
@by_both_rules
def test_sentences_are_sentences(story: Story, rule: Rule) -> None:
    plan = plan_of(story, rule)
    for step in story[0].steps(plan):
        assert step.tells.endswith("."), step
        assert not step.why or step.why.endswith("."), step
        assert step.moves, step
    assert story[0].expected(plan).moral.endswith(".")


@every_story
@by_both_rules
def test_who_goes_down_comes_back_and_nobody_is_hit_twice(story: Story, rule: Rule) -> None:
    plan = plan_of(story, rule)
    up, paused, cuts = {f"n{number}" for number in range(1, plan.nodes + 1)}, set(), set()
    for step in story[0].steps(plan):
        for action in actions_of(step):
            match action:
                case Kill(node=node) | Stop(node=node):
                    assert node in up
                    up.remove(node)
                    paused.discard(node)
                case Pause(node=node):
                    assert node in up - paused
                    paused.add(node)
                case Resume(node=node):
                    paused.remove(node)
                case Start(node=node):
                    assert node not in up
                    up.add(node)
                case Cut(name=name):
                    assert name not in cuts
                    cuts.add(name)
                case Join(name=name):
                    cuts.remove(name)
                case _:
                    pass
    away = set(story[0].away(plan))
    assert (paused, cuts) == (set(), set())
    # Who halts by himself was started, and is away all the same.
    assert len(up) == plan.nodes
    assert away <= up


@every_story
def test_the_same_is_done_by_either_rule(story: Story) -> None:
    old, new = (
        [actions_of(step) for step in story[0].steps(plan_of(story, rule))] for rule in (OLD, NEW)
    )
    assert [[*map(_without_waits, step)] for step in old] == [
        [*map(_without_waits, step)] for step in new
    ]


def _without_waits(action: Action) -> Action:
    """A broker that halts is not waited for: that is the only thing that may differ."""
    return Start(action.node) if isinstance(action, Start) else action


@every_story
def test_the_rule_is_a_matter_of_two_settings_and_nothing_else(story: Story) -> None:
    old, new = (plan_of(story, rule) for rule in (OLD, NEW))
    rest, wanted = dict(old.broker), dict(new.broker)
    if old.is_reference:
        assert (rest.pop("truncation"), wanted.pop("truncation")) == (OLD.value, NEW.value)
    else:
        assert rest.pop("inter.broker.protocol.version") == "0.10.2"
        assert rest.pop("log.message.format.version") == "0.10.2"
    assert rest == wanted
    other = {"name", "scenario", "broker"}
    assert old.model_dump(exclude=other) == new.model_dump(exclude=other)


@every_story
@by_both_rules
def test_every_message_is_either_read_in_the_end_or_named_as_lost(story: Story, rule: Rule) -> None:
    plan = plan_of(story, rule)
    sent = sum(
        action.count
        for step in story[0].steps(plan)
        for action in actions_of(step)
        if isinstance(action, Produce)
    )
    expected = story[0].expected(plan)
    assert expected.read is not None
    assert sorted((*expected.read, *expected.lost)) == sorted(
        f"message{number}" for number in range(1, sent + 1)
    )


@every_story
def test_no_setting_excuses_what_the_clean_forms_lose(story: Story) -> None:
    scenario, form, _ = story
    plan = plan_of(story, OLD)
    assert scenario.expected(plan).valid is Validity.INVALID
    assert scenario.expected(plan_of(story, NEW)).valid is Validity.VALID
    assert plan.unclean_elections == (form["form"] == "article")
    if form["form"] == "clean":
        assert (plan.acks, plan.min_insync, plan.replication) == ("all", 2, 3)
        assert plan.judge is Judge.CONTRACT
        assert all(
            action.acks == "all"
            for step in scenario.steps(plan)
            for action in actions_of(step)
            if isinstance(action, Produce)
        )


def test_the_article_s_loss_is_judged_strictly_and_its_divergence_by_contract() -> None:
    article = {"form": "article"}
    assert plan_of((LOSS, article, "kafka:2.8.2"), OLD).judge is Judge.STRICT
    assert plan_of((DIVERGENCE, article, "kafka:2.8.2"), OLD).judge is Judge.CONTRACT


def test_the_article_s_divergence_says_plainly_that_message2_is_lost_by_both_rules() -> None:
    for rule in (OLD, NEW):
        expected = DIVERGENCE.expected(
            plan_of((DIVERGENCE, {"form": "article"}, "kafka:2.8.2"), rule)
        )
        assert expected.lost == ("message2",)
        assert "message2 was acknowledged, and is lost under both rules" in expected.moral


@pytest.mark.parametrize(
    ("version", "rule", "away"),
    [("1.1.1", OLD, ("n1",)), ("1.1.1", NEW, ()), ("2.8.2", OLD, ())],
)
def test_an_old_broker_halts_where_a_newer_one_truncates(
    version: str, rule: Rule, away: tuple[str, ...]
) -> None:
    plan = plan_of((LOSS, {"form": "clean", "way": "restart"}, f"kafka:{version}"), rule)
    assert LOSS.away(plan) == away
    halts = "halts" in LOSS.steps(plan)[-1].tells
    assert halts == bool(away)


@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda each: each.name)
def test_the_first_version_of_leader_epochs_does_what_the_second_does(scenario: Scenario) -> None:
    """What KIP-279 mended takes two quick changes of leaders, which these stories do not have."""
    first, second = (
        plan_of((scenario, {"form": "article"}, "reference"), rule)
        for rule in (Rule.LEADER_EPOCH_V0, NEW)
    )
    assert [step.tells for step in scenario.steps(first)] == [
        step.tells for step in scenario.steps(second)
    ]
    assert scenario.expected(first) == scenario.expected(second)
    assert first.broker["truncation"] == "leader-epoch-v0"


@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda each: each.name)
def test_in_kraft_no_departure_from_the_isr_raises_an_epoch(scenario: Scenario) -> None:
    """With ZooKeeper message3 is of epoch 2 or 3, which the words of the story say too."""
    for system, raised in (("kafka:2.8.2", 1), ("reference", 0)):
        plan = plan_of((scenario, {"form": "article"}, system), NEW)
        last = {LOSS.name: (1 + raised, 2), DIVERGENCE.name: (2 + raised, 1)}[scenario.name]
        waits = [move.what for step in scenario.steps(plan) for move in step.moves
                 if isinstance(move, Condition)]  # fmt: skip
        assert f"leader-epoch-checkpoint of n2 has: 0 0, {last[0]} {last[1]}" in waits
        assert f"epoch {last[0]} at offset {last[1]}" in scenario.steps(plan)[-1].why


def test_the_reference_cluster_s_records_have_epochs_by_the_old_rule_too() -> None:
    of_kafka, of_reference = (
        LOSS.expected(plan_of((LOSS, {"form": "article"}, system), OLD)).anomalies
        for system in ("kafka:2.8.2", "reference")
    )
    assert of_reference - of_kafka == {"incomplete-leader"}
    assert of_kafka < of_reference


def test_a_story_without_choices_is_the_article_s_by_the_old_rule() -> None:
    plan = plan_from({**ARTICLE.plan(OLD, "kafka:2.8.2"), "scenario": {"name": LOSS.name}})
    told = [step.tells for step in LOSS.steps(plan)]
    assert told == [
        step.tells for step in ARTICLE.steps(plan_of((LOSS, FORMS[0], "kafka:2.8.2"), OLD))
    ]
    assert LOSS.expected(plan).lost == ("message2",)
