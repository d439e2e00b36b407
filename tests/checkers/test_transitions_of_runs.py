"""Transitions that only a whole run shows: its quorum, coordinators, transactions, brokers."""

from dataclasses import replace
from itertools import pairwise

import pytest

from checkers import columns
from checkers.facts import Disturbance
from checkers.reigns import GROUPS, SHARES, TRANSACTIONS, UNENDED_NS, Cut, Reign
from checkers.transitions.tables import reached
from cluster.coordinators import key_partition
from results.record.identities import group_of
from results.record.milestones import Milestone
from results.record.topics import CreatedTopic
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, made_plan, whole_run
from tests.checkers.reaching import (
    TRANSACTIONAL,
    answer,
    counts,
    firsts,
    killed,
    op,
    pairs,
    reign,
    state,
    transaction,
)

OPEN = facts(milestones=())
"""Of a run whose brokers were not stopped."""
STEADY = [answer(1, 1, 1, 5), answer(2, 1, 1, 6)]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([answer(2, 2, 2, 20)], ["elected-next-epoch", "leader-killed"]),
        ([answer(2, 3, 2, 20)], ["elected-after-1-round", "leader-killed"]),
        ([answer(2, 9, 2, 20)], ["elected-after-2+-rounds", "leader-killed"]),
        ([answer(1, 2, 1, 20)], ["elected-next-epoch", "same-leader"]),
        ([answer(2, 1, 1, 20)], []),
    ],
)
def test_elections_of_the_quorum(rows: list[Row], names: list[str]) -> None:
    known = facts(disturbances=(killed("n1", 10, 25),), milestones=())
    found = counts(whole_run(known, quorum_states=[*STEADY, *rows]), "quorum")
    assert sorted(found) == sorted(f"quorum/{name}" for name in names)


def test_the_quorums_leader_was_replaced_though_nothing_had_hit_it() -> None:
    known = facts(disturbances=(killed("n2", 10, 25),), milestones=())
    rows = [*STEADY, answer(2, 2, 2, 20)]
    assert "quorum/unexplained" in counts(whole_run(known, quorum_states=rows), "quorum")


def test_two_controllers_that_say_they_lead() -> None:
    rows = [*STEADY, answer(2, 2, 2, 20), answer(1, 1, 1, 23)]
    assert (
        firsts(whole_run(OPEN, quorum_states=rows), "quorum")["quorum/two-say-they-lead"] == 23 * S
    )
    soon = [*STEADY, answer(2, 2, 2, 20), answer(1, 1, 1, 21)]  # Its answer may be older.
    assert "quorum/two-say-they-lead" not in firsts(whole_run(OPEN, quorum_states=soon), "quorum")


def test_the_states_of_a_voter_in_the_order_of_its_log() -> None:
    logged = [
        state(3, 1, "unattached"), state(3, 1, "voted", voted=1), state(3, 1, "follower"),
        state(3, 1, "prospective"), state(3, 2, "candidate", voted=3), state(3, 2, "leader"),
        state(3, 2, "resigned"), state(3, 3, "unattached"),
    ]  # fmt: skip
    answers = [*STEADY, answer(3, 2, 3, 20)]
    found = whole_run(facts(milestones=()), quorum_states=[*answers, *logged])
    steps = {name: at for name, at in firsts(found, "quorum").items() if "-to-" in name}
    assert steps == {
        "quorum/unattached-to-voted": 5 * S, "quorum/voted-to-follower": 5 * S + 1,
        "quorum/follower-to-prospective": 20 * S - 10**6,
        "quorum/prospective-to-candidate": 20 * S, "quorum/candidate-to-leader": 20 * S + 1,
    }  # fmt: skip
    # Nobody told of epoch 3 while the run went on: the stop made what came after the last leader.
    assert ("quorum/unattached-to-voted", "quorum/voted-to-follower") in pairs(found)


def test_epochs_that_one_answer_tells_of_keep_the_order_of_each_voters_log() -> None:
    logged = [
        state(3, 1, "follower"), state(3, 2, "prospective"), state(3, 2, "candidate"),
        state(3, 3, "prospective"), state(3, 4, "voted"), state(3, 4, "follower"),
    ]  # fmt: skip
    other = [{**row, "node": "n2"} for row in logged[:2]]
    found = whole_run(OPEN, quorum_states=[*STEADY, answer(1, 5, 1, 20), *logged, *other])
    steps = ["follower-to-prospective", "prospective-to-candidate", "candidate-to-prospective",
             "prospective-to-voted", "voted-to-follower"]  # fmt: skip
    told = {pair: times for pair, times in pairs(found).items() if "-to-" in "".join(pair)}
    assert told == {
        (f"quorum/{before}", f"quorum/{after}"): 1 for before, after in pairwise(steps)
    }  # fmt: skip


def test_elections_that_one_answer_tells_of_keep_the_order_of_their_epochs() -> None:
    rows = [*STEADY, answer(3, 4, 3, 20), {**answer(2, 2, 2, 21), "observed_ns": None}]
    known = facts(disturbances=(killed("n1", 10, 25),), milestones=())
    found = pairs(whole_run(known, quorum_states=rows))
    elected, again = "quorum/elected-next-epoch", "quorum/elected-after-1-round"
    assert (elected, "quorum/leader-killed") in found
    assert (again, elected) not in found
    assert ("quorum/leader-killed", again) in found


def test_a_step_that_no_voter_should_take_has_a_name_too() -> None:
    logged = [state(3, 1, "voted"), state(3, 1, "leader")]
    found = counts(whole_run(OPEN, quorum_states=[*STEADY, *logged]), "quorum")
    assert found == {"quorum/other-step": 1}


def test_the_file_of_a_voters_state_is_no_step() -> None:
    """It stands before the lines of its epoch, because it tells a log end."""
    file = {**state(3, 1, "leader"), "leader": 3, "log_end_offset": 9}
    logged = [state(3, 0, "prospective"), file, state(3, 1, "candidate"), state(3, 1, "leader")]
    found = counts(whole_run(OPEN, quorum_states=[answer(3, 1, 3, 5), *logged]), "quorum")
    assert found == {"quorum/prospective-to-candidate": 1, "quorum/candidate-to-leader": 1}


def test_votes_of_the_quorum() -> None:
    def voting(*rows: Row) -> set[str]:
        answers = [*STEADY, answer(1, 4, 1, 20)]
        found = counts(whole_run(OPEN, quorum_states=[*answers, *rows]), "quorum")
        return {name for name in found if "vote" in name}

    split = [state(1, 2, None, voted=1), state(2, 2, None, voted=2)]
    assert voting(*split) == {"quorum/split-vote"}
    assert voting(state(1, 2, None, voted=1), state(2, 2, None, voted=1)) == set()
    running = [state(1, 2, None, voted=1), state(1, 3, None, voted=1)]
    assert voting(*running) == {"quorum/voted-twice-running"}
    later = [state(1, 2, None, voted=1), state(1, 4, None, voted=3)]
    assert voting(*later) == {"quorum/changed-vote"}


BEYOND = UNENDED_NS // S + 1
"""No answer ever reached so far, in seconds."""
MOVES = (reign(TRANSACTIONS, 1, 1, (0, 22)), reign(TRANSACTIONS, 2, 2, (18, 99)))
"""The coordinator moves at some time from 20 s to 22 s."""


@pytest.mark.parametrize(
    ("ops", "reigns", "name"),
    [
        ([op(1, 15, 25)], MOVES, "moved-in-flight"),
        ([op(1, 15, None)], MOVES, "moved"),  # Nobody knows when it ended.
        ([op(1, 15, 21)], MOVES, "moved"),
        ([op(1, 21, 25)], MOVES, "moved"),
        ([op(1, 19, 25)], MOVES, "moved"),  # It may have begun after the move.
        ([op(1, 15, 25, f="poll")], MOVES, "moved"),
        ([op(1, 15, 25, process=3)], MOVES, "moved"),  # Of a watcher, which has no transactions.
        ([], (MOVES[0], reign(TRANSACTIONS, 1, 2, (18, 99))), "renewed"),
        ([], (MOVES[0], reign(TRANSACTIONS, -1, 2, (18, 99))), "none"),
        ([], (reign(TRANSACTIONS, -1, 1, (0, 22)), MOVES[1]), None),  # Nobody knows the last one.
        (
            [],
            (reign(TRANSACTIONS, 1, 1, (0, BEYOND)), reign(TRANSACTIONS, 2, 2, (0, BEYOND))),
            None,
        ),
    ],
)
def test_coordinators_that_move(
    ops: list[Row], reigns: tuple[Reign, ...], name: str | None
) -> None:
    known = facts(plan=TRANSACTIONAL, reigns=reigns, milestones=())
    found = firsts(whole_run(known, ops=ops), "coordinator")
    assert found == ({f"coordinator/transaction-{name}": 22 * S} if name else {})


@pytest.mark.parametrize(
    ("next_one", "ops", "name"),
    [
        (1, [op(1, 15, 55)], "returned"),
        (2, [op(1, 15, 55)], "moved-in-flight"),
        (2, [op(1, 15, 29)], "moved"),
    ],
)
def test_a_coordinator_that_was_away_for_a_while(next_one: int, ops: list[Row], name: str) -> None:
    away = (reign(TRANSACTIONS, -1, 2, (18, 32)), reign(TRANSACTIONS, next_one, 3, (30, 99)))
    known = facts(plan=TRANSACTIONAL, reigns=(MOVES[0], *away), milestones=())
    assert firsts(whole_run(known, ops=ops), "coordinator") == {
        "coordinator/transaction-none": 22 * S, f"coordinator/transaction-{name}": 32 * S,
    }  # fmt: skip


def test_a_leader_that_was_cut_off_may_have_gone_on() -> None:
    """Then the end of its reign is put off: nothing that ended before was certainly in flight."""
    late = (reign(TRANSACTIONS, 1, 1, (0, 60)), MOVES[1])
    known = facts(plan=TRANSACTIONAL, reigns=late, milestones=())
    for until, name in ((25, "moved"), (61, "moved-in-flight")):
        found = firsts(whole_run(known, ops=[op(1, 15, until)]), "coordinator")
        assert found == {f"coordinator/transaction-{name}": 22 * S}


def test_what_is_read_in_pieces_is_found_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    known = facts(plan=TRANSACTIONAL, reigns=MOVES, milestones=())
    rows = [transaction(at, "commit", "committed") for at in (1, 2, 3, 4)]
    ends = {1: 16, 2: 25, 3: 30, 4: 17}
    ops = [op(at, 15, ends[at], f="txn" if at < 4 else "poll") for at in ends]
    whole = reached(whole_run(known, ops=ops, transactions=rows))
    monkeypatch.setattr(columns, "PIECE_ROWS", 1)
    pieces = reached(whole_run(known, ops=ops, transactions=rows))
    assert pieces == whole
    assert {row["transition"]: row["count"] for row in pieces["transitions"].to_pylist()} == {
        "coordinator/transaction-moved-in-flight": 1, "transaction/committed": 3,
        "transaction/committed-late": 1,
    }  # fmt: skip


def test_coordinators_of_share_groups_positions() -> None:
    """The partition is that of `GROUP:TOPIC-ID:PARTITION`, as brokers hash it."""
    shared = {"workload": "shares", "concurrency": 4, "workers": 1, "partitions": 1}
    topic = CreatedTopic(
        topic="log-0", topic_id="00112233-4455-6677-8899-aabbccddeeff", partitions=1
    )
    group = group_of(0, made_plan(**shared), workers=1)
    mine = key_partition(f"{group}:ABEiM0RVZneImaq7zN3u_w:0", 3)
    reigns = tuple(
        replace(reign(SHARES, leader, leader, span), partition=partition)
        for partition in range(3)
        for leader, span in ((1, (0, 22)), (2, (18, 99)))
    )
    known = facts(plan=shared, reigns=reigns, topics=(topic,), milestones=())
    found = reached(whole_run(known, ops=[op(1, 15, 25, f="poll")]))["transitions"].to_pylist()
    assert [(row["topic"], row["partition"], row["transition"]) for row in found] == [
        (SHARES, mine, "coordinator/share-moved-in-flight")
    ]


def test_a_coordinator_of_nobody_does_not_count() -> None:
    others = tuple(reign(GROUPS, leader, leader, (18, 22)) for leader in (1, 2))
    known = facts(plan=TRANSACTIONAL, reigns=(*MOVES, *others), milestones=())
    places = reached(whole_run(known))["transitions"].select(["topic", "partition"]).to_pylist()
    assert places == [{"topic": TRANSACTIONS, "partition": 0}]


def test_coordinators_of_groups_and_their_truncated_logs() -> None:
    grouped = {"workload": "groups", "concurrency": 4, "workers": 1}
    assert group_of(0, made_plan(**grouped), workers=1) is not None
    moves = tuple(
        reign(GROUPS, leader, leader, (at, until))
        for leader, at, until in ((1, 0, 22), (2, 18, 99))
    )
    cut = Cut(topic=GROUPS, partition=0, node="n1", from_offset=7)
    elsewhere = Cut(topic=GROUPS, partition=9, node="n1", from_offset=7)
    known = facts(plan=grouped, reigns=moves, inner_cuts=(cut, elsewhere), milestones=())
    member = op(1, 15, 25, f="poll")
    assert firsts(whole_run(known, ops=[member]), "coordinator") == {
        "coordinator/group-moved-in-flight": 22 * S, "coordinator/group-log-cut": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "lasts", "error", "names"),
    [
        (("commit", "committed"), 1, None, {"committed"}),
        (("commit", "committed"), 11, None, {"committed-late"}),
        (("abort", "aborted"), 1, "aborted on purpose", {"aborted"}),
        (("abort", "aborted"), 1, "_MSG_TIMED_OUT: Local: Message", {"aborted-after-error"}),
        (("abort", "aborted"), 11, "_MSG_TIMED_OUT: Local: Message", {"timed-out"}),
        (("commit", "aborted"), 1, None, {"commit-failed"}),
        (("commit", "unknown"), 1, None, {"commit-unknown"}),
        (("commit", "unknown"), 11, None, {"timed-out"}),
        (("abort", "unknown"), 1, "_STATE: Local: Erroneous state", {"abort-unknown"}),
        (("commit", "unknown"), 1, "_FENCED: Failed to end", {"commit-unknown"}),
        (("abort", "aborted"), 1, "OUT_OF_ORDER_SEQUENCE_NUMBER: ProduceRequest",
         {"aborted-after-error"}),
    ],
)  # fmt: skip
def test_transactions_by_their_end(
    ends: tuple[str, str], lasts: int, error: str | None, names: set[str]
) -> None:
    rows = [transaction(1, *ends)]
    known = facts(plan=TRANSACTIONAL, milestones=())
    found = whole_run(known, transactions=rows, ops=[op(1, 5, 5 + lasts, error=error)])
    assert counts(found, "transaction") == {f"transaction/{name}": 1 for name in names}


def test_a_late_transaction_that_a_reader_was_given_did_commit() -> None:
    known = facts(plan=TRANSACTIONAL, milestones=(), witnessed=frozenset({1}))
    rows = [transaction(1, "commit", "unknown")]
    found = counts(whole_run(known, transactions=rows, ops=[op(1, 5, 20)]), "transaction")
    assert found == {"transaction/commit-unknown": 1}


ON_PURPOSE = "its producer was thrown away before the end, on purpose"
UNANSWERED = "3 sends were not answered within 5 s"


@pytest.mark.parametrize(
    ("error", "following", "name"),
    [
        (ON_PURPOSE, 8, "left-to-successor"),
        (ON_PURPOSE, 17, "left-to-timeout"),
        (ON_PURPOSE, None, "left-to-timeout"),
        (UNANSWERED, 8, "left-to-successor"),
        ("_MSG_TIMED_OUT: Local: Message timed out", None, "left-to-timeout"),
        ("TimeoutException: Expiring 1 record(s) for log-0-0", None, "left-to-timeout"),
        ("_STATE: Local: Erroneous state", 8, "abort-unknown"),
    ],
)
def test_transactions_that_are_left_open(error: str, following: int | None, name: str) -> None:
    rows, ops = [transaction(1, "abort", "unknown")], [op(1, 5, 6, error=error)]
    if following is not None:
        rows.append(transaction(2, "commit", "committed"))
        ops.append(op(2, following, following + 1))
    noted = Milestone(name="noted", at_ns=60 * S)
    known = facts(plan=TRANSACTIONAL, milestones=(noted,))
    found = counts(whole_run(known, transactions=rows, ops=ops), "transaction")
    found.pop("transaction/committed", 0)
    assert found == {f"transaction/{name}": 1}


@pytest.mark.parametrize(
    ("lasts", "milestones", "found"),
    [
        (
            11,
            (Milestone(name="noted", at_ns=60 * S),),
            {"transaction/timed-out": 1},
        ),  # Before that.
        (1, (Milestone(name="noted", at_ns=12 * S),), {}),  # It was still open.
        (1, (), {}),  # The run died, nobody knows when.
    ],
)
def test_transactions_that_nobody_left_to_their_timeout(
    lasts: int, milestones: tuple[Milestone, ...], found: dict[str, int]
) -> None:
    known = facts(plan=TRANSACTIONAL, milestones=milestones)
    ops = [op(1, 5, 5 + lasts, error=ON_PURPOSE)]
    rows = [transaction(1, "abort", "unknown")]
    assert counts(whole_run(known, transactions=rows, ops=ops), "transaction") == found


def test_a_client_that_goes_on_after_time_outs_throws_no_producer_away() -> None:
    noted = Milestone(name="noted", at_ns=60 * S)
    plan = {**TRANSACTIONAL, "after_timeout": "go-on"}
    known = facts(plan=plan, milestones=(noted,))
    rows, ops = [transaction(1, "abort", "unknown")], [op(1, 5, 6, error=UNANSWERED)]
    assert counts(whole_run(known, transactions=rows, ops=ops), "transaction") == {
        "transaction/abort-unknown": 1
    }


def test_transactions_stand_where_their_coordinator_does() -> None:
    known = facts(plan=TRANSACTIONAL, reigns=MOVES, milestones=())
    ops = [op(1, 15, 25)]
    found = whole_run(known, ops=ops, transactions=[transaction(1, "commit", "committed")])
    assert pairs(found) == {
        ("coordinator/transaction-moved-in-flight", "transaction/committed"): 1,
    }  # fmt: skip


def test_refusals_of_polls_and_transactions() -> None:
    ops = [
        op(1, 1, 2, f="poll", error="log-0-0: OFFSET_OUT_OF_RANGE: Broker: Offset"),
        op(2, 1, 3, error="CONCURRENT_TRANSACTIONS: Failed to add"),
        op(3, 1, 4, error="aborted on purpose"), op(4, 1, 5, f="poll"),
        op(5, 1, 6, f="send", error="NOT_ENOUGH_REPLICAS: told by the partition"),
    ]  # fmt: skip
    assert firsts(whole_run(ops=ops), "refused") == {
        "refused/poll-OFFSET_OUT_OF_RANGE": 2 * S,
        "refused/transaction-CONCURRENT_TRANSACTIONS": 3 * S,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "fault", "found"),
    [
        ("told", None, {}),  # It was told to stop, and said that it failed.
        ("1", None, {"broker/exited": 9 * S}),
        ("-11", None, {"broker/crashed": 9 * S}),
        ("1", killed("n1", 3, 5, "disk-full"), {"broker/exited-after-disk-fault": 9 * S}),
        ("1", killed("n2", 3, 5, "disk-full"), {"broker/exited": 9 * S}),
        ("-9", None, {}),  # From outside: it says nothing of the broker.
    ],
)
def test_brokers_that_ended(code: str, fault: Disturbance | None, found: dict[str, int]) -> None:
    how = {"code": "1", "told": "stop"} if code == "told" else {"code": code}
    ended = Milestone(name="broker-ended", at_ns=9 * S, detail={"node": "n1", **how})
    known = facts(milestones=(ended,), disturbances=(fault,) if fault else ())
    assert firsts(whole_run(known), "broker") == found


def test_a_run_without_rows_reached_nothing() -> None:
    assert all(table.num_rows == 0 for table in reached(whole_run()).values())


def test_wild_rows_neither_raise_nor_warn() -> None:
    most, least = 2**63 - 1, -(2**63)
    answers = [
        answer(1, 1, 1, 5), {**answer(2, 2, 2, 6), "observed_ns": most, "epoch": 2**31 - 1},
        {**answer(1, 1, 1, 7), "observed_ns": least}, {**answer(3, 1, 1, 8), "node": None},
        {**answer(2, -5, -7, 9), "role": None}, {**answer(2, 3, 2, 9), "epoch": None},
    ]  # fmt: skip
    logged = [
        state(3, 2**31 - 1, "leader", voted=2**31 - 1), state(3, -1, "candidate", voted=-9),
        state(3, 1, "\x00"), {**state(3, 1, "voted", voted=1), "node": None},
    ]  # fmt: skip
    spans = ((most, least), (least, most), (0, 0), (most, most), (-1, UNENDED_NS))
    reigns = tuple(
        Reign(topic=topic, partition=0, leader=leader, epoch=epoch, from_ns=begun, until_ns=ended)
        for topic in (TRANSACTIONS, GROUPS, SHARES)
        for epoch, (leader, (begun, ended)) in enumerate(zip((1, -1, 2**31 - 1, 1, 2), spans,
                                                             strict=True))
    )  # fmt: skip
    ops = [
        {**op(most, 1, 2), "invoke_ns": least, "complete_ns": most}, op(2, 5, None, error=""),
        {**op(2, 5, 1, error=ON_PURPOSE), "process": None}, {**op(3, 1, 2), "op_id": None},
        {**op(4, 1, 2, error="\x00:"), "complete_ns": least, "f": None}, op(5, 0, 0, error=":"),
        {**op(6, 1, 2, error=UNANSWERED), "invoke_ns": most},
    ]  # fmt: skip
    rows = [transaction(number, "abort", "unknown") for number in (most, 2, 3, 3, 6)]
    rows += [{**transaction(5, "", "okay"), "transactional_id": None},
             {**transaction(4, "commit", "committed"), "op_id": None}]  # fmt: skip
    ended = Milestone(name="broker-ended", at_ns=most, detail={"node": "n9", "code": "9" * 40})
    wild = Disturbance(kind="kill", begun_ns=least, ended_ns=most, nodes=frozenset({"n1"}))
    known = facts(
        plan=TRANSACTIONAL, reigns=reigns, milestones=(ended,), disturbances=(wild,),
        inner_cuts=(Cut(topic=TRANSACTIONS, partition=0, node="", from_offset=least),),
    )  # fmt: skip
    found = whole_run(known, quorum_states=[*answers, *logged], ops=ops, transactions=rows)
    assert counts(found, "coordinator", "transaction", "quorum")
