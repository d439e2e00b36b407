"""What each judge allows.

`contract` allows what the plan and its faults asked for (see `record-and-verdict`'s table),
`strict` only what is always allowed, `jepsen` knows Jepsen's kinds only, and allows what Jepsen
does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from checkers.facts import RunFacts
from checkers.protocol import DISK_DOUBTS, DISK_EXCUSES, Excuse
from results.record.terms import Judge

_AFTER_A_LOSS = frozenset({
    "lost-write", "unseen", "offset-order", "nonmonotonic-send", "int-nonmonotonic-send",
    "ack-mismatch", "inconsistent-offsets",
})  # fmt: skip
"""What clients see where a committed message was lost and another stands in its place."""
_OF_A_LEADER_THAT_LACKED = frozenset({
    "uncommitted-read", "incomplete-leader", "committed-truncation", "high-watermark-regression",
    "duplicate", "under-replicated", "log-end-regression", "epoch-mismatch",
    "high-watermark-ahead",
})  # fmt: skip
"""What is seen besides where such a loss went through a leader: what was read may be taken back
and, if its writer had no answer yet, be written again."""
_OF_ITS_READERS = frozenset({
    "poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll",
})  # fmt: skip
"""What happens to those who had read on to where the log of such a leader does not reach."""
_AFTER_AN_ELECTION = _AFTER_A_LOSS | _OF_A_LEADER_THAT_LACKED | _OF_ITS_READERS
_WITHOUT_A_MARKER = frozenset({"torn-transaction", "G1a", "hanging-transaction"})
"""What comes of a transaction whose records were kept and whose marker was lost."""
_OF_GROUPS = frozenset({"commit-lost"})
"""What comes of a group's position whose record was lost."""
_AFTER_DISKS = _AFTER_AN_ELECTION | _WITHOUT_A_MARKER | _OF_GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the contract's table; many anomalies share it, so it stands here and in none.

    Attributes:
        allows: Names of anomalies; a checker notes the rows that fit the case.
        why: Why it allows them, and where that is written.
    """

    allows: frozenset[str]
    why: str


_DISKS = Row(
    allows=_AFTER_DISKS,
    why="faults took it from each replica that had it: power lost before it was flushed, a disk"
    " emptied, or a bit flipped (Kafka's documentation of log.flush.interval.messages)",
)
_CONTRACT: Mapping[str, Row] = {
    Excuse.ALWAYS: Row(
        allows=frozenset({"int-send-skip", "G0", "G0-process", "G0-realtime"}),
        why="nobody promises that it does not happen",
    ),
    Excuse.ACKS: Row(
        allows=_AFTER_A_LOSS,
        why="with acks=0 or 1 nobody waits until a follower has a message, so it may go with its"
        " leader (Kafka's documentation of acks)",
    ),
    Excuse.UNCLEAN: Row(
        allows=_AFTER_AN_ELECTION | _WITHOUT_A_MARKER | _OF_GROUPS | {"log-divergence"},
        why="a leader came from outside of the in-sync replicas, as was asked for, and lacks what"
        " it had not fetched (Kafka's documentation of unclean.leader.election.enable)",
    ),
    Excuse.RETRIES: Row(
        allows=frozenset({"duplicate", "int-nonmonotonic-send"}),
        why="a producer without idempotence that gets no answer sends again, and both may be"
        " stored (KIP-98)",
    ),
    Excuse.NEW_EPOCH: Row(
        allows=frozenset({"duplicate", "int-nonmonotonic-send"}),
        why="after some errors librdkafka numbers its messages anew, in a new producer epoch;"
        " brokers recognise a message that is sent again within one epoch only"
        " (librdkafka#4953, KIP-360)",
    ),
    **dict.fromkeys(DISK_EXCUSES, _DISKS),
    Excuse.FLIP: replace(_DISKS, allows=_AFTER_DISKS | {"corrupt-record"}),
    Excuse.REUSED: Row(
        allows=frozenset({"two-leaders-in-epoch", "log-divergence"}),
        why="without broker epochs a leader that is back before its session ends goes on in its"
        " old epoch (before KIP-380)",
    ),
    Excuse.REBALANCE: Row(
        allows=frozenset({"poll-skip", "nonmonotonic-poll"}),
        why="its group was rebalanced, and whoever gets a partition begins where the group had"
        " committed (Kafka's documentation of the consumer)",
    ),
}
REASONS: Mapping[str, str] = {excuse: row.why for excuse, row in _CONTRACT.items()}
"""Why each row of the contract's table allows what it does, and where that is written."""

_ALWAYS_BY_CASE = frozenset({"G1c", "G1c-process", "G1c-realtime"})
"""Always allowed where the checker says so: in a cycle that needs a write-write edge."""

_JEPSENS = frozenset({
    "duplicate", "inconsistent-offsets", "lost-write", "unseen", "G1a", "poll-skip",
    "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "nonmonotonic-send",
    "int-send-skip", "int-nonmonotonic-send", "precommitted-read", "G0", "G0-process",
    "G0-realtime", "G1c", "G1c-process", "G1c-realtime",
})  # fmt: skip

_JEPSEN_ALLOWS: Mapping[str, frozenset[str]] = {
    "with write-write dependencies": frozenset({"G1c", "G1c-process", "G1c-realtime"}),
    "with subscribe": frozenset({"poll-skip", "nonmonotonic-poll"}),
}
"""What Jepsen allows beside what is always allowed, and in which of its modes."""


def allowed(
    name: str, excuses: Iterable[str], judge: Judge, *, facts: RunFacts | None = None
) -> str | None:
    """Return why a judge allows an anomaly, None if it does not.

    Args:
        name: Of the anomaly.
        excuses: Rows of the contract's table that fit it.
        judge: Who judges.
        facts: Of the run, for what depends on it.
    """
    by_case = name in _ALWAYS_BY_CASE and Excuse.ALWAYS in excuses
    if name in _CONTRACT[Excuse.ALWAYS].allows or by_case:
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
            known = ((each, _CONTRACT.get(each)) for each in excuses)
            return next((each for each, row in known if row and name in row.allows), None)


def _jepsens_modes(facts: RunFacts) -> list[str]:
    """Return the rows of `_JEPSEN_ALLOWS` that fit a run."""
    fits = (facts.ww_deps, facts.plan.workload == "groups")
    return [mode for mode, fit in zip(_JEPSEN_ALLOWS, fits, strict=True) if fit]


def doubts(name: str, excuses: Iterable[str], judge: Judge) -> tuple[str, ...]:
    """Return the premises that an anomaly lacks because of what nobody can tell of faults.

    Only where a loss would be allowed if it were known: what nothing allows is not made better by
    not being known.

    Args:
        name: Of the anomaly.
        excuses: What the checker noted; of these, `DISK_DOUBTS`.
        judge: Who judges.
    """
    if judge is not Judge.CONTRACT or name not in _AFTER_DISKS:
        return ()
    return tuple(premise.value for doubt, premise in DISK_DOUBTS.items() if doubt in excuses)
