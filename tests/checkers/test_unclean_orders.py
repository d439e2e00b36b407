"""An unclean election that a fault ordered excuses what it lost, and nothing else."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from checkers import (
    committed_truncation,
    duplicate,
    high_watermark_regression,
    inconsistent_offsets,
    lost_write,
    poll_order,
    uncommitted_read,
    unseen,
)
from checkers.facts import DiskLoss, RunFacts, UncleanOrder
from checkers.group import Group
from checkers.guarantees import guarantees
from checkers.protocol import Checker
from checkers.reigns import Reign
from checkers.unclean_orders import unclean_orders
from results.record.plan import Plan
from results.record.plan_parts import PlannedFault
from results.record.tables import TABLES
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    state,
)

D = pack_value(1, 4)
E = pack_value(1, 5)
KIND = "unclean-election"
SEEN = {"before": {"leader_epoch": 4}, "after": {"leader_epoch": 5, "leader": "n2"}}


def _row(
    *, kind: str = KIND, spec: object = None, effect: object = None, **changes: object
) -> pa.Table:
    row = {
        "fault_id": 1, "kind": kind, "spec": json.dumps(spec or {}), "targets": ["n1"],
        "requested_ns": S, "effect": None if effect is None else json.dumps(effect), **changes,
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=TABLES["faults"])


def _places(rows: pa.Table) -> list[tuple[str, int]]:
    return [(order.topic, order.partition) for order in unclean_orders(rows)]


@pytest.mark.parametrize(
    ("spec", "effect", "places"),
    [
        ({"target": "replicas(log-0, 2)"}, {"place": ["log-0", 2]}, [("log-0", 2)]),
        ({"target": "replicas"}, {"place": ["log-1", 0]}, [("log-1", 0)]),
        # It may have been carried out, though nobody saw that.
        ({"target": "replicas(log-0,2)", "begun": True}, {"without_effect": ""}, [("log-0", 2)]),
        ({"target": "replicas", "place": ["log-0", 2], "begun": True}, None, [("log-0", 2)]),
        ({"target": "replicas", "begun": True}, {"without_effect": "late"}, []),
        ({"target": "replicas"}, {"place": "log-1"}, []),
        ({"target": "replicas"}, {"place": ["log-1", float("inf")]}, []),
        ({"target": "replicas"}, {"place": ["log-1", "0"]}, []),
    ],
)
def test_the_place_is_the_effect_s_the_spec_s_or_the_target_s(
    spec: object, effect: object, places: list[tuple[str, int]]
) -> None:
    assert _places(_row(spec=spec, effect=effect)) == places
    assert _places(_row(kind="kill", spec=spec, effect=effect)) == []


def test_an_order_that_was_never_given_excuses_nothing() -> None:
    """It waited for full ISRs in vain, or was refused before anything was done."""
    spec = {"target": "replicas(log-0,2)"}
    why = {
        "without_effect": (
            "the fault destroys a replica's records, so it waits for full ISRs"
            " and for the end of other faults, but an ISR was not full"
        )
    }
    assert _places(_row(spec=spec, effect=why, targets=[])) == []
    assert _places(_row(spec={**spec, "begun": False}, effect=why)) == []
    assert _places(_row(spec=spec, effect=why)) == []  # Of before `begun` was written.
    assert _places(_row(spec=spec, effect=why, healed_ns=9 * S)) == [("log-0", 2)]
    assert _places(_row(spec=spec)) == [("log-0", 2)]  # The harness died over it.


def test_the_epoch_and_the_time_are_those_that_were_seen() -> None:
    about = {"place": ["log-0", 2]}
    (order,) = unclean_orders(_row(effect={**about, **SEEN}, confirmed_ns=7 * S))
    assert order == UncleanOrder(
        topic="log-0", partition=2, after_epoch=4, epoch=5, leader="n2", began_ns=S, seen_ns=7 * S
    )
    for damaged in ({}, {"before": 4, "after": 5}, {**SEEN, "after": {"leader_epoch": 5}}):
        (order,) = unclean_orders(_row(effect={**about, **damaged}, confirmed_ns=7 * S))
        assert not order.known
    assert [order.may_be(epoch) for epoch in (4, 5, 6)] == [True] * 3
    seen = replace(order, after_epoch=4, epoch=6, leader="n2", seen_ns=S)
    assert [seen.may_be(epoch) for epoch in (4, 5, 6, 7, -1)] == [False, True, True, False, True]


def test_the_guarantees_name_the_order_be_it_written_or_dealt() -> None:
    by_hand = Plan(faults=(PlannedFault(kind=KIND),))
    dealt = (UncleanOrder(topic="log-0", partition=2),)
    for plan, orders in ((by_hand, ()), (Plan(), dealt)):
        about = RunFacts(run_id="r", recorded_id="r", plan=plan, unclean_orders=orders)
        assert "except those that faults order" in " ".join(guarantees(about))
    none = RunFacts(run_id="r", recorded_id="r", plan=Plan())
    assert "only an in-sync replica becomes the leader" in " ".join(guarantees(none))


ORDER = UncleanOrder(
    topic="log-0",
    partition=0,
    after_epoch=1,
    epoch=2,
    leader="n2",
    began_ns=10 * S,
    seen_ns=20 * S,
)
TWO = {"replication": 2, "nodes": 2}
ORDERED = facts(plan=TWO, unclean_orders=(ORDER,))
NOT_RECOVERED = facts(plan=TWO, unclean_orders=(ORDER,), milestones=())
ALLOWED = facts(plan={**TWO, "broker": {"unclean.leader.election.enable": "true"}})
ELECTION = elected(2, 2, 9, unclean=True)
REIGN = Reign(topic="log-0", partition=0, leader=2, epoch=2, from_ns=10 * S, until_ns=99 * S)


def tells(node: str, mark: int | None, *, at: int = 9) -> Row:
    """A replica's own word on its high watermark."""
    return {"node": node, "observed_ns": at * S, "high_watermark": mark, "incarnation": 1,
            "high_watermark_source": "fetch"}  # fmt: skip


STATES = [state("n1", 3), state("n2", 3), tells("n2", 2), tells("n1", 3)]
"""Of n2, which is elected in epoch 2, all below offset 2 was committed; beyond, it may lack any."""


def _hit(about: RunFacts, **rows: list[Row]) -> Group:
    """Return a partition whose final log has records from before and after the election."""
    final = [row for node in ("n1", "n2") for row in log(node, (0, A), (1, B), (2, C))]
    return group(
        about,
        **{
            "leadership": [leads(2, 2, at=30 * S), ELECTION],
            "replica_records": final,
            "replica_states": STATES,
            **rows,
        },
    )


OLD = [row for node in ("n1", "n2") for row in log(node, (0, A), (1, B), (1, C))]
"""All of it was written before the election, which began epoch 2."""


def _of_a_loss(about: RunFacts, offset: int, *, sent: int = S, **rows: list[Row]) -> bool:
    send = {**ack(D, offset, at=sent + S), "invoke_ns": sent}
    (anomaly,) = found(lost_write.CHECKER, _hit(about, sends=[send], **rows)).anomalies
    return KIND in anomaly.excuses


def test_only_what_such_a_leader_can_have_lacked_is_excused() -> None:
    assert _of_a_loss(ORDERED, 2)
    assert _of_a_loss(ORDERED, 7)
    # It was lost before: below its own high watermark the elected had what everybody had.
    assert not _of_a_loss(ORDERED, 1)
    # It may have had another record there, which an older leader never committed.
    assert _of_a_loss(ORDERED, 1, replica_states=[*STATES[:2], tells("n2", 1)])
    # Where elections are allowed, nobody knows which replica said what before one came.
    assert _of_a_loss(ALLOWED, 1)


def test_what_the_elected_said_of_itself_counts_and_only_what_it_said_before() -> None:
    none = STATES[:2]
    for said, start in (
        ([], 0),
        ([tells("n1", 3)], 0),
        ([tells("n2", 3, at=11)], 0),  # It leads, maybe.
        ([tells("n2", 1, at=8), tells("n2", 2, at=9)], 2),
        ([tells("n2", 2, at=8), tells("n2", 1, at=9)], 1),
        ([tells("n2", 2, at=8), tells("n2", None, at=9)], 2),
        ([{**tells("n2", 3), "high_watermark_source": "checkpoint"}], 0),
        ([{**tells("n2", 3), "snapshot": "noted"}], 0),
    ):
        for at in range(4):
            excused = _of_a_loss(ORDERED, at, replica_states=[*none, *said])
            assert excused is (at >= start)


def test_what_a_disk_lost_the_elected_lacked_though_it_had_had_it() -> None:
    def with_loss(*nodes: str, end: int = 1) -> RunFacts:
        loss = DiskLoss(
            nodes=frozenset(nodes), topic="log-0", partition=0, end_after=end, end_before=9,
            until_ns=9 * S, began_ns=8 * S, healed_ns=10 * S, excuse="wipe",
        )  # fmt: skip
        return facts(plan=TWO, unclean_orders=(ORDER,), disk_losses=(loss,))

    assert _of_a_loss(with_loss("n2"), 1, sent=7 * S)
    assert not _of_a_loss(with_loss("n2"), 0, sent=7 * S)
    assert not _of_a_loss(with_loss("n1"), 1, sent=7 * S)


def test_what_the_elected_told_after_its_disk_was_hit_it_had_again() -> None:
    def excused(at: int, *, excuse: str = "power-loss", until: int = 5 * S) -> bool:
        loss = DiskLoss(
            nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=0, end_before=9,
            until_ns=until, began_ns=4 * S, healed_ns=6 * S, excuse=excuse,
        )  # fmt: skip
        about = facts(plan=TWO, unclean_orders=(ORDER,), disk_losses=(loss,))
        states = [*STATES[:2], tells("n2", 2, at=at)]
        return _of_a_loss(about, 1, sent=7 * S, replica_states=states)

    assert not excused(6)
    assert excused(5)  # It was told at the last moment before the broker ran again.
    assert excused(3)
    assert not excused(6, excuse="wipe")
    assert excused(6, excuse="bit-flip")  # It may be found later.
    assert excused(6, excuse="unconfirmed-fault")
    assert excused(6, until=-1)  # Nobody knows when it was over.


def test_what_was_said_before_another_election_says_nothing_of_the_next() -> None:
    again = replace(ORDER, after_epoch=3, epoch=4, began_ns=30 * S, seen_ns=40 * S)
    later = elected(2, 4, 11, unclean=True)
    for orders, at, excused in (
        ((ORDER, again), 9, True),
        ((ORDER, again), 25, False),
        ((again,), 9, False),
        ((replace(ORDER, leader="", epoch=-1), again), 25, True),
    ):
        about = facts(plan=TWO, unclean_orders=orders)
        leaders = [leads(2, 4, at=50 * S), later]
        states = [*STATES[:2], tells("n2", 2, at=at)]
        told = _of_a_loss(about, 1, sent=29 * S, leadership=leaders, replica_states=states)
        assert told is excused


def test_what_was_sent_to_the_new_leader_is_not_excused_by_its_election() -> None:
    """All who led before an order was given are dead; where elections are allowed one may live."""
    assert _of_a_loss(ORDERED, 2, sent=20 * S)
    assert not _of_a_loss(ORDERED, 2, sent=20 * S + 1)
    assert _of_a_loss(ALLOWED, 2, sent=20 * S + 1)
    unseen_order = UncleanOrder(topic="log-0", partition=0)
    assert _of_a_loss(facts(plan=TWO, unclean_orders=(unseen_order,)), 0, sent=20 * S + 1)


def test_an_election_in_another_epoch_or_place_or_that_was_not_seen_excuses_nothing() -> None:
    def with_order(**changes: object) -> RunFacts:
        order = replace(ORDER, **changes)  # type: ignore[arg-type] # of a table
        return facts(plan=TWO, unclean_orders=(order,))

    assert _of_a_loss(with_order(), 2, sent=S)
    assert not _of_a_loss(with_order(partition=1), 2, sent=S)
    assert not _of_a_loss(with_order(after_epoch=2, epoch=3), 2, sent=S)
    assert not _of_a_loss(facts(plan=TWO), 2, sent=S)
    clean = [leads(2, 2, at=30 * S), elected(2, 2, 9)]
    assert not _of_a_loss(with_order(), 2, sent=S, leadership=clean)


def test_a_high_watermark_may_go_back_over_the_election_and_not_within_an_epoch() -> None:
    def told(*answers: tuple[int, int, int]) -> tuple[str, ...]:
        rows = [
            {**leads(broker, epoch, at=at * S), "high_watermark": mark, "asked_ns": at * S - 1}
            for at, (broker, epoch, mark) in enumerate(answers, start=3)
        ]
        on = _hit(ORDERED, leadership=[*rows, ELECTION])
        (anomaly,) = found(high_watermark_regression.CHECKER, on).anomalies
        return anomaly.excuses

    assert told((1, 1, 5), (2, 2, 2)) == (KIND,)
    assert told((1, 1, 5), (1, 3, 2)) == (KIND,)
    assert told((2, 2, 5), (2, 2, 2)) == ()
    assert told((2, 2, 5), (1, 3, 2)) == ()
    assert told((1, 0, 5), (2, 1, 2)) == ()


def test_of_a_run_that_died_before_any_file_was_collected_no_log_of_elections_tells() -> None:
    marks = {1: 5, 2: 2}
    rows = [
        {**leads(epoch, epoch, at=at * S), "high_watermark": mark, "asked_ns": at * S - 1}
        for at, (epoch, mark) in enumerate(marks.items(), start=3)
    ]

    def told(about: RunFacts, *more: Row) -> bool:
        on = group(about, leadership=[*rows, *more])
        (anomaly,) = found(high_watermark_regression.CHECKER, on).anomalies
        return KIND in anomaly.excuses

    died = facts(plan=TWO, unclean_orders=(ORDER,), milestones=())
    assert told(died)
    assert told(replace(ALLOWED, milestones=()))
    assert not told(facts(plan=TWO, milestones=()))
    assert not told(replace(died, unclean_orders=(replace(ORDER, after_epoch=2, epoch=3),)))
    # Where it is there, it tells of all of them.
    assert not told(died, elected(2, 2, 9))
    assert not told(ORDERED)


def test_other_checks_look_at_the_offset_too() -> None:
    """The same anomaly at offset 1, which the election cannot have touched, and at offset 2."""
    for offset, excused in ((1, False), (2, True)):
        value = (A, B, C)[offset]
        later = {**read(value, offset), "complete_ns": 30 * S}
        twice = _hit(ORDERED, sends=[ack(D, offset)], polls=[later])
        (anomaly,) = found(inconsistent_offsets.CHECKER, twice).anomalies
        assert (KIND in anomaly.excuses) is excused
        copies = _hit(ORDERED, polls=[read(E, offset), read(E, 9)],
                      replica_records=[*log("n1", (0, A), (1, A), (1, E)),
                                       *log("n2", (0, A), (1, B), (2, C), (2, E))],
                      replica_states=[*STATES, state("n2", 4)])  # fmt: skip
        (anomaly,) = found(duplicate.CHECKER, copies).anomalies
        assert (KIND in anomaly.excuses) is excused
        skipped = _hit(NOT_RECOVERED, sends=[ack(value, offset)], replica_records=OLD,
                       polls=[read(A, 0)], final_reads=[final_read(1)])  # fmt: skip
        (anomaly,) = found(unseen.UNSEEN_CHECKER, skipped).anomalies
        assert (KIND in anomaly.excuses) is excused


@pytest.mark.parametrize(("seen", "excused"), [(10 * S, True), (10 * S - 1, False)])
@pytest.mark.parametrize("about", [ORDERED, replace(ALLOWED, reigns=(REIGN,))])
def test_an_election_that_began_later_explains_no_answer(
    about: RunFacts, seen: int, *, excused: bool
) -> None:
    """The fault that ordered the election began at 10 s, or its entry was written after that."""
    polls = [{**read(value, 2, op=op), "complete_ns": at} for op, (value, at) in
             enumerate(((C, 5 * S), (D, seen)))]  # fmt: skip
    (anomaly,) = found(inconsistent_offsets.CHECKER, _hit(about, polls=polls)).anomalies
    assert (KIND in anomaly.excuses) is excused
    low = {**leads(1, 1, at=seen), "high_watermark": 2, "asked_ns": 6 * S}
    on = _hit(about, polls=polls[:1], leadership=[low, ELECTION], replica_records=OLD)
    (anomaly,) = found(uncommitted_read.CHECKER, on).anomalies
    assert (KIND in anomaly.excuses) is excused


def test_of_two_copies_only_the_one_that_is_gone_has_to_be_explained() -> None:
    """A is left where everybody had it; who sent it to 9, in which epoch, no log tells any more."""
    (anomaly,) = found(duplicate.CHECKER, _hit(ORDERED, polls=[read(A, 9)])).anomalies
    assert anomaly.excuses == (KIND,)


def test_what_was_sent_to_the_new_leader_no_check_excuses_by_its_election() -> None:
    def excuses(checker: Checker, **rows: list[Row]) -> bool:
        (anomaly,) = found(checker, _hit(ORDERED, **rows)).anomalies
        return KIND in anomaly.excuses

    for sent, excused in ((20 * S, True), (20 * S + 1, False)):
        times = {"invoke_ns": sent, "complete_ns": sent + S}
        mine = {**ack(C, 2), **times}
        seen = {**read(C, 2), **times}
        told = {**leads(2, 2, at=40 * S), "high_watermark": 2, "asked_ns": 39 * S}
        skipped = _hit(NOT_RECOVERED, sends=[mine], polls=[read(A, 0)],
                       final_reads=[final_read(1)], replica_records=OLD)  # fmt: skip
        (anomaly,) = found(unseen.UNSEEN_CHECKER, skipped).anomalies
        assert (KIND in anomaly.excuses) is excused
        assert excuses(uncommitted_read.CHECKER, sends=[mine], polls=[seen], replica_records=OLD,
                       leadership=[told, ELECTION]) is excused  # fmt: skip
        assert excuses(inconsistent_offsets.CHECKER, sends=[mine, {**ack(D, 2), **times}]) is (
            excused
        )
        assert excuses(duplicate.CHECKER, sends=[mine], polls=[read(C, 7)]) is excused
    # Each of the two was known before the election.
    early = [{**ack(each, 2), "invoke_ns": S, "complete_ns": 2 * S} for each in (C, D)]
    assert not excuses(inconsistent_offsets.CHECKER, sends=early)
    # One of the two may have been there before the election.
    sends = [ack(D, 2), {**ack(C, 2), "invoke_ns": 30 * S, "complete_ns": 31 * S}]
    assert excuses(inconsistent_offsets.CHECKER, sends=sends)
    assert excuses(inconsistent_offsets.CHECKER, sends=sends[1:], polls=[read(E, 2)])


def test_a_reader_that_stood_on_what_the_new_leader_got_jumped_over_nothing_of_before() -> None:
    for sent, excused in ((20 * S, True), (20 * S + 1, False)):
        on = _hit(
            ORDERED,
            sends=[{**ack(A, 0), "invoke_ns": sent}, ack(B, 1, op=2), ack(C, 2, op=3)],
            polls=[{**read(A, 0, op=8, phase="main"), "process": 8},
                   {**read(C, 2, op=9, phase="main"), "process": 8}],
        )  # fmt: skip
        (anomaly,) = found(poll_order.SKIP_CHECKER, on).anomalies
        assert (KIND in anomaly.excuses) is excused


def test_a_reader_that_goes_back_below_where_the_leader_began_is_not_excused() -> None:
    member = {"process": 2, "kind": "subscribe", "op_id": 1, "time_ns": 0}
    back = {**read(A, 0, op=3, phase="main"), "pos": 0, "process": 2}
    for offset, excused in ((1, False), (2, True)):
        first = {**read(D, offset, op=2, phase="main"), "pos": 0}
        late = {**ack(D, offset), "invoke_ns": 21 * S}
        for sends in ([], [late]):  # It is gone, whenever it was sent.
            on = _hit(ORDERED, sends=sends, polls=[first, back], assignments=[member])
            (anomaly,) = found(poll_order.NONMONOTONIC_CHECKER, on).anomalies
            assert (KIND in anomaly.excuses) is excused


def test_a_leader_that_drops_what_lies_below_the_election_is_not_excused() -> None:
    for first, excused in ((1, False), (2, True)):
        mine = log("n1", *((0, each) for each in (A, B, C)[:first]))
        on = _hit(
            ORDERED,
            leadership=[
                {**leads(1, 1, at=3 * S), "high_watermark": 3, "asked_ns": 2 * S},
                leads(2, 2, at=30 * S),
                ELECTION,
            ],
            replica_records=[*mine, *log("n2", (0, A), (1, B), (2, C))],
            replica_states=[state("n1", first), *STATES[1:]],
        )
        (anomaly,) = found(committed_truncation.CHECKER, on).anomalies
        assert anomaly.offset == first
        assert (KIND in anomaly.excuses) is excused


@pytest.mark.parametrize("epoch", [None, 0, 1, 2, 3])
def test_a_record_of_the_epoch_that_it_began_it_did_not_cost(epoch: int | None) -> None:
    """The election began epoch 2; a reader, or the copy of a step, tells the record's epoch."""
    excused = epoch is None or epoch < 2
    read_in = [{**read(D, 5), "leader_epoch": epoch}]
    copied = log("n1", (-1 if epoch is None else epoch, D), start=5, snapshot="step-01")
    for about in (ORDERED, ALLOWED):
        assert _of_a_loss(about, 5, polls=read_in) is excused
        assert _of_a_loss(about, 5, replica_records=[*OLD, *copied]) is excused
    # Of another record, or of a copy elsewhere, it says nothing.
    assert _of_a_loss(ORDERED, 5, polls=[{**read(D, 4), "leader_epoch": 3}])
    assert _of_a_loss(ORDERED, 5, polls=[{**read(E, 5), "leader_epoch": 3}])


@pytest.mark.parametrize(
    ("epoch", "more", "milestones", "excused"),
    [
        (1, [], True, True),
        (2, [], True, False),  # Every election came before: there is no later epoch.
        (2, [leads(1, 3, at=9 * S)], True, True),  # ZooKeeper was asked before.
        (2, [leads(1, 3, at=9 * S)], False, True),
        (2, [], False, True),  # Nobody may have looked since.
    ],
)
@pytest.mark.parametrize("orders", [(), (replace(ORDER, epoch=-1, after_epoch=-1),)])
def test_with_zookeeper_no_election_comes_after_the_last_epoch(
    epoch: int, more: list[Row], *, milestones: bool, excused: bool,
    orders: tuple[UncleanOrder, ...],
) -> None:  # fmt: skip
    broker = {} if orders else {"unclean.leader.election.enable": "true"}
    about = facts(plan={"system": "kafka:2.8.2:zookeeper", "broker": broker},
                  unclean_orders=orders)  # fmt: skip
    about = about if milestones else replace(about, milestones=())
    led = [leads(1, 2, at=5 * S), leads(1, 2, at=6 * S, source="zookeeper"), *more]
    on = group(
        about, sends=[ack(B, 1)], polls=[{**read(B, 1), "leader_epoch": epoch}], leadership=led,
        replica_records=log("n1", (0, A), (2, C)), replica_states=[state("n1", 2)],
    )  # fmt: skip
    (anomaly,) = found(lost_write.CHECKER, on).anomalies
    assert (KIND in anomaly.excuses) is excused
