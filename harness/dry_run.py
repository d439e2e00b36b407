"""`logquake run --dry-run`: show what a run would do, and do nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import tomli_w
from rich.console import Console
from rich.table import Table

from checkers.facts import RunFacts
from checkers.guarantees import guarantees
from cluster.hosts.abilities import able
from cluster.hosts.choose import Choice, HostKind, choose_hosts
from cluster.protocol import Ability
from cluster.systems.registry import system_of
from cluster.systems.system import System
from harness.elsewhere import abilities_for, refuse_elsewhere
from harness.plans import refuse_a_run_without_faults, refuse_impossible
from harness.scenarios.choices import refuse_another_story
from harness.scenarios.telling import tell
from nemesis.schedule import Schedule, deal_schedule
from results.record.nodes import machines
from results.record.plan import Plan, plan_from

_DECIDING = ("workload", "load", "after_timeout", "scenario")
"""The keys on which the defaults of other keys depend."""
_PLAIN = Plan().model_dump(mode="json", exclude_none=True)


def describe(plan: Plan, console: Console, *, keep: bool = False) -> None:
    """Print a plan without defaults, its faults, and the guarantees of its configuration.

    Args:
        plan: The plan that the user asks for.
        console: The terminal.
        keep: Whether the cluster would go on after the run.

    Raises:
        PlanError, UserError: The run could not start on this machine.
    """
    ready = dealt(plan, keep=keep)
    plan, schedule = ready.system.plan, ready.schedule
    console.print(tomli_w.dumps(_without_defaults(plan)), markup=False, highlight=False)
    console.print("(All other keys have their defaults: logquake help KEY.)", markup=False)
    if plan.scenario is not None:
        tell(plan, console)
    console.print(f"hosts: {ready.choice.kind} ({ready.choice.why})", markup=False)
    table = Table(title=f"faults in the main phase, seed {plan.seed}", title_justify="left")
    due = "at the earliest" if schedule.is_supply else "at"
    for column in (due, "kind", "target", "held"):
        table.add_column(column)
    for fault in schedule.faults:
        at = f"{fault.at_s:.1f} s" + (f", when {fault.when}" if fault.when else "")
        table.add_row(at, fault.kind, fault.aims_at, f"{fault.hold_s:.1f} s")
    if plan.scenario is None:
        console.print(table if schedule.faults else "no faults in the main phase")
    if schedule.faults and plan.faults is None and plan.scenario is None:
        same = f"--seed {plan.seed} instead of --dry-run gets this schedule"
        console.print(f"(The same command with {same}.)", markup=False)
    for sentence in schedule.dropped:
        console.print(sentence, markup=False)
    console.print("what the configuration guarantees:")
    facts = RunFacts(run_id="", recorded_id="", plan=plan, declared=ready.system.declared())
    for sentence in guarantees(facts):
        console.print(f"  - {sentence}", markup=False)


def _without_defaults(plan: Plan) -> dict[str, object]:
    """Return the values of a plan that another plan with the same workload and load would lack."""
    told = plan.model_dump(mode="json", exclude_none=True)
    chosen = {name: told[name] for name in _DECIDING if told.get(name) != _PLAIN.get(name)}
    defaults = plan_from(chosen).model_dump(mode="json", exclude_none=True)
    return chosen | {name: each for name, each in told.items() if each != defaults.get(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """The system, the hosts and the faults that a plan would use on this machine.

    Attributes:
        system: The system with the final plan. The final plan includes the values that the system
            reports.
        choice: The hosts that the run would get.
        schedule: The schedule of the run's faults.
    """

    system: System
    choice: Choice
    schedule: Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The system and the hosts that a plan would get on this machine.

    Attributes:
        system: The system with the final plan.
        choice: The hosts that the run would get.
        why_not: The abilities; each has the reason why these hosts do not have it. An empty reason
            means that the hosts have the ability.
    """

    system: System
    choice: Choice
    why_not: Mapping[Ability, str]


def here(plan: Plan, *, keep: bool = False) -> Here:
    """Return the system and the hosts that a plan would get on this machine.

    Raises:
        PlanError, UserError: The plan cannot be played here, even without its faults.
    """
    asked = system_of(plan)
    refuse_elsewhere(plan, asked, keep=keep)
    system = system_of(asked.settled(lambda _: None))
    refuse_another_story(system.plan)
    own_cuts = system.cuts_by_itself(HostKind.PROCESS)
    machines_of = tuple(machines(system.plan))
    choice = _hosts(system.plan.hosts, system.plan.image, machines_of, own_cuts=own_cuts)
    return Here(system=system, choice=choice, why_not=abilities_for(system, choice.hosts))


def dealt(plan: Plan, *, keep: bool = False) -> Dealt:
    """Return the system, the hosts and the faults that a plan would get on this machine.

    Raises:
        PlanError, UserError: The run could not start on this machine.
    """
    place = here(plan, keep=keep)
    plan, why_not, abilities = place.system.plan, place.why_not, able(place.why_not)
    refuse_impossible(plan, abilities=abilities, why_not=why_not)
    schedule = deal_schedule(plan, abilities=abilities, why_not=why_not)
    refuse_a_run_without_faults(plan, abilities=abilities, dropped=schedule.dropped)
    return Dealt(system=place.system, choice=place.choice, schedule=schedule)


@cache
def _hosts(hosts: str, image: str | None, nodes: tuple[str, ...], *, own_cuts: bool) -> Choice:
    """Choose the hosts. The check is slow, so all entries of a suite share its result."""
    return choose_hosts(hosts, image=image, nodes=nodes, own_cuts=own_cuts)
