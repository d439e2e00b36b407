"""The list of documentation pages that are written from the code."""

from collections.abc import Callable, Mapping

from harness.documentation import (
    anomalies,
    commands,
    examples,
    faults,
    plan_keys,
    programs,
    record,
    settings,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/plan.md": plan_keys.page,
    "reference/suite.md": plan_keys.suite_page,
    "reference/anomalies.md": anomalies.page,
    "reference/evidence.md": settings.evidence_page,
    "reference/faults.md": faults.page,
    "reference/swarm.md": settings.swarm_page,
    "reference/transitions.md": settings.transitions_page,
    "reference/record.md": record.page,
    "reference/python.md": programs.page,
    "reference/examples.md": examples.page,
}
"""The generated pages: the path of each below `docs/`, and the function that returns its text."""
