"""What the stories of the controllers' quorum share: who shall win elections, and what to wait for.

Elections are a matter of chance in Kafka (KIP-595: random timeouts), and a story wants its roles
known. A follower that still hears its leader refuses its vote (KIP-996), and a candidate that was
refused tries again at its election timeout. So with these settings n101 wins the first election,
n102 the next one without n101, and n101 the next one without n102.
"""

from harness.scenarios.protocol import Condition, Seen, Sight

CONTROLLERS = ("n101", "n102", "n103")
FIRST, SECOND, THIRD = CONTROLLERS

QUIET = {"metadata.max.idle.interval.ms": "3000"}
"""By default a leader without work writes a record of no meaning twice a second."""

TIMEOUTS = {
    # Asks for votes long before the others have waited for a leader.
    FIRST: {
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.fetch.timeout.ms": "6000",
    },
    # Free to vote for n101 at the start, however late that one starts.
    SECOND: {
        "controller.quorum.election.timeout.ms": "8000",
        "controller.quorum.fetch.timeout.ms": "4000",
    },
    # First to give up on a leader, so that it is free to vote; refused, it waits the longest.
    THIRD: {
        "controller.quorum.election.timeout.ms": "15000",
        "controller.quorum.fetch.timeout.ms": "2000",
    },
}


def follows(node: str, leader: str, *, epoch: int) -> Condition:
    """Wait until a controller's `quorum-state` names this leader, in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum_file(node)
        if state is None:
            return Seen(holds=False, saw="no quorum-state")
        saw = f"leader {state.leader or 'none'}, epoch {state.epoch}"
        return Seen(holds=(state.leader, state.epoch) == (leader, epoch), saw=saw)

    return Condition(what=f"quorum-state of {node} says: leader {leader}, epoch {epoch}", look=look)


def voted(node: str, candidate: str, *, epoch: int) -> Condition:
    """Wait until a controller's `quorum-state` says that it voted so in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum_file(node)
        if state is None:
            return Seen(holds=False, saw="no quorum-state")
        saw = f"voted for {state.voted_for or 'nobody'} in epoch {state.epoch}"
        return Seen(holds=(state.voted_for, state.epoch) == (candidate, epoch), saw=saw)

    return Condition(what=f"{node} has voted for {candidate} in epoch {epoch}", look=look)


def leads_quorum(asked: str, leader: str, *, epoch: int) -> Condition:
    """Wait until DescribeQuorum, asked of a node, names this leader, in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum(asked)
        if state is None:
            return Seen(holds=False, saw="no answer")
        saw = f"leader {state.leader or 'none'}, epoch {state.epoch}"
        return Seen(holds=(state.leader, state.epoch) == (leader, epoch), saw=saw)

    return Condition(what=f"{asked} is told: {leader} leads in epoch {epoch}", look=look)


def longer(node: str, than: str, *, by: int) -> Condition:
    """Wait until the metadata log of one controller goes beyond another's by some records."""

    def look(sight: Sight) -> Seen:
        one, other = sight.files(node), sight.files(than)
        if one is None or other is None:
            return Seen(holds=False, saw="no files")
        saw = f"{node} ends at {one.log_end}, {than} at {other.log_end}"
        return Seen(holds=one.log_end >= other.log_end + by, saw=saw)

    what = f"the metadata log of {node} goes at least {by} records beyond that of {than}"
    return Condition(what=what, look=look)


def level(*nodes: str) -> Condition:
    """Wait until the metadata logs of some controllers end at one offset."""

    def look(sight: Sight) -> Seen:
        found = {node: sight.files(node) for node in nodes}
        ends = {node: files.log_end for node, files in found.items() if files is not None}
        saw = ", ".join(f"{node} ends at {end}" for node, end in ends.items()) or "no files"
        return Seen(holds=len(ends) == len(nodes) and len(set(ends.values())) == 1, saw=saw)

    return Condition(what=f"the metadata logs of {', '.join(nodes)} end at one offset", look=look)
