"""Settings and conditions that all scenarios about the controllers' quorum share.

In Kafka, chance decides elections (KIP-595: random timeouts), but a scenario needs fixed winners. A
follower that still hears its leader does not vote for a candidate (KIP-996). A refused candidate
tries again after its election timeout. So with these settings, n101 wins the first election. When
n101 stops, n102 wins, and when n102 stops, n101 wins.
"""

from harness.scenarios.protocol import Condition, Seen, Sight

CONTROLLERS = ("n101", "n102", "n103")
FIRST, SECOND, THIRD = CONTROLLERS

QUIET = {"metadata.max.idle.interval.ms": "3000"}
"""This setting makes no-op records rarer: by default, an idle leader writes two of them a
second."""

TIMEOUTS = {
    # n101 asks for votes long before the others time out.
    FIRST: {
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.fetch.timeout.ms": "6000",
    },
    # At the start, n102 is free to vote for n101, even if n101 starts late.
    SECOND: {
        "controller.quorum.election.timeout.ms": "8000",
        "controller.quorum.fetch.timeout.ms": "4000",
    },
    # n103 gives up a leader first, so that it is free to vote. After a refusal it waits longest.
    THIRD: {
        "controller.quorum.election.timeout.ms": "15000",
        "controller.quorum.fetch.timeout.ms": "2000",
    },
}


def follows(node: str, leader: str, *, epoch: int) -> Condition:
    """Wait until a controller's `quorum-state` names this leader in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum_file(node)
        if state is None:
            return Seen(holds=False, saw="no quorum-state")
        saw = f"leader {state.leader or 'none'}, epoch {state.epoch}"
        return Seen(holds=(state.leader, state.epoch) == (leader, epoch), saw=saw)

    return Condition(what=f"quorum-state of {node} has leader {leader}, epoch {epoch}", look=look)


def voted(node: str, candidate: str, *, epoch: int) -> Condition:
    """Wait until a controller's `quorum-state` has a vote for this candidate in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum_file(node)
        if state is None:
            return Seen(holds=False, saw="no quorum-state")
        saw = f"voted for {state.voted_for or 'no candidate'} in epoch {state.epoch}"
        return Seen(holds=(state.voted_for, state.epoch) == (candidate, epoch), saw=saw)

    return Condition(what=f"{node} has voted for {candidate} in epoch {epoch}", look=look)


def leads_quorum(asked: str, leader: str, *, epoch: int) -> Condition:
    """Wait until a node's response to DescribeQuorum names this leader in this epoch."""

    def look(sight: Sight) -> Seen:
        state = sight.quorum(asked)
        if state is None:
            return Seen(holds=False, saw="no answer")
        saw = f"leader {state.leader or 'none'}, epoch {state.epoch}"
        return Seen(holds=(state.leader, state.epoch) == (leader, epoch), saw=saw)

    return Condition(what=f"{asked} gets the answer: {leader} leads in epoch {epoch}", look=look)


def longer(node: str, than: str, *, by: int) -> Condition:
    """Wait until one controller's metadata log is at least `by` records longer than another's."""

    def look(sight: Sight) -> Seen:
        one, other = sight.files(node), sight.files(than)
        if one is None or other is None:
            return Seen(holds=False, saw="no files")
        saw = f"{node} ends at {one.log_end}, {than} at {other.log_end}"
        return Seen(holds=one.log_end >= other.log_end + by, saw=saw)

    what = f"the metadata log of {node} is at least {by} records longer than that of {than}"
    return Condition(what=what, look=look)


def level(*nodes: str) -> Condition:
    """Wait until the metadata logs of some controllers end at the same offset."""

    def look(sight: Sight) -> Seen:
        found = {node: sight.files(node) for node in nodes}
        ends = {node: files.log_end for node, files in found.items() if files is not None}
        saw = ", ".join(f"{node} ends at {end}" for node, end in ends.items()) or "no files"
        return Seen(holds=len(ends) == len(nodes) and len(set(ends.values())) == 1, saw=saw)

    return Condition(what=f"the metadata logs of {', '.join(nodes)} end at one offset", look=look)
