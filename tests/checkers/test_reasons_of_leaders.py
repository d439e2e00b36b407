"""What causes say of elections, votes and in-sync replicas: each clause, and a hair beside."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers import (
    acknowledged_below_min_isr,
    double_vote,
    forbidden_election,
    incomplete_leader,
    incomplete_quorum_leader,
    isr_not_restored,
    two_leaders,
)
from checkers.facts import RunFacts, UncleanOrder
from checkers.group import Group
from checkers.protocol import Proved
from checkers.quorum import QuorumFacts
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.faithful_quorum import QUORUM_PLACE
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    group,
    leads,
    log,
    whole_run,
)
from tests.checkers.reasons import (
    KILL,
    NODES,
    announced,
    cause,
    look,
    metadata,
    written,
)

# Two leaders of an epoch


def test_who_answered_without_being_elected() -> None:
    both = [leads(1, 0), leads(2, 0), written(2, 0, 5, 2, 1)]
    head = (
        "the controllers' log assigns epoch 0 only to n2 (offset 5): n1 answered as leader"
        " without being elected"
    )
    assert cause(two_leaders.CHECKER, group(leadership=both)) == head
    knew = [*both, metadata("n1", 2, 0, 3)]
    assert cause(two_leaders.CHECKER, group(leadership=knew)) == (
        f"{head}, and its own metadata named n2"
    )
    other = [*both, metadata("n3", 2, 0, 3)]
    assert cause(two_leaders.CHECKER, group(leadership=other)) == head
    assert cause(two_leaders.CHECKER, group(leadership=both[:2])).startswith(
        "no election of epoch 0 was recorded"
    )


def test_who_named_a_wrong_leader() -> None:
    told = [metadata("n1", 3, 0, 3), metadata("n2", 2, 0, 3), written(2, 0, 5, 2, 1)]
    assert cause(two_leaders.CHECKER, group(leadership=told)) == (
        "the controllers' log assigns epoch 0 only to n2 (offset 5): only n1 reported n3, which"
        " was wrong"
    )


def test_an_epoch_that_the_controllers_gave_twice() -> None:
    twice = [written(2, 0, 5, 2, 1), written(1, 0, 6, 2, 1)]
    told = "the controllers' log assigns the epoch twice, to n2 (offset 5) and n1 (offset 6)"
    assert cause(two_leaders.CHECKER, group(leadership=twice)) == told
    only = [*twice, metadata("n3", 2, 0, 3)]
    assert cause(two_leaders.CHECKER, group(leadership=only)) == f"{told}; brokers reported only n2"


@pytest.mark.parametrize(
    ("votes", "told"),
    [
        ({(2, "n2", "n2"), (2, "n3", "n2")},
         ("in epoch 2 n2 and n3 voted for n2, and no recorded vote was for n1: it led without a"
          " majority, or the run's record lacks votes")),
        ({(2, "n2", "n2"), (2, "n3", "n2"), (2, "n1", "n1"), (2, "n3", "n1")},
         "in epoch 2 n1 and n3 voted for n1 and n2 and n3 voted for n2: n3 voted for both"),
        ({(1, "n2", "n2")},
         ("the run's record does not show the votes of that epoch, so the leader with the majority"
         " is unknown")),
    ],
)  # fmt: skip
def test_votes_show_which_of_two_controllers_was_elected(
    votes: set[tuple[int, str, str]], told: str
) -> None:
    led = [{"node": node, "role": "leader", "epoch": 2} for node in ("n1", "n2")]
    about = facts(quorum=QuorumFacts(votes=frozenset(votes)))
    assert cause(two_leaders.QUORUM_CHECKER, whole_run(about, quorum_states=led)) == told


def test_a_leader_without_votes_that_called_itself_a_follower() -> None:
    votes = frozenset({(2, "n2", "n2"), (2, "n3", "n2")})
    led: list[Row] = [{"node": node, "role": "leader", "epoch": 2} for node in ("n1", "n2")]
    looks: list[Row] = [
        {"node": "n1", "role": "follower", "epoch": 2, "leader": 2, "observed_ns": at * S}
        for at in (3, 8)
    ]
    about = facts(quorum=QuorumFacts(votes=votes))

    def told(*rows: Row) -> str:
        return cause(two_leaders.QUORUM_CHECKER, whole_run(about, quorum_states=[*led, *rows]))

    follower = "; from 3.000 s to 8.000 s n1 reported itself as a follower of n2"
    assert told(*looks).endswith(follower)
    assert not told(looks[0], {**looks[1], "role": "leader", "leader": 1}).endswith(follower)


def test_who_led_without_a_majority_shows_where_all_votes_were_read() -> None:
    votes = frozenset({(2, "n2", "n2"), (2, "n3", "n2"), (2, "n1", "n1")})
    led: list[Row] = [{"node": node, "role": "leader", "epoch": 2} for node in ("n1", "n2")]
    rows = [*led, {"node": "n3", "role": "follower", "epoch": 2}]
    about = facts(quorum=QuorumFacts(votes=votes), collected_nodes=frozenset(NODES))
    told = cause(two_leaders.QUORUM_CHECKER, whole_run(about, quorum_states=rows))
    assert isinstance(told, Proved)
    assert (
        told == "in epoch 2 n1 voted for n1 and n2 and n3 voted for n2: n1 led without a majority"
    )
    observer = [*led, {"node": "n3", "role": "observer", "epoch": 2}]
    for other, states in (
        (replace(about, unreadable_nodes=frozenset({"n3"})), rows),
        (replace(about, collected_nodes=frozenset({"n1", "n2"})), rows),
        (about, observer),
        (replace(about, quorum=QuorumFacts(votes=votes - {(2, "n1", "n1")})), rows),
    ):
        unsure = cause(two_leaders.QUORUM_CHECKER, whole_run(other, quorum_states=states))
        assert not isinstance(unsure, Proved)


def state_of(node: str, role: str, *, voted: int | None = None) -> Row:
    return {"node": node, "role": role, "epoch": 2, "voted_for": voted}


def test_a_second_vote_is_not_forgotten_where_no_fault_hit_the_voter() -> None:
    states = [state_of("n2", "leader"), state_of("n3", "voted", voted=2),
              state_of("n3", "voted", voted=1)]  # fmt: skip
    head = "n2 led in that epoch; no log shows a candidacy of n1; "
    assert cause(double_vote.CHECKER, whole_run(quorum_states=states)) == (
        f"{head}no fault hit n3, so it did not forget a vote in a restart: it ignored its first"
        " vote"
    )
    hit = whole_run(facts(disturbances=(KILL,)), quorum_states=states)
    assert cause(double_vote.CHECKER, hit) == (
        f"{head}a fault hit n3, so it lost its first vote or ignored it"
    )
    for node, so in (("n3", "n3 ended by itself, so it lost"), ("n2", "no fault hit n3, so")):
        ended = Milestone(name="broker-ended", at_ns=5 * S, detail={"node": node, "code": "1"})
        crashed = facts(milestones=(*facts().milestones, ended))
        assert f"{head}{so}" in cause(double_vote.CHECKER, whole_run(crashed, quorum_states=states))
    elsewhere = replace(KILL, nodes=frozenset({"n2"}))
    other = whole_run(facts(disturbances=(elsewhere,)), quorum_states=states)
    assert "no fault hit n3" in cause(double_vote.CHECKER, other)
    stood = [*states, state_of("n1", "candidate", voted=1)]
    assert "n2 led in that epoch; n1 was a candidate in that epoch; no fault" in cause(
        double_vote.CHECKER, whole_run(quorum_states=stood)
    )


# Leaders that lack what was committed


def begun(*rows: Row, about: RunFacts | None = None, states: tuple[Row, ...] = ()) -> Group:
    """n1 announced 2 in epoch 0 at 4 s; epoch 3 begins at offset 1, and n2 leads in it."""
    held = [row for node in NODES for row in log(node, (0, A), (3, C))]
    led = [announced(1, 0, 2, 4), {**leads(2, 3, at=9 * S), "incarnation": 1}, *rows]
    return group(about, leadership=led, replica_records=held, replica_states=[*states])


def test_a_clean_election_before_any_fault() -> None:
    told = "the controllers elected n2 cleanly, before any fault (ISR [2, 1])"
    clean = written(2, 3, 7, 2, 1)
    assert cause(incomplete_leader.CHECKER, begun(clean)) == told
    killed = begun(clean, about=facts(disturbances=(KILL,)))
    assert cause(incomplete_leader.CHECKER, killed) == (
        "the controllers elected n2 cleanly (ISR [2, 1])"
    )


def test_where_an_earlier_epoch_goes_on_behind_no_leader_need_have_begun() -> None:
    def told(*records: tuple[int, int], led: Sequence[Row] = ()) -> tuple[str, str]:
        held = [row for node in NODES for row in log(node, *records)]
        on = group(leadership=[announced(1, 0, 3, 4), *led], replica_records=held)
        (first,) = incomplete_leader.CHECKER.check(on).anomalies
        return first.sentence, incomplete_leader.CHECKER.why(on, first)

    lone = ((0, A), (1, B), (0, C))
    head, why = told(*lone)
    assert head.startswith(
        "log-0-0 has a record of epoch 1 below what had been committed: broker 1"
    )
    assert why == (
        "in n1's log offset 1 has epoch 1 but epoch 0 comes after it: epoch 1 may be wrong"
        " there, and possibly no record is missing"
    )
    nobody = told(*lone, led=[written(-1, 1, 9, 1, 2)])[1]
    assert "epoch 1, which has no leader in the controllers' log, but epoch 0" in nobody
    head, why = told((0, A), (1, B), (1, C))
    assert "began without offsets 1 to 2" in head
    assert why.startswith("the run's record does not show which broker began that epoch")


def test_an_unclean_election_that_a_fault_ordered() -> None:
    unclean = written(2, 3, 7, 2, unclean=True)
    order = UncleanOrder(
        topic="log-0", partition=0, after_epoch=2, epoch=3, leader="n2", seen_ns=9 * S
    )
    for orders, told in (
        ((order,), "n2 was elected uncleanly, as ordered by a fault of the run"),
        ((replace(order, epoch=2, after_epoch=1),), "n2 was elected uncleanly"),
    ):
        about = facts(unclean_orders=orders)
        assert cause(incomplete_leader.CHECKER, begun(unclean, about=about)) == told


def test_what_the_elected_held_before() -> None:
    knew = metadata("n2", 1, 0, 6)
    fell = begun(knew, states=(look("n2", 2, 5), look("n2", 1, 8)))
    assert cause(incomplete_leader.CHECKER, fell) == (
        "its log end offset was 2 at 5.000 s, but 1 at 8.000 s: it had them and dropped them"
    )
    had = begun(knew, states=(look("n2", 2, 5), look("n3", 2, 5)))
    assert cause(incomplete_leader.CHECKER, had) == (
        "its log end offset had been 2 at 5.000 s, so it had them; n3 had them"
    )
    less = begun(knew, states=(look("n2", 1, 5),))
    assert cause(incomplete_leader.CHECKER, less) == (
        "its last known log end offset was 1, at 5.000 s"
    )
    once = begun(knew, states=(look("n2", 1, 3), look("n2", 2, 7)))
    assert cause(incomplete_leader.CHECKER, once) == (
        "its log end offset was 1 at 3.000 s, before these records were announced, and no later"
        " observation shows whether it got them"
    )
    # Behind its last word of an older epoch it may have led already, and written others.
    later = begun(knew, states=(look("n2", 2, 7), look("n3", 2, 7)))
    assert cause(incomplete_leader.CHECKER, later) == (
        "no observation of its log in that time shows whether it had them"
    )
    assert cause(incomplete_leader.CHECKER, begun(knew)).startswith(
        "the run's record shows neither how"
    )


def test_who_was_short_after_the_announcement_in_one_life_had_not_got_them() -> None:
    knew, clean = metadata("n2", 1, 0, 4.5), written(2, 3, 7, 2, 1)
    states = (look("n2", 1, 3), look("n2", 1, 6.5))

    def told(*rows: Row, states: tuple[Row, ...] = states, cuts: tuple[Row, ...] = ()) -> str:
        on = begun(knew, *rows, about=facts(collected_nodes=frozenset(NODES)), states=states)
        more = group(truncations=[*cuts]).table("truncations")
        return cause(
            incomplete_leader.CHECKER, replace(on, tables={**on.tables, "truncations": more})
        )

    short = (
        "its log end offset was 1 at 6.500 s, after that announcement, and no truncation of its"
        " log is recorded: it did not yet have these records"
    )
    without = ", so n1 announced them although a replica of its ISR lacked them"
    assert told() == short
    assert told(written(1, 0, 5, 1, 2), clean).endswith(f"{short}{without}")
    assert told(written(2, 3, 7, 2, unclean=True)) == f"n2 was elected uncleanly; {short}"
    line = {"node": "n2", "from_offset": 1, "to_offset": None, "observed_ns": None}
    restarted = (states[0], {**states[1], "incarnation": 2})
    reached = (states[0], look("n2", 2, 4.8), states[1])
    early = (states[0], look("n2", 1, 6))  # Its end may be as old as the announcement.
    for less in (told(cuts=(line,)), told(states=restarted), told(states=states[1:]),
                 told(states=reached), told(states=early)):  # fmt: skip
        assert "had not got" not in less
    assert short in told(cuts=({**line, "node": "n3"},))
    # A leader from the ELR (KIP-966), or one that joined the ISR later, was not of its ISR then.
    for isrs in ((), (written(1, 0, 5, 1),), (written(1, 0, 5, 1), written(1, 0, 6, 1, 2))):
        assert told(*isrs, clean).endswith(short)


def cut_off(*rows: Row, states: tuple[Row, ...] = (), cut: bool = True) -> str:
    """n2 led epoch 3 and had a tail to 20; n1 led epoch 4 from 10 on, and announced 15 at 5 s."""
    records = [*((3, A + at) for at in range(10)), (5, B + 60)]
    led = [announced(2, 3, 10, 1), announced(1, 4, 15, 5), announced(2, 5, 11, 12), *rows,
           written(2, 5, 9, 2, unclean=True)]  # fmt: skip
    line = {"node": "n2", "from_offset": 10, "to_offset": None, "observed_ns": None}
    on = group(
        facts(collected_nodes=frozenset(NODES)), leadership=led,
        replica_records=[row for node in NODES for row in log(node, *records)],
        truncations=[line] * cut, replica_states=[look("n1", 15, 5), *states],
    )  # fmt: skip
    return cause(incomplete_leader.CHECKER, on)


def test_a_tail_of_its_own_that_reaches_as_far_is_not_what_was_committed() -> None:
    head, heard = "n2 was elected uncleanly; its log", metadata("n2", 1, 4, 8.4)
    fell = (look("n2", 20, 6), look("n2", 10, 8), look("n3", 15, 6))
    assert cut_off(metadata("n2", 1, 4, 7.5), heard, states=fell) == (
        f"{head} end offset was 20 at 6.000 s, but 10 at 8.000 s, perhaps with other records; n1"
        " had them; the log of n3 had reached that offset, perhaps with other records"
    )
    assert cut_off(heard, states=(look("n2", 20, 3),)) == (
        f"{head} end offset had been 20 at 3.000 s, perhaps with other records; n1 had them"
    )
    # It knew the epoch, and may not have cut its tail off yet; one that grew since has.
    knew = (metadata("n2", 1, 4, 4), heard)
    dropped = "8.000 s: it had them and dropped them; n1"
    assert "perhaps" in cut_off(*knew, states=fell[:2])
    assert dropped in cut_off(*knew, states=(look("n2", 12, 5), *fell[:2]))
    assert dropped in cut_off(*knew, states=fell[:2], cut=False)


def test_what_a_leader_between_them_wrote_is_not_what_was_committed() -> None:
    records = [*((3, A + at) for at in range(10)), (5, B), (6, C)]
    led = [announced(1, 4, 15, 5), announced(3, 5, 11, 7), announced(2, 6, 12, 12),
           metadata("n2", 1, 4, 4), metadata("n2", 3, 5, 9)]  # fmt: skip
    on = group(
        facts(collected_nodes=frozenset(NODES)), leadership=led,
        replica_records=[row for node in NODES for row in log(node, *records)],
        replica_states=[look("n2", 10, 6), look("n2", 20, 8)],
    )  # fmt: skip
    told = [incomplete_leader.CHECKER.why(on, each) for each in incomplete_leader.CHECKER.check(
        on).anomalies if each.evidence["epoch"] == 6]  # fmt: skip
    assert told == ["its log end offset had been 20 at 8.000 s, perhaps with other records"]


def test_votes_for_a_controller_that_lacked_what_was_committed() -> None:
    quorum = QuorumFacts(
        announced={1: 3}, leaders={2: ("n2",)},
        votes=frozenset({(2, "n3", "n2"), (2, "n2", "n2"), (1, "n1", "n1")}),
    )  # fmt: skip
    records = [{**each, **QUORUM_PLACE} for each in log("n1", (1, A), (2, B))]
    for told, head in (
        (quorum, "n2 and n3 voted for n2 in epoch 2 although the log of n2 lacked"),
        (replace(quorum, votes=frozenset()), "n2 led in epoch 2 although the log of n2 lacked"),
        (
            replace(quorum, leaders={}),
            ("the run's record does not show which controller led in epoch 2"),
        ),
    ):
        on = replace(group(facts(quorum=told), replica_records=records), **QUORUM_PLACE)
        assert cause(incomplete_quorum_leader.CHECKER, on).startswith(head)


# Elections and in-sync replicas


def forbidden(*rows: Row, about: RunFacts | None = None) -> str:
    return cause(forbidden_election.CHECKER, group(about, leadership=[*rows]))


def test_an_unclean_election_of_a_member_of_the_isr() -> None:
    rows = (written(1, 0, 5, 1, 2, 3), written(2, 1, 6, 2, unclean=True), leads(2, 1))
    head = (
        "n2 was in the ISR, so the controllers did not need an unclean election, which reduced"
        " the ISR to [2]; n1 and n3 were in sync too"
    )
    assert forbidden(*rows) == f"{head}, and no fault had begun"
    assert forbidden(*rows, about=facts(disturbances=(KILL,))) == head
    assert forbidden(*rows[:2]) == head
    outside = (written(1, 0, 5, 1, 3), rows[1])
    assert forbidden(*outside) == (
        "n1 and n3 were in sync, but the controllers elected n2, which was not in sync"
    )


def test_a_leader_that_was_taken_out_of_its_isr() -> None:
    rows = (written(3, 0, 5, 3, 1, 2), written(3, 0, 6, 1, 2), metadata("n1", 3, 0, 2, 1, 2, 3))
    head = "the controllers took n3 out of the ISR [3, 1, 2] (offset 5) but kept it as the leader"
    assert forbidden(*rows) == f"{head}; no broker reported the ISR [1, 2] in epoch 0"
    assert forbidden(*rows, metadata("n2", 3, 0, 2, 2, 1)) == head
    other = (written(2, 0, 5, 3, 1, 2), *rows[1:2])
    assert forbidden(*other).startswith(
        "the controllers wrote a record with a leader that is not in the ISR"
    )


def accepted(
    *told: Row, more: tuple[Row, ...] = (), held: tuple[tuple[int, int], ...] = ((0, A), (1, B))
) -> str:
    low = [metadata(f"n{1 + (at >= 20)}", 1 + (at >= 20), int(at >= 20), at, 1 + (at >= 20))
           for at in range(10, 31, 2)]  # fmt: skip
    sends = [
        {**ack(value, at, op=at, at=when * S), "invoke_ns": (when - 1) * S}
        for at, (value, when) in enumerate(((A, 16), (B, 24)), start=0)
    ]
    records = [row for node in NODES for row in log(node, *held)]
    on = group(
        leadership=[*low, *told, leads(2, 1, at=25 * S), *more], sends=sends,
        replica_records=records,
    )  # fmt: skip
    return cause(acknowledged_below_min_isr.CHECKER, on)


def test_each_leader_that_took_sends_is_named() -> None:
    head = (
        "n1, leader of epoch 0, accepted 1 and n2, leader of epoch 1, accepted 1 of them and did"
        " not answer NOT_ENOUGH_REPLICAS, although their own metadata reported such an ISR"
    )
    assert accepted() == head
    decided = (written(1, 0, 5, 1), written(2, 1, 6, 2))
    assert accepted(*decided) == head
    other = (written(1, 0, 5, 1, 2), written(2, 1, 6, 2))
    assert accepted(*other) == (
        f"{head}; the controllers' log does not have the ISR [1] of epoch 0, so brokers may have"
        " reported a wrong ISR"
    )
    # The last small ISR of their log came later, if brokers named a larger one afterwards.
    larger = (metadata("n2", 2, 1, 40, 1, 2),)
    whole = (written(1, 0, 5, 1), written(2, 1, 6, 1, 2), written(2, 1, 7, 2))
    assert "ISR [2] of epoch 1" in accepted(*whole, more=larger)
    assert "no ISR" not in accepted(*whole)


def test_another_record_at_the_offset_of_a_send_was_not_that_send() -> None:
    assert accepted(held=((0, A), (1, C))).startswith("n1, leader of epoch 0, accepted 1 of them")
    unknown = "the run's record does not show which leader acknowledged them"
    assert accepted(held=((1, C), (1, C + 1))) == unknown
    alone = [metadata(by, 1, 0, at, 1) for at in range(10, 31, 2) for by in ("n1", "n2")]
    sends = [{**ack(value, at, op=at, at=when * S), "invoke_ns": (when - 1) * S}
             for at, (value, when) in enumerate(((A, 16), (B, 24)))]  # fmt: skip
    later = [leads(2, 1, at=40 * S)]
    records = [row for node in NODES for row in log(node, (1, C), (1, C + 1))]
    on = group(leadership=[*alone, *later], sends=sends, replica_records=records)
    assert cause(acknowledged_below_min_isr.CHECKER, on) == (
        "n1, leader of epoch 0, accepted all of them and did not answer NOT_ENOUGH_REPLICAS,"
        " although its own metadata reported such an ISR"
    )


def not_restored(
    *states: Row,
    more: tuple[Row, ...] = (),
    sends: tuple[Row, ...] = (),
    calm_s: int = 0,
    quorum: QuorumFacts | None = None,
) -> str:
    calm = facts(calm_from_ns=calm_s * S, quorum=quorum or QuorumFacts())
    told = [metadata("n1", 1, 1, at, 1, 3) for at in range(1, 300, 2)]
    on = group(calm, leadership=[*told, *more], replica_states=[*states], sends=[*sends])
    return cause(isr_not_restored.CHECKER, on)


def test_a_replica_that_had_caught_up_was_not_taken_back() -> None:
    grown = (look("n1", 5, 4), look("n2", 5, 5), look("n1", 9, 6), look("n2", 8, 8.5))
    assert not_restored(*grown) == (
        "n2 had caught up with n1, its leader, at 5.000 s and in 1 of 2 observations: n1 did not"
        " add it to the ISR again, or brokers still reported an old ISR"
    )
    assert not_restored(look("n1", 5, 4), look("n2", 4, 6.5)) == (
        "n2's log was behind in every observation: it ended at 4 at 6.500 s, but"
        " 2.500 s earlier the log of n1, its leader, had reached 5"
    )
    assert not_restored(look("n1", 5, 4)).endswith("does not show how far the others had caught up")


def test_an_old_look_at_the_leader_does_not_show_that_a_replica_had_caught_up() -> None:
    old = (look("n1", 0, 1), look("n2", 5, 10), look("n2", 5, 20))
    assert not_restored(*old).endswith("does not show how far the others had caught up")
    behind = "n2's log was behind in 1 of 2 observations: it ended at 5 at 20.000 s, but 2.500 s"
    behind += " earlier the log of n1, its leader, had reached"
    assert not_restored(*old, sends=(ack(A, 100, at=8 * S),)) == f"{behind} 101"
    earlier = not_restored(*old, sends=(ack(A, 100, at=7 * S),))
    every = f"{behind} 101".replace("1 of 2 observations", "every observation")
    assert earlier == every
    fresh = (*old, look("n1", 9, 17))
    assert not_restored(*fresh) == f"{behind} 9"
    # Rows tell of changes only: it ended there all the time, if it does so at the last look.
    idle = not_restored(look("n1", 5, 1), look("n2", 5, 10), look("n1", 5, 90))
    assert idle.startswith("n2 had caught up with n1, its leader, at 10.000 s and in 1 of 1")
    # What was acknowledged before the last heal may be lost since.
    before = not_restored(*old, look("n1", 5, 19), sends=(ack(A, 100, at=8 * S),), calm_s=9)
    assert before.startswith("n2 had caught up with n1, its leader, at 10.000 s and in 2 of 2")


def test_a_follower_that_keeps_up_with_a_growing_log_is_not_behind() -> None:
    """Its end is noted later than it was measured, and messages were acknowledged meanwhile."""
    sends = tuple(ack(A + at, at, op=at + 1, at=4 * S + at * S // 100) for at in range(600))
    looks = [look("n2", (at - 4) * 100 - 2, at) for at in range(5, 10)]
    unknown = not_restored(look("n1", 0, 3.9), *looks, sends=sends)
    assert unknown.endswith("does not show how far the others had caught up")
    assert not isinstance(unknown, Proved)
    # One whose end stands still is behind once it lacks what was there two and a half seconds ago.
    stuck = [look("n2", 98, at) for at in range(5, 10)]
    behind = not_restored(look("n1", 0, 3.9), *stuck, sends=sends)
    assert behind == (
        "n2's log was behind in 2 of 5 observations: it ended at 98 at 9.000 s, but 2.500 s"
        " earlier the log of n1, its leader, had reached 251"
    )


def test_what_a_leader_dropped_since_does_not_show_that_another_is_behind() -> None:
    fell = (look("n1", 9, 4), look("n1", 5, 6), look("n2", 5, 7))
    assert not_restored(*fell).startswith("n2 had caught up with n1, its leader, at 7.000 s")
    apart = (look("n1", 9, 4), look("n1", 5, 6), look("n2", 4, 7))
    assert not_restored(*apart).startswith(
        "n2's log was behind in every observation: it ended at 4"
    )
    later = (*apart[:2], look("n1", 4, 6.5), apart[2])
    assert not_restored(*later).startswith("n2 had caught up")


def test_the_controllers_log_shows_whether_it_was_taken_back() -> None:
    looks = (look("n1", 5, 4), look("n2", 5, 5))
    never = (written(1, 1, 5, 1, 3), written(1, 1, 6, 1))
    assert not_restored(*looks, more=never).endswith(
        "no ISR with it from offset 5 on, so n1 did not request such an ISR, or the controllers"
        " refused it"
    )
    late = (written(1, 1, 5, 1, 3), written(1, 1, 6, 1, 2), written(1, 1, 7, 1))
    assert "has it again from offset 6 on, but the time" in not_restored(*looks, more=late)
    twice = (*late, written(1, 1, 8, 1, 3))
    assert "reported an old ISR" in not_restored(*looks, more=twice)


def test_when_the_controllers_log_had_it_again_decides_who_was_late() -> None:
    looks = (look("n1", 5, 4), look("n2", 5, 5))
    isrs = (written(1, 1, 2, 1, 3), written(1, 1, 3, 1, 2, 3), written(1, 1, 5, 1, 3),
            written(1, 1, 6, 1, 2, 3), written(1, 1, 8, 1, 3))  # fmt: skip

    def told(*commits: tuple[int, int, int]) -> str:
        spans = tuple((mark, at * S, by * S) for mark, at, by in commits)
        return not_restored(*looks, more=isrs, quorum=QuorumFacts(commits=spans))

    small = ((6, 2, 4), (9, 400, 500))
    late = "has it again from offset 6 on, committed between 200.000 s and 203.000 s: n1 requested"
    assert f"{late} this ISR late, or the controllers approved it late" in told(
        small[0], (7, 200, 203), small[1]
    )
    assert "offset 6 on, but the time is not recorded" in told(small[0], (7, 2, 203), small[1])
    # Which of two such ISRs was in force is not known.
    unknown = "did not add it to the ISR again, or brokers still reported an old ISR;"
    assert unknown in told()
    assert unknown in told((6, 2, 400), (9, 400, 500))


def test_a_full_isr_in_the_controllers_log_that_the_leader_never_reported() -> None:
    log_rows = (written(1, 1, 5, 1, 3), written(1, 1, 6, 1, 2, 3))
    told = not_restored(look("n1", 5, 4), look("n2", 5, 5), more=log_rows)
    assert told.endswith(
        "the controllers' log has the ISR [1, 2, 3] (offset 6) after [1, 3], but n1 never"
        " reported it"
    )
    reported = (*log_rows, metadata("n1", 1, 1, 400, 1, 2, 3))
    assert "never reported" not in not_restored(look("n1", 5, 4), look("n2", 5, 5), more=reported)
    backwards = (written(1, 1, 5, 1, 2, 3), written(1, 1, 6, 1, 3))
    assert "never reported" not in not_restored(look("n1", 5, 4), look("n2", 5, 5), more=backwards)
