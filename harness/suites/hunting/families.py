"""Find the families of faults that a hunt can play here. The bandits choose among these."""

from collections.abc import Mapping, Sequence

from cluster.hosts.abilities import able
from cluster.protocol import UserError
from harness.dry_run import here
from harness.suites.expansion import hunted_plan
from harness.suites.suite import Suite, SuiteError
from nemesis.schedule import played_families
from results.record.plan import ALL, NEMESIS_KINDS

Families = Mapping[str, Mapping[str, Sequence[str]]]
"""The playable fault families of each system. Each family has its fault kinds."""


def families_of(suite: Suite) -> Families:
    """Return the families of faults that can be played here.

    Args:
        suite: A suite with `[hunt]`.

    Raises:
        SuiteError: A system cannot be played here, or no family can be played on a system.
    """
    assert suite.hunt is not None
    asked = NEMESIS_KINDS if ALL in suite.hunt.families else suite.hunt.families
    return {system: _on(system, suite, asked) for system in suite.hunt.systems}


def _on(system: str, suite: Suite, asked: Sequence[str]) -> Mapping[str, Sequence[str]]:
    try:
        place = here(hunted_plan(suite, system))
    except UserError as refused:
        raise SuiteError(f"the hunt {suite.name} cannot run {system}: {refused}") from refused
    plan, abilities = place.system.plan, able(place.why_not)
    found: dict[str, Sequence[str]] = {}
    for family in asked:
        alone = plan.model_copy(update={"nemesis": (family,), "hosts": place.choice.hosts})
        found |= played_families(alone, abilities=abilities)
    if not found:
        raise SuiteError(f"the hunt {suite.name} has no family of faults that works with {system}")
    return found
