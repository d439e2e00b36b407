"""Check at the end of a run whether its hosts are as they were before the run.

The audit looks at the hosts from outside the brokers' network: once before the run creates its
hosts, and again after the run has taken them down. A difference is a failure of Logquake, not of
Kafka. The milestone `audited` records the difference, the checker of `host-not-restored` reports
it, and the verdict is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.hosts.audit import differences, local_traces
from cluster.hosts.choose import make_hosts
from cluster.protocol import CanAudit, ClusterError
from cluster.systems.registry import system_of
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan

SETTLE_LIMIT_S = 10.0
"""The time limit for processes that have been asked to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The state of a run's hosts before the run.

    Attributes:
        plan: The plan that is played.
        paths: The run's folder.
        before: The processes, files, mounts and networks that seem to belong to the run.
        refused: Why the hosts could not be checked; an empty string if they were checked.
    """

    plan: Plan
    paths: RunPaths
    before: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    def changes(self) -> dict[str, str]:
        """Wait until the hosts are as before; return each remaining difference."""
        if self.refused:
            return {"the hosts": f"could not be checked before the run: {self.refused}"}
        changed: dict[str, str] = {}

        def settled() -> bool:
            nonlocal changed
            changed = differences(self.before, _traces(self.plan, self.paths))
            return not changed

        try:
            wait_until(settled, timeout_s=SETTLE_LIMIT_S, what="the hosts to be as before")
        except WaitTimeoutError:
            return changed
        except (ClusterError, OSError) as refused:
            return {"the hosts": f"could not be checked after the run: {refused}"}
        return {}


def audit(plan: Plan, paths: RunPaths) -> Audit:
    """Check the hosts of a run that has not begun.

    Args:
        plan: The plan that will be played.
        paths: The run's folder.
    """
    try:
        return Audit(plan=plan, paths=paths, before=_traces(plan, paths))
    except (ClusterError, OSError) as refused:
        return Audit(plan=plan, paths=paths, refused=str(refused))


def _traces(plan: Plan, paths: RunPaths) -> Mapping[str, str]:
    here = local_traces(paths.processes)
    if plan.is_simulated:  # Simulated machines end with the stage.
        return here
    hosts = system_of(plan).hosts(paths) or make_hosts(
        plan.hosts, machines(plan), paths.processes, image=plan.image
    )
    there = hosts.traces() if isinstance(hosts, CanAudit) else {}
    return {**here, **there}
