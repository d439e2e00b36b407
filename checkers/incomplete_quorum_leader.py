"""incomplete-leader, for the quorum: a controller became leader without all committed metadata.

Definition: the start offset of a quorum's epoch is below the highest high watermark that leaders of
earlier epochs reported. The start offset is the smallest offset in the records of all nodes, and in
the checkpoints after a clean stop.

Why it proves something: the quorum's leader reports a high watermark when a majority has all
records below it. A majority elects a leader only if no voter of that majority has more records than
the leader. The two majorities share a voter. The new leader appends the first record of its epoch
at the end of its log. Raft calls this rule leader completeness.

What would not prove it: an old leader that was cut off may still report its high watermark. That
high watermark cannot grow any more. If the log begins after a snapshot, the known start may be too
high. Then the check may miss an anomaly, but it never reports a false anomaly.
"""

from dataclasses import dataclass

from checkers.epoch_starts import EpochStart, epoch_starts
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in
from checkers.group import Group
from checkers.incomplete_leader import CHECKER as OF_PARTITIONS
from checkers.incomplete_leader import NAME
from checkers.protocol import Chapter, Checker, Findings, Promise, Proved, Scope, Waits
from checkers.replica_reasons import leader_of, listed
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """An epoch of the quorum that started at an offset which is too low.

    Attributes:
        start: The epoch's start, and its source.
        told_epoch, told: The earlier epoch that reported the highest high watermark, and this high
            watermark.
    """

    start: EpochStart
    told_epoch: int
    told: int


def _incomplete(group: Group) -> list[Incomplete]:
    told = sorted(group.facts.quorum.announced.items())
    found = []
    for start in epoch_starts(group):
        earlier = [(mark, -epoch) for epoch, mark in told if epoch < start.epoch]
        mark, negative = max(earlier, default=(0, 0))
        if start.offset < mark:
            found.append(Incomplete(start=start, told_epoch=-negative, told=mark))
    return found


def _check(group: Group) -> Findings:
    told = group.facts.quorum.announced
    later = [each for each in epoch_starts(group) if any(epoch < each.epoch for epoch in told)]
    found = findings(
        len(later),
        sorted(_incomplete(group), key=lambda each: each.start.offset),
        lambda each: _describe(group, each),
    )
    return could_not_show(
        found,
        "no controller began to lead after another one had reported a high watermark, so a leader"
        " without all committed metadata could not be detected",
    )


def _describe(group: Group, found: Incomplete) -> Anomaly:
    start = found.start
    return anomaly_at(
        group,
        NAME,
        sentence=f"the controllers' leader of epoch {start.epoch} began at offset {start.offset}:"
        f" {start.text}; but the leader of epoch {found.told_epoch} had reported all"
        f" records below offset {found.told} as committed",
        evidence={
            "epoch": start.epoch,
            "start_offset": start.offset,
            "node": start.node,
            "snapshot": start.snapshot,
            "told_epoch": found.told_epoch,
            "told_high_watermark": found.told,
        },
        offset=start.offset,
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.has_quorum


def _why(group: Group, found: Anomaly) -> str:
    epoch = number_in(found, "epoch")
    leader, votes = leader_of(group, epoch), group.facts.quorum.votes
    if not leader:
        return f"the run's record does not show which controller led in epoch {epoch}"
    by = sorted(node for at, node, candidate in votes if (at, candidate) == (epoch, leader))
    voted = f"{listed(by)} voted for {leader}" if by else f"{leader} led"
    return Proved(
        f"{voted} in epoch {epoch} although the log of {leader} lacked committed records, or"
        f" {leader} dropped them after the vote; its log was not observed in between"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=OF_PARTITIONS.words,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("replica_records", "replica_states"),
    sees=frozenset({Sight.METADATA_LOG, Sight.QUORUM}),
    check=_check,
    premises=(),
    scope=Scope.QUORUM,
    applies=_applies,
    promise=Promise.EPOCHS,
    compares="starts of controllers' epochs, compared with what earlier leaders reported",
    chapter=Chapter.CONTROLLERS,
    looks_for="the offset where each epoch of the quorum begins, compared with the highest high"
    " watermark that leaders of earlier epochs reported",
    waits=Waits.STOPPED,
    excuses=TAKES_RECORDS,
)
