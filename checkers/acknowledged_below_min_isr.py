"""acknowledged-below-min-isr: acks=all was acknowledged while too few replicas were in sync.

Definition: for more than five seconds, leaders acknowledged sends with acks=all although the ISR
was too small. Each send began and ended while every answer of a broker named an ISR smaller than
`min.insync.replicas`. No answer within four seconds of a send named an ISR of sufficient size. With
ZooKeeper, the ISR that ZooKeeper stores counts like an answer. If the final log shows the leader
epoch of an acknowledged record, answers about earlier epochs do not count. This last rule needs
KRaft.

Why it proves something: with acks=all, a leader must refuse a send if fewer than
`min.insync.replicas` replicas are in sync. With a smaller ISR, fewer failures of brokers than
promised can lose an acknowledged record. That holds even if no broker failed in this run. Only the
leader of a record's epoch, or of a later epoch, acknowledges the record. A broker that is cut off
may report the ISR of an earlier leader meanwhile. With ZooKeeper, a leader may get its epoch before
the news that its answers about the ISR come from.

What would not prove it: acknowledgements within five seconds prove nothing, because a replica may
have joined and left the ISR between two observations. Acknowledgements close to an answer with a
sufficient ISR prove nothing, because brokers report changes up to two seconds late. Sends with
acks=1 do not count. Periods of more than three seconds without an answer do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import led_between
from checkers.columns import NEVER, NONE, Ints, Mask, equal, first_match, ints, present, select
from checkers.controllers_log import undisputed
from checkers.disk_losses import TOLD_LATE_NS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Premise, Promise, Proved, Waits
from checkers.replica_reasons import leader_of, listed
from checkers.told_isrs import Told, told_isrs
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "acknowledged-below-min-isr"
SLACK_NS = 2 * TOLD_LATE_NS
"""The margin at each end of a low-ISR period. The first and last answer may be two seconds late."""
LASTING_NS = 5 * NS_PER_S
"""The anomaly is reported only if acknowledgements continue for longer than this.

In this time, a replica cannot join and leave the ISR unseen: each broker is asked four times a
second.
"""
_REPEATED_NS = 3 * NS_PER_S
"""The largest gap between two answers of one low-ISR period.

Unchanged answers are recorded only every two seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The acknowledgements that were given while the ISR was too small.

    Attributes:
        from_ns, to_ns: The times of the first and of the last acknowledgement.
        count: The number of acknowledgements.
        isr: The ISR in the last answer of that period.
        low_from_ns, low_to_ns: The period in which every answer named an ISR that was too small.
        since: Answers about earlier leader epochs do not count; -1 if all answers count.
    """

    from_ns: int
    to_ns: int
    count: int
    isr: tuple[int, ...]
    low_from_ns: int
    low_to_ns: int
    since: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class _Low:
    """A low-ISR period.

    Attributes:
        since: Only sends and answers of this leader epoch or later count; all if it is -1.
        told: The successive answers.
        sends: A mask of the sends that began and ended in this period.
    """

    since: int
    told: list[Told]
    sends: Mask


def _stretches(group: Group, since: int) -> Iterator[list[Told]]:
    """Yield the answers of each low-ISR period: successive answers with too small an ISR.

    Answers about epochs before `since` do not count.
    """
    stretch: list[Told] = []
    for told in (each for each in told_isrs(group) if each.epoch >= since or each.epoch < 0):
        low = len(told.isr) < group.facts.plan.least_insync
        if stretch and (not low or told.asked_ns - stretch[-1].seen_ns > _REPEATED_NS):
            yield stretch
            stretch = []
        if low:
            stretch.append(told)
    if stretch:
        yield stretch


def _lasting(group: Group, sends: pa.Table) -> Iterator[_Low]:
    """Yield the low-ISR periods that are long enough after both margins are subtracted."""
    least_ns, epochs = 2 * SLACK_NS + LASTING_NS, _epochs(group, sends)
    for since in np.unique(np.append(epochs, NONE)).tolist():
        for told in _stretches(group, since):
            if told[-1].asked_ns - told[0].seen_ns > least_ns:
                counts = _inside(told, sends) & (epochs >= since)
                yield _Low(since=since, told=told, sends=counts)


def _epochs(group: Group, sends: pa.Table) -> Ints:
    """Return the leader epoch of each send's record in the final log; -1 if unknown.

    It is unknown if the record's offset now holds another record, which a later leader wrote. With
    ZooKeeper, it counts as unknown.
    """
    log = group.final_log
    if log is None or not group.facts.plan.has_quorum:
        return np.full(sends.num_rows, NONE)
    at = first_match(ints(sends, "offset"), log.offsets)
    kept = (at >= 0) & (np.append(log.values, NONE)[at] == ints(sends, "value"))
    return np.where(kept, np.append(log.epochs, NONE)[at], NONE)


def _inside(stretch: list[Told], sends: pa.Table) -> Mask:
    """Return a mask of the sends that began and ended while the ISR was certainly too small.

    A send without an end counts if it began in that period.
    """
    begun, ended = ints(sends, "invoke_ns"), ints(sends, "complete_ns")
    from_ns, to_ns = stretch[0].seen_ns + SLACK_NS, stretch[-1].asked_ns - SLACK_NS
    return np.asarray((begun >= from_ns) & (begun <= to_ns) & (ended <= to_ns), dtype=np.bool_)


def _accepted(group: Group) -> list[Accepted]:
    """Return the acknowledgements of each low-ISR period; overlapping periods count once."""
    sends, found = group.committed, list[Accepted]()
    strong = select(sends, ~equal(sends, "acks", "1"))
    begun, ended = ints(strong, "invoke_ns"), ints(strong, "complete_ns")
    for low in _lasting(group, strong):
        from_ns, to_ns = low.told[0].seen_ns, low.told[-1].asked_ns
        acked = ended[low.sends & (ended >= begun)]
        lasted = len(acked) and int(acked.max()) - int(acked.min()) > LASTING_NS
        if lasted and all(to_ns < each.low_from_ns or each.low_to_ns < from_ns for each in found):
            found.append(
                Accepted(
                    from_ns=int(acked.min()),
                    to_ns=int(acked.max()),
                    count=len(acked),
                    isr=tuple(sorted(low.told[-1].isr)),
                    low_from_ns=from_ns,
                    low_to_ns=to_ns,
                    since=low.since,
                )
            )
    return found


def _check(group: Group) -> Findings:
    strong = group.table("sends")
    strong = select(strong, ~equal(strong, "acks", "0", "1"))
    masks = [low.sends for low in _lasting(group, strong)]
    tried = int(np.any(masks, axis=0).sum()) if masks else 0
    found = findings(tried, _accepted(group), lambda each: _describe(group, each))
    lasting_s = (2 * SLACK_NS + LASTING_NS) // NS_PER_S
    why = (
        f"no client sent a message while an ISR was too small for more than {lasting_s} s, so an"
        " acknowledgement with too few replicas could not be detected"
    )
    return could_not_show(found, why, given=bool(strong.num_rows and told_isrs(group)))


def _describe(group: Group, each: Accepted) -> Anomaly:
    needed = group.facts.plan.least_insync
    about = f" about epoch {each.since} or later" if each.since >= 0 else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.place} acknowledged {each.count} sends with acks=all from"
        f" {seconds(each.from_ns)} to {seconds(each.to_ns)}, although from"
        f" {seconds(each.low_from_ns)} to {seconds(each.low_to_ns)} every broker that"
        f" answered{about} reported an ISR smaller than min.insync.replicas ({needed}), last"
        f" {list(each.isr)}",
        evidence={
            "acknowledged": each.count,
            "from_ns": each.from_ns,
            "to_ns": each.to_ns,
            "isr": list(each.isr),
            "isr_from_ns": each.low_from_ns,
            "isr_to_ns": each.low_to_ns,
            "min_insync_replicas": needed,
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.least_insync > 1 and not facts.weak_acks


def _why(group: Group, found: Anomaly) -> str:
    from_ns, to_ns = number_in(found, "from_ns"), number_in(found, "to_ns")
    low_ns, high_ns = number_in(found, "isr_from_ns"), number_in(found, "isr_to_ns")
    took = _taken_in(group, from_ns, to_ns)
    leaders = {epoch: leader_of(group, epoch) for epoch in took}
    known = {epoch: node for epoch, node in leaders.items() if node}
    who = [
        f"{node}, leader of epoch {epoch}, accepted {took[epoch]}" for epoch, node in known.items()
    ]
    led = led_between(group, from_ns, to_ns)
    # The final log has none of these sends, but only one leader can have acknowledged them.
    if not took and len(led) == 1 and led[0].broker >= 0 and led[0].epoch >= 0:
        took, known = {led[0].epoch: 0}, {led[0].epoch: led[0].node}
        who = [f"{led[0].text}, accepted all"]
    if not known:
        return "the run's record does not show which leader acknowledged them"
    own = all(_told_itself(group, node, epoch, (low_ns, high_ns)) for epoch, node in known.items())
    its = "their" if len(known) > 1 else "its"
    itself = f", although {its} own metadata reported such an ISR" if own else ""
    odd = _undecided(group, set(took), (low_ns, high_ns))
    log = f"; the controllers' log does not have the ISR {' or '.join(odd)}" if odd else ""
    log += ", so brokers may have reported a wrong ISR" if odd else ""
    return Proved(f"{listed(who)} of them and did not answer NOT_ENOUGH_REPLICAS{itself}{log}")


def _taken_in(group: Group, from_ns: int, to_ns: int) -> dict[int, int]:
    """Count, for each epoch, the sends of the final log that were acknowledged in a period."""
    sends = group.committed
    ended = ints(sends, "complete_ns")
    mine = select(sends, ~equal(sends, "acks", "1") & (ended >= from_ns) & (ended <= to_ns))
    epochs = _epochs(group, mine)
    found, counts = np.unique(epochs[epochs >= 0], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _told(group: Group, between_ns: tuple[int, int]) -> pa.Table:
    """Return the brokers' Metadata answers that name an ISR and were given in a period."""
    rows = group.table("leadership")
    told = equal(rows, "source", Source.METADATA) & present(rows, "isr")
    told &= (ints(rows, "observed_ns") >= between_ns[0]) & (ints(rows, "asked_ns") <= between_ns[1])
    return select(rows, told)


def _told_itself(group: Group, node: str, epoch: int, between_ns: tuple[int, int]) -> bool:
    """Return whether each Metadata answer of a leader for its own epoch names too small an ISR."""
    told = _told(group, between_ns)
    own = select(told, equal(told, "observer", node) & (ints(told, "leader_epoch") == epoch))
    needed = group.facts.plan.least_insync
    return own.num_rows > 0 and all(len(each or ()) < needed for each in own["isr"].to_pylist())


def _undecided(group: Group, epochs: set[int], between_ns: tuple[int, int]) -> list[str]:
    """Return the ISRs that brokers named in a period, but that the controllers never logged.

    If brokers named a sufficient ISR after the period, the function ignores the last ISRs in the
    controllers' log that are too small.
    """
    needed, written = group.facts.plan.least_insync, list(undisputed(group))
    after = _told(group, (between_ns[1], NEVER))
    if any(len(each or ()) >= needed for each in after["isr"].to_pylist()):
        while written and len(written[-1].isr) < needed:
            written.pop()
    if not epochs <= {each.epoch for each in written}:
        return []
    decided = {(each.epoch, tuple(sorted(each.isr))) for each in written}
    told = _told(group, between_ns)
    named = zip(ints(told, "leader_epoch").tolist(), told["isr"].to_pylist(), strict=True)
    odd = {(epoch, tuple(sorted(isr or ()))) for epoch, isr in named if epoch in epochs} - decided
    return [f"{list(isr)} of epoch {epoch}" for epoch, isr in sorted(odd)]


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="period in which acks=all sends were acknowledged with too few replicas in sync",
        many="periods in which acks=all sends were acknowledged with too few replicas in sync",
        means=(
            "A leader accepted messages although fewer replicas than min.insync.replicas were"
            " in sync."
        ),
        promise="A leader refuses acks=all sends while too few replicas are in sync.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "leadership", "replica_records", "replica_states"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(Premise.WELL_FORMED, Premise.KNOWN_EVENTS),
    applies=_applies,
    promise=Promise.STORED,
    compares="sends with acks=all while too few replicas were in sync",
    chapter=Chapter.REPLICAS,
    looks_for="acknowledgements of acks=all while all brokers that answered reported ISRs smaller"
    " than `min.insync.replicas` for more than five seconds, with four seconds of slack on"
    " either side. With KRaft, answers about epochs before the record's epoch do not count",
    waits=Waits.LATER,
)
