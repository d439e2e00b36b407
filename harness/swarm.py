"""Swarm testing: for settings that the user has not set, choose random values from the seed.

All runs with the same settings exercise the same mechanisms. So each row of the table
(`harness/swarm_table.py`) keeps its default in about half of the runs, and otherwise takes one of
its values. So different runs exercise different mechanisms (Groce et al., Swarm Testing, ISSTA
2012). Each row has its own random stream. So if a new row is added, the values of other rows stay
the same.

The plan holds the chosen values as if the user had set them, and `swarmed` lists their keys. A
stored plan is complete, so nothing is chosen for it again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from harness.drawing import WHOLE
from harness.swarm_rows import TABLES, Row, Value
from harness.swarm_table import ROWS
from results.record.plan import Plan, PlanError, plan_from

SHARE_ON = 1 / 2
"""The share of runs in which a row does not keep its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A plan without defaults. It has only values that the user or an earlier row has set.

    Attributes:
        values: The values, as in a plan file.
    """

    values: Mapping[str, object]

    def has(self, key: str) -> bool:
        """Return whether a key is set: `rate`, `broker.num.io.threads`.

        A broker setting counts as set if one node has it.
        """
        table, name = split(key)
        if not table:
            return name in self.values
        nodes = self.values.get("node") if table == "broker" else None
        own = nodes.values() if isinstance(nodes, Mapping) else ()
        tables = (self.values.get(table), *own)
        return any(isinstance(each, Mapping) and name in each for each in tables)

    def get(self, key: str) -> object:
        """Return the value of a key; None if the key is not set."""
        table, name = split(key)
        values = self.values.get(table) if table else self.values
        return values.get(name) if isinstance(values, Mapping) else None

    def with_all(self, settings: Mapping[str, object]) -> "Said":
        """Return a copy with more settings. Their keys contain the table's name, as in `has`."""
        values = dict(self.values)
        for key, value in settings.items():
            table, name = split(key)
            before = values.get(table)
            inner = before if isinstance(before, Mapping) else {}
            values |= {table: {**inner, name: value}} if table else {name: value}
        return Said(values=values)


def split(key: str) -> tuple[str, str]:
    """Split a key like `broker.num.io.threads` into its table (may be empty) and its name."""
    table, dot, name = key.partition(".")
    return (table, name) if dot and table in TABLES else ("", key)


def with_swarm(said: Mapping[str, object]) -> dict[str, object]:
    """Return a plan's values. If the plan asks for a swarm, add random settings from its seed.

    Args:
        said: The plan without defaults, with its seed. The keys in this plan keep their values.

    Raises:
        PlanError: The plan is not valid, or its run has no settings to choose.
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
    """Return the swarm's broker settings that another system does not support.

    A setting stays if the row of the setting is for the other system, too, and if at least one of
    the row's chosen values fits that system. Conditions on the workload are not checked again,
    because later rows may have changed the workload of the stored plan.

    Args:
        plan: The stored plan, with the swarm's choices.
        moved: The plan on the other system.
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
        "in a scenario the steps decide the settings; remove swarm": plan.scenario is not None,
        "the swarm does not change the settings or load of an attached cluster; remove swarm": (
            plan.runs_already
        ),
    }
    for why, holds in refusals.items():
        if holds:
            raise PlanError(f"swarm: {why}")


def _drawn(row: Row, plan: Plan, said: Said) -> Value | None:
    """Return a row's random value. None: the row keeps its default, or does not fit this plan."""
    random = Random(f"{plan.seed}/swarm/{row.name}")
    if random.random() >= SHARE_ON or not (row.takes(plan) and row.fits(plan)):
        return None
    first = random.choice(row.values)  # The same value in all plans that it fits.
    fitting = [*_fitting(row, plan, said)]
    if not fitting or first in fitting:
        return first if fitting else None
    return random.choice(fitting)


def _fitting(row: Row, plan: Plan, said: Said) -> Iterator[Value]:
    for value in row.values:
        if value.fits(plan) and not any(said.has(key) for key in value.settings):
            yield value
