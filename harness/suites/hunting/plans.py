"""Convert the plans of a hunt's runs to and from the journal's form."""

from collections.abc import Collection

from harness.suites.journal import Planned
from results.record.plan import Plan, plan_from


def plan_of(planned: Planned) -> Plan:
    """Return the plan of one of a hunt's runs.

    Raises:
        PlanError: Another version of Logquake wrote the plan, and this version cannot read it.
    """
    return plan_from({**planned.plan, "seed": planned.seed})


def values_of(plan: Plan, *, but: Collection[str] = ()) -> dict[str, object]:
    """Return a plan's values for the journal, without the seed.

    The values are complete, so that no value is chosen at random again.

    Args:
        plan: The plan to be played.
        but: More keys to leave out.
    """
    values = plan.model_dump(mode="json", exclude_unset=True, exclude={"seed", *but})
    return {"schema_version": plan.schema_version, **values}
