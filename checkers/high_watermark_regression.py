"""high-watermark-regression: the high watermark that leaders announced decreased.

Definition: leaders answered ListOffsets(latest, read_uncommitted) in epochs e <= e', and the answer
in e is greater than the answer in e'. If e = e', the first answer arrived before the second request
was sent. Replicas are never compared with each other. The partition's end in the final reads also
counts as an answer of the last epoch. That end counts only if the run had recovered and all clients
had stopped sending. With transactions, that end is the last stable offset, which may be below the
high watermark. But the end must be above each record that a read_committed reader got before.

Why it proves something: committed records stay committed. A leader's high watermark only grows in
its epoch. A later leader has all records that earlier leaders committed. It answers only after it
knows that these records are committed (KIP-207). Epochs order leaders without a clock. All
transactions below a last stable offset are decided, and stay decided. A later transaction begins
above that offset (KIP-98).

What would not prove it: a follower's own high watermark always lags behind. An old leader may still
answer in its old epoch while a new leader is ahead. Two answers of one epoch that overlap in time
have no order. The anomaly is allowed after an unclean election, and if the disks of all replicas
lost the records (power loss, wipe, flipped bit). Such an event does not explain a decrease between
two earlier or two later answers. A lower last stable offset is not trusted if a cleaner may have
removed a marker before the leader got the marker (`cleaned_markers`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from checkers.announcements import (
    Announcement,
    Announcements,
    announcements,
    announces,
    first_highest,
    latest,
)
from checkers.cleaned_markers import may_lack_marker
from checkers.columns import NEVER, NONE, Ints, equal, ints, select
from checkers.disk_losses import all_lost, first_known_ns, lost_on_disks, resets
from checkers.epoch_starts import epoch_starts
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, seconds
from checkers.group import Group
from checkers.protocol import (
    Chapter,
    Checker,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proof,
    Proved,
)
from checkers.replica_reasons import (
    began_short,
    holders,
    leader_text,
    verb,
)
from checkers.symptoms import ABOVE
from checkers.transactions import READ_COMMITTED
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Evidence, Words

NAME = "high-watermark-regression"
_LAST_EPOCH = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A leader's answer that is lower than an earlier answer.

    Attributes:
        earlier, later: The two answers with the greatest difference.
        answers: The number of too low answers in the epoch of `later`.
    """

    earlier: "Announcement | Reading"
    later: "Announcement | Target"
    answers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The partition's end that the leader reported to the final reads.

    Attributes:
        high_watermark: That end.
        epoch: A number that is higher than all reported epochs.
    """

    high_watermark: int
    epoch: int = _LAST_EPOCH

    @property
    def text(self) -> str:
        """The end as a phrase for a report."""
        return f"its leader reported the end {self.high_watermark} to the final reads"

    def evidence(self, word: str) -> Evidence:
        """Return the end as evidence. All keys begin with `word`, as in `later_told_to`."""
        return {f"{word}_told_to": "final reads", f"{word}_high_watermark": self.high_watermark}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The highest record that a read_committed reader got before the final reads.

    Attributes:
        offset: The record's offset.
        op_id: The op id of the poll.
        epoch: The record's leader epoch, -1 if unknown.
        observed_ns: The time at which the poll ended.
    """

    offset: int
    op_id: int
    epoch: int
    observed_ns: int

    @property
    def high_watermark(self) -> int:
        """The offset below which all transactions were decided."""
        return self.offset + 1

    @property
    def text(self) -> str:
        """The read as a phrase for a report."""
        return (
            f"op {self.op_id} read offset {self.offset} as committed at {seconds(self.observed_ns)}"
        )

    def evidence(self, word: str) -> Evidence:
        """Return the read as evidence. All keys begin with `word`, as in `earlier_read_by`."""
        return {
            f"{word}_read_by": self.op_id,
            f"{word}_epoch": known(self.epoch),
            f"{word}_high_watermark": self.high_watermark,
            f"{word}_observed_ns": self.observed_ns,
        }


def _before_in_epoch(told: Announcements) -> Ints:
    """Return, for each answer, the index of the highest earlier answer in the same epoch, or -1.

    Answer A is earlier than answer B if A arrived before the request of B was sent.
    """
    found = np.empty(len(told), dtype=np.int64)
    for epoch in np.unique(told.epochs).tolist():
        low, high = np.searchsorted(told.epochs, [epoch, epoch + 1]).tolist()
        mine = np.arange(low, high)
        ended = mine[told.observed_ns[mine] >= 0]
        ended = ended[np.argsort(told.observed_ns[ended], kind="stable")]
        done = np.searchsorted(told.observed_ns[ended], told.asked_ns[mine], side="left")
        found[mine] = latest(ended[first_highest(told.marks[ended])], done)
    return found


def _drops(told: Announcements, before: Ints) -> Ints:
    """Return how far each answer is below the earlier answer at the index in `before`."""
    return (before >= 0) * (told.marks[before] - told.marks)


def _regressions(told: Announcements) -> tuple[int, list[Regression]]:
    """Count the compared answers, and find the greatest decrease of each epoch."""
    earlier, same = told.highest_before(told.epochs), _before_in_epoch(told)
    of_epochs, in_epoch = _drops(told, earlier), _drops(told, same)
    drops = np.maximum(of_epochs, in_epoch)
    witness = np.where(of_epochs >= in_epoch, earlier, same)
    low = np.flatnonzero(drops > 0)
    return int(((earlier >= 0) | (same >= 0)).sum()), [
        _furthest(told, witness, low[told.epochs[low] == epoch], drops)
        for epoch in np.unique(told.epochs[low]).tolist()
    ]


def _furthest(told: Announcements, witness: Ints, low: Ints, drops: Ints) -> Regression:
    worst = int(low[np.argmax(drops[low])])
    return Regression(earlier=told[int(witness[worst])], later=told[worst], answers=len(low))


def _ends(group: Group) -> Ints:
    """Return the end offsets of the final reads if the reads must include all committed records."""
    reads = group.table("final_reads")
    if not group.facts.recovered:
        return np.empty(0, dtype=np.int64)
    if group.facts.plan.transactional:
        reads = select(reads, equal(reads, "isolation", READ_COMMITTED))
    ends = ints(reads, "target_end")
    return ends[ends >= 0]


def _short_targets(group: Group, told: Announcements, ends: Ints) -> tuple[int, list[Regression]]:
    """Count the ends of final reads that were compared; return the lowest end if it is too low."""
    asked = group.facts.milestone("final-reads")
    if asked is None or not len(ends):
        return 0, []
    transactional = group.facts.plan.transactional
    known_before = _last_reading(group, asked.at_ns) if transactional else _last(told, asked.at_ns)
    later = Target(high_watermark=int(ends.min()))
    if known_before is None:
        return 0, []
    low = later.high_watermark < known_before.high_watermark
    return len(ends), [Regression(earlier=known_before, later=later)] if low else []


def _last(told: Announcements, until_ns: int) -> Announcement | None:
    """Return the announcement with the highest high watermark up to a time."""
    # A slow broker may still append a timed-out message behind the end that it reported.
    told = told.where((told.observed_ns >= 0) & (told.observed_ns <= until_ns))
    return told[int(np.argmax(told.marks))] if len(told) else None


def _last_reading(group: Group, until_ns: int) -> Reading | None:
    """Return the record with the highest offset that read_committed readers got up to a time."""
    polls = group.table("polls")
    ended_ns = ints(polls, "complete_ns")
    given = equal(polls, "isolation", READ_COMMITTED) & (ended_ns >= 0) & (ended_ns <= until_ns)
    polls = select(polls, given)
    if not polls.num_rows:
        return None
    row = polls.slice(int(np.argmax(ints(polls, "offset"))), 1)
    offset, op_id, epoch, ended = (
        ints(row, name).item() for name in ("offset", "op_id", "leader_epoch", "complete_ns")
    )
    return Reading(offset=offset, op_id=op_id, epoch=epoch, observed_ns=ended)


def _parts(group: Group, told: Announcements) -> Iterator[Announcements]:
    """Yield all answers, and those before and since each unclean election and each disk loss."""
    yield told
    elections = unclean_elections(group)
    cuts = {elections.over_from(epoch) for epoch in np.unique(told.epochs).tolist()}
    for since in sorted(cuts - {NONE}):
        yield told.where(told.epochs >= since)
        yield told.where(told.epochs < since)
    for loss in resets(group):
        yield told.where(told.asked_ns > loss.until_ns)
    for loss in group.facts.disk_losses:
        if loss.concerns(group.topic, group.partition):
            yield told.where(told.observed_ns < loss.began_ns)


def _check(group: Group) -> Findings:
    told, ends = announcements(group), _ends(group)
    parts = [*_parts(group, told)]
    fell = [_regressions(part) for part in parts]
    # With transactions, the ends are compared with reads, and not with what was announced.
    announced = parts[:1] if group.facts.plan.transactional else parts
    short = [_short_targets(group, part, ends) for part in announced]
    by_epoch: dict[int, list[Regression]] = {}
    for each in chain.from_iterable(found for _, found in (*fell, *short)):
        by_epoch.setdefault(each.later.epoch, []).append(each)
    found = findings(
        fell[0][0] + short[0][0],
        sorted(
            (_least_excused(group, each) for each in by_epoch.values()),
            key=lambda each: (each.later.high_watermark, each.later.epoch),
        ),
        lambda regression: _describe(group, regression),
        lambda regression: _labels(group, regression),
    )
    why = "no high watermark was announced after another one, so a decrease could not be detected"
    return could_not_show(found, why, given=bool(len(told)))


def _least_excused(group: Group, fell: list[Regression]) -> Regression:
    """Return the first regression without an excuse, if possible with all premises."""
    return min(fell, key=lambda each: tuple(map(bool, _labels(group, each))))


def _labels(group: Group, regression: Regression) -> Labels:
    earlier, later = regression.earlier, regression.later
    unclean = unclean_elections(group).between(earlier.epoch, later.epoch)
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    broken: tuple[str, ...] = ()
    if isinstance(earlier, Reading):  # A lost marker does not affect the records before it.
        gone, known_ns = [earlier.offset], first_known_ns(group, earlier.offset)
        if may_lack_marker(group, later.high_watermark):
            broken = (Premise.SHOWN_CAUSE.value,)
    else:
        gone = [earlier.high_watermark - 1, later.high_watermark]
        known_ns = earlier.observed_ns
    missed_ns = later.until_ns if isinstance(later, Announcement) else NEVER
    lost = [lost_on_disks(group, offset, known_ns, missed_ns=missed_ns) for offset in gone]
    return (*excuses, *all_lost(lost)), broken


def _describe(group: Group, regression: Regression) -> Anomaly:
    earlier, later = regression.earlier, regression.later
    what = "the last stable offset" if isinstance(earlier, Reading) else "the high watermark"
    more = f" ({regression.answers} answers of that epoch are too low)"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{what} of {group.place} went back from {earlier.high_watermark} to"
        f" {later.high_watermark}: {earlier.text}, and {later.text}"
        f"{more if regression.answers > 1 else ''}",
        evidence={
            **earlier.evidence("earlier"),
            **later.evidence("later"),
            "answers": regression.answers,
        },
        offset=later.high_watermark,
    )


def _why(group: Group, found: Anomaly) -> str:
    low, high = (number_in(found, f"{each}_high_watermark") for each in ("later", "earlier"))
    epoch, later = number_in(found, "earlier_epoch"), number_in(found, "later_epoch")
    logs = group.logs.get(FINAL, {})
    if not logs or group.facts.forgets or group.facts.compacted:
        return "no final log shows whether the records between the two high watermarks still exist"
    kept = holders(group, low, high, epoch)
    target, node = "later_told_to" in found.evidence, f"n{number_in(found, 'later_by')}"
    again = _again(group, found, high)
    if len(kept) == len(logs) and not _was_cut(group, found, high):
        whole = f"nothing was truncated: {verb(kept, 'holds', 'hold')} all records below {high}"
        if target or later == epoch:
            answer = "the answer to the final reads" if target else f"{node}'s lower answer"
            return Proved(f"{whole}{again}; only {answer} was wrong")
        return Proved(f"{whole}; {leader_text(group, later)} {_low_answer(group, found, later)}")
    begun = [
        each
        for each in group.view(epoch_starts)
        if 0 <= epoch < each.epoch <= later and each.offset < high
    ]
    if begun:
        who, by = leader_text(group, begun[0].epoch).rstrip(","), number_in(found, "earlier_by")
        earlier = (by, epoch, number_in(found, "earlier_observed_ns"))
        return Proved(
            f"{who}, began its epoch at offset {begun[0].offset} without records that n{by} had"
            f" announced as committed{began_short(group, begun[0].epoch, high, earlier)}"
        )
    if kept:
        return f"{verb(kept, 'holds', 'hold')} all records below {high} at the end{again}"
    return "no final log shows whether the records between the two high watermarks still exist"


def _low_answer(group: Group, found: Anomaly, epoch: int) -> str:
    """Explain why a later leader answered with a low offset although the leader has all records."""
    own_ns = _own_ns(group, epoch)
    if 0 <= own_ns <= number_in(found, "later_asked_ns"):
        return (
            f"had acknowledged a record of its epoch (acks=all) at {seconds(own_ns)}: its high"
            " watermark went back, or it answered with an old high watermark"
        )
    return "answered before its high watermark had reached the start of its epoch (KIP-207)"


def _own_ns(group: Group, epoch: int) -> int:
    """Return the time of an epoch's first acknowledgement with acks=all; -1 if there is none."""
    log, sends = group.final_log, group.table("sends")
    if log is None:
        return NONE
    own = set(log.values[log.epochs == epoch].tolist())
    acked = equal(sends, "acked", True) & ~equal(sends, "acks", "0", "1")  # noqa: FBT003 - a value
    acked &= np.isin(ints(sends, "value"), list(own)) & (ints(sends, "complete_ns") >= 0)
    return int(ints(sends, "complete_ns")[acked].min(initial=NEVER)) if acked.any() else NONE


def _was_cut(group: Group, found: Anomaly, high: int) -> bool:
    """Return whether a leader may have lost records below an offset between the two answers."""
    since_ns, until_ns = (number_in(found, f"{each}_observed_ns") for each in ("earlier", "later"))
    until_ns = until_ns if until_ns >= 0 else NEVER
    nodes = {f"n{number_in(found, f'{each}_by')}" for each in ("earlier", "later")}
    cuts = [each for each in truncations_of(group, high - 1) if each.node in nodes]
    timed = [each.observed_ns for each in cuts]
    return any(at < 0 or since_ns <= at <= until_ns for at in timed) or any(
        nodes & loss.nodes
        and loss.concerns(group.topic, group.partition)
        and loss.first_taken < high
        and since_ns <= loss.until_ns
        and loss.began_ns <= until_ns
        for loss in group.facts.disk_losses
    )


def _again(group: Group, found: Anomaly, mark: int) -> str:
    """Return a clause if a leader later announced the high watermark again; otherwise ""."""
    since_ns = number_in(found, "later_observed_ns")
    if "later_told_to" in found.evidence:
        read = group.facts.milestone("final-reads")
        since_ns = read.at_ns if read is not None else NONE
    told = announcements(group)
    told = told.where((told.marks >= mark) & (told.asked_ns >= since_ns))
    if since_ns < 0 or not len(told):
        return ""
    first = told[int(np.argmin(told.asked_ns))]
    return (
        f", and afterwards, at {seconds(first.observed_ns)}, n{first.broker} announced"
        f" {first.high_watermark}"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="high watermark went down",
        many="high watermarks went down",
        means="A leader announced a lower high watermark than had been announced before.",
        promise="Records that were announced as committed stay committed.",
        explains={"uncommitted-read": ABOVE},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=(
        "sends",
        "leadership",
        "polls",
        "final_reads",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    sees=frozenset({Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=announces,
    promise=Promise.STORED,
    compares="announced high watermarks that follow another one",
    chapter=Chapter.REPLICAS,
    looks_for="each announced high watermark, compared with the highest one of earlier epochs,"
    " and with the highest one that was announced in the same epoch before the request."
    " The end that the final reads got after the recovery, compared with the highest"
    " high watermark of all. With transactions, that end is compared with the highest"
    " record that read_committed readers got before",
    meanwhile=Proof.TOLD,
    excuses=TAKES_RECORDS,
)
