"""Plans of drawn runs, as the journal has them."""

from collections.abc import Collection

from harness.suites.journal import Planned
from results.record.plan import Plan, plan_from


def plan_of(planned: Planned) -> Plan:
    """Return the plan of a drawn run.

    Raises:
        PlanError: Another version of Logquake drew it, and this one knows no such plan.
    """
    return plan_from({**planned.plan, "seed": planned.seed})


def values_of(plan: Plan, *, but: Collection[str] = ()) -> dict[str, object]:
    """Return a plan's values for the journal: whole, so that nothing is drawn again, but its seed.

    Args:
        plan: As it is to be played.
        but: Keys that are left out, too.
    """
    values = plan.model_dump(mode="json", exclude_unset=True, exclude={"seed", *but})
    return {"schema_version": plan.schema_version, **values}
