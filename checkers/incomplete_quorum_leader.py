"""incomplete-leader, of the quorum: a controller began to lead without what had been committed.

Definition: the start offset of a quorum's epoch (the smallest over the records of all nodes, and
over checkpoints after a clean stop) lies below the highest high watermark that leaders of earlier
epochs told.

Why it proves something: a leader of the quorum tells a high watermark when a majority has what lies
below it, and is elected only by a majority that has nothing it lacks; the two have a voter in
common. Its first record, which begins its epoch, lies where its log ended. Raft calls it leader
completeness.

What would not prove it: an old leader that was cut off and goes on telling its high watermark: it
cannot grow any more. A start that is only known too high, as the log begins behind a snapshot:
then something may be missed, and nothing is alleged.
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
    """An epoch that started too low.

    Attributes:
        start: Where, and how it is known.
        told_epoch, told: The earlier epoch that told the highest high watermark, and that.
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
        "no controller began to lead after another had reported a high watermark, so one that"
        " lacked committed metadata could not show",
    )


def _describe(group: Group, found: Incomplete) -> Anomaly:
    start = found.start
    return anomaly_at(
        group,
        NAME,
        sentence=f"the controllers' leader of epoch {start.epoch} began at offset {start.offset}:"
        f" {start.text}; but the leader of epoch {found.told_epoch} had told that all below offset"
        f" {found.told} was committed",
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
        return f"the record does not show which controller led epoch {epoch}"
    by = sorted(node for at, node, candidate in votes if (at, candidate) == (epoch, leader))
    voted = f"{listed(by)} voted for {leader}" if by else f"{leader} led"
    return Proved(
        f"{voted} in epoch {epoch} though its log lacked what was committed, or {leader} dropped"
        " that after the vote; the record has no look at its log in between"
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
    looks_for="where each epoch of the quorum begins, and the highest high watermark that leaders"
    " of earlier epochs told",
    waits=Waits.STOPPED,
    excuses=TAKES_RECORDS,
)
