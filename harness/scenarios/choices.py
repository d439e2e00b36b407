"""Make the plan of a run from a scenario's name and choices."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from cluster.systems.builds import as_release, version_in
from harness.scenarios.actions import Cut, Produce, Read
from harness.scenarios.protocol import Condition, Scenario
from harness.scenarios.registry import SCENARIOS
from results.record.plan import Plan, PlanError, plan_from
from results.record.plan_parts import ScenarioPlan
from results.record.systems import system_named
from results.record.terms import Mode

Choices = Mapping[str, str]
"""The option and the value of each choice in the scenario: `{"rule": "leader-epoch"}`."""

_SWITCH = {"on": True, "off": False}
_MINIMUMS = {"ok_sends": 1, "ok_polls": 0, "around_faults": 0}
"""Low minimums of traffic, because a scenario sends few messages and may read only at its end."""
_OF_THE_STORY = (
    "nodes", "controllers", "replication", "min_insync", "topics", "partitions", "workload",
    "acks", "nemesis", "faults",
)  # fmt: skip
"""The plan keys on which the steps of the scenario depend."""
_RULE = "truncation"
"""The broker setting of the reference cluster that selects the truncation rule."""
_TABLES = ("broker", "node", "features", "client", "budgets", "minimums")
"""Keys of a plan that are tables. A plan file may set some entries of a table."""


def scenario_named(name: str) -> Scenario:
    """Return the scenario of a name.

    Raises:
        PlanError: There is no scenario of that name.
    """
    found = next((each for each in SCENARIOS if each.name == name), None)
    if found is None:
        near = difflib.get_close_matches(name, [each.name for each in SCENARIOS], n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise PlanError(f"there is no scenario {name!r} ({meant}see: logquake scenario list)")
    return found


def scenario_of(plan: Plan) -> Scenario:
    """Return the scenario that the plan of a scripted run names.

    Raises:
        PlanError: The plan names no scenario, or an unknown one.
    """
    if plan.scenario is None:
        raise PlanError("the plan has no [scenario]")
    return scenario_named(plan.scenario.name)


def waits_s(plan: Plan) -> float:
    """Return for how many seconds, in total, the steps of a scripted run may wait.

    Raises:
        PlanError: See `scenario_of`.
    """
    waited = 0.0
    for move in (move for step in scenario_of(plan).steps(plan) for move in step.moves):
        if isinstance(move, Produce):
            waited += move.within_s * (1 if move.together else move.count)
        elif isinstance(move, Condition | Read):
            waited += move.within_s
    return waited


def resolved(scenario: Scenario, given: Choices) -> dict[str, str]:
    """Return all choices of a scenario. A choice that is not given gets its default value.

    Raises:
        PlanError: One of the given choices, or its value, does not exist in this scenario.
    """
    for option in given:
        if option not in scenario.choices:
            has = ", ".join(f"--{each}" for each in scenario.choices) or "no choices"
            raise PlanError(f"{scenario.name} has no choice --{option} (it has {has})")
    made: dict[str, str] = {}
    for option, choice in scenario.choices.items():
        value = given.get(option)
        if any(made.get(other) != wanted for other, wanted in choice.only_with.items()):
            if value is not None:
                needed = " ".join(f"--{key} {each}" for key, each in choice.only_with.items())
                raise PlanError(f"{scenario.name} supports --{option} only with {needed}")
            continue
        if value is not None and value not in choice.values:
            can = " or ".join(choice.values)
            raise PlanError(f"--{option} of {scenario.name} cannot be {value!r}: use {can}")
        made[option] = value or choice.values[0]
    return made


def all_choices(scenario: Scenario) -> Iterator[dict[str, str]]:
    """Yield every combination of a scenario's choices. The first one has all defaults."""
    seen: list[dict[str, str]] = []
    for values in product(*(choice.values for choice in scenario.choices.values())):
        given = dict(zip(scenario.choices, values, strict=True))
        made = {
            option: value
            for option, value in given.items()
            if all(given.get(key) == each
                   for key, each in scenario.choices[option].only_with.items())
        }  # fmt: skip
        if made not in seen:
            seen.append(made)
            yield made


def systems_of(scenario: Scenario, choices: Choices) -> tuple[str, ...]:
    """Return the systems on which a scenario is known to work with the given choices."""
    if scenario.systems_of is None:
        return scenario.systems
    return scenario.systems_of(_scenario_plan(scenario, choices))


def story_values(
    scenario: Scenario, given: Choices, *, system: str | None = None
) -> dict[str, object]:
    """Return the values of a scripted run's plan.

    Args:
        scenario: The scenario.
        given: The choices that the user made. All other choices get their default values.
        system: The system; None means the first system on which the scenario is known to work.

    Raises:
        PlanError: The choices do not fit the scenario.
    """
    choices = resolved(scenario, given)
    plan = _scenario_plan(scenario, choices)
    known = systems_of(scenario, choices)
    if not known:
        raise PlanError(
            f"{' '.join((scenario.name, *choice_words(choices)))} is not possible: no system"
            " supports it"
        )
    release = as_release(system or known[0])
    told_on = _told_on(known, release)
    values = scenario.plan(plan, told_on)
    values |= _on_yours(system, release, told_on)
    minimums = values.get("minimums", {})
    said = telling(scenario, choices)
    words = (f"{key}-{value}" if value in _SWITCH else value for key, value in said.items())
    return {
        "name": "-".join((scenario.name, *words)),
        "topics": 1,
        "partitions": 1,
        "workload": "script",
        "nemesis": (),
        "warmup_s": 0,
        "workers": 1,
        "concurrency": 1,
        "seed": 0,
        **values,
        "minimums": {**_MINIMUMS, **(minimums if isinstance(minimums, dict) else {})},
        "scenario": plan.model_dump(mode="json", exclude_none=True),
    }


def values_behind(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a plan file; if it names a scenario, add the scenario's values.

    A stored plan is already complete and does not change. If a plan has only the name of a
    scenario, all values come from the scenario.

    Raises:
        PlanError: The scenario or its choices are unknown.
    """
    asked = values.get("scenario")
    if not isinstance(asked, dict) or not isinstance(asked.get("name"), str):
        return dict(values)
    scenario = scenario_named(asked["name"])
    # Validate the table first, so that its errors look like errors of other keys.
    plan = plan_from({"scenario": asked}).scenario
    system = values.get("system")
    given = plan.choices if plan is not None else {}
    behind = story_values(scenario, given, system=system if isinstance(system, str) else None)
    return {**behind, **values, **{key: _joined(behind, values, key)
                                   for key in ("scenario", *_TABLES) if key in behind}}  # fmt: skip


def refuse_another_story(plan: Plan) -> None:
    """Raise an error if the plan of a scripted run does not fit the steps of the scenario.

    Raises:
        PlanError: The plan's cluster or clients differ from those that the scenario needs.
    """
    if plan.scenario is None:
        return
    scenario, choices = scenario_of(plan), plan.scenario.choices
    known = systems_of(scenario, choices)
    ways = [plan_from({"system": system}) for system in known]
    modes = dict.fromkeys(way.mode for way in ways if way.is_reference == plan.is_reference)
    if plan.mode not in modes:
        needs = (
            f"it needs the mode {' or '.join(modes)}"
            if modes
            else "it does not support this system"
        )
        raise PlanError(
            f"{plan.name} cannot run on {plan.system}: {needs} (known to work: {', '.join(known)})"
        )
    told = plan_from(story_values(scenario, choices, system=plan.system))
    for key in _OF_THE_STORY:
        asked, has = getattr(plan, key), getattr(told, key)
        if asked != has:
            raise PlanError(
                f"the plan's {key} cannot be {_words(asked)}: the scenario {scenario.name} needs"
                f" {_words(has)}; remove it"
            )
    rule = told.broker.get(_RULE)
    if rule is not None and plan.broker.get(_RULE) != rule:
        raise PlanError(
            f"the brokers' {_RULE} cannot be {plan.broker.get(_RULE, 'unset')}: the rule of"
            f" {plan.name} is {rule}; choose another rule with --rule"
        )


def doubts(plan: Plan) -> list[str]:
    """Return a warning if a scripted run is not known to work on its system; else an empty list."""
    if plan.scenario is None:
        return []
    known = systems_of(scenario_of(plan), plan.scenario.choices)
    ways = [plan_from({"system": system}) for system in known]
    if _kind(plan) in map(_kind, ways):
        return []
    return [f"{plan.name} is known to work on {', '.join(known)}, not on {plan.system}"]


def cuts(plan: Plan) -> bool:
    """Return whether the scenario of a scripted run cuts the network."""
    steps = scenario_of(plan).steps(plan)
    return any(isinstance(move, Cut) for step in steps for move in step.moves)


def telling(scenario: Scenario, choices: Choices) -> dict[str, str]:
    """Return the choices in a run's name: the first, and each that is not the default."""
    return {
        option: value
        for number, (option, value) in enumerate(choices.items())
        if number == 0
        or value != scenario.choices[option].values[0]
        or scenario.choices[option].only_with
    }


def choice_words(choices: Choices) -> Sequence[str]:
    """Return choices as command line options: `--rule leader-epoch`, `--no-elr`."""
    return [
        ("--elr" if value == "on" else "--no-elr") if key == "elr" else f"--{key} {value}"
        for key, value in choices.items()
    ]


def _joined(behind: Mapping[str, object], values: Mapping[str, object], key: str) -> object:
    """Return a table of a plan. The entries in the plan file replace the scenario's entries."""
    under, over = behind[key], values.get(key, {})
    # A value that is not a table is rejected later, with all other wrong values.
    return {**under, **over} if isinstance(under, dict) and isinstance(over, dict) else over


def _words(value: object) -> str:
    """Return a plan's value as readable text."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "empty"
    return "empty" if value is None else str(value)


def _kind(plan: Plan) -> tuple[bool, str, Mode]:
    return plan.is_reference, plan.kafka_version, plan.mode


def _told_on(known: Sequence[str], asked: str) -> str:
    """Return the system to play on. If the version names no mode, the scenario's mode is used."""
    return next((each for each in known if each.startswith(f"{asked}:")), asked)


def _on_yours(asked: str | None, release: str, told_on: str) -> dict[str, object]:
    """Return the plan values to change if the user plays a scenario on their own Kafka build.

    Args:
        asked: The system that the user named.
        release: The release whose scenario is played. If it differs from `asked`, then `asked` is
            a build of the user.
        told_on: The name of the release with the mode that the scenario needs.
    """
    if asked is None or asked == release:
        return {}
    yours = replace(system_named(asked), mode=system_named(told_on).mode)
    return {"system": yours.text, "version": version_in(yours)}


def _scenario_plan(scenario: Scenario, choices: Choices) -> ScenarioPlan:
    values: dict[str, object] = {
        key: _SWITCH[value] if key == "elr" else value for key, value in choices.items()
    }
    if scenario.transactions:
        values["transactions"] = True
    return ScenarioPlan.model_validate({"name": scenario.name, **values})
