"""The kinds of faults that can be played in virtual time: those of `registry`, and of its own.

Names are those of real hosts where the meaning is. A disk that is slow has no counterpart there
yet; a clock that drifts is a node's only one, by which its timers go, while on real hosts it is the
wall clock. Nodes start within a moment, so that nothing needs the seconds that Kafka takes.
"""

from collections.abc import Mapping
from dataclasses import replace

from cluster.protocol import ClusterError
from nemesis.claims import Aspect
from nemesis.protocol import Aim, Fault, Site
from nemesis.registry import KINDS, Kind
from results.record.plan import SIMULATED, Plan

SETTLE_S = 1.0
"""After a heal: a node is started and registered, and its session begins."""
_AS_ON_REAL_HOSTS = (
    "isolate", "halves", "one-way-in", "one-way-out", "ring", "bridge", "kill", "stop", "pause",
    "power-loss", "clock-drift",
)  # fmt: skip


def _only_simulated(_aim: Aim, _site: Site) -> Fault:
    raise ClusterError("this is a fault of simulated hosts")


VIRTUAL_KINDS: Mapping[str, Kind] = {
    **{
        name: replace(KINDS[name], settle_s=SETTLE_S, needs=frozenset())
        for name in _AS_ON_REAL_HOSTS
    },
    "slow-disk": Kind(family="disk", make=_only_simulated, settle_s=SETTLE_S, aspect=Aspect.DISK),
    "disputed-election": replace(
        KINDS["disputed-election"], settle_s=4 * SETTLE_S, needs=frozenset(), dealt=True
    ),
}
VIRTUAL_FAMILIES = tuple(dict.fromkeys(kind.family for kind in VIRTUAL_KINDS.values()))


def kinds_in(plan: Plan) -> Mapping[str, Kind]:
    """Return the kinds that faults written into a plan can be of."""
    return {**KINDS, **VIRTUAL_KINDS} if plan.hosts == SIMULATED else KINDS
