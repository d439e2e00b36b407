"""Find the elections of the controllers' quorum, and the states and votes of the voters.

The source is `quorum_states`. Rows with a time are answers that name a leader and the leader's
epoch. Rows without a time come from the controllers' own logs, in order: the states and the votes
of a voter (KIP-595, KIP-996).

A row without a time gets the time at which the row's epoch, or a later epoch, was first reported. A
row in which a voter stops being leader or follower gets the time of the next epoch. Rows with equal
times are ordered by epoch. Only states of the same voter form pairs. At equal times, the end of a
state comes before the states of the next epoch. The votes of an epoch come before the election in
that epoch.

What would not prove it: states of epochs after the last reported epoch, and the end of a leader's
or follower's state in that epoch. Stopping the servers causes such states. A log that was deleted
by log rotation. If no log contains the states, the states are unknown, because answers do not
contain states.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import equal, ints, present, select, texts, words_of
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.quorum import votes_of
from checkers.transitions.causes import cause_of
from checkers.transitions.events import UNTIMED, Events, Places, end_of_run_ns
from results.record.clock import NS_PER_S
from results.record.terms import QUORUM_TOPIC
from results.record.transitions import ROLES, TRANSITIONS

_LATE_NS = 2 * NS_PER_S
"""The maximum age of an answer at its recorded time."""
_SETTLED = ("leader", "follower")
_BEFORE, _MOST = -1_000_000, 500
"""Two numbers that order rows with equal times: a short time in nanoseconds, and the maximum number
of epochs."""
_ROUNDS = ("elected-next-epoch", "elected-after-1-round", "elected-after-2+-rounds")


class _Epochs:
    """The times at which the quorum's epochs were reported.

    Args:
        told: Rows of `quorum_states` with a time, ordered by time.
    """

    def __init__(self, told: pa.Table) -> None:
        self._times = ints(told, "observed_ns")
        self._epochs = ints(told, "epoch")
        self._reached = np.maximum.accumulate(self._epochs) if len(self._epochs) else self._epochs
        self.last = int(self._epochs.max(initial=-1))

    def first_ns(self, epoch: int) -> int:
        """Return the time at which an epoch, or a later one, was first reported; else `UNTIMED`."""
        at = int(np.searchsorted(self._reached, epoch))
        return int(self._times[at]) if at < len(self._times) else UNTIMED

    def own_ns(self, epoch: int) -> int:
        """Return a time close to `first_ns` that is later than the time of any lower epoch."""
        at = int(np.searchsorted(self._reached, epoch))
        lower = int(self._reached[at - 1]) if at else -1
        first_ns = self.first_ns(epoch)
        return first_ns + 2 * min(epoch - lower, _MOST) if first_ns >= 0 else UNTIMED

    def last_ns(self, epoch: int, until_ns: int) -> int:
        """Return the time of the last report before `until_ns` of an epoch up to `epoch`; or 0."""
        times = self._times[(self._epochs <= epoch) & (self._times < until_ns)]
        return int(times.max(initial=0))


def find(group: Group, places: Places) -> None:
    """Add the elections, votes and states of the quorum to the transitions in `places`."""
    states = group.table("quorum_states")
    if not states.num_rows:
        return
    times = ints(states, "observed_ns")
    told = select(states, (times >= 0) & (times < end_of_run_ns(group.facts)))
    told = told.sort_by("observed_ns")
    epochs, events = _Epochs(told), places.at(QUORUM_TOPIC)
    _add_elections(group.facts, states, epochs, events)
    _add_votes(states, epochs, events)
    _add_two_leaders(told, events)
    # A row from a `quorum-state` file has a log end. It repeats the node's last state.
    logged = select(states, ~present(states, "observed_ns") & ~present(states, "log_end_offset"))
    for node in words_of(logged, "node"):
        _add_roles(node, select(logged, equal(logged, "node", node)), epochs, events)


def _add_elections(facts: RunFacts, states: pa.Table, epochs: _Epochs, events: Events) -> None:
    led = select(states, (ints(states, "leader") >= 0) & (ints(states, "epoch") >= 0))
    leaders = dict(
        sorted(zip(ints(led, "epoch").tolist(), ints(led, "leader").tolist(), strict=True))
    )
    for (before, last), (epoch, leader) in pairwise(leaders.items()):
        if (at_ns := epochs.own_ns(epoch)) < 0:
            continue  # The epoch was not reported during the run.
        at_ns += 1
        rounds = min(epoch - before, len(_ROUNDS)) - 1
        events.add(f"quorum/{_ROUNDS[rounds]}", at_ns)
        if leader == last:
            events.add("quorum/same-leader", at_ns)
        else:
            span = (epochs.last_ns(before, at_ns), at_ns)
            events.add(f"quorum/{cause_of(facts, f'n{last}', span)}", at_ns)


def _add_votes(states: pa.Table, epochs: _Epochs, events: Events) -> None:
    votes: dict[int, set[str]] = {}
    of_nodes: dict[str, dict[int, str]] = {}
    for epoch, node, candidate in sorted(votes_of(states)):
        if epoch <= epochs.last:
            votes.setdefault(epoch, set()).add(candidate)
            of_nodes.setdefault(node, {})[epoch] = candidate
    for epoch in (each for each, told in votes.items() if len(told) > 1):
        events.add("quorum/split-vote", epochs.own_ns(epoch))
    for mine in of_nodes.values():
        for (before, last), (epoch, candidate) in pairwise(sorted(mine.items())):
            if epoch == before + 1:
                events.add("quorum/voted-twice-running", epochs.own_ns(epoch))
            if candidate != last:
                events.add("quorum/changed-vote", epochs.own_ns(epoch))


def _add_two_leaders(told: pa.Table, events: Events) -> None:
    """Add, for each epoch, the first answer of its leader that is certainly after a later leader's.

    An answer may be `_LATE_NS` older than its recorded time.
    """
    lead = select(told, equal(told, "role", "leader"))
    times, epochs = ints(lead, "observed_ns"), ints(lead, "epoch")
    for epoch in np.unique(epochs).tolist():
        later = times[epochs > epoch]
        if (
            len(later)
            and (late := times[(epochs == epoch) & (times - _LATE_NS > later.min())]).size
        ):
            events.add("quorum/two-say-they-lead", int(late.min()))


def _add_roles(node: str, mine: pa.Table, epochs: _Epochs, events: Events) -> None:
    """Add the state changes of one voter to the transitions, in the order of its rows."""
    settled, last_ns = -1, UNTIMED
    for (before, role), (after, then) in pairwise(_told(mine)):
        ends = after == settled
        if after + ends > epochs.last:
            return
        # One answer may be the first report of several epochs.
        at_ns = max(epochs.first_ns(after + ends) + (_BEFORE if ends else 0), last_ns + 1)
        if role != then or after > before:
            name = f"quorum/{role}-to-{then}"
            events.add(name if name in TRANSITIONS else "quorum/other-step", at_ns, of=node)
            last_ns = at_ns
        if then in _SETTLED:
            settled = after


def _told(mine: pa.Table) -> Iterator[tuple[int, str]]:
    """Yield (epoch, state) for each row that contains both."""
    known = select(mine, equal(mine, "role", *ROLES) & (ints(mine, "epoch") >= 0))
    yield from zip(ints(known, "epoch").tolist(), texts(known, "role"), strict=True)
