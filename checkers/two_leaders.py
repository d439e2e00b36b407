"""two-leaders-in-epoch: two brokers led one partition in one leader epoch.

Definition: two brokers answered ListOffsets as leader of one partition in one epoch; or two leaders
in one epoch among metadata-log records below the quorum's high watermark, or as ZooKeeper had them;
or two different records at one offset and one epoch >= 0 on two replicas. Of the quorum itself: two
controllers that were its leader in one epoch, by their own `quorum-state` files or logs.

Why it proves something: an epoch is given to one leader only; everything that replicas do to agree
(truncation, fencing) rests on it. Only a broker that believes to lead answers ListOffsets, and it
names its epoch. Two records of one epoch at one offset were written by two leaders.

What would not prove it: Metadata, which is belief and may be old; leader -1, which is none; an old
leader that still answers, in its *old* epoch, while a new one leads; metadata records above the
quorum's high watermark, which may yet be dropped; records of formats without an epoch. A node that
never came back may keep metadata records that the others dropped, below what is the quorum's high
watermark by now: without a recovery, what metadata logs name is not trusted.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from checkers.columns import (
    Ints,
    equal,
    ints,
    present,
    repeated,
    select,
    shared,
    texts,
    unique_pairs,
)
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group, ReplicaLog
from checkers.protocol import Checker, Findings, Labels, Premise, Scope
from checkers.witnesses import holds
from results.record.terms import AnomalyClass, Mode
from results.record.verdict import Anomaly

NAME = "two-leaders-in-epoch"
_CLAIMS = ("list-offsets", "metadata-log", "zookeeper")
_QUORUM_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two leaders of one epoch.

    Attributes:
        source: list-offsets, metadata-log, zookeeper, replica-records, or quorum.
        leaders: The brokers that claimed, or the nodes whose records differ.
        offset: Of the records that differ, -1 otherwise.
        witnesses: Sentences for the evidence.
    """

    epoch: int
    source: str
    leaders: tuple[str, ...]
    offset: int
    witnesses: tuple[str, ...]


def _claims(group: Group, source: str) -> tuple[Ints, Ints, Ints]:
    """Return epochs, leaders and times of the claims of a source that count."""
    rows = group.table("leadership")
    counts = equal(rows, "source", source) & (ints(rows, "leader") >= 0)
    counts &= ints(rows, "leader_epoch") >= 0
    if source == "metadata-log":
        mark = group.facts.quorum_high_watermark
        place = ints(rows, "log_offset")
        counts &= (place >= 0) & (place < (mark if mark is not None else 0))
    claims = select(rows, counts)
    return ints(claims, "leader_epoch"), ints(claims, "leader"), ints(claims, "observed_ns")


def _clashing_claims(group: Group, source: str) -> tuple[int, list[Clash]]:
    epochs, leaders, times = _claims(group, source)
    once, claimed = unique_pairs(epochs, leaders)
    clashes = []
    for epoch in repeated(once).tolist():
        brokers = claimed[once == epoch].tolist()
        seen = [times[(epochs == epoch) & (leaders == broker)] for broker in brokers]
        clashes.append(
            Clash(
                epoch=epoch,
                source=source,
                leaders=tuple(f"n{broker}" for broker in brokers),
                offset=-1,
                witnesses=tuple(
                    f"n{broker}: {len(at)} times, from {int(at.min())} ns to {int(at.max())} ns"
                    for broker, at in zip(brokers, seen, strict=True)
                ),
            )
        )
    return len(epochs), clashes


def _clashing_records(group: Group, one: ReplicaLog, other: ReplicaLog) -> tuple[int, list[Clash]]:
    """Compare two replicas; a clash for each epoch, at its first offset."""
    left, right = shared(one.offsets, other.offsets)
    epochs = one.epochs[left]
    same = (epochs == other.epochs[right]) & (epochs >= 0)
    differ = same & (
        (one.hashes[left] != other.hashes[right]) | (one.controls[left] != other.controls[right])
    )
    clashes = []
    for epoch in np.unique(epochs[differ]).tolist():
        offset = int(one.offsets[left][differ & (epochs == epoch)][0])
        clashes.append(
            Clash(
                epoch=epoch,
                source="replica-records",
                leaders=(one.node, other.node),
                offset=offset,
                witnesses=(holds(group, one, offset), holds(group, other, offset)),
            )
        )
    return int(same.sum()), clashes


def _check(group: Group) -> Findings:
    looked = [_clashing_claims(group, source) for source in _CLAIMS]
    for _, logs in sorted(group.logs.items()):
        pairs = combinations([logs[node] for node in sorted(logs)], 2)
        looked += [_clashing_records(group, one, other) for one, other in pairs]
    clashes = {clash for _, found in looked for clash in found}
    return findings(
        sum(rows for rows, _ in looked),
        sorted(clashes, key=lambda each: (each.offset, each.epoch, each.source, each.leaders)),
        lambda clash: _describe(group, clash),
        lambda clash: _labels(group, clash),
    )


def _labels(group: Group, clash: Clash) -> Labels:
    left_behind = clash.source == "metadata-log" and not group.facts.recovered
    return (), (Premise.RECOVERED.value,) if left_behind else ()


def _check_quorum(group: Group) -> Findings:
    states = group.table("quorum_states")
    counts = equal(states, "role", "leader") & ~present(states, "observed_ns")
    led = select(states, counts & (ints(states, "epoch") >= 0))
    nodes: dict[int, set[str]] = {}
    for epoch, node in zip(ints(led, "epoch").tolist(), texts(led, "node"), strict=True):
        nodes.setdefault(epoch, set()).add(node)
    clashes = [
        Clash(
            epoch=epoch,
            source="quorum",
            leaders=tuple(sorted(leaders)),
            offset=-1,
            witnesses=tuple(f"{node}: by its own file or log" for node in sorted(leaders)),
        )
        for epoch, leaders in sorted(nodes.items())
        if len(leaders) > 1
    ]
    quorum = replace(group, topic=_QUORUM_TOPIC, partition=0)
    return findings(led.num_rows, clashes, lambda clash: _describe(quorum, clash))


def _has_quorum(facts: RunFacts) -> bool:
    return facts.plan.mode is not Mode.ZOOKEEPER


def _describe(group: Group, clash: Clash) -> Anomaly:
    who = " and ".join(clash.leaders)
    sentences = {
        "list-offsets": f"{who} both answered as leader of {group.place} in epoch {clash.epoch}",
        "metadata-log": f"the metadata log names {who} as leaders of {group.place} in epoch"
        f" {clash.epoch}",
        "zookeeper": f"ZooKeeper named {who} as leaders of {group.place} in epoch {clash.epoch}",
        "quorum": f"{who} were both leader of the controllers' quorum in epoch {clash.epoch}",
        "replica-records": f"{who} hold different records of epoch {clash.epoch} at offset"
        f" {clash.offset} of {group.place}",
    }
    return anomaly_at(
        group,
        NAME,
        sentence=f"{sentences[clash.source]}: {'; '.join(clash.witnesses)}",
        evidence={
            "epoch": clash.epoch,
            "source": clash.source,
            "leaders": list(clash.leaders),
            "offset": clash.offset if clash.offset >= 0 else None,
            "witnesses": list(clash.witnesses),
        },
        offset=clash.offset,
    )


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states"),
    check=_check,
    premises=(),
)
QUORUM_CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("quorum_states",),
    check=_check_quorum,
    premises=(),
    scope=Scope.RUN,
    applies=_has_quorum,
)
