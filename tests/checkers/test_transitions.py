"""Transitions of a partition: a record that has each, and its twin that does not."""

import pyarrow as pa
import pytest

from checkers.changes import deeds
from checkers.facts import Disturbance, RemadeTopic, UncleanOrder
from checkers.transitions.causes import ORDERING, harm_of
from checkers.transitions.refusals import error_of
from nemesis.registry import KINDS
from results.record.identities import group_of, groups
from results.record.milestones import Milestone
from results.record.tables import TABLES
from results.record.transitions import CAUSES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, S, elected, facts, group, leads, log, made_plan
from tests.checkers.reaching import (
    about,
    asked,
    counts,
    cut,
    fault,
    firsts,
    gave,
    look,
    pairs,
    shared,
    told,
    took,
    written,
)

DISK_FULL = "disk-full"


MOVED = [written(1, 4, 10), written(2, 5, 20, 2, 3)]
"""Broker 2 is elected at 20 s; broker 1, the last leader, leaves the ISR."""


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (fault("kill", "n1", 15, 30), "leader-killed"),
        (fault("kill", "n1", 2, 12), "leader-killed"),  # It was just over.
        (fault("power-loss", "n1", 15, 30), "leader-killed"),
        (fault("stop", "n1", 15, 30), "leader-stopped"),
        (fault("rolling-restart", "n1", 15, 30, family="rolling"), "leader-stopped"),
        (fault("rolling-restart", "n1", 15, 30, family="aftermath"), "leader-killed"),
        (fault("pause", "n1", 15, 30), "leader-paused"),
        (fault("isolate", "n1", 15, 30, family="partition"), "leader-cut-off"),
        (fault("delay", "n1", 15, 30, family="network"), "leader-links-bad"),
        (fault("processor", "n1", 15, 30, family="resources"), "leader-starved"),
        (fault("slow-disk", "n1", 15, 30, family="disk"), "leader-disk-late"),
        (fault(DISK_FULL, "n1", 15, 30, family="disk"), "leader-disk-fault"),
        (fault("clock-offset", "n1", 15, 30, family="clock"), "leader-clock-wrong"),
        (fault("kill", "n3", 15, 30, controller=True), "controller-hit"),
        (fault("outage", "zk", 15, 30, family="keeper"), "controller-hit"),
        (fault("reassignment", "n1", 15, 30, place=("log-0", 0)), "ordered"),
        # None of these is a reason.
        (fault("kill", "n2", 15, 30), "unexplained"),
        (fault("kill", "n1", 1, 2), "unexplained"),
        (fault("kill", "n1", 25, 30), "unexplained"),
        (fault("reassignment", "n1", 15, 30, place=("log-0", 1)), "unexplained"),
        (fault("client-cut", "n1", 15, 30, family="clients"), "unexplained"),
        (fault("client-cut", "n3", 15, 30, family="clients", controller=True), "unexplained"),
        (fault("preferred-election", "n3", 5, 8, controller=True), "unexplained"),
    ],
)
def test_an_election_is_named_by_what_befell_the_last_leader(what: Disturbance, name: str) -> None:
    found = group(about(what), leadership=MOVED)
    assert counts(found, "election", "leader") == {f"election/{name}": 1}
    assert firsts(found, "election") == {f"election/{name}": 20 * S}


def test_what_ends_a_broker_counts_before_what_slows_it() -> None:
    both = about(fault("delay", "n1", 5, 40, family="network"), fault("kill", "n1", 16, 30))
    assert counts(group(both, leadership=MOVED), "election") == {"election/leader-killed": 1}


def test_a_ring_cuts_others_than_its_target_and_a_halving_does_not() -> None:
    ends = frozenset({"n1", "n2"})
    ring = fault("ring", "n3", 15, 30, family="splits", ends=ends)
    halves = fault("halves", "n3", 15, 30, family="partition", ends=ends | {"n3"})
    assert counts(group(about(ring), leadership=MOVED), "election") == {
        "election/leader-cut-off": 1
    }
    assert counts(group(about(halves), leadership=MOVED), "election") == {"election/unexplained": 1}
    equal = fault("halves", "n3", 15, 30, family="partition", ends=frozenset({"n1", "n3"}))
    cut_by_script = fault("cut", "n2", 15, 30, ends=ends)
    for each in (equal, cut_by_script):
        found = counts(group(about(each), leadership=MOVED), "election")
        assert found == {"election/leader-cut-off": 1}


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ((), "leader-ended"),
        ((fault(DISK_FULL, "n1", 15, 17),), "leader-disk-fault"),
        ((fault("delay", "n1", 5, 40, family="network"),), "leader-ended"),
        ((fault("kill", "n1", 16, 30),), "leader-killed"),
    ],
)
def test_a_leader_that_ended_by_itself(more: tuple[Disturbance, ...], name: str) -> None:
    ended = Milestone(name="broker-ended", at_ns=21 * S, detail={"node": "n1", "code": "1"})
    known = about(*more)
    known = facts(quorum=known.quorum, disturbances=more, milestones=(ended,))
    late = [written(1, 4, 10), written(2, 5, 23, 2, 3)]
    assert counts(group(known, leadership=late), "election") == {f"election/{name}": 1}


@pytest.mark.parametrize(
    "detail", [{"code": "137"}, {"code": "-9"}, {"code": "stopped"}, {"code": "1", "told": "stop"}]
)
def test_a_leader_that_was_ended_from_outside_or_told_to_stop(detail: dict[str, str]) -> None:
    ended = Milestone(name="broker-ended", at_ns=19 * S, detail={"node": "n1", **detail})
    known = facts(quorum=about().quorum, milestones=(ended,))
    assert counts(group(known, leadership=MOVED), "election") == {"election/unexplained": 1}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([written(1, 4, 10), written(2, 5, 20)], {"election/handed-over": 1}),
        ([written(1, 4, 10), written(1, 5, 20)], {"election/renewed": 1}),
        ([written(1, 4, 10), written(1, 4, 20, 1, 2)], {}),  # No election: its ISR shrank.
        ([written(1, 4, 10), written(3, 5, 20, 3, unclean=True)], {"election/unclean": 1}),
        (
            [written(1, 4, 10), written(-1, 5, 20, 1), written(1, 6, 30, 1)],
            {"leader/none": 1, "election/returned": 1},
        ),
        (
            [written(1, 4, 10), written(-1, 5, 20, 1), written(2, 6, 30, 2)],
            {"leader/none": 1, "election/unexplained": 1},
        ),
        (
            [written(1, 4, 10), written(-1, 5, 20, 1), written(-1, 6, 30, 1)],
            {"leader/none": 1},  # Once taken away, there is none to be taken.
        ),
    ],
    ids=["handed-over", "renewed", "none", "unclean", "returned", "after-vacancy", "still-none"],
)
def test_elections_that_need_no_fault(rows: list[Row], found: dict[str, int]) -> None:
    assert counts(group(about(), leadership=rows), "election", "leader") == found


@pytest.mark.parametrize(
    ("kind", "name"), [("reassignment", "ordered"), ("preferred-election", "unclean")]
)
def test_a_reassignment_may_end_with_a_leader_that_was_in_no_isr(kind: str, name: str) -> None:
    rows = [written(1, 4, 10, 1), written(3, 5, 20, 3, unclean=True)]
    known = about(fault(kind, "n3", 15, 21, place=("log-0", 0)))
    assert counts(group(known, leadership=rows), "election") == {f"election/{name}": 1}


def test_elections_of_the_stop_are_our_own_doing() -> None:
    noted = Milestone(name="noted", at_ns=15 * S)
    known = facts(quorum=about().quorum, milestones=(noted,))
    assert counts(group(known, leadership=MOVED), "election", "isr") == {}


KEPT = [
    {**leads(1, 4, at=10 * S, source="zookeeper"), "isr": [1, 2, 3]},
    {**leads(2, 5, at=20 * S, source="zookeeper"), "isr": [2, 3]},
    {**leads(1, 6, at=30 * S, source="zookeeper"), "isr": [1]},
]
"""With ZooKeeper: broker 1 leads again, which was not in the ISR."""
SHRANK = {"isr/shrank-3-to-2": 1, "isr/shrank-2-to-1": 1, "isr/below-min": 1}


def test_zookeeper_and_a_leaders_own_metadata_tell_elections_too() -> None:
    killed = about(fault("kill", "n1", 15, 30))
    # Between two looks the ISR may have changed: only what is allowed is unclean.
    assert counts(group(killed, leadership=KEPT), "election", "isr") == {
        "election/leader-killed": 1, "election/unexplained": 1, **SHRANK,
    }  # fmt: skip
    own = [{**row, "source": "metadata"} for row in KEPT[:2]]
    behind = {**own[0], "observer": "n3", "observed_ns": 25 * S}
    assert counts(group(killed, leadership=[*own, behind]), "election", "isr") == {
        "election/leader-killed": 1, "isr/shrank-3-to-2": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"plan": made_plan(broker={"unclean.leader.election.enable": "true"})}, "unclean"),
        ({"unclean_orders": (UncleanOrder(topic="log-0", partition=0),)}, "unclean"),
        ({"unclean_orders": (UncleanOrder(topic="log-0", partition=1),)}, "unexplained"),
        (
            {"unclean_orders": (UncleanOrder(topic="log-0", partition=0, after_epoch=6, epoch=8,
                                             leader="n1", seen_ns=40 * S),)},
            "unexplained",
        ),
    ],
    ids=["plan", "order", "elsewhere", "later"],
)  # fmt: skip
def test_with_zookeeper_an_election_is_unclean_if_that_was_allowed(
    changes: Row, found: str
) -> None:
    known = about(fault("kill", "n1", 15, 16), **changes)
    assert counts(group(known, leadership=KEPT), "election") == {
        "election/leader-killed": 1, f"election/{found}": 1,
    }  # fmt: skip


def test_what_no_answer_reached_may_not_have_happened() -> None:
    """Of a run that died no milestone says when its brokers were stopped."""
    never = [written(1, 4, 10), written(2, 5, 70, 2, 3)]  # Nothing told of offset 70.
    assert counts(group(about(), leadership=never), "election", "isr") == {}
    seen = [*never, told(5, 2, 75)]
    assert firsts(group(about(), leadership=seen), "election") == {"election/unexplained": 75 * S}


def test_a_deposed_leader_answers_only_if_it_was_asked_after_its_successor_had() -> None:
    late = [told(4, 1, 10), told(5, 2, 20), told(4, 1, 22)]
    assert firsts(group(about(), leadership=late), "leader") == {"leader/deposed-answers": 22 * S}
    slow = [told(4, 1, 10), told(5, 2, 20), {**told(4, 1, 22), "asked_ns": 19 * S}]
    assert firsts(group(about(), leadership=slow), "leader") == {}
    same = [told(4, 1, 10), told(5, 1, 20), told(4, 1, 22)]
    assert firsts(group(about(), leadership=same), "leader") == {}


def test_isrs_by_their_sizes() -> None:
    rows = [
        written(1, 1, 10), written(1, 1, 11, 1, 2), written(1, 1, 12, 1), written(1, 1, 13, 1, 3),
        written(1, 1, 14, 1, 2), written(1, 1, 15, 1, 2, 3, 4, 5), written(1, 1, 16, 1, 2, 3, 4),
    ]  # fmt: skip
    assert counts(group(about(), leadership=rows), "isr") == {
        "isr/shrank-3-to-2": 1, "isr/shrank-2-to-1": 1, "isr/below-min": 1, "isr/grew-1-to-2": 1,
        "isr/back-to-min": 1, "isr/replaced": 1, "isr/grew-2-to-4+": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "kind", "at_ns"),
    [
        ("follower of broker 2: epoch 4 ends at offset 40 there", "leader-epoch", 25 * S),
        ("follower of broker 2: local high watermark 40", "high-watermark", 25 * S),
        ("follower of broker 2: the leader's log ends at offset 40", "leader-log-end", 25 * S),
        ("follower of broker 2: epoch 5 ends at offset 40 there", "leader-epoch", None),
        ("below its high watermark 41", "below-high-watermark", None),
        ("Corruption found in segment 0", "recovery", None),
        ("", "other", None),
        ("what nobody wrote yet", "other", None),
    ],
)
def test_truncations_by_their_reason(reason: str, kind: str, at_ns: int | None) -> None:
    """Broker 1 follows from 20 s on, and is seen again at 25 s: its log went on growing."""
    looks = [look("n1", 45, 15), look("n1", 47, 25), look("n2", 99, 15)]
    found = group(about(), leadership=MOVED, truncations=[cut(reason)], replica_states=looks)
    length = "unseen" if at_ns is None else "2-9"
    assert firsts(found, "truncation") == {f"truncation/{kind}-{length}": at_ns}


AGAIN = [*MOVED, written(3, 6, 30, 2, 3), written(2, 7, 40, 2, 3)]
"""Broker 2 leads from 20 s to 30 s, and again from 40 s on."""


@pytest.mark.parametrize(
    ("epoch", "looks", "length", "at_ns"),
    [
        # Only one reign fits: that of epoch 7.
        (6, [(35, 45), (38, 46), (41, 46)], "2-9", 41 * S),
        (6, [(35, 45), (41, 50), (43, 39)], "10-99", 43 * S),  # Cut off, it went on until then.
        (6, [(39, 190), (39.75, 40), (41, 42)], "100+", 39 * S + 3 * S // 4),  # It was told late.
        (6, [(5, 190), (7, 41), (41, 42)], "1", 41 * S),  # What it had lost before is no matter.
        (6, [(35, 40), (41, 60)], "unseen", 41 * S),  # What it got later is no matter.
        (6, [], "unseen", 40 * S),
        # Two reigns fit, so that the time is that of the only fall.
        (4, [(22, 45), (24, 40), (45, 60)], "2-9", 24 * S),
        (4, [(22, 45), (24, 41), (45, 60)], "2-9", 24 * S),
        (4, [(22, 45), (24, 41), (45, 60), (46, 51)], "unseen", None),
        (4, [(22, 45), (24, 40), (45, 60), (46, 39)], "10-99", None),
    ],
)
def test_the_time_and_length_of_a_truncation(
    epoch: int, looks: list[tuple[float, int]], length: str, at_ns: int | None
) -> None:
    states = [look("n1", end, at) for at, end in looks]
    why = cut(f"follower of broker 2: epoch {epoch} ends at offset 40 there")
    found = group(about(), leadership=AGAIN, truncations=[why], replica_states=states)
    assert firsts(found, "truncation") == {f"truncation/leader-epoch-{length}": at_ns}


@pytest.mark.parametrize(
    ("ends", "length"),
    [((41, 40), "1"), ((49, 40), "2-9"), ((50, 40), "10-99"), ((140, 40), "100+"),
     ((50, 45), "10-99"), ((40, 40), "unseen"), ((30, 45), "unseen"), ((), "unseen")],
)  # fmt: skip
def test_truncations_by_the_length_that_looks_show(ends: tuple[int, ...], length: str) -> None:
    looks = [look("n1", end, 10 + at) for at, end in enumerate(ends)]
    found = group(about(), truncations=[cut("Corruption found")], replica_states=looks)
    at_ns = None if length == "unseen" else 11 * S
    assert firsts(found, "truncation") == {f"truncation/recovery-{length}": at_ns}


def test_a_fall_above_the_offset_may_be_another_truncations() -> None:
    cuts = [cut("Corruption found"), cut("Corruption found", start=45)]
    states = [look("n1", 50, 10), look("n1", 45, 11)]
    assert firsts(group(about(), truncations=cuts, replica_states=states), "truncation") == {
        "truncation/recovery-unseen": None, "truncation/recovery-2-9": 11 * S,
    }  # fmt: skip


def test_a_truncation_that_says_where_the_log_ended_needs_no_look() -> None:
    row = {**cut("Corruption found", at=7 * S), "to_offset": 52}
    assert firsts(group(about(), truncations=[row]), "truncation") == {
        "truncation/recovery-10-99": 7 * S
    }


def test_a_replica_that_starts_over_drops_all_of_its_log() -> None:
    row = cut("Truncate and start at offset", start=99)
    assert counts(group(about(), truncations=[row]), "truncation") == {"truncation/started-over": 1}


def test_epochs_without_a_record_stand_between_epochs_that_have_some() -> None:
    led = [written(1, epoch, 10 + epoch) for epoch in range(8)]
    records = log("n1", (0, A), (2, B), (5, A), (6, B), snapshot="crash")
    found = group(about(), leadership=led, replica_records=records)
    assert firsts(found, "epoch") == {
        "epoch/without-record-1": 12 * S, "epoch/without-record-2": 15 * S,
    }  # fmt: skip
    vacant = [*led[:1], written(-1, 1, 11), *led[2:3]]
    assert counts(group(about(), leadership=vacant, replica_records=records), "epoch") == {}
    # No observer saw the leaders of epochs 2 and 5, but both epochs have records.
    unseen = group(about(), leadership=[*led[:2], *led[3:5], led[6]], replica_records=records)
    assert firsts(unseen, "epoch") == {
        "epoch/without-record-1": None, "epoch/without-record-2": None,
    }  # fmt: skip
    compacted = about(plan=made_plan(broker={"log.cleanup.policy": "compact"}))
    assert counts(group(compacted, leadership=led, replica_records=records), "epoch") == {}


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (look("n1", 40, 20, life=2, mark=30), {"log-kept"}),
        (look("n1", 39, 20, life=2, mark=30), {"log-shorter"}),
        (look("n1", 41, 20, life=2, mark=30), {"log-longer"}),
        (look("n1", 0, 20, life=2, mark=30), {"log-empty"}),
        (look("n1", 40, 20, life=2, mark=29), {"log-kept", "high-watermark-lower"}),
        (look("n1", 40, 20, life=3, mark=30), {"log-kept", "life-unseen"}),
        (look("n1", 39, 20, mark=29), set()),  # The same life: no recovery.
        (look("n2", 39, 20, life=2), set()),  # Another broker's.
        (look("n1", None, 20, life=2), set()),
        ({**look("n1", 39, 20), "incarnation": None}, set()),
    ],
)
def test_recoveries_compare_two_lives_of_one_broker(after: Row, names: set[str]) -> None:
    found = group(about(), replica_states=[look("n1", 40, 10, mark=30), after])
    assert counts(found, "recovery") == {f"recovery/{name}": 1 for name in names}


def test_a_look_of_an_unknown_life_is_no_start() -> None:
    unknown = {**look("n1", 39, 15), "incarnation": None}
    looks = [look("n1", 40, 10), unknown, look("n1", 41, 20)]
    assert counts(group(about(), replica_states=looks), "recovery") == {}


def test_log_starts_move_up_and_down() -> None:
    looks = [look("n1", 50, at, start=start) for at, start in enumerate((0, 0, 7, 7, 3))]
    assert firsts(group(about(), replica_states=looks), "log-start") == {
        "log-start/moved": 2 * S, "log-start/stepped-back": 4 * S,
    }  # fmt: skip


def test_a_topic_that_was_made_again() -> None:
    remade = RemadeTopic(
        topic="log-0", topic_id="id-0", replicas={0: ("n1",)}, acked=(), made_ns=9, healed_ns=10
    )
    assert firsts(group(about(remade=(remade,))), "topic") == {"topic/made-again": 9}
    assert firsts(group(about()), "topic") == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("_MSG_TIMED_OUT: Local: Message timed out", "client-timed-out"),
        ("NOT_LEADER_FOR_PARTITION: Broker: Not leader for partition", "NOT_LEADER_OR_FOLLOWER"),
        ("log-0-1: _AUTO_OFFSET_RESET: fetch failed due to ...", "OFFSET_OUT_OF_RANGE"),
        ("NotLeaderOrFollowerException: For requests intended only", "NOT_LEADER_OR_FOLLOWER"),
        ("UnknownServerException: The server experienced", "UNKNOWN_SERVER_ERROR"),
        ("log-0-1: UNKNOWN: Unknown broker error", "UNKNOWN_SERVER_ERROR"),
        ("TimeoutException: ShareAcknowledgeSyncEvent was 0 ms past", "client-timed-out"),
        ("_FENCED: Failed to end transaction: Local: fenced", "client-fenced"),
        ("IllegalStateException: TransactionalId a: Invalid transition", "client-state"),
        ("TransactionAbortedException: Failing batch since", "client-state"),
        ("no report came", "client-timed-out"),
        ("3 sends were not answered within 5 s", "client-timed-out"),
        ("aborted on purpose", None),
        ("", None),
        ("what nobody knows", "other"),
    ],
)
def test_errors_have_kafkas_names_whichever_client_wrote_them(text: str, name: str | None) -> None:
    assert error_of(text) == name


def test_refusals_of_a_partition_by_what_was_asked() -> None:
    timed_out, unheard = "_MSG_TIMED_OUT: Local: Message timed out", "SOME_NEW_ERROR: Broker: new"
    sends = [{"op_id": at, "mop": 0, "value": A, "error": error, "complete_ns": at * S}
             for at, error in enumerate((None, timed_out, timed_out, unheard))]  # fmt: skip
    commits = [{"op_id": 1, "act": "commit", "told_ns": 4 * S,
                "error": "ILLEGAL_GENERATION: Broker: Specified"}]  # fmt: skip
    shared = [{"op_id": 1, "act": "accept", "told_ns": 5 * S,
               "error": "InvalidRecordStateException: The record state"}]  # fmt: skip
    assert firsts(group(about(), sends=sends, commits=commits, shared=shared), "refused") == {
        "refused/send-client-timed-out": 1 * S, "refused/send-other": 3 * S,
        "refused/commit-ILLEGAL_GENERATION": 4 * S, "refused/share-INVALID_RECORD_STATE": 5 * S,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("epochs", "raised"),
    [
        (((7, 0), (7, 1), (7, 1), (7, 3)), 2),
        (((7, 0), (8, 1)), 0),  # Two producers.
        (((-1, 0), (-1, 1)), 0),
        (((7, 0), (7, None)), 0),
        ((), 0),
    ],
)
def test_producers_epochs_that_rise(
    epochs: tuple[tuple[int, int | None], ...], raised: int
) -> None:
    values = [(0, A)] * len(epochs)
    records = [
        {**row, "producer_id": producer, "producer_epoch": epoch}
        for node in ("n1", "n2")  # Copies of one log count once.
        for row, (producer, epoch) in zip(log(node, *values, snapshot="crash"), epochs, strict=True)
    ]
    found = counts(group(about(), replica_records=records), "producer")
    assert found == ({"producer/epoch-raised": raised} if raised else {})


GROUPED = about(plan=made_plan(workload="groups", concurrency=4, workers=1))


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([gave(0, 1)], ["first-assigned"]),
        ([gave(0, 1), took(0, 2), gave(0, 3)], ["first-assigned", "kept", "revoked"]),
        ([gave(0, 1), took(0, 2), gave(4, 3)], ["first-assigned", "moved", "revoked"]),
        ([gave(0, 1), gave(4, 3)], ["first-assigned", "moved-unrevoked"]),
        ([gave(0, 1, "assign")], []),
    ],
)
def test_what_rebalances_do_with_a_partition(rows: list[Row], names: list[str]) -> None:
    found = counts(group(GROUPED, assignments=rows), "group")
    assert sorted(found) == [f"group/{name}" for name in names]


def test_each_group_is_paired_with_itself() -> None:
    plan = made_plan(workload="groups", concurrency=16, workers=1)
    threads = {group_of(each, plan, workers=1): each for each in range(16)}
    first, second = (threads[name] for name in groups(plan)[:2])
    rows = [gave(first, 1), gave(second, 2), took(first, 3), took(second, 4)]
    assert pairs(group(about(plan=plan), assignments=rows)) == {
        ("group/first-assigned", "group/revoked"): 2,
    }  # fmt: skip
    same = [gave(first, 1), gave(first + 16, 2), took(first, 3), took(first + 16, 4)]
    assert ("group/first-assigned", "group/moved-unrevoked") in pairs(
        group(about(plan=plan), assignments=same)
    )


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([asked("fetch", None, 5)], "no-position"),
        ([asked("commit", 7, 1), asked("fetch", 7, 5)], "at-last-commit"),
        ([asked("commit", 7, 1), asked("fetch", 6, 5)], "behind-last-commit"),
        ([asked("commit", 7, 1), asked("fetch", None, 5)], "behind-last-commit"),
        ([asked("commit", 7, 1), asked("fetch", 9, 5)], "ahead-of-last-commit"),
        ([asked("commit", 9, 6), asked("fetch", None, 5)], "no-position"),
        ([asked("commit", 9, 1, outcome="info"), asked("fetch", None, 5)], "no-position"),
    ],
)
def test_positions_that_members_are_told(rows: list[Row], name: str) -> None:
    assert counts(group(GROUPED, commits=rows), "group") == {f"group/{name}": 1}


@pytest.mark.parametrize(
    ("between", "name"),
    [
        ([shared("release", 2)], "again-after-release"),
        ([], "again-unacknowledged"),
        ([shared("accept", 2, outcome="info")], "again-after-refusal"),
        ([shared("accept", 2)], None),  # An anomaly, and none of these.
    ],
)
def test_what_share_groups_deliver_again(between: list[Row], name: str | None) -> None:
    rows = [shared("deliver", 1, count=1), *between, shared("deliver", 3, count=2)]
    found = counts(group(about(), shared=rows), "share")
    assert found.pop("share/delivery-2") == 1
    found.pop("share/released", 0)
    assert found == ({f"share/{name}": 1} if name else {})


def test_share_deliveries_by_their_count() -> None:
    rows = [shared("deliver", at, count=at) for at in (1, 2, 3, 4, 5, 9)]
    rows.append(shared("reject", 10))
    found = counts(group(about(), shared=rows), "share")
    assert {name: found[name] for name in found if "again" not in name} == {
        "share/delivery-2": 1, "share/delivery-3-4": 2, "share/delivery-5+": 2, "share/rejected": 1,
    }  # fmt: skip


NO_HARM = frozenset({
    "clients", "client-connections", "stall-clients", "keeper", "keeper-links", "topics",
})  # fmt: skip
"""Families of faults that do nothing to a broker."""


@pytest.mark.parametrize("kind", sorted({*KINDS} - ORDERING))
def test_each_kind_of_fault_says_what_it_does_to_a_leader(kind: str) -> None:
    row = {"fault_id": 1, "kind": kind}
    (deed,) = deeds(pa.Table.from_pylist([row], schema=TABLES["faults"]))
    family = KINDS[kind].families[0]
    harm = harm_of(fault(deed, "n1", 1, 2, family=family))
    assert harm == "" if family in NO_HARM else harm in CAUSES


def test_wild_rows_neither_raise_nor_warn() -> None:
    most = 2**63 - 1
    wild = {"observed_ns": most, "asked_ns": -most, "leader_epoch": 2**31 - 1}
    rows = [
        {**written(1, 1, 1), "log_offset": most}, {**told(1, 1, 1), **wild},
        {**leads(1, 3, source="zookeeper"), **wild, "isr": [None]}, {**elected(1, 1, 1), "isr": []},
    ]  # fmt: skip
    states = [look("n1", most, 1), look("n1", 0, 2, life=2), {**look("n1", 5, 1), "node": None}]
    cuts = [{**cut(f"follower of broker {9**30}: epoch {9**30} ends at offset 1 there"),
             "from_offset": -most, "to_offset": most, "observed_ns": most}]  # fmt: skip
    commits = [{**asked("commit", most, 1), "told_ns": most, "process": -1}, asked("fetch", 0, 2)]
    found = group(
        facts(),
        leadership=rows, replica_states=states, truncations=cuts, commits=commits,
        shared=[{**shared("deliver", 1, count=2**31 - 1), "told_ns": None, "value": None}],
        assignments=[{**gave(-1, 1), "time_ns": None}],
    )  # fmt: skip
    assert counts(found, "truncation")
