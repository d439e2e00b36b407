"""The anomalies that each judge allows, with the reasons.

A judge is a rule for the verdict. The judge `contract` allows anomalies that follow from the plan
and its faults (see the table in `record-and-verdict`). The judge `strict` allows only the anomalies
that are always allowed. The judge `jepsen` knows only Jepsen's anomalies, and allows the ones that
Jepsen allows.
"""

from collections.abc import Iterable, Mapping

from checkers.facts import RunFacts
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Checker, Excuse
from checkers.registry import CHECKERS, JEPSENS
from results.record.terms import AnomalyClass, Judge

_DISKS = (
    "faults removed the record from each replica that had it: power was lost before a flush, a"
    " disk was emptied, or a bit was flipped (Kafka's documentation of"
    " log.flush.interval.messages)"
)
REASONS: Mapping[str, str] = {
    Excuse.ALWAYS: ("no system promises to prevent this"),
    Excuse.ACKS: (
        "with acks=0 or 1 no client waits until a follower has a message, so the message may be"
        " lost with its leader (Kafka's documentation of acks)"
    ),
    Excuse.UNCLEAN: (
        "the plan or a fault allowed a leader from outside of the in-sync replicas, and this"
        " leader lacks the records that it had not fetched (Kafka's documentation of"
        " unclean.leader.election.enable)"
    ),
    Excuse.RETRIES: (
        "a producer without idempotence that gets no answer resends the message, and both copies"
        " may be stored (KIP-98)"
    ),
    Excuse.NEW_EPOCH: (
        "after some errors librdkafka renumbers its messages in a new producer epoch; brokers"
        " recognise a resent message only within one producer epoch (librdkafka#4953, KIP-360)"
    ),
    Excuse.SEQUENCE: (
        "its client continued after a timeout, and librdkafka used one sequence number twice in a"
        " producer epoch; a broker treats the second record as a copy (KIP-98)"
    ),
    **dict.fromkeys(DISK_EXCUSES, _DISKS),
    Excuse.REUSED: (
        "without broker epochs, a leader that returns before its session ends continues in its"
        " old leader epoch (before KIP-380)"
    ),
    Excuse.REBALANCE: (
        "its group was rebalanced, and the member that gets a partition begins at the committed"
        " offset of the group (Kafka's documentation of the consumer)"
    ),
}
"""The reason for each excuse in the contract's table, with its source."""

_CHECKS: Mapping[str, Checker] = {each.name: each for each in reversed(CHECKERS)}
_JEPSENS = frozenset(
    each.name for each in JEPSENS if each.anomaly_class is not AnomalyClass.HARNESS
)

_JEPSEN_ALLOWS: Mapping[str, frozenset[str]] = {
    "with write-write dependencies": frozenset({"G1c", "G1c-process", "G1c-realtime"}),
    "with subscribe": frozenset({"poll-skip", "nonmonotonic-poll"}),
}
"""The anomalies that only Jepsen allows, by Jepsen's mode."""


def allowed(
    name: str, excuses: Iterable[str], judge: Judge, *, facts: RunFacts | None = None
) -> str | None:
    """Return the reason why a judge allows an anomaly, or None if the judge does not allow it.

    Args:
        name: The anomaly's name.
        excuses: The rows of the contract's table that apply to this anomaly.
        judge: The judge.
        facts: The run's context, for reasons that depend on the run.
    """
    check = _CHECKS[name]
    if check.always_allowed or (Excuse.ALWAYS in check.excuses and Excuse.ALWAYS in excuses):
        return Excuse.ALWAYS.value
    match judge:
        case Judge.STRICT:
            return None
        case Judge.JEPSEN:
            if name not in _JEPSENS:
                return "not one of Jepsen's kinds"
            modes = _jepsens_modes(facts) if facts is not None else ()
            return next((mode for mode in modes if name in _JEPSEN_ALLOWS[mode]), None)
        case Judge.CONTRACT:
            return next((each for each in excuses if each in check.excuses), None)


def _jepsens_modes(facts: RunFacts) -> list[str]:
    """Return the entries of `_JEPSEN_ALLOWS` that apply to a run."""
    fits = (facts.ww_deps, facts.plan.workload == "groups")
    return [mode for mode, fit in zip(_JEPSEN_ALLOWS, fits, strict=True) if fit]


def doubts(name: str, excuses: Iterable[str], judge: Judge) -> tuple[str, ...]:
    """Return the premises that do not hold because the effect of a fault on disks is unknown.

    A premise counts only for an anomaly that a confirmed loss on disks would excuse. Any other
    anomaly stays a violation.

    Args:
        name: The anomaly's name.
        excuses: The excuses that the checker noted. Only excuses in `DISK_DOUBTS` count.
        judge: The judge.
    """
    if judge is not Judge.CONTRACT or not _CHECKS[name].excuses.issuperset(DISK_EXCUSES):
        return ()
    return tuple(premise.value for doubt, premise in DISK_DOUBTS.items() if doubt in excuses)
