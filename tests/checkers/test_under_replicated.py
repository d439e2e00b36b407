"""under-replicated: made groups with it and, a hair beside them, without."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.under_replicated import CHECKER
from results.record.milestones import Milestone
from tests.checkers.faithful import STONES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    RETENTION,
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    sentences,
    state,
)  # fmt: skip

T = 10 * S
"""The last ISR was asked for then; what counts was known two seconds before."""


def isr(*brokers: int, at: int = T, by: str = "n1") -> Row:
    return {"source": "metadata", "observer": by, "leader": 1, "leader_epoch": 0, "isr": [*brokers],
            "incarnation": 0, "asked_ns": at, "observed_ns": at + 1}  # fmt: skip


def announced(mark: int, *, at: int = T - 2 * S) -> Row:
    return {**leads(1, 0, at=at), "high_watermark": mark}


def made(
    held: Mapping[str, tuple[tuple[int, int], ...]],
    *told: Row,
    sends: tuple[Row, ...] = (),
    about: RunFacts | None = None,
    states: tuple[Row, ...] = (),
) -> Group:
    """Broker 1 leads; what each node's final log holds."""
    return group(
        about or facts(),
        sends=[*sends],
        leadership=[leads(1, 0), *told],
        replica_records=[row for node, records in held.items() for row in log(node, *records)],
        replica_states=[*(state(node, len(records)) for node, records in held.items()), *states],
    )


BOTH, ONE = ((0, A), (0, B)), ((0, A),)
SENDS = (ack(A, 0), ack(B, 1, op=2))
MEMBERS = (isr(1, 2, 3), announced(2))


def test_a_record_on_too_few_replicas_is_told_with_who_has_it() -> None:
    on = made({"n1": BOTH, "n2": ONE, "n3": ONE}, sends=SENDS)
    result = found(CHECKER, on)
    assert result.rows == 2
    (anomaly,) = result.anomalies
    assert anomaly.sentence == (
        f"value {B}, acknowledged with acks=all to op 2 at offset 1 of log-0-0 at 1.000 s, is"
        " only in the log of n1, not in the log of n2, n3: min.insync.replicas is 2"
    )
    assert anomaly.evidence == {
        "value": B, "offset": 1, "op_id": 2, "acknowledged_ns": S, "on": ["n1"],
        "not_on": ["n2", "n3"], "min_insync_replicas": 2,
    }  # fmt: skip
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())


@pytest.mark.parametrize(
    ("held", "sends", "plan"),
    [
        ({"n1": BOTH, "n2": BOTH, "n3": ONE}, SENDS, {}),  # As promised.
        ({"n1": BOTH, "n2": ONE, "n3": ONE}, (ack(B, 1, acks="1"),), {}),
        ({"n1": BOTH, "n2": ONE, "n3": ONE}, (ack(B, None),), {}),
        ({"n1": BOTH, "n2": ONE, "n3": ONE}, SENDS, {"min_insync": 1}),
        ({"n1": ONE, "n2": ONE, "n3": ()}, SENDS, {}),  # B is lost: a lost-write.
        ({"n1": BOTH}, SENDS, {"nodes": 1, "replication": 1, "min_insync": 1}),
    ],
)
def test_what_is_on_enough_replicas_or_was_not_promised(
    held: Mapping[str, tuple[tuple[int, int], ...]], sends: tuple[Row, ...], plan: Row
) -> None:
    assert sentences(CHECKER, made(held, sends=sends, about=facts(plan=plan))) == []


def test_a_brokers_own_setting_counts_if_it_asks_for_less() -> None:
    held = {"n1": BOTH, "n2": ONE, "n3": ONE}
    less = {"min.insync.replicas": "1"}
    for plan, count in (({"broker": less}, 0), ({"node": {"n2": less}}, 0),
                        ({"broker": {"min.insync.replicas": "3"}}, 1)):  # fmt: skip
        assert len(sentences(CHECKER, made(held, sends=SENDS, about=facts(plan=plan)))) == count


def test_another_record_at_the_offset_is_no_copy() -> None:
    on = made({"n1": BOTH, "n2": ((0, A), (0, C)), "n3": ONE}, sends=SENDS)
    assert [each.offset for each in found(CHECKER, on).anomalies] == [1]


def test_a_log_that_is_not_there_or_not_read_to_its_end_may_have_it() -> None:
    gone = made({"n1": BOTH, "n2": ONE}, sends=SENDS)
    longer = made({"n1": BOTH, "n2": ONE, "n3": ONE}, sends=SENDS, states=(state("n3", 2),))
    unreadable = facts(unreadable_nodes=frozenset({"n3"}))
    unread = made({"n1": BOTH, "n2": ONE, "n3": ONE}, sends=SENDS, about=unreadable)
    for on in (gone, longer, unread):
        (anomaly,) = found(CHECKER, on).anomalies
        assert anomaly.broken_premises == ("readable-final-logs",)
    three = facts(plan={"min_insync": 3})
    (anomaly,) = found(
        CHECKER, made({"n1": BOTH, "n2": ONE}, sends=SENDS[1:], about=three)
    ).anomalies
    assert anomaly.broken_premises == (), "one more copy would not be enough"


@pytest.mark.parametrize(
    ("plan", "count"), [({"broker": {"unclean.leader.election.enable": "true"}}, 0), ({}, 1)]
)
def test_what_an_unclean_election_cost_is_not_asked_of_members(plan: Row, count: int) -> None:
    """The leader's last record came with the stop, so that its follower did not fetch it."""
    about = facts(plan=plan, milestones=late(5 * S))
    uncleanly = elected(1, 1, 50, unclean=True)
    told = (isr(1, 2, 3), announced(2, at=2 * S), uncleanly)
    held = {"n1": BOTH, "n2": ONE, "n3": BOTH}
    on = made(held, *told, about=about)
    assert len(sentences(CHECKER, on)) == count
    on = made(held, *told, sends=(ack(C, 1, at=2 * S),), about=about)
    assert len(sentences(CHECKER, on)) == count
    since = {**announced(2, at=6 * S), "leader_epoch": 1}
    assert len(sentences(CHECKER, made(held, *told, since, about=about))) == 1, "written since"


@pytest.mark.parametrize(
    ("topic", "end_after", "count"), [("log-0", 0, 0), ("log-1", 0, 1), ("log-0", 9, 1)]
)
def test_what_disks_cost_before_the_recovery_is_not_asked_of_members(
    topic: str, end_after: int, count: int
) -> None:
    """The log grew again to the offset that had been announced before the loss."""
    lost = loss("n1", "n2", "n3", topic=topic, end_after=end_after, until_ns=3 * S).disk_losses
    about = facts(milestones=late(5 * S), disk_losses=lost)
    held = {"n1": BOTH, "n2": ONE, "n3": BOTH}
    before = made(held, isr(1, 2, 3), announced(2, at=2 * S), about=about)
    assert len(sentences(CHECKER, before)) == count
    sent = made(held, isr(1, 2, 3), sends=(ack(C, 1, at=2 * S),), about=about)
    assert len(sentences(CHECKER, sent)) == count
    since = made(held, isr(1, 2, 3), announced(2, at=4 * S), about=about)
    assert len(sentences(CHECKER, since)) == 1


def late(recovered_ns: int) -> tuple[Milestone, ...]:
    return tuple(
        Milestone(name=name, at_ns=recovered_ns if name == "recovered" else at)
        for at, name in enumerate(STONES)
    )


def loss(*nodes: str, **changes: object) -> RunFacts:
    values: Row = {"nodes": frozenset(nodes), "topic": "log-0", "partition": 0, "end_after": 1,
                   "end_before": 9, "until_ns": 5 * S, "began_ns": 4 * S, "excuse": "wipe",
                   **changes}  # fmt: skip
    return facts(disk_losses=(DiskLoss(**values),))


@pytest.mark.parametrize(
    ("about", "excuses"),
    [
        (loss("n2"), ("wipe",)),
        (loss("n2", "n3"), ("wipe",)),
        (loss("n1"), ()),  # It has the record.
        (loss("n2", end_after=2), ()),
        (loss("n2", end_before=1), ()),
        (loss("n2", until_ns=S - 1), ()),  # It was acknowledged later.
        (loss("n2", partition=1), ()),
    ],
)
def test_a_copy_that_a_disk_lost_is_forgiven(about: RunFacts, excuses: tuple[str, ...]) -> None:
    on = made({"n1": BOTH, "n2": ONE, "n3": ONE}, sends=SENDS, about=about)
    (anomaly,) = found(CHECKER, on).anomalies
    assert anomaly.excuses == excuses


def test_of_three_copies_that_were_promised_a_disk_may_have_lost_one_only() -> None:
    three = facts(plan={"min_insync": 3}, disk_losses=loss("n2").disk_losses)
    on = made({"n1": BOTH, "n2": ONE, "n3": ONE}, sends=SENDS[1:], about=three)
    assert [each.excuses for each in found(CHECKER, on).anomalies] == [()]


def test_what_an_unclean_leader_lacked_its_followers_cut_off() -> None:
    allowed = facts(plan={"broker": {"unclean.leader.election.enable": "true"}})
    for epoch, excuses in ((1, ("unclean-election",)), (0, ())):  # Then it led already.
        on = made({"n1": BOTH, "n2": ONE, "n3": ONE}, elected(1, epoch, 5, unclean=True),
                  sends=SENDS, about=allowed)  # fmt: skip
        assert [each.excuses for each in found(CHECKER, on).anomalies] == [excuses]


# Members of the ISR


def test_who_was_in_the_isr_after_the_recovery_had_fetched_again_what_a_disk_lost() -> None:
    def after(recovered_s: int, excuse: str = "wipe", **changes: object) -> RunFacts:
        (lost,) = loss("n3", excuse=excuse, **changes).disk_losses
        stone = Milestone(name="recovered", at_ns=recovered_s * S)
        return facts(milestones=(*facts().milestones, stone), disk_losses=(lost,))

    for about, excuses in (
        (after(6), ()),
        (after(5), ("wipe",)),  # The same instant: nobody knows which was first.
        (after(6, until_ns=7 * S), ("wipe",)),
        (after(6, "bit-flip"), ("bit-flip",)),
    ):
        on = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, *MEMBERS, about=about)
        assert [each.excuses for each in found(CHECKER, on).anomalies] == [excuses]
        scarce = made({"n1": BOTH, "n3": ONE}, isr(1, 3), sends=SENDS, about=about)
        assert next(iter(found(CHECKER, scarce).anomalies)).excuses == excuses


def test_a_member_of_the_last_isr_that_lacks_the_end_is_told() -> None:
    on = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, *MEMBERS)
    result = found(CHECKER, on)
    assert result.rows == 2
    (anomaly,) = result.anomalies
    assert anomaly.sentence == (
        "the log of log-0-0 on n3 ends at offset 1, although it was in the ISR until the end and"
        " all records below offset 2 had been committed"
    )
    assert anomaly.evidence == {"node": "n3", "log_end": 1, "committed_up_to": 2}
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())
    by_send = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, isr(1, 2, 3), sends=SENDS)
    assert [each.offset for each in found(CHECKER, by_send).anomalies] == [1]


@pytest.mark.parametrize(
    "told",
    [
        (isr(1, 2), announced(2)),  # n3 is in no ISR.
        (isr(1, 2, 3), isr(1, 2, by="n2"), announced(2)),  # One broker knows that it left.
        (isr(1, 2, 3), announced(2, at=T - 2 * S + 1)),  # It may have left two seconds ago.
        (isr(1, 2, 3), announced(1)),
        (isr(1, 2, 3),),
        (),
    ],
)
def test_who_may_lag(told: tuple[Row, ...]) -> None:
    assert sentences(CHECKER, made({"n1": BOTH, "n2": BOTH, "n3": ONE}, *told)) == []


def test_what_was_acknowledged_less_than_two_seconds_before_may_lack() -> None:
    for at, missing in ((T - 2 * S, 1), (T - 2 * S + 1, 0)):
        sends = (ack(A, 0), ack(B, 1, op=2, at=at))
        on = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, isr(1, 2, 3), sends=sends)
        assert len(sentences(CHECKER, on)) == missing


def test_a_member_whose_log_is_not_there_is_not_told_here() -> None:
    on = made({"n1": BOTH, "n2": BOTH}, *MEMBERS)
    assert (found(CHECKER, on).rows, sentences(CHECKER, on)) == (1, [])


def test_an_acknowledgement_without_an_offset_or_a_time_asks_for_nothing() -> None:
    untimed = {**ack(B, 1, op=2), "complete_ns": None}
    for send in (untimed, ack(B, None, op=2)):
        on = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, isr(1, 2, 3), sends=(ack(A, 0), send))
        assert sentences(CHECKER, on) == []
    empty = made({"n1": BOTH, "n2": BOTH, "n3": ()}, isr(1, 2, 3))
    assert sentences(CHECKER, empty) == [], "nothing is known to be committed"


def test_compacted_topics_and_single_replicas_promise_no_copies() -> None:
    for plan, applies in (
        ({}, True),
        ({"replication": 2}, True),
        ({"replication": 1, "min_insync": 1}, False),
        ({"broker": {"log.cleanup.policy": "compact"}}, False),
        ({"node": {"n1": {"log.cleanup.policy": "compact,delete"}}}, False),
        ({"node": {"n1": {"log.retention.bytes": "1000"}}}, False),
    ):
        assert CHECKER.applies(facts(plan=plan)) is applies


def test_the_last_word_of_each_broker_counts() -> None:
    left = (isr(1, 2, at=T - S), isr(1, 2, 3), announced(2))
    assert len(sentences(CHECKER, made({"n1": BOTH, "n2": BOTH, "n3": ONE}, *left))) == 1


def test_without_a_recovery_nobody_has_to_be_in_sync() -> None:
    stones = [Milestone(name=name, at_ns=at) for at, name in enumerate(STONES)]
    never = tuple(each for each in stones if each.name != "recovered")
    failed = (*never, Milestone(name="recovered", at_ns=1, detail={"failed": "x"}))
    later = (*never, Milestone(name="recovered", at_ns=T + 1))
    for milestones in (never, failed, later):
        on = made({"n1": BOTH, "n2": BOTH, "n3": ONE}, *MEMBERS, about=facts(milestones=milestones))
        assert sentences(CHECKER, on) == []


def test_what_the_leader_lacks_too_is_not_asked_of_others() -> None:
    on = made({"n1": BOTH, "n2": BOTH, "n3": BOTH}, isr(1, 2, 3), announced(9))
    assert sentences(CHECKER, on) == []


def test_a_members_log_that_was_not_read_or_lost_its_end_is_no_proof() -> None:
    held = {"n1": BOTH, "n2": BOTH, "n3": ONE}
    (anomaly,) = found(CHECKER, made(held, *MEMBERS, states=(state("n3", 2),))).anomalies
    assert anomaly.broken_premises == ("readable-final-logs",)
    (anomaly,) = found(CHECKER, made(held, *MEMBERS, about=loss("n3"))).anomalies
    assert anomaly.excuses == ("wipe",)


def test_it_applies_where_copies_are_promised_and_kept() -> None:
    assert CHECKER.applies(facts())
    assert not CHECKER.applies(facts(plan=RETENTION))
    assert not CHECKER.applies(facts(plan={"broker": {"log.cleanup.policy": "compact"}}))
    assert not CHECKER.applies(facts(plan={"nodes": 1, "replication": 1, "min_insync": 1}))
    assert found(CHECKER, group(sends=[ack(A, 0)])).rows == 0


def after_stops(
    *nodes: str, how: str = "clean", failed: str = "", read: tuple[str, ...] = ("n2", "n3")
) -> RunFacts:
    """A run whose nodes stopped so, of which some other files were read."""
    said = {"stopped": dict.fromkeys(nodes, how), "recovered": {"failed": failed} if failed else {}}
    stones = tuple(replace(stone, detail=said.get(stone.name, {})) for stone in facts().milestones)
    return facts(milestones=stones, collected_nodes=frozenset(read))


@pytest.mark.parametrize(
    ("about", "told", "gone"),
    [
        (after_stops("n2", "n3"), isr(1, 2, 3), ["n2", "n3"]),
        (after_stops("n2"), isr(1, 2, 3), ["n2"]),
        (after_stops("n2", "n3"), isr(1, 3), ["n3"]),  # Who is not in the ISR may lack all.
        (after_stops("n2", "n3", how="killed"), isr(1, 2, 3), []),
        (after_stops("n2", "n3", read=("n1",)), isr(1, 2, 3), []),
        (after_stops("n2", "n3", failed="it took too long"), isr(1, 2, 3), []),
    ],
    ids=["both", "one-stopped", "one-in-isr", "killed", "not-collected", "not-recovered"],
)
def test_a_folder_that_is_gone_where_its_nodes_others_were_read_is_an_empty_log(
    about: RunFacts, told: Row, gone: list[str]
) -> None:
    on = made({"n1": BOTH}, told, announced(2), about=about)
    assert [each.evidence["node"] for each in found(CHECKER, on).anomalies] == gone


def test_a_record_whose_other_copies_went_with_their_folders_is_on_too_few_replicas() -> None:
    on = made({"n1": ONE}, isr(1, 2, 3), sends=(ack(A, 0),), about=after_stops("n2", "n3"))
    anomaly, *_ = found(CHECKER, on).anomalies
    assert (anomaly.evidence["not_on"], anomaly.broken_premises) == (["n2", "n3"], ())
    doubtful = made({"n1": ONE}, isr(1, 2, 3), sends=(ack(A, 0),), about=after_stops("n2"))
    assert found(CHECKER, doubtful).anomalies[0].broken_premises == ("readable-final-logs",)
