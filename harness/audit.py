"""The last word of a run on its hosts: are they as they were before?

They are looked at from outside of the brokers' network, before the hosts are made and after they
were taken down. A difference is the harness's own failure: the checker of `host-not-restored` finds
it in the milestone `audited`, and the verdict is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.hosts.audit import differences, local_traces
from cluster.hosts.choose import make_hosts
from cluster.nodes import machines
from cluster.protocol import CanAudit, ClusterError
from cluster.systems.registry import system_of
from results.record.clock import WaitTimeoutError, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan

SETTLE_LIMIT_S = 10.0
"""Whoever was told to end may take so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was on the hosts of a run before it began.

    Attributes:
        plan: The run, as it is played.
        paths: Its folder.
        before: Traces of the run, and what is called like one.
        refused: Why nobody could look; empty if somebody did.
    """

    plan: Plan
    paths: RunPaths
    before: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    def changes(self) -> dict[str, str]:
        """Return what is not as it was, each with how it changed; waits until all has settled."""
        if self.refused:
            return {"the hosts": f"could not be looked at before the run: {self.refused}"}
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
            return {"the hosts": f"could not be looked at after the run: {refused}"}
        return {}


def audit(plan: Plan, paths: RunPaths) -> Audit:
    """Look at the hosts of a run that has not begun.

    Args:
        plan: The run, as it is to be played.
        paths: Its folder.
    """
    try:
        return Audit(plan=plan, paths=paths, before=_traces(plan, paths))
    except (ClusterError, OSError) as refused:
        return Audit(plan=plan, paths=paths, refused=str(refused))


def _traces(plan: Plan, paths: RunPaths) -> Mapping[str, str]:
    here = local_traces(paths.processes)
    if plan.is_simulated:  # Its machines are objects of the stage, and end with it.
        return here
    hosts = system_of(plan).hosts(paths) or make_hosts(
        plan.hosts, machines(plan), paths.processes, image=plan.image
    )
    there = hosts.traces() if isinstance(hosts, CanAudit) else {}
    return {**here, **there}
