"""Each transition of the catalogue has a record that shows it: none is in it in vain."""

from collections.abc import Iterator

import pytest

from checkers.facts import Disturbance, RemadeTopic, RunFacts
from checkers.group import Group
from checkers.reigns import GROUPS, SHARES, TRANSACTIONS, Cut, Reign
from checkers.transitions.tables import reached
from results.record.milestones import Milestone
from results.record.terms import QUORUM_TOPIC
from results.record.topics import CreatedTopic
from results.record.transitions import (
    CAUSES,
    ERRORS,
    LENGTHS,
    ROLES,
    SIZES,
    TRANSITIONS,
    TRUNCATIONS,
    area_of,
)
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, S, facts, group, log, made_plan, whole_run
from tests.checkers.reaching import (
    TRANSACTIONAL,
    about,
    answer,
    asked,
    cut,
    fault,
    gave,
    killed,
    look,
    op,
    reign,
    shared,
    state,
    told,
    took,
    transaction,
    written,
)

Groups = Iterator[Group]
FAULTS = {
    "leader-killed": fault("kill", "n1", 15, 30),
    "leader-stopped": fault("stop", "n1", 15, 30),
    "leader-disk-fault": fault("disk-full", "n1", 15, 30),
    "leader-paused": fault("pause", "n1", 15, 30),
    "leader-cut-off": fault("isolate", "n1", 15, 30),
    "leader-starved": fault("memory", "n1", 15, 30),
    "leader-disk-late": fault("slow-disk", "n1", 15, 30),
    "leader-links-bad": fault("delay", "n1", 15, 30, family="network"),
    "leader-clock-wrong": fault("clock-offset", "n1", 15, 30, family="clock"),
    "ordered": fault("reassignment", "n1", 15, 30),
    "controller-hit": fault("kill", "n3", 15, 30, controller=True),
}
EXITED = Milestone(name="broker-ended", at_ns=19 * S, detail={"node": "n1", "code": "1"})
CRASHED = Milestone(name="broker-ended", at_ns=19 * S, detail={"node": "n2", "code": "-11"})
NOTED = Milestone(name="noted", at_ns=60 * S)


def causes(known: RunFacts) -> Iterator[RunFacts]:
    """Yield facts by which each cause fits an election at 20 s of a leader after broker 1."""
    for name in CAUSES:
        faults: tuple[Disturbance, ...] = (FAULTS[name],) if name in FAULTS else ()
        ended = (EXITED,) if name == "leader-ended" else ()
        yield facts(quorum=known.quorum, disturbances=faults, milestones=ended)


def elections() -> Groups:
    for known in causes(about()):
        yield group(known, leadership=[written(1, 4, 10), written(2, 5, 20, 2, 3)])
    steps = [
        written(1, 4, 10), written(2, 5, 20), written(2, 6, 21), written(-1, 7, 22, 2),
        written(2, 8, 23, 2), written(3, 9, 24, 3, unclean=True), told(4, 1, 10), told(5, 2, 20),
        told(4, 1, 22),
    ]  # fmt: skip
    yield group(about(), leadership=steps)


def isrs() -> Groups:
    of_size = {name: list(range(1, int(name.rstrip("+")) + 1)) for name in SIZES}
    for first in SIZES:
        for second in SIZES:
            rows = [{**written(1, 1, 10), "isr": of_size[first]},
                    {**written(1, 1, 11), "isr": of_size[second]}]  # fmt: skip
            yield group(about(), leadership=rows)
    yield group(about(), leadership=[written(1, 1, 10, 1, 2), written(1, 1, 11, 1, 3)])


def truncations() -> Groups:
    reasons = {
        "leader-epoch": "follower of broker 2: epoch 4 ends at offset 40 there",
        "high-watermark": "follower of broker 2: local high watermark 40",
        "leader-log-end": "follower of broker 2: the leader's log ends at offset 40",
        "below-high-watermark": "below its high watermark 41",
        "recovery": "Corruption found in segment 0",
        "other": "",
    }
    assert {*reasons} == {*TRUNCATIONS}
    for reason in (*reasons.values(), "Truncate and start at offset"):
        for length in LENGTHS:
            took = 0 if length == "unseen" else int(length.rstrip("+").partition("-")[0])
            looks = [look("n1", 40 + took, 10), look("n1", 40, 11)]
            yield group(about(), truncations=[cut(reason)], replica_states=looks)


def replicas() -> Groups:
    led = [written(1, epoch, 10 + epoch) for epoch in range(12)]
    records = log("n1", (0, A), (2, B), (5, A), (9, B), snapshot="crash")
    yield group(about(), leadership=led, replica_records=records)
    for end in (0, 39, 40, 41):
        looks = [look("n1", 40, 10, mark=30), look("n1", end, 20, life=3, mark=29)]
        yield group(about(), replica_states=looks)
    looks = [look("n1", 50, at, start=start) for at, start in enumerate((0, 7, 3))]
    yield group(about(), replica_states=looks)
    made = RemadeTopic(topic="log-0", topic_id="id-0", replicas={0: ("n1",)}, acked=(), made_ns=9,
                       healed_ns=10)  # fmt: skip
    yield group(about(remade=(made,)))
    written_by = [
        {**row, "producer_id": 7, "producer_epoch": epoch}
        for epoch, row in enumerate(log("n1", (0, A), (0, B), snapshot="crash"))
    ]
    yield group(about(), replica_records=written_by)


LOCAL = {
    "client-timed-out": "_MSG_TIMED_OUT: Local: Message timed out",
    "client-transport": "_TRANSPORT: Local: Broker transport failure",
    "client-state": "_STATE: Local: Erroneous state",
    "client-fenced": "_FENCED: Local: This instance has been fenced",
    "client-purged": "_PURGE_QUEUE: Local: Purged in queue",
    "client-queue-full": "_QUEUE_FULL: Local: Queue full",
    "other": "nobody knows why",
}


def refusals() -> Groups:
    for name in {name for names in ERRORS.values() for name in names}:
        error = LOCAL.get(name, f"{name}: Broker: said so")
        row: Row = {"op_id": 1, "error": error}
        yield group(
            about(),
            sends=[{**row, "mop": 0, "value": A, "complete_ns": S}],
            commits=[{**row, "act": "commit", "told_ns": S}],
            shared=[{**row, "act": "accept", "told_ns": S}],
        )
        yield whole_run(ops=[op(1, 1, 2, error=error), op(2, 1, 2, f="poll", error=error)])


def transactions() -> Groups:
    thrown = "its producer was thrown away before the end, on purpose"
    ends = [
        ("commit", "committed", 1, None), ("commit", "committed", 11, None),
        ("abort", "aborted", 1, "aborted on purpose"), ("commit", "aborted", 1, None),
        ("abort", "aborted", 1, "_MSG_TIMED_OUT: Local: Message"), ("commit", "unknown", 11, None),
        ("commit", "unknown", 1, "_FENCED: Failed to end"), ("abort", "unknown", 1, thrown),
        ("abort", "unknown", 1, "OUT_OF_ORDER_SEQUENCE_NUMBER: ProduceRequest"),
        ("abort", "unknown", 1, thrown),
    ]  # fmt: skip
    # The producer of the eighth is followed after 3 s; that of the last one never.
    ops = [op(at, 3 * at, 3 * at + lasts, error=error)
           for at, (_, _, lasts, error) in enumerate(ends)]  # fmt: skip
    rows = [transaction(at, *each[:2]) for at, each in enumerate(ends)]
    known = facts(plan=TRANSACTIONAL, milestones=(NOTED,))
    yield whole_run(known, ops=ops, transactions=rows)


def coordinators() -> Groups:
    plans: dict[str, Row] = {
        TRANSACTIONS: TRANSACTIONAL,
        GROUPS: {"workload": "groups", "concurrency": 4, "workers": 1},
        SHARES: {"workload": "shares", "concurrency": 4, "workers": 1, "partitions": 1},
    }
    topic = CreatedTopic(topic="log-0", topic_id="", partitions=1)
    for internal, plan in plans.items():
        leaders = (1, 2, 2, -1, 2, 1)
        led: list[Reign] = [
            reign(internal, leader, epoch, (10 * epoch, 10 * epoch + 12))
            for epoch, leader in enumerate(leaders, 1)
        ]
        known = facts(
            plan=plan, reigns=tuple(led), topics=(topic,), milestones=(),
            inner_cuts=(Cut(topic=internal, partition=0, node="n1", from_offset=7),),
        )  # fmt: skip
        f = "txn" if internal == TRANSACTIONS else "poll"
        yield whole_run(known, ops=[op(1, 15, 25, f=f)])


def groups() -> Groups:
    known = about(plan=made_plan(workload="groups", concurrency=4, workers=1))
    moves = [gave(0, 1), took(0, 2), gave(0, 3), took(0, 4), gave(4, 5), gave(0, 6)]
    yield group(known, assignments=moves)
    acts = [asked("fetch", None, 1), asked("commit", 7, 2)]
    acts += [asked("fetch", offset, 3 + at) for at, offset in enumerate((7, 9, 6))]
    yield group(known, commits=acts)


def quorum() -> Groups:
    steady = [answer(1, 1, 1, 5), answer(1, 1, 1, 19)]
    for known in causes(about()):
        yield whole_run(known, quorum_states=[*steady, answer(2, 2, 2, 20)])
    known = facts(milestones=())
    for epoch, leader in ((2, 1), (3, 2), (9, 2)):
        rows = [*steady, answer(leader, epoch, leader, 20), answer(1, 1, 1, 23)]
        votes = [state(1, 2, None, voted=1), state(2, 2, None, voted=2), state(1, 3, None, voted=2)]
        yield whole_run(known, quorum_states=[*rows, *votes])
    for before in ROLES:
        for after in ROLES:
            steps = [state(3, 1, before), state(3, 2, after)]
            yield whole_run(known, quorum_states=[answer(1, 2, 1, 20), *steps])
    yield group_of_quorum()


def group_of_quorum() -> Group:
    rows = group(about(), truncations=[cut("the quorum's logs differ from that offset on")])
    return Group(
        facts=rows.facts, topic=QUORUM_TOPIC, topic_id="id", partition=0, tables=rows.tables
    )


def shares() -> Groups:
    rows = [shared("deliver", at, count=at) for at in range(1, 6)]
    rows += [shared("release", 6), shared("deliver", 7), shared("accept", 8, outcome="info"),
             shared("deliver", 9), shared("reject", 10)]  # fmt: skip
    yield group(about(), shared=rows)


def brokers() -> Groups:
    full = killed("n1", 3, 15, "disk-full")
    for stone, faults in ((EXITED, ()), (CRASHED, ()), (EXITED, (full,))):
        yield whole_run(facts(milestones=(stone,), disturbances=faults))


RECORDS = {
    ("election", "leader"): elections,
    ("isr",): isrs,
    ("truncation",): truncations,
    ("epoch", "recovery", "log-start", "topic", "producer"): replicas,
    ("refused",): refusals,
    ("transaction",): transactions,
    ("coordinator",): coordinators,
    ("group",): groups,
    ("quorum",): quorum,
    ("share",): shares,
    ("broker",): brokers,
}


@pytest.mark.parametrize("areas", RECORDS, ids=" ".join)
def test_each_transition_of_the_catalogue_has_a_record(areas: tuple[str, ...]) -> None:
    found = {
        row["transition"]
        for each in RECORDS[areas]()
        for row in reached(each)["transitions"].to_pylist()
    }
    assert found <= {*TRANSITIONS}
    assert [name for name in TRANSITIONS if area_of(name) in areas and name not in found] == []


def test_each_area_has_its_records() -> None:
    assert {area for areas in RECORDS for area in areas} == {*map(area_of, TRANSITIONS)}
