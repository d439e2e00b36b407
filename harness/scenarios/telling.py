"""Describe a scenario in words: for a dry run, for a run's page, and for the list of scenarios."""

from collections.abc import Sequence

from rich.console import Console

from harness.scenarios.actions import Reassign
from harness.scenarios.choices import (
    choice_words,
    doubts,
    resolved,
    scenario_of,
    systems_of,
    telling,
)
from harness.scenarios.expectations import differences, expectation, outcome_line, read_end
from harness.scenarios.protocol import Condition, Scenario
from results.record.paths import RunPaths
from results.record.plan import SIMULATED, Plan
from results.record.story import Story, dump_story
from results.record.verdict import Verdict


def tell(plan: Plan, console: Console) -> None:
    """Print the steps of a scripted run, and the end that the scenario expects."""
    scenario = scenario_of(plan)
    console.print(f"{plan.name}: {scenario.title}", markup=False, style="bold", highlight=False)
    for number, step in enumerate(scenario.steps(plan), 1):
        console.print(f"{number}. {step.tells}", markup=False, highlight=False)
        for move in step.moves:
            if isinstance(move, Condition):
                limit = f"({move.within_s:g} s at most)"
                console.print(f"     waits until: {move.what} {limit}", markup=False)
            else:
                console.print(f"     {move}", markup=False, highlight=False)
    console.print(
        f"expected: {expectation(scenario.expected(plan))}", markup=False, highlight=False
    )
    for doubt in doubts(plan):
        console.print(doubt, markup=False, highlight=False)


def command_of(scenario: Scenario, choices: dict[str, str], system: str, *, hosts: str = "") -> str:
    """Return the command that plays a scenario with some choices on a system."""
    words = ["logquake scenario run", scenario.name, *choice_words(telling(scenario, choices))]
    if system != systems_of(scenario, choices)[0]:
        words.append(f"--system {system}")
    if hosts == SIMULATED:
        words.append(f"--hosts {hosts}")  # `auto` finds other hosts.
    return " ".join(words)


def story_of(plan: Plan, *, found: tuple[str, ...] | None = None) -> Story:
    """Return the description of a scripted run.

    Args:
        plan: The run's plan.
        found: The differences from the expected end; None if the run is not judged yet.
    """
    scenario = scenario_of(plan)
    choices = dict(plan.scenario.choices) if plan.scenario else {}
    expected = scenario.expected(plan)
    return Story(
        name=scenario.name,
        title=scenario.title,
        about=scenario.about.strip(),
        moral=expected.moral,
        expected=expectation(expected),
        as_expected=None if found is None else not found,
        differs=found or (),
        choices=choices,
        roles=dict(scenario.roles(plan)),
        spectators=_spectators(plan, scenario),
        command=command_of(scenario, choices, plan.system, hosts=plan.hosts),
        other_commands=_others(plan, scenario, choices),
    )


def compare_with_story(plan: Plan, paths: RunPaths, verdict: Verdict) -> str:
    """Compare the end of a judged run with the end that its scenario expects; store the result.

    Returns:
        A line for readers: `as expected: ...`.
    """
    expected = scenario_of(plan).expected(plan)
    found = differences(expected, read_end(paths, verdict))
    dump_story(story_of(plan, found=found), paths.story)
    return outcome_line(expected, found)


def _spectators(plan: Plan, scenario: Scenario) -> tuple[str, ...]:
    """Return the brokers that never have a replica of the scenario's partition."""
    brokers = [f"n{number}" for number in range(1, plan.nodes + 1)]
    if scenario.of_quorum:
        return tuple(brokers)
    holders = set(scenario.assignment(plan))
    for step in scenario.steps(plan):
        holders |= {node for move in step.moves if isinstance(move, Reassign)
                    for node in move.replicas}  # fmt: skip
    return tuple(node for node in brokers if node not in holders)


def _others(plan: Plan, scenario: Scenario, choices: dict[str, str]) -> dict[str, str]:
    """Return the commands for the other values of the scenario's first choice."""
    compared = next(iter(scenario.choices), None)
    if compared is None:
        return {}
    others: dict[str, str] = {}
    for value in scenario.choices[compared].values:
        if value != choices.get(compared):
            made = resolved(scenario, {**choices, compared: value})
            known = systems_of(scenario, made)
            if known:
                system = _nearest(plan.system, known)
                hosts = plan.hosts if system == plan.system else ""
                others[value] = command_of(scenario, made, system, hosts=hosts)
    return others


def _nearest(system: str, known: Sequence[str]) -> str:
    """Return the given system if its kind is known to work, else the first known system."""
    sort = system.partition(":")[0]
    return system if any(each.partition(":")[0] == sort for each in known) else known[0]
