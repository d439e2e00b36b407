"""If a setting of the system cannot be read, use the setting's weakest value in the run's plan.

Logquake then assumes no promise that depends on the setting. So the contract and all excuses use
the value that promises least.
"""

from collections.abc import Mapping

from results.record.declared import Declared
from results.record.plan import Plan

_WEAKEST: Mapping[str, str] = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
    "log.cleanup.policy": "compact,delete",
    "log.retention.ms": "1",
    "log.retention.minutes": "1",
    "log.retention.hours": "1",
    "log.retention.bytes": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
}
"""The weakest values of broker settings. Some topic settings have the same names, but without
`log.`."""


def as_weakest(plan: Plan, declared: Declared) -> Plan:
    """Return the plan with the weakest value for each setting that could not be read."""
    names = (each if each in _WEAKEST else f"log.{each}" for each in declared.unread)
    weak = {name: _WEAKEST[name] for name in names if name in _WEAKEST}
    if not weak:
        return plan
    least = 1 if "min.insync.replicas" in weak else plan.min_insync
    return plan.model_copy(update={"broker": {**plan.broker, **weak}, "min_insync": least})


def unread_sentences(declared: Declared) -> tuple[str, ...]:
    """Return a sentence for each setting that could not be read: nothing is promised about it."""
    return tuple(
        f"the setting {name} could not be read, so nothing is promised about it"
        for name in sorted(declared.unread)
    )
