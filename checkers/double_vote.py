"""double-vote: a voter of the controllers' quorum voted for two candidates in one epoch.

Definition: one voter gave two different votes in one epoch. Votes come from `quorum-state` files
and from the voter's own log lines. A log line shows one of three things: the candidate that the
voter voted for, a vote request that the voter granted, or the voter's own candidacy. Two votes
differ if the candidates differ. If both log folders are known, votes for different folders differ,
too (KIP-853: a replaced disk is another voter).

Why it proves something: a majority elects the leader of an epoch, and two majorities share a voter.
So an epoch has one leader if each voter votes only once. A voter that votes twice can give an epoch
two leaders, even if that did not happen in this run.

What would not prove it: a pre-vote (KIP-996) is only a question, and may be granted to several
candidates. A voter may follow a leader that it did not vote for. If only one of two votes names a
folder, this proves nothing, because `quorum-state` version 0 does not store the folder. If a
voter's log files were rotated away, some votes may be missing. `rows` counts the reports of votes
that were compared.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import equal, ints, present, select, texts, words_of
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, number_in, numbers_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Proved, Scope, Waits
from checkers.replica_reasons import listed
from results.record.declared import Sight
from results.record.milestones import ENDED
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "double-vote"
Vote = tuple[int, str]
"""A candidate's id, and the id of its log folder (empty if unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleVote:
    """Two or more different votes of one voter in one epoch."""

    node: str
    epoch: int
    votes: tuple[Vote, ...]


def _conflict(votes: set[Vote]) -> bool:
    candidates = {candidate for candidate, _ in votes}
    folders = {vote for vote in votes if vote[1]}
    return len(candidates) > 1 or len(folders) > 1


def _double_votes(group: Group) -> tuple[int, list[DoubleVote]]:
    states = group.table("quorum_states")
    voted = select(states, present(states, "voted_for") & (ints(states, "epoch") >= 0))
    nodes = np.array(texts(voted, "node"), dtype=object)
    epochs, candidates = ints(voted, "epoch"), ints(voted, "voted_for")
    folders = np.array(texts(voted, "voted_directory"), dtype=object)
    found = []
    for node in words_of(voted, "node"):
        for epoch in np.unique(epochs[nodes == node]).tolist():
            mine = (nodes == node) & (epochs == epoch)
            votes = set(zip(candidates[mine].tolist(), folders[mine].tolist(), strict=True))
            if _conflict(votes):
                found.append(DoubleVote(node=node, epoch=epoch, votes=tuple(sorted(votes))))
    return voted.num_rows, found


def _check(group: Group) -> Findings:
    rows, doubled = _double_votes(group)
    return findings(
        rows,
        sorted(doubled, key=lambda each: (each.epoch, each.node)),
        lambda each: _describe(group, each),
    )


def _describe(group: Group, doubled: DoubleVote) -> Anomaly:
    who = [
        f"n{candidate}" + (f" (log folder {folder})" if folder else "")
        for candidate, folder in doubled.votes
    ]
    return anomaly_at(
        group,
        NAME,
        sentence=f"{doubled.node} voted for {' and for '.join(who)} in epoch {doubled.epoch} of"
        " the controllers' quorum, according to its own file or logs",
        evidence={
            "node": doubled.node,
            "epoch": doubled.epoch,
            "candidates": [candidate for candidate, _ in doubled.votes],
            "directories": [folder for _, folder in doubled.votes],
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.has_quorum


def _why(group: Group, found: Anomaly) -> str:
    node, epoch = str(found.evidence.get("node")), number_in(found, "epoch")
    states = group.table("quorum_states")
    here = select(states, ints(states, "epoch") == epoch)
    stood = set(texts(select(here, equal(here, "role", "candidate", "leader")), "node"))
    led = set(texts(select(here, equal(here, "role", "leader")), "node"))
    candidates = list(dict.fromkeys(f"n{each}" for each in numbers_in(found, "candidates")))
    told = [f"{each} led in that epoch" for each in candidates if each in led]
    told += [f"{each} was a candidate in that epoch" for each in candidates if each in stood - led]
    never = [each for each in candidates if each not in stood]
    if told and never:
        told += [f"no log shows a candidacy of {listed(never)}"]
    hit = any(node in each.nodes for each in group.facts.disturbances)
    forgot = (
        f"no fault hit {node}, so it did not forget a vote in a restart: it ignored its first vote"
    )
    ended = any(
        each.name == ENDED and each.detail.get("node") == node for each in group.facts.milestones
    )
    if hit or ended:
        why = f"a fault hit {node}" if hit else f"{node} ended by itself"
        forgot = f"{why}, so it lost its first vote or ignored it"
    return Proved("; ".join([*told, forgot]))


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="controller voted twice in an epoch",
        many="controllers voted twice in an epoch",
        means="One voter gave two different votes in one epoch of the quorum.",
        promise="A controller votes once in an epoch of the quorum.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("quorum_states",),
    sees=frozenset({Sight.QUORUM}),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.EPOCHS,
    compares="votes of controllers",
    chapter=Chapter.CONTROLLERS,
    looks_for="all votes of a voter in an epoch: from `quorum-state` files, and from log lines"
    " about the voter's state, its granted vote requests and its own candidacies",
    waits=Waits.STOPPED,
)
