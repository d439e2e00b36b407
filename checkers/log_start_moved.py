"""log-start-moved: a replica dropped the beginning of its log, although no setting asked for this.

Definition: a log start offset is above 0, although the plan sets no retention. A broker reported
this start for its own replica, or the replica's files show it.

Why it proves something: a log begins at 0. Only retention and DeleteRecords move the start of a
log. A log cleaner removes records from the middle of a log, but never moves its start. If all
replicas drop the same records from the start of their logs, all logs stay equal, and no reader
skips records. Then the log start is the only evidence.

What would not prove it: a start that moved because of configured retention. Each follower applies
retention at its own time, so the follower's log may start above the start of the leader's log. A
compacted topic with unknown keys proves nothing either. Neither do the files of a compacted topic
if the broker did not stop cleanly, because a log cleaner may have been about to rename them. A disk
fault does not allow the anomaly: a replica that lost its log begins again at the leader's log
start, which is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import LOOK_NS, Acknowledger, led_between
from checkers.columns import NONE, equal, ints, select, texts
from checkers.facts import CRASH, FINAL, RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Proof, Proved
from checkers.replica_reasons import listed, verb
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "log-start-moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A replica whose log starts above 0.

    Attributes:
        node: The node that holds the log.
        start: The highest log start that was observed.
        first_ns: The time at which a start above 0 was first reported; -1 if only files show it.
        snapshot: The snapshot or step that first showed such a start. Empty if an answer during the
            run first showed it.
        times: The number of answers and file copies that show such a start.
    """

    node: str
    start: int
    first_ns: int
    snapshot: str
    times: int


def _moved(group: Group) -> list[Moved]:
    rows = _proving(group)
    above = select(rows, ints(rows, "log_start_offset") > 0)
    found = []
    for node in sorted(set(texts(above, "node"))):
        mine = select(above, equal(above, "node", node))
        told_ns = ints(mine, "observed_ns")
        first = int(np.argmin(np.where(told_ns < 0, np.iinfo(np.int64).max, told_ns)))
        found.append(
            Moved(
                node=node,
                start=int(ints(mine, "log_start_offset").max()),
                first_ns=int(told_ns[first]),
                snapshot=texts(mine, "snapshot")[first],
                times=mine.num_rows,
            )
        )
    return found


def _proving(group: Group) -> pa.Table:
    """Return the answers, and the file copies whose first segment certainly has its final name.

    A log cleaner renames a cleaned segment from `.swap` last. If the broker did not stop cleanly,
    it may do so only in its next start.
    """
    rows, facts = group.table("replica_states"), group.facts
    if not facts.compacted:
        return rows
    clean = equal(rows, "node", *sorted(facts.clean_nodes))
    return select(rows, ~equal(rows, "snapshot", FINAL, CRASH) | clean)


def _check(group: Group) -> Findings:
    told = ints(_proving(group), "log_start_offset") >= 0
    return findings(int(told.sum()), _moved(group), lambda moved: _describe(group, moved))


def _describe(group: Group, moved: Moved) -> Anomaly:
    when = f"at {seconds(moved.first_ns)}" if moved.first_ns >= 0 else "in its files"
    return anomaly_at(
        group,
        NAME,
        sentence=f"the log of {group.place} on {moved.node} starts at offset {moved.start}, first"
        f" observed {when}: the records below that offset are missing, although no"
        " retention was configured",
        evidence={
            "node": moved.node,
            "log_start": moved.start,
            "first_seen_ns": known(moved.first_ns),
            "first_seen_in": moved.snapshot or None,
            "times": moved.times,
        },
        offset=0,
    )


def _applies(facts: RunFacts) -> bool:
    return not facts.forgets


_BELOW = "the records below the new start of a log are deleted"


def _why(group: Group, found: Anomaly) -> str:
    node, first_ns = str(found.evidence.get("node")), number_in(found, "first_seen_ns")
    moved = {each.node: each.first_ns for each in _moved(group)}
    stayed = _stayed(group, moved, first_ns)
    zero_ns = _last_at_zero(group, node)
    when = f" between {seconds(zero_ns)} and {seconds(first_ns)}" if zero_ns >= 0 else ""
    led = _led_while_it_moved(group, node, first_ns)
    leader = led[0].node if len(led) == 1 else ""
    others = {each: at for each, at in moved.items() if each != node}
    if leader == node and not any(0 <= at <= first_ns for at in others.values()):
        after = [each for each, at in others.items() if at >= 0]
        then = f"; {listed(after)} had this log start later" if after else ""
        return Proved(
            f"{node} led in epoch {led[0].epoch} and deleted the records{when}, although no"
            f" setting of the plan asks for this{then}"
        )
    own = _led_while_it_moved(group, leader, others.get(leader, NONE))
    if led and own == led and others[leader] <= first_ns:
        return Proved(
            f"{leader}, the leader, already had that log start at {seconds(moved[leader])}, and"
            f" {node} adopted it: {leader} deleted the records, although no setting of the plan"
            " asks for this"
        )
    seen_all = len(stayed) + 1 >= group.facts.plan.replication > 1
    if leader in stayed or (seen_all and moved.keys() == {node}):
        its = f"its leader {leader} was" if leader in stayed else f"{verb(stayed, 'was', 'were')}"
        return Proved(
            f"{its} never observed with a log start above 0: {node} deleted its records by"
            f" itself{when}, although no setting of the plan asks for this"
        )
    if leader in moved and first_ns >= 0:
        return (
            f"{node} and its leader {leader} moved their log starts within one observation"
            f" interval, at {seconds(first_ns)} and {seconds(moved[leader])}, so the first of"
            " them is unknown; no setting of the plan asks for this"
        )
    return (
        "no setting of the plan asks for this; the run's record does not show which replica"
        " was first"
    )


def who_moved_first(group: Group, offset: int) -> str:
    """Return a sentence about the replica whose log start was first observed above an offset.

    The sentence is "" if no answer shows such a log start.
    """
    above = [each for each in _moved(group) if each.start > offset and each.first_ns >= 0]
    if not above:
        return ""
    first = min(above, key=lambda each: each.first_ns)
    led = _led_while_it_moved(group, first.node, first.first_ns)
    of = f", leader of epoch {led[0].epoch}," if [one.node for one in led] == [first.node] else ""
    zero_ns = _last_at_zero(group, first.node)
    before = f"at 0 at {seconds(zero_ns)}, and " if zero_ns >= 0 else ""
    return (
        f"all logs now begin above this offset; the log of {first.node}{of} was the first: it"
        f" began {before}at {first.start} at {seconds(first.first_ns)}; no setting of the plan"
        " asks for this"
    )


def _led_while_it_moved(group: Group, node: str, first_ns: int) -> tuple[Acknowledger, ...]:
    """Return the leaders of the period in which the start of a log moved; empty if unknown.

    A log start is recorded some time after it was measured, so the period begins earlier.
    """
    if first_ns < 0:
        return ()
    return led_between(group, max(_last_at_zero(group, node) - LOOK_NS, 0), first_ns)


def _stayed(group: Group, moved: Mapping[str, int], since_ns: int) -> list[str]:
    """Return the nodes that were observed from a time on, and never with a log start above 0."""
    rows = _proving(group)
    times = ints(rows, "observed_ns")
    later = set(texts(select(rows, (times < 0) | (times >= since_ns)), "node"))
    return sorted(later - moved.keys())


def _last_at_zero(group: Group, node: str) -> int:
    """Return the last time at which a replica's log start was 0; -1 if there is no such time."""
    rows = group.table("replica_states")
    here = equal(rows, "node", node) & (ints(rows, "log_start_offset") == 0)
    return int(ints(select(rows, here), "observed_ns").max(initial=NONE))


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="replica dropped the beginning of its log",
        many="replicas dropped the beginning of their logs",
        means="A log starts above offset 0, though no retention was configured.",
        promise="A log keeps its beginning if no retention is configured.",
        explains={
            **dict.fromkeys(("unseen", "torn-transaction"), _BELOW),
            "poll-skip": "readers jump to the beginning of the log",
            "committed-truncation": _BELOW,
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "polls", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.STORED,
    compares="log start offsets that brokers reported",
    chapter=Chapter.REPLICAS,
    looks_for="each log start above 0 that a broker reported for its own replica or that its"
    " files have, if the plan has no retention",
    meanwhile=Proof.OBSERVED,
)
