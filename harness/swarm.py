"""Settings that the user left open, drawn from the seed: swarm testing.

Every run with one set of settings meets one set of mechanisms. So each row of the table
(`harness/swarm_table.py`) is left at its default in about half of the runs, and else takes one of
its values: runs differ in what is on at all (Groce et al., Swarm Testing, ISSTA 2012). Each row
draws from a stream of its own, so that a new row changes no other one's draw.

What is drawn stands in the plan as if the user had set it, and `swarmed` names it. A stored plan is
whole: it draws nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from harness.drawing import WHOLE
from harness.swarm_rows import TABLES, Row, Value
from harness.swarm_table import ROWS
from results.record.plan import Plan, PlanError, plan_from

SHARE_ON = 1 / 2
"""In so many runs a row is not left at its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A plan without defaults: what the user, or an earlier row, has set.

    Attributes:
        values: As in a plan's file.
    """

    values: Mapping[str, object]

    def has(self, key: str) -> bool:
        """Tell whether a key is set: `rate`, `broker.num.io.threads`; of brokers also of one."""
        table, name = split(key)
        if not table:
            return name in self.values
        nodes = self.values.get("node") if table == "broker" else None
        own = nodes.values() if isinstance(nodes, Mapping) else ()
        tables = (self.values.get(table), *own)
        return any(isinstance(each, Mapping) and name in each for each in tables)

    def get(self, key: str) -> object:
        """Return what a key is set to; None if it is not."""
        table, name = split(key)
        values = self.values.get(table) if table else self.values
        return values.get(name) if isinstance(values, Mapping) else None

    def with_all(self, settings: Mapping[str, object]) -> "Said":
        """Return it with some settings more, by key."""
        values = dict(self.values)
        for key, value in settings.items():
            table, name = split(key)
            before = values.get(table)
            inner = before if isinstance(before, Mapping) else {}
            values |= {table: {**inner, name: value}} if table else {name: value}
        return Said(values=values)


def split(key: str) -> tuple[str, str]:
    """Return the table of a plan that a key is in, empty if it is in none, and its name there."""
    table, dot, name = key.partition(".")
    return (table, name) if dot and table in TABLES else ("", key)


def with_swarm(said: Mapping[str, object]) -> dict[str, object]:
    """Return a plan's values with what is drawn from its seed, where it asks for a swarm.

    Args:
        said: The plan without defaults; with its seed. What is in it is not drawn.

    Raises:
        PlanError: The plan cannot be; or its run has nothing that could be drawn.
    """
    plan = plan_from(dict(said))
    if not plan.swarm or WHOLE in said:
        return dict(said)
    _refuse(plan)
    found = Said(values=said)
    swarmed: list[str] = []
    for row in ROWS:
        value = _drawn(row, plan, found)
        if value is not None:
            found = found.with_all(value.settings)
            swarmed += value.settings
            plan = plan_from(dict(found.values))
    return {**found.values, "swarmed": swarmed}


def misfits(plan: Plan, moved: Plan) -> dict[str, object]:
    """Return the settings of brokers that a swarm drew, and that have no place on another system.

    A setting has one if the system takes its row, and any value that was drawn there has one. What
    a row asks of the workload may not hold any more in the stored plan, whose rest was drawn after
    it: that is no reason to leave it out, or to keep it.

    Args:
        plan: As it was drawn, and stored.
        moved: The same on the other system.
    """
    stored = Said(values=plan.model_dump(mode="json"))
    found: dict[str, object] = {}
    for row in ROWS:
        drawn = [each for each in row.values if each.fits(plan) and _is_drawn(each, plan, stored)]
        if not row.takes(moved) or not any(value.fits(moved) for value in drawn):
            settings = {key: each for value in drawn for key, each in value.settings.items()}
            found |= {key: each for key, each in settings.items() if split(key)[0] == "broker"}
    return found


def _is_drawn(value: Value, plan: Plan, stored: Said) -> bool:
    return all(
        key in plan.swarmed and stored.get(key) == setting
        for key, setting in value.settings.items()
    )


def _refuse(plan: Plan) -> None:
    refusals = {
        "a story's steps decide what is set; leave it out": plan.scenario is not None,
        "a cluster that runs already is set, and loaded, as its owner wants; leave it out": (
            plan.runs_already
        ),
    }
    for why, holds in refusals.items():
        if holds:
            raise PlanError(f"swarm: {why}")


def _drawn(row: Row, plan: Plan, said: Said) -> Value | None:
    """Return the value of a row, None if it is left at its default, or has no place here."""
    random = Random(f"{plan.seed}/swarm/{row.name}")
    if random.random() >= SHARE_ON or not (row.takes(plan) and row.fits(plan)):
        return None
    first = random.choice(row.values)  # The same in all plans in which it has a place.
    fitting = [*_fitting(row, plan, said)]
    if not fitting or first in fitting:
        return first if fitting else None
    return random.choice(fitting)


def _fitting(row: Row, plan: Plan, said: Said) -> Iterator[Value]:
    for value in row.values:
        if value.fits(plan) and not any(said.has(key) for key in value.settings):
            yield value
