"""double-vote: a voter of the controllers' quorum voted for two candidates in one epoch.

Definition: two different votes of one voter in one epoch, from `quorum-state` files or from its own
logs: whom it says that it voted for (each state that it goes through names it), whose request for
its vote it granted, and itself as a candidate. Two votes differ if the candidates do, or, where
both are known, their log folders (KIP-853: a disk that was replaced is another voter).

Why it proves something: a leader of an epoch is who was voted for by a majority, and two majorities
have a voter in common. If no voter votes twice, an epoch has one leader; a voter that does may have
made two, whether or not it came to that.

What would not prove it: a pre-vote (KIP-996), which is a question only, and may be granted to many;
that a voter follows a leader for whom it did not vote, as all do who were outvoted; a vote without
the folder beside one with it, because a `quorum-state` of version 0 forgets the folder. A voter
whose logs were rotated away was perhaps not seen voting: `rows` says how many votes were seen.
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
"""A candidate's id, and the id of its log folder, empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleVote:
    """Two votes or more of a voter in an epoch."""

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
        sentence=f"{doubled.node} voted for {' and for '.join(who)} in epoch {doubled.epoch} of the"
        f" controllers' quorum, by its own file or logs",
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
    told = [f"{each} led that epoch" for each in candidates if each in led]
    told += [f"{each} stood in it" for each in candidates if each in stood - led]
    never = [each for each in candidates if each not in stood]
    if told and never:
        told += [f"no log shows that {listed(never)} stood"]
    hit = any(node in each.nodes for each in group.facts.disturbances)
    forgot = f"no fault hit {node}, so it forgot no vote in a restart: it did not heed its first"
    ended = any(
        each.name == ENDED and each.detail.get("node") == node for each in group.facts.milestones
    )
    if hit or ended:
        why = f"a fault hit {node}" if hit else f"{node} ended by itself"
        forgot = f"{why}, so it lost its first vote, or did not heed it"
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
    looks_for="all votes of a voter in an epoch: `quorum-state` files, each state that its log"
    " names, each request for its vote that its log says it granted, and itself as a"
    " candidate",
    waits=Waits.STOPPED,
)
