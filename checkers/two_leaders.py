"""two-leaders-in-epoch: two brokers led one partition in the same leader epoch.

Definition: sources name two leaders of one partition in one epoch. The sources are brokers that
answered ListOffsets as leader, metadata-log records below the quorum's high watermark, ZooKeeper,
and Metadata. Two replicas with different records of one epoch (0 or higher) at one offset are also
an anomaly. For the controllers' quorum: two controllers led in one epoch, according to their own
`quorum-state` files or logs.

Why it proves something: an epoch is given to only one leader. Truncation and fencing of replicas
rely on this. Only a broker that considers itself the leader answers ListOffsets, and the answer
contains this leader's epoch. Metadata may be old, but leader and epoch come from one record of the
controller, so these two belong together. Two different records of one epoch at one offset were
written by two leaders.

What would not prove it:

- Leader -1, which means no leader.
- A leader without an epoch, or an epoch without a leader.
- An old leader that still answers in its *old* epoch while a new leader is active.
- Metadata-log records above the quorum's high watermark. Such records may still be dropped.
- Records of message formats without an epoch.
- Metadata-log records in a run without a recovery. A node that never returned may keep records
  which the other nodes dropped, even below the present high watermark. Such a finding is untrusted.

Before Kafka 2.2, with ZooKeeper, one leader may write two records of an epoch at one offset. This
happens if the leader loses the end of its log in a power loss, and returns before its session ends.
Such an anomaly is allowed (`checkers/reused_epochs.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from checkers.acknowledger import read_whole
from checkers.columns import (
    NONE,
    Ints,
    Mask,
    equal,
    ints,
    present,
    repeated,
    select,
    shared,
    texts,
    unique_pairs,
)
from checkers.controllers_log import entries
from checkers.facts import RunFacts
from checkers.findings import (
    anomaly_at,
    could_not_show,
    findings,
    number_in,
    seconds,
    texts_in,
)
from checkers.group import Group, ReplicaLog
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
    Scope,
)
from checkers.replica_reasons import listed, wrong_copy
from checkers.reused_epochs import reuse
from checkers.symptoms import OF_A_LOST_END, OF_LEADERS, TWO_LOGS
from checkers.witnesses import holds
from results.record.declared import Sight
from results.record.terms import QUORUM_TOPIC, AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "two-leaders-in-epoch"
_CLAIMS = (Source.LIST_OFFSETS, Source.METADATA_LOG, Source.ZOOKEEPER, Source.METADATA)
_SEVERAL = "several"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two leaders of one epoch.

    Attributes:
        source: The source that shows the two leaders: list-offsets, metadata-log, zookeeper,
            metadata, several of them together, replica-records, or quorum.
        leaders: The two leaders, or the nodes whose records differ.
        offset, last: The first and the last offset with different records. -1 if records show no
            difference.
        witnesses: Sentences for the evidence.
        by_log: Whether only the metadata log names a second leader.
    """

    epoch: int
    source: str
    leaders: tuple[str, ...]
    offset: int
    witnesses: tuple[str, ...]
    last: int = -1
    by_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Claims:
    """The claims that a broker led in an epoch, as columns.

    Attributes:
        epochs, leaders: The claimed epoch and leader.
        times_ns: When the claim was reported. -1 if unknown.
        sources: The source of the claim, as an index in `_CLAIMS`.
    """

    epochs: Ints
    leaders: Ints
    times_ns: Ints
    sources: Ints

    def where(self, mask: Mask) -> "Claims":
        """Return the claims for which a mask is true."""
        return Claims(
            epochs=self.epochs[mask],
            leaders=self.leaders[mask],
            times_ns=self.times_ns[mask],
            sources=self.sources[mask],
        )

    def told_again(self) -> int:
        """Return the number of claims whose epoch also occurs in an earlier claim."""
        return len(self.epochs) - len(np.unique(self.epochs))

    def disputed(self) -> Ints:
        """Return the epochs with more than one leader."""
        once, _ = unique_pairs(self.epochs, self.leaders)
        return repeated(once)


def _claims(group: Group) -> Claims:
    """Return the recorded claims of leadership that count as evidence."""
    rows = group.table("leadership")
    sources = np.full(rows.num_rows, NONE)
    for place, name in enumerate(_CLAIMS):
        sources[equal(rows, "source", name)] = place
    counts = (sources >= 0) & (ints(rows, "leader") >= 0) & (ints(rows, "leader_epoch") >= 0)
    mark, offsets = group.facts.quorum_high_watermark or 0, ints(rows, "log_offset")
    of_log = sources == _CLAIMS.index(Source.METADATA_LOG)
    counts &= ~of_log | ((offsets >= 0) & (offsets < mark))
    return Claims(
        epochs=ints(rows, "leader_epoch"),
        leaders=ints(rows, "leader"),
        times_ns=ints(rows, "observed_ns"),
        sources=sources,
    ).where(counts)


def _clashing_claims(claims: Claims) -> list[Clash]:
    """Return a clash for each source that names two leaders of an epoch.

    If each source names one leader, but these leaders differ, the result is one clash for all
    sources.
    """
    clashes = []
    for epoch in claims.disputed().tolist():
        here = claims.where(claims.epochs == epoch)
        alone = [here.where(here.sources == place) for place in np.unique(here.sources)]
        shown = [each for each in alone if len(each.disputed())]
        clashes += [_clash(epoch, each) for each in shown or [here]]
    return clashes


def _clash(epoch: int, claims: Claims) -> Clash:
    sources, log = np.unique(claims.sources).tolist(), _CLAIMS.index(Source.METADATA_LOG)
    several = len(sources) > 1
    return Clash(
        epoch=epoch,
        source=_SEVERAL if several else _CLAIMS[sources[0]],
        leaders=tuple(f"n{broker}" for broker in np.unique(claims.leaders).tolist()),
        offset=-1,
        witnesses=tuple(_witnesses(claims, name_source=several)),
        by_log=not len(claims.where(claims.sources != log).disputed()),
    )


def _witnesses(claims: Claims, *, name_source: bool) -> Iterator[str]:
    for broker, source in zip(*unique_pairs(claims.leaders, claims.sources), strict=True):
        at = claims.times_ns[(claims.leaders == broker) & (claims.sources == source)]
        told = f"{len(at)} times"
        if len(at) > 1 and at.min() >= 0:
            told += f", from {seconds(int(at.min()))} to {seconds(int(at.max()))}"
        if len(at) == 1:
            told = f"once, at {seconds(int(at[0]))}"
        yield f"n{broker}: {f'{_CLAIMS[source]}, ' if name_source else ''}{told}"


def _clashing_records(group: Group, one: ReplicaLog, other: ReplicaLog) -> tuple[int, list[Clash]]:
    """Return how many records of two replicas were compared, and one clash for each epoch."""
    left, right = shared(one.offsets, other.offsets)
    epochs = one.epochs[left]
    same = (epochs == other.epochs[right]) & (epochs >= 0)
    differ = same & (
        (one.hashes[left] != other.hashes[right]) | (one.controls[left] != other.controls[right])
    )
    clashes = []
    for epoch in np.unique(epochs[differ]).tolist():
        offsets = one.offsets[left][differ & (epochs == epoch)]
        offset = int(offsets[0])
        clashes.append(
            Clash(
                epoch=epoch,
                source="replica-records",
                leaders=(one.node, other.node),
                offset=offset,
                last=int(offsets[-1]),
                witnesses=(holds(group, one, offset), holds(group, other, offset)),
            )
        )
    return int(same.sum()), clashes


def _check(group: Group) -> Findings:
    claims = _claims(group)
    looked = [(claims.told_again(), _clashing_claims(claims))]
    for _, logs in sorted(group.logs.items()):
        pairs = combinations([logs[node] for node in sorted(logs)], 2)
        looked += [_clashing_records(group, one, other) for one, other in pairs]
    clashes = {clash for _, told in looked for clash in told}
    found = findings(
        sum(rows for rows, _ in looked),
        sorted(clashes, key=lambda each: (each.offset, each.epoch, each.source, each.leaders)),
        lambda clash: _describe(group, clash),
        lambda clash: _labels(group, clash),
    )
    why = "no leader epoch was reported twice, so two leaders in one epoch could not be detected"
    return could_not_show(found, why, given=bool(len(claims.epochs) or group.logs))


def _labels(group: Group, clash: Clash) -> Labels:
    if clash.offset >= 0:
        return reuse(group, clash.epoch, clash.offset, clash.last)
    left_behind = clash.by_log and not group.facts.recovered
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
            witnesses=tuple(
                f"{node}: according to its own file or log" for node in sorted(leaders)
            ),
        )
        for epoch, leaders in sorted(nodes.items())
        if len(leaders) > 1
    ]
    quorum = replace(group, topic=QUORUM_TOPIC, partition=0)
    return findings(led.num_rows, clashes, lambda clash: _describe(quorum, clash))


def _has_quorum(facts: RunFacts) -> bool:
    return facts.plan.has_quorum


def _describe(group: Group, clash: Clash) -> Anomaly:
    who = " and ".join(clash.leaders)
    sentences = {
        Source.LIST_OFFSETS: f"{who} both answered as leader of {group.place} in epoch"
        f" {clash.epoch}",
        Source.METADATA_LOG: f"the metadata log names {who} as leaders of {group.place} in epoch"
        f" {clash.epoch}",
        Source.METADATA: f"Metadata named {who} as leaders of {group.place} in epoch {clash.epoch}",
        _SEVERAL: f"{who} are both reported as leader of {group.place} in epoch {clash.epoch}",
        Source.ZOOKEEPER: f"ZooKeeper named {who} as leaders of {group.place} in epoch"
        f" {clash.epoch}",
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


def _why(group: Group, found: Anomaly) -> str:
    who, epoch = texts_in(found, "leaders"), number_in(found, "epoch")
    if Excuse.REUSED in found.excuses:
        return (
            "a leader returned before its session ended, and continued in its old epoch (KIP-380)"
        )
    match found.evidence.get("source"):
        case "replica-records":
            told = [wrong_copy(group, logs, found.offset, who) for logs in group.logs.values()]
            which = next(filter(None, told), "")
            return (
                Proved(which) if which else ("the run's record does not show which copy is wrong")
            )
        case "quorum":
            return _by_votes(group, epoch, who)
        case source:
            return Proved(_by_election(group, epoch, who, str(source)))


def _by_election(group: Group, epoch: int, who: Sequence[str], source: str) -> str:
    """Return a phrase with the elected leader, and with the source that names the other leader."""
    named = [each for each in entries(group) if each.epoch == epoch and each.leader >= 0]
    chosen = list(dict.fromkeys(f"n{each.leader}" for each in named))
    if len(chosen) > 1:
        where = [
            f"{node} (offset {next(each.offset for each in named if f'n{each.leader}' == node)})"
            for node in chosen
        ]
        told = [node for node in chosen if _named_by(group, epoch, node)]
        only = f"; brokers reported only {told[0]}" if len(told) == 1 else ""
        return f"the controllers' log assigns the epoch twice, to {listed(where)}{only}"
    if not chosen:
        return (
            f"no election of epoch {epoch} was recorded, so the run's record does not show"
            f" whether {listed(who)} were both elected or one of them led without an election"
        )
    others = [node for node in who if node not in chosen]
    elected = f"the controllers' log assigns epoch {epoch} only to {chosen[0]}"
    elected = f"{elected} (offset {named[0].offset})"
    knew = [node for node in others if node in _named_by(group, epoch, chosen[0])]
    if source == Source.LIST_OFFSETS:
        also = f", and its own metadata named {chosen[0]}" if knew == others else ""
        return f"{elected}: {listed(others)} answered as leader without being elected{also}"
    tellers = sorted({each for node in others for each in _named_by(group, epoch, node)})
    wrong = (
        f": only {listed(tellers)} reported {listed(others)}, which was wrong" if tellers else ""
    )
    return f"{elected}{wrong}"


def _named_by(group: Group, epoch: int, node: str) -> list[str]:
    """Return the nodes whose metadata named a broker as leader in an epoch."""
    rows = group.table("leadership")
    told = equal(rows, "source", Source.METADATA) & (ints(rows, "leader_epoch") == epoch)
    named = select(rows, told & (ints(rows, "leader") == int(node.removeprefix("n"))))
    return sorted(set(texts(named, "observer")))


def _by_votes(group: Group, epoch: int, who: Sequence[str]) -> str:
    """Return a phrase that says which nodes voted for each of the quorum's two leaders."""
    cast = [each[1:] for each in group.facts.quorum.votes if each[0] == epoch]
    votes = {node: sorted(by for by, candidate in cast if candidate == node) for node in who}
    told = [f"{listed(votes[node])} voted for {node}" for node in who if votes[node]]
    head, voters = f"in epoch {epoch} {listed(told)}", _voters(group)
    few = [node for node in who if 2 * len(votes[node]) <= len(voters)]
    # If a leader lacks its own vote, votes are missing, or the leader needed no vote.
    if few and voters and all(node in votes[node] for node in who):
        return Proved(f"{head}: {listed(few)} led without a majority")
    without = [node for node in who if not votes[node]]
    if without and told:
        return (
            f"{head}, and no recorded vote was for {listed(without)}: it led without a majority,"
            f" or the run's record lacks votes{_followed(group, epoch, without)}"
        )
    twice = sorted(set.intersection(*map(set, votes.values()))) if told else []
    if twice:
        return Proved(f"{head}: {listed(twice)} voted for both")
    return (
        "the run's record does not show the votes of that epoch, so the leader with the"
        " majority is unknown"
    )


def _followed(group: Group, epoch: int, nodes: Sequence[str]) -> str:
    """Return a phrase for each leader that reported itself as a follower during the whole epoch."""
    states = group.table("quorum_states")
    told, here = list[str](), present(states, "observed_ns") & (ints(states, "epoch") == epoch)
    for node in nodes:
        mine = select(states, here & equal(states, "node", node))
        times, leaders = ints(mine, "observed_ns"), set(ints(mine, "leader").tolist())
        if len(leaders) == 1 and set(texts(mine, "role")) == {"follower"}:
            told.append(
                f"; from {seconds(int(times.min()))} to {seconds(int(times.max()))} {node}"
                f" reported itself as a follower of n{leaders.pop()}"
            )
    return "".join(told)


def _voters(group: Group) -> frozenset[str]:
    """Return the voters of the quorum; empty if the files of any voter could not be read."""
    plan, states = group.facts.plan, group.table("quorum_states")
    nodes = frozenset(texts(select(states, ~equal(states, "role", "observer")), "node"))
    whole = len(nodes) == plan.voters and all(read_whole(group, node) for node in nodes)
    return nodes if whole else frozenset()


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="leader epoch had two leaders",
        many="leader epochs had two leaders",
        means="Two brokers acted as the leader of one partition in the same leader epoch.",
        promise="A leader epoch has one leader.",
        explains=dict.fromkeys({**OF_A_LOST_END, **OF_LEADERS}, TWO_LOGS),
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "leadership", "replica_records", "replica_states"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(),
    promise=Promise.EPOCHS,
    compares=(
        "claims of an epoch that had been claimed before, and records of one epoch on two replicas"
    ),
    chapter=Chapter.REPLICAS,
    looks_for="the leaders of an epoch from all sources together: brokers that answered as"
    " leader, elections in the metadata log or ZooKeeper, and Metadata answers. Also"
    " records of one epoch at one offset on two replicas, and controllers that led",
    meanwhile=Proof.OBSERVED,
    excuses=frozenset({Excuse.REUSED}),
)
QUORUM_CHECKER = Checker(
    name=NAME,
    why=_why,
    words=CHECKER.words,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("quorum_states",),
    sees=frozenset({Sight.QUORUM}),
    check=_check_quorum,
    premises=(),
    scope=Scope.RUN,
    applies=_has_quorum,
    promise=Promise.EPOCHS,
    compares="controllers that led, according to their own files and logs",
    chapter=Chapter.CONTROLLERS,
    looks_for="the controllers that led in an epoch, according to files and logs",
    meanwhile=Proof.OBSERVED,
    excuses=frozenset({Excuse.REUSED}),
)
