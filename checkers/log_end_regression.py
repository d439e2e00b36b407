"""log-end-regression: a replica's log ended below a high watermark that its own broker reported.

Definition: a broker reports a high watermark for its replica, and later a log end below that high
watermark. The log end may also come from the replica's files after the stop.

Why it proves something: a replica's high watermark is never above the end of its own log. Records
below the high watermark are committed. Every later leader has them, so the replica never has to
drop them. The replica may fetch the same records again at once. Then the final logs show nothing.
But until then the replica could be elected leader without these records, and acknowledged messages
would be lost.

What would not prove it:

- A log end and a high watermark of the same observation, because a broker is asked for its log end
  first. While a broker starts, it may answer only the second request.
- A replica that was moved away and recreated. A reassignment shows this, or an answer in between
  that does not have the replica.
- A disk that lost power, was emptied, or had a flipped bit before the log end was reported.

The regression is allowed if an unclean election may have begun after the high watermark was true,
and before the log end was reported (`followed_epochs.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import looks_at
from checkers.announcements import announces
from checkers.changes import disturbed
from checkers.client_reasons import final_logs
from checkers.columns import NEVER, NONE, equal, ints, present, select, take, texts
from checkers.controllers_log import elected
from checkers.disk_losses import excuses_of_disk
from checkers.epoch_starts import epoch_starts
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.followed_epochs import ceilings, floors, last_epoch, rising
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Proof, Proved
from checkers.replica_reasons import cut_text, fate, leader_text, not_yet_ns, verb
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import not_earlier, truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "log-end-regression"
_MOVES = "reassignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A log end that is below an earlier high watermark of the same replica.

    Attributes:
        node: The node that holds the replica.
        mark, marked_ns, last_ns: The high watermark, and when it was first and last reported.
        end, seen_ns: The log end, and when it was reported; -1 if it comes from files.
        lives: The incarnations that reported the high watermark and the log end; -1 if unknown.
    """

    node: str
    mark: int
    marked_ns: int
    last_ns: int
    end: int
    seen_ns: int
    lives: tuple[int, int]


def _in_order(looks: pa.Table) -> pa.Table:
    """Return the rows of one replica, sorted by time.

    The rows of files after the stop come last.
    """
    last = equal(looks, "snapshot", FINAL)
    return take(looks, np.lexsort((ints(looks, "observed_ns"), last)))


def _falls(told: pa.Table, node: str) -> Iterator[Fall]:
    """Yield each log end that is below an earlier high watermark of the same replica.

    The last such high watermark counts, because the fewest events came after it. After such a log
    end, earlier high watermarks no longer count.
    """
    columns = ("log_end_offset", "high_watermark", "observed_ns", "incarnation")
    rows = zip(*(ints(told, name).tolist() for name in columns), strict=True)
    marks = list[tuple[int, int, int, int]]()
    for end, mark, at_ns, life in rows:
        if end < 0 and mark < 0:  # The broker has no such replica.
            marks.clear()
            continue
        # A row may be recorded twice. Its own high watermark is not earlier. Files have no time.
        above = [each for each in marks if each[0] > end >= 0 and each[1] != at_ns]
        if above:
            high, marked_ns, last_ns, then = above[-1]
            yield Fall(
                node=node, mark=high, marked_ns=marked_ns, last_ns=last_ns, end=end, seen_ns=at_ns,
                lives=(then, life),
            )  # fmt: skip
            marks.clear()
        first_ns = next((each[1] for each in marks if each[0] == mark), at_ns)
        marks = [each for each in marks if each[0] > mark]
        if mark >= 0:
            marks.append((mark, first_ns, at_ns, life))


def _marked(told: pa.Table) -> int:
    """Return the number of a replica's log ends that came after a reported high watermark."""
    ends, marks = ints(told, "log_end_offset") >= 0, ints(told, "high_watermark") >= 0
    return int((ends[1:] & np.logical_or.accumulate(marks)[:-1]).sum())


def _check(group: Group) -> Findings:
    states = group.table("replica_states")
    ended = equal(states, "snapshot", FINAL)
    ended &= ~equal(states, "node", *group.facts.unreadable_nodes)
    told = ~present(states, "snapshot") & present(states, "observed_ns")
    looks = select(states, ended | told)
    by_node = {
        node: _in_order(select(looks, equal(looks, "node", node)))
        for node in sorted(set(texts(looks, "node")))
    }
    falls = [
        fall
        for node, told_by in by_node.items()
        for fall in _falls(told_by, node)
        if not disturbed(group.facts, fall.marked_ns, _by(fall), kind=_MOVES)
    ]
    found = findings(
        sum(map(_marked, by_node.values())),
        falls,
        lambda fall: _describe(group, fall),
        lambda fall: _labels(group, fall),
    )
    why = (
        "no log end was reported after a high watermark, so a log end below it could not be"
        " detected"
    )
    return could_not_show(found, why, given=bool(present(looks, "log_end_offset").any()))


def _by(fall: Fall) -> int:
    """Return the time of the lower log end; `NEVER` if it comes from files after the stop."""
    return fall.seen_ns if fall.seen_ns >= 0 else NEVER


def _labels(group: Group, fall: Fall) -> Labels:
    marked_ns, seen_ns, then, last = (
        np.array([each]) for each in (fall.last_ns, fall.seen_ns, *fall.lives)
    )
    since = int(floors(group, fall.node, marked_ns, then)[0])
    until, highest = int(ceilings(group, fall.node, seen_ns, last)[0]), last_epoch(group)
    # A later epoch may be missing from the record if the run did not reach its end.
    whole = group.facts.recovered and group.facts.snapshot == FINAL
    until = rising(group, until) if whole or until < highest else NEVER
    unclean = unclean_elections(group).took_after(fall.end, since, until=until)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    ends = (fall.end, fall.mark - 1)
    times = {"since_ns": fall.marked_ns, "missed_ns": _by(fall)}
    return (*excuses, *excuses_of_disk(group, fall.node, ends, **times)), ()


def _describe(group: Group, fall: Fall) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"the log of {group.place} on {fall.node} ended at {fall.end} at"
        f" {seconds(fall.seen_ns)}, although that broker had reported its high watermark"
        f" {fall.mark} at {seconds(fall.marked_ns)}",
        evidence={
            "node": fall.node,
            "high_watermark": fall.mark,
            "marked_ns": fall.marked_ns,
            "log_end": fall.end,
            "time_ns": fall.seen_ns,
        },
        offset=fall.end,
    )


def _applies(facts: RunFacts) -> bool:
    # A scenario's steps copy the files, where committed-truncation finds more.
    # Old Kafka versions truncate to a high watermark seconds old (KIP-101, KIP-279).
    return facts.plan.scenario is None and announces(facts) and facts.plan.keeps_producer_ids


def _why(group: Group, found: Anomaly) -> str:
    node, end = str(found.evidence.get("node")), number_in(found, "log_end")
    marked_ns, seen_ns = number_in(found, "marked_ns"), number_in(found, "time_ns")
    cuts = [each for each in truncations_of(group, end) if each.node == node]
    later = not_earlier(group, cuts, marked_ns)
    since, cuts = " since then" * (len(later) < len(cuts)), later
    timed = [each for each in cuts if marked_ns <= each.observed_ns]
    untimed = [each for each in cuts if each.observed_ns < 0]
    for each in (*timed, *untimed):
        if follows := _following(group, node, each.from_offset, marked_ns):
            return Proved(f"{cut_text(each)}{follows}")
    if timed:
        return cut_text(timed[0])
    if seen_ns < 0:
        if not (befell := fate(group, node, end)):
            return f"{node} recorded no truncation; its files after the stop are shorter"
        mark = number_in(found, "high_watermark")
        longer = [log.node for log in final_logs(group) if log.whole and log.read_end >= mark]
        kept = f"; {verb(longer, 'still reaches', 'still reach')} offset {mark}"
        return Proved(f"{befell}{kept * bool(longer)}")
    again = [each for each in looks_at(group, node) if each[0] > seen_ns]
    back = f", and its log ended at {again[0][1]} at {seconds(again[0][0])}" if again else ""
    once = _lives(group, node, marked_ns, seen_ns) == 1
    life = f"{node} was {'not ' * once}restarted in between"
    if untimed:
        before = [each for each in looks_at(group, node) if each[0] < seen_ns and each[1] > end]
        when = "at a time that is not recorded"
        if once and before and [each.from_offset for each in untimed] == [end]:
            when = f"between {seconds(before[-1][0])} and {seconds(seen_ns)}"
        return f"{life}{back}; {cut_text(untimed[0])}, {when}"
    return (
        f"{life} and recorded no truncation{since}{back}: it dropped records that it had reported"
        " as committed and fetched them again, or it reported a wrong log end; the run's record"
        " does not show which"
    )


def _lives(group: Group, node: str, from_ns: int, until_ns: int) -> int:
    """Return how many incarnations of a broker reported the replica between two times."""
    rows = group.table("replica_states")
    times = ints(rows, "observed_ns")
    mine = equal(rows, "node", node) & (times >= from_ns) & (times <= until_ns)
    return len(np.unique(ints(select(rows, mine), "incarnation")))


def _following(group: Group, node: str, from_offset: int, since_ns: int) -> str:
    """Return a phrase that names the unclean leader for which a replica truncated its log.

    The leader's epoch must begin at the truncation offset. When the broker reported its high
    watermark, it must have named only older epochs. This shows that the truncation came later. The
    phrase is "" if there is no such leader.
    """
    rows = group.table("leadership")
    own = equal(rows, "observer", node) & (ints(rows, "observed_ns") <= since_ns)
    heard = int(ints(rows, "leader_epoch")[own & present(rows, "observed_ns")].max(initial=NONE))
    for start in group.view(epoch_starts):
        entry = elected(group, start.epoch)
        unclean = entry is not None and entry.unclean and f"n{entry.leader}" != node
        unheard = heard < start.epoch and not_yet_ns(group, node, start.epoch) >= max(0, since_ns)
        if start.offset == from_offset and unclean and unheard:
            return f", to follow {leader_text(group, start.epoch).rstrip(',')}"
    return ""


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="replica's log ended below its own high watermark",
        many="replicas' logs ended below their own high watermarks",
        means=(
            "A replica's log ended below a high watermark that the replica's broker had reported"
            " before."
        ),
        promise="No replica drops records below a high watermark that its broker reported.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.STORED,
    compares="log ends reported after a high watermark of the same replica",
    chapter=Chapter.REPLICAS,
    looks_for="each log end that a broker reported for its replica, compared with the highest"
    " high watermark that this broker had reported before. Not after a reassignment, and not"
    " in scenarios, where each step copies the files",
    meanwhile=Proof.OBSERVED,
    excuses=TAKES_RECORDS,
)
