"""Scenarios with several forms: the form in the article, and a clean form without doubtful steps.

Each form is a complete scenario: forms differ in their brokers and in their end. The scenario's
choices select the form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.scenarios.protocol import Choice, Expected, Scenario, Step
from results.record.plan import REFERENCE, Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Rule

FormKey = tuple[str, str | None]
"""A pair (form, way). Only the clean form has ways; for another form, the way is None."""

RULES = Choice(
    values=(Rule.HIGH_WATERMARK.value, Rule.LEADER_EPOCH.value, Rule.LEADER_EPOCH_V0.value)
)
FORMS = Choice(values=("article", "clean"))
WAYS = Choice(values=("restart", "move"), only_with={"form": "clean"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a scenario.

    Attributes:
        systems: The systems on which the form is known to work; the first is the default.
        plan: A function that returns the plan's values for a rule and a system.
        assignment: The replicas of the scenario's partition; the first replica is the first leader.
        first: The nodes that start before all others.
        steps: The steps of the scenario.
        expected: The expected end.
        away: The brokers that stay down until the end.
    """

    systems: tuple[str, ...]
    plan: Callable[[Rule, str], dict[str, object]]
    assignment: tuple[str, ...]
    first: tuple[str, ...]
    steps: Callable[[Plan], tuple[Step, ...]]
    expected: Callable[[Plan], Expected]
    away: Callable[[Plan], tuple[str, ...]] = lambda _plan: ()


def rule_of(plan: Plan) -> Rule:
    """Return the rule by which a run's followers truncate. Every scenario with forms has a rule."""
    return _rule(plan.scenario)


def told_in_forms(*, name: str, title: str, about: str, forms: Mapping[FormKey, Form]) -> Scenario:
    """Return a scenario that plays the form selected by the plan."""

    def of(plan: Plan) -> Form:
        return forms[_key(plan.scenario)]

    return Scenario(
        name=name,
        title=title,
        about=about,
        systems=tuple(dict.fromkeys(each for form in forms.values() for each in form.systems)),
        choices={"rule": RULES, "form": FORMS, "way": WAYS},
        plan=lambda choices, system: forms[_key(choices)].plan(_rule(choices), system),
        assignment=lambda plan: of(plan).assignment,
        first=lambda plan: of(plan).first,
        steps=lambda plan: of(plan).steps(plan),
        expected=lambda plan: of(plan).expected(plan),
        systems_of=lambda choices: _known(forms[_key(choices)], _rule(choices)),
        away=lambda plan: of(plan).away(plan),
        roles=lambda plan: dict(zip(of(plan).assignment, "ABC", strict=False)),
    )


def _known(form: Form, rule: Rule) -> tuple[str, ...]:
    """Return the systems on which a form works with a truncation rule.

    Kafka has no setting that selects the rule `LEADER_EPOCH_V0`.
    """
    if rule is not Rule.LEADER_EPOCH_V0:
        return form.systems
    return tuple(each for each in form.systems if each.partition(":")[0] == REFERENCE)


def _key(choices: ScenarioPlan | None) -> FormKey:
    form = (choices.form if choices else None) or FORMS.values[0]
    way = (choices.way if choices else None) or WAYS.values[0]
    return (form, way if form == "clean" else None)


def _rule(choices: ScenarioPlan | None) -> Rule:
    return (choices.rule if choices else None) or Rule(RULES.values[0])
