"""forbidden-election: a leader was elected that may have lacked committed records.

Definition: the check finds two kinds of elections. First, the metadata log names a new leader that
was in neither the ISR nor the ELR (KIP-966) before the election. After the election, this leader is
alone in the ISR. Neither the plan nor a fault allowed an unclean election. The new leader is not
the last leader, or the ISR was not empty before. Second, a row of the metadata log or of ZooKeeper
names a leader that is not in the row's own ISR.

Why it proves something: only two kinds of replicas certainly have all committed records. These are
the replicas in the ISR and the replicas in the ELR. The election of another replica breaks the
promise, even if no record was lost this time.

What would not prove it: an unclean election that the plan allows or that a fault requested. KIP-966
allows the last known leader if ISR and ELR are empty. A leader may join the ISR with other replicas
when a reassignment ends. In a run with the fault `reassignment`, only the second kind counts.
Records above the quorum's high watermark do not count. A node that never came back may keep
metadata records that the others truncated. So the metadata log is not trusted if the run did not
recover. A record proves nothing if its copies differ, because one of the copies is wrong. Without a
metadata log, only the second kind can be found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.columns import NONE, equal, ints, present, select
from checkers.controllers_log import CONTROLLERS_LOG, Entry, entries
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, numbers_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Labels, Premise, Promise, Proved, Waits
from checkers.replica_reasons import calm_until, told_ns, verb
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "forbidden-election"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """An election that is not allowed.

    Attributes:
        source: metadata-log or zookeeper.
        leader, epoch: The elected leader, and its epoch.
        isr: The ISR of the same row.
        before: The ISR of the previous row; None if that ISR does not matter.
        log_offset: The offset in the metadata log; -1 for ZooKeeper.
    """

    source: str
    leader: int
    epoch: int
    isr: tuple[int, ...]
    before: tuple[int, ...] | None
    log_offset: int


def _told(group: Group, source: str) -> tuple[Entry, ...]:
    """Return the entries about the partition from one source, in order."""
    if source == CONTROLLERS_LOG:
        return entries(group)
    rows = group.table("leadership")
    rows = select(rows, equal(rows, "source", source) & present(rows, "isr"))
    rows = rows.take(np.argsort(ints(rows, "observed_ns"), kind="stable"))
    columns = (rows[name].to_pylist() for name in ("leader", "leader_epoch", "isr"))
    return tuple(
        Entry(offset=NONE, leader=leader, epoch=epoch, isr=tuple(isr), unclean=False)
        for leader, epoch, isr in zip(*columns, strict=True)
    )


def _forbidden(group: Group, source: str, told: Sequence[Entry]) -> Iterator[Forbidden]:
    # A reassignment may end with a new replica as leader and as the only one in the ISR.
    moved = any(each.kind == "reassignment" for each in group.facts.disturbances)
    unclean_is_forbidden = not group.facts.plan.unclean_elections and not moved
    led, before, sure = NONE, None, True
    for each in told:
        leader = each.leader
        sure &= each.follows  # A disputed record may name another leader.
        returned = leader == led and not before
        lacking = each.unclean and each.isr == (leader,) and not returned and sure
        lacking = lacking and unclean_is_forbidden and not _ordered(group, each.epoch)
        if leader >= 0 and (lacking or leader not in each.isr):
            yield Forbidden(
                source=source,
                leader=leader,
                epoch=each.epoch,
                isr=each.isr,
                before=before if lacking else None,
                log_offset=each.offset,
            )
        led, before, sure = (leader if leader >= 0 else led), each.isr, sure or leader >= 0


def _ordered(group: Group, epoch: int) -> bool:
    """Return whether a fault may have requested the election that began an epoch."""
    here = (group.topic, group.partition)
    orders = (each for each in group.facts.unclean_orders if (each.topic, each.partition) == here)
    return any(each.may_be(epoch) for each in orders)


def _elections(told: Sequence[Entry]) -> int:
    """Return how many entries name a leader, and another leader or epoch than the entry before.

    The first entry counts if it names a leader.
    """
    named = [(NONE, NONE), *((each.leader, each.epoch) for each in told)]
    return sum(one != other and other[0] >= 0 for one, other in pairwise(named))


def _check(group: Group) -> Findings:
    found, count = list[Forbidden](), 0
    for source in (CONTROLLERS_LOG, Source.ZOOKEEPER):
        told = _told(group, source)
        count += _elections(told)
        found += _forbidden(group, source, told)
    return findings(
        count, found, lambda each: _describe(group, each), lambda each: _labels(group, each)
    )


def _labels(group: Group, each: Forbidden) -> Labels:
    left_behind = each.source == CONTROLLERS_LOG and not group.facts.recovered
    return (), (Premise.RECOVERED.value,) if left_behind else ()


def _describe(group: Group, each: Forbidden) -> Anomaly:
    who = f"broker {each.leader} was elected leader of {group.place} in epoch {each.epoch}"
    why = f"which is not in its ISR, {list(each.isr)}"
    if each.before is not None:
        why = f"by an unclean election, which was not allowed; the ISR was {list(each.before)}"
    where = (
        f"metadata log, offset {each.log_offset}" if each.source == CONTROLLERS_LOG else "ZooKeeper"
    )
    return anomaly_at(
        group,
        NAME,
        sentence=f"{who}, {why} ({where})",
        evidence={
            "source": each.source,
            "leader": each.leader,
            "epoch": each.epoch,
            "isr": list(each.isr),
            "isr_before": None if each.before is None else list(each.before),
            "log_offset": known(each.log_offset),
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.replication > 1


def _why(group: Group, found: Anomaly) -> str:
    leader, before = number_in(found, "leader"), numbers_in(found, "isr_before")
    node, epoch = f"n{leader}", number_in(found, "epoch")
    calm = ", and no fault had begun" if calm_until(group, told_ns(group, epoch)) else ""
    others = [f"n{each}" for each in before if each != leader]
    if leader in before:
        also = f"; {verb(others, 'was', 'were')} in sync too{calm}" if others else calm
        return Proved(
            f"{node} was in the ISR, so the controllers did not need an unclean election, which"
            f" reduced the ISR to [{leader}]{also}"
        )
    if before:
        return Proved(
            f"{verb(others, 'was', 'were')} in sync, but the controllers elected {node}, which"
            f" was not in sync{calm}"
        )
    if found.evidence.get("isr_before") is not None:
        return f"no replica was in sync, and {node} was not the last leader"
    offset, isr = number_in(found, "log_offset"), tuple(numbers_in(found, "isr"))
    written = entries(group)
    older = [one for one, other in pairwise(written) if other.offset == offset and other.follows]
    kept = [each for each in older if (each.leader, each.epoch) == (leader, epoch)]
    rows = group.table("leadership")
    told = select(
        rows, equal(rows, "source", Source.METADATA) & (ints(rows, "leader_epoch") == epoch)
    )
    seen = any(tuple(sorted(each or ())) == tuple(sorted(isr)) for each in told["isr"].to_pylist())
    unreported = told.num_rows and not seen
    unseen = f"; no broker reported the ISR {list(isr)} in epoch {epoch}" if unreported else ""
    if kept and leader in kept[0].isr:
        return Proved(
            f"the controllers took {node} out of the ISR {list(kept[0].isr)} (offset"
            f" {kept[0].offset}) but kept it as the leader{unseen}"
        )
    return (
        "the controllers wrote a record with a leader that is not in the ISR of the same"
        f" record{unseen}"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="leader was elected that may have lacked committed records",
        many="leaders were elected that may have lacked committed records",
        means=(
            "A leader came from outside of the in-sync replicas, although neither the plan nor a"
            " fault allowed this."
        ),
        promise="Only an in-sync replica becomes the leader.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership",),
    sees=frozenset({Sight.METADATA_LOG, Sight.QUORUM}),
    check=_check,
    premises=(Premise.KNOWN_EVENTS,),
    applies=_applies,
    promise=Promise.LEADERS,
    compares="elections in the metadata log or ZooKeeper",
    chapter=Chapter.REPLICAS,
    looks_for="in the metadata log: an unclean election that neither plan nor fault allowed, and"
    " that is not the return of the last known leader to an empty ISR (KIP-966). There and in"
    " ZooKeeper: a leader that is not in its own ISR. If copies of the metadata log"
    " differ in a record, only `metadata-divergence` reports it",
    waits=Waits.STOPPED,
)
