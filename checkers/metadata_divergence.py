"""metadata-divergence: two nodes hold different committed records of the controllers' log.

Definition: this is `log-divergence` for the log of the quorum (`__cluster_metadata`, partition 0).
At some offset that is not below the larger log start, the records of two nodes differ in (epoch,
hash, control). Or only one of the nodes has a record. The compared range ends at a bound that the
quorum's leaders reported during the run. A leader's description of the quorum contains the leader's
high watermark, and the fetch offset of each node (voter or observer). The leader advances a node's
fetch offset only after it has verified that both logs agree up to that offset. So a node's log is
committed below the smaller of these two offsets. Two nodes are compared below the smaller of their
bounds.

Why it proves something: a committed record is on a majority of the voters, and every later leader
has it. No node may ever replace it. Brokers replay this log to learn leaders and in-sync replicas.
Two nodes with different records therefore see two different clusters.

What would not prove it:

- Different log ends after the stop. All nodes that are both broker and controller stop together.
  At the last moment, one of these nodes may be elected, and may write a record that no other node
  replicates. Another node may have a record of the previous epoch at the same offset. This offset
  is above every high watermark.
- Different log starts. Records older than a snapshot (a `.checkpoint` file) are deleted.
- Offsets beyond the end of a copy, if a scenario's step made the copy. A step copies the files of
  running nodes. So only bounds that were reported before the step began count.
- A record that only one of the logs has, if one of them could not be read to its end.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from checkers.facts import CRASH, FINAL, RunFacts
from checkers.findings import texts_in
from checkers.group import Group
from checkers.log_divergence import Pair, divergences
from checkers.protocol import Chapter, Checker, During, Findings, Promise, Proved, Scope, Waits
from checkers.quorum import Marks
from checkers.replica_reasons import leader_text, listed, sides, verb, wrong_copy
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "metadata-divergence"
_BOUND = "the end that the quorum's leaders had reported as committed on both"


def _marks(facts: RunFacts, snapshot: str) -> Marks:
    after_the_run = snapshot in {FINAL, CRASH}
    return facts.quorum.marks if after_the_run else facts.quorum.step_marks.get(snapshot, {})


def _pairs(group: Group) -> Iterator[Pair]:
    for snapshot, logs in sorted(group.logs.items()):
        marks = _marks(group.facts, snapshot)
        for one, other in combinations(sorted(logs.keys() & marks.keys()), 2):
            a, b = logs[one], logs[other]
            if not len(a.offsets) and not len(b.offsets):
                continue  # No record of either log was read: nothing to compare.
            low, high = max(a.start, b.start), min(marks[one], marks[other])
            if snapshot not in {FINAL, CRASH}:
                high = min(high, a.read_end, b.read_end)
            if high > low:
                yield Pair(snapshot=snapshot, one=a, other=b, low=low, high=high, bound_is=_BOUND)


def _gaps(group: Group) -> tuple[str, ...]:
    """Return a sentence for each node that the quorum's leader reported, but that has no log."""
    if group.facts.snapshot != FINAL:
        return ()
    absent = sorted(group.facts.quorum.marks.keys() - group.logs.get(FINAL, {}).keys())
    return tuple(f"the controllers' log of {node} is missing" for node in absent)


def _check(group: Group) -> Findings:
    return divergences(group, list(_pairs(group)), compacted=False, gaps=_gaps(group), name=NAME)


def _applies(facts: RunFacts) -> bool:
    return facts.plan.own_controllers > 0 or facts.plan.voters > 1


def _why(group: Group, found: Anomaly) -> str:
    nodes, first = texts_in(found, "nodes"), found.offset
    logs = group.logs.get(str(found.evidence.get("snapshot")), {})
    pair = [side for node in nodes for side in sides(logs, first) if node in side.nodes]
    having = [side for side in pair if not side.lacks]
    if len(pair) == len(nodes) and len(having) == 1:
        (side,), (lacks,) = having, [each for each in pair if each.lacks]
        wrote = leader_text(group, side.epoch)
        return Proved(
            f"{verb(lacks.nodes, 'lacks', 'lack')} the record that {wrote} wrote there;"
            f" {verb(side.nodes, 'holds', 'hold')} it, and {listed(lacks.nodes)} skipped it or"
            " lost it"
        )
    if told := wrong_copy(group, logs, first, nodes):
        return Proved(f"{told}{_differs(group, first, nodes)}")
    return (
        f"the run's record does not show which of {listed(nodes)} holds the record that a"
        " leader wrote there"
    )


def _differs(group: Group, offset: int, nodes: Sequence[str]) -> str:
    """Return a phrase that names the fields in which two copies of a record differ."""
    return "".join(
        f"; the {what} is {words[nodes[0]]} on {nodes[0]}, and {words[nodes[1]]} on {nodes[1]}"
        for what, words in group.facts.quorum.disputed.get(offset, {}).items()
        if all(node in words for node in nodes) and words[nodes[0]] != words[nodes[1]]
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="difference between controllers' logs was found",
        many="differences between controllers' logs were found",
        means="Two nodes hold different committed records of the controllers' log.",
        promise="All controllers hold the same committed metadata.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "replica_records", "replica_states"),
    sees=frozenset({Sight.METADATA_LOG, Sight.QUORUM}),
    check=_check,
    premises=(),
    scope=Scope.QUORUM,
    applies=_applies,
    promise=Promise.EPOCHS,
    compares="offsets of the controllers' log, compared between two nodes",
    chapter=Chapter.CONTROLLERS,
    looks_for="the logs of any two nodes, record by record, from the larger start offset to the"
    " end that the quorum's leaders had reported as committed on both",
    waits=Waits.STOPPED,
    during=During.AT_END,
)
