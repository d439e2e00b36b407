"""The generator of share groups, what a crew makes of its ops, and the end of a group."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checkers import traffic
from checkers.ingest import ingest, live_units
from cluster.kafka.cluster import KafkaCluster
from harness.java_client import java_client
from results.record.clock import RunClock, stopwatch_s, wait_until
from results.record.identities import MEMBERS, group_of, groups
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, plan_from
from results.record.runtime import new_event
from results.record.shares import REQUEST_S, group_settings, hold_s, limit
from results.record.stream import read_stream
from results.record.terms import F, Outcome, Phase, ShareAct
from results.record.topics import CreatedTopic
from tests.checkers.partition_rows import facts, sentences, whole_run
from workloads.clients import settings
from workloads.clients.java import settings as java_settings
from workloads.crew import Clients, Crew
from workloads.draining import (
    FIRST_PROCESS,
    MOST_ERRORS,
    REST_S,
    Drain,
    done_with,
    drain_recorder,
    last_member,
)
from workloads.fleet import Fleet
from workloads.member import GroupError
from workloads.protocol import (
    Acknowledge,
    Batch,
    Crash,
    Observed,
    Op,
    Poll,
    Send,
    Settled,
    Subscribe,
)
from workloads.recorder import SHARED, STREAMS, Recorder
from workloads.sharer import LONGEST_REQUEST_S, SLACK_S, ShareMember
from workloads.shares import SharesGenerator

STEP_NS = 10_000_000
PLAN = Plan(workload="shares", topics=2, partitions=2, concurrency=16, workers=2)
MEMBER, OTHER = 0, 2
TOPICS = [CreatedTopic(topic="log-0", topic_id="id-0", partitions=2)]
HERE, THERE = ("log-0", 0), ("log-0", 1)
S = 1_000_000_000
Row = dict[str, Any]


def observed(number: int = 0, *, thread: int = MEMBER, unhandled: int = 0) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=True,
        positions={},
        in_flight={},
        unhandled=unhandled,
    )


def test_the_first_four_of_each_fourth_thread_are_members_of_the_one_group() -> None:
    members = [each for each in range(16) if group_of(each, PLAN, workers=2) is not None]
    assert members == [0, 1, 8, 9]
    assert groups(PLAN) == ("shares-0",)
    for concurrency, workers in ((64, 2), (64, 1), (64, 3), (64, 16), (4096, 64)):
        many = Plan(workload="shares", concurrency=concurrency, workers=workers)
        members = [
            each for each in range(concurrency) if group_of(each, many, workers=workers) is not None
        ]
        assert members[0] == 0
        assert len(members) == MEMBERS
    one = Plan(workload="shares", concurrency=64, workers=1)
    assert [each for each in range(64) if group_of(each, one, workers=1)] == [0, 4, 8, 12]
    generator = SharesGenerator(PLAN, worker=0, workers=2)
    new = replace(observed(), assigned=False)
    assert generator.next_op(new) == Subscribe(topics=["log-0", "log-1"])
    assert isinstance(generator.next_op(observed(1)), Poll)


def test_a_member_acknowledges_what_it_holds_and_the_others_send_and_read() -> None:
    generator = SharesGenerator(PLAN, worker=0, workers=2)
    ops = [generator.next_op(observed(unhandled=5)) for _ in range(200)]
    acts = Counter(act for op in ops if isinstance(op, Acknowledge) for act in op.acts)
    told = acts.total()
    assert told == 200 * 64
    assert acts[ShareAct.ACCEPT] > 0.9 * told
    assert 0.03 < acts[ShareAct.RELEASE] / told < 0.07
    assert 0 < acts[ShareAct.REJECT] / told < 0.005
    others = [generator.next_op(observed(each, thread=OTHER)) for each in range(200)]
    assert any(isinstance(op, Send) for op in others)
    assert not any(isinstance(op, Acknowledge) for op in others)


def test_members_end_with_records_in_hand_and_without() -> None:
    generator = SharesGenerator(PLAN, worker=0, workers=2)
    ends: Counter[tuple[bool, bool]] = Counter()
    held = 0
    for number in range(60_000):
        op = generator.next_op(observed(number, unhandled=held))
        if isinstance(op, Crash):
            ends[held > 0, op.leave] += 1
            generator.next_op(replace(observed(number), assigned=False))
        held = 3 if isinstance(op, Poll) else 0
    assert len(ends) == 4
    assert 20 < ends.total() < 80


def test_members_end_only_in_the_main_phase() -> None:
    """A member may be chosen to end just before the heal, and get its next records after it."""
    generator = SharesGenerator(PLAN, worker=0, workers=2)
    for number in range(60_000):
        generator.next_op(observed(number))
    for number in range(60_000, 120_000):
        calm = observed(number, unhandled=3 * (number % 2))
        op = generator.next_op(replace(calm, phase=Phase.RECOVERY))
        assert not isinstance(op, Crash)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"system": "kafka:4.1.0"},
            "Kafka 4.1.0 does not support share groups .* use Kafka 4.3 or later",
        ),
        (
            {"system": "kafka:4.2.0"},
            r"Kafka 4.2.0 does not support .* own delivery limit .*KIP-1240",
        ),
        ({"system": "kafka:3.9.1:zookeeper"}, "does not support share groups"),
        ({"system": "reference"}, "shares needs an Apache Kafka that Logquake starts"),
        ({"features": {"share.version": 0}}, "the feature share.version is off"),
        ({"client_version": "2.15.0"}, "librdkafka 2.15.0 has no share consumer"),
        (
            {"client_kind": "java:4.1.1"},
            "Kafka's Java client 4.1.1 does not support share consumers",
        ),
        ({"load": "heavy"}, "members acknowledge each record separately"),
        ({"concurrency": 3, "workers": 2}, "none would send: use 4 or more"),
    ],
)
def test_where_there_are_no_share_groups_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        plan_from({"workload": "shares", **values})


def test_the_limit_is_what_brokers_are_told() -> None:
    assert limit(PLAN) == 25
    few = {"group.share.max.delivery.count.limit": "7"}
    assert limit(PLAN.model_copy(update={"broker": few})) == 7


def test_a_member_that_is_not_heard_of_holds_a_record_for_the_least_of_three_times() -> None:
    lock, session = (
        f"group.share.{each}.ms" for each in ("record.lock.duration", "session.timeout")
    )

    def held_s(**mine: str) -> float:
        names = {"lock": lock, "session": session}
        broker = {names[name]: each for name, each in mine.items()}
        return hold_s(PLAN.model_copy(update={"broker": broker}))

    assert held_s() == 6
    assert (held_s(lock="2500"), held_s(session="2500")) == (2.5, 2.5)
    assert (held_s(lock="30000"), held_s(session="30000")) == (6, 6)
    assert held_s(lock="30000", session="30000") == REQUEST_S


def test_no_client_gives_a_request_up_before_the_time_that_checks_reckon_with() -> None:
    told = {"bootstrap": "127.0.0.1:1", "client_id": "c", "group": "g"}
    own = settings.share_settings(PLAN, **told)
    javas = java_settings.share_settings(PLAN, **told)
    assert own["socket.timeout.ms"] == REQUEST_S * 1000
    assert float(javas.plans["request.timeout.ms"]) == REQUEST_S * 1000
    names = {"socket.timeout.ms", "request.timeout.ms"}
    assert names <= settings.owned(PLAN).keys()
    assert LONGEST_REQUEST_S == REQUEST_S + SLACK_S


def test_the_delivery_limit_of_the_user_is_the_groups() -> None:
    name = "group.share.delivery.count.limit"
    mine = plan_from({"workload": "shares", "broker": {name: "3"}})
    assert limit(mine) == 3
    assert group_settings(mine)["share.delivery.count.limit"] == "3"
    assert group_settings(PLAN)["share.delivery.count.limit"] == "25"


def batch(*spans: tuple[tuple[str, int], list[int]], error: str | None = None) -> Batch:
    offsets = np.array([each for _, mine in spans for each in mine], np.int64)
    return Batch(
        spans=[(key, len(mine)) for key, mine in spans],
        offsets=offsets,
        values=offsets + 1000,
        leader_epochs=np.zeros(len(offsets), np.int32),
        ends={},
        error=error,
        delivery_counts=np.full(len(offsets), 2, np.int32),
    )


@dataclass(slots=True, kw_only=True)
class MemoryClient:
    """A share consumer that is given some batches, and told some errors."""

    batches: list[Batch] = field(default_factory=list)
    errors: list[Sequence[str | None]] = field(default_factory=list)
    refuses: bool = False
    calls: list[object] = field(default_factory=list)

    def subscribe(self, topics: Sequence[str]) -> None:
        self.calls.append(("subscribe", list(topics)))
        if self.refuses:
            raise GroupError("REFUSED")

    def poll(self, timeout_s: float) -> Batch:  # noqa: ARG002 - the protocol's
        return self.batches.pop(0) if self.batches else batch()

    def acknowledge(self, held: Batch, acts: Sequence[ShareAct]) -> Sequence[str | None]:
        self.calls.append(list(acts))
        return self.errors.pop(0) if self.errors else [None] * len(held.offsets)

    def close(self) -> None:
        self.calls.append("close")

    def abandon(self) -> None:
        self.calls.append("abandon")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClock(RunClock):
    """A clock that says these times one after the other, and then 0."""

    start_ns: int = 0
    times: list[int] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.times.pop(0) if self.times else 0


def acquired_after(*polls: tuple[float, Batch]) -> list[float]:
    """Return the bound of each poll of a member that joined at 5 s; polls have their times."""
    client = MemoryClient(batches=[each for _, each in polls])
    clock = SetClock(times=[round(at_s * S) for at_s in (5, *(at_s for at_s, _ in polls))])
    member = ShareMember(client, group="g", clock=clock)
    assert member.subscribe(["log-0"]) is None
    told = [member.poll(9).acquired_after_ns / S for _ in polls]
    assert clock.times == []
    return told


def test_what_was_acquired_is_younger_than_the_member_and_than_its_last_empty_poll() -> None:
    held, empty, failed = batch((HERE, [1])), batch(), batch(error="E")
    busy = [(float(at_s), held) for at_s in range(8, 30, 4)]
    polls = [(6.0, empty), *busy, (30.0, empty), (31.0, held), (32.0, failed), (33.0, held)]
    assert acquired_after(*polls) == [5] * 8 + [30 - LONGEST_REQUEST_S] * 3


def test_a_client_that_stood_still_may_hand_over_what_it_was_given_before() -> None:
    held, empty = batch((HERE, [0])), batch()
    # It is stopped at 6 s, with an answer in its socket, and polls on at 30 s before it reads it.
    # Meanwhile its lock runs out, and another member accepts the record.
    asleep = [(6.0, empty), (30.0, empty), (30.1, empty), (30.2, held)]
    assert acquired_after(*asleep) == [5] * 4
    # Within the slack nothing of that age can come.
    awake = [(at_s, empty) for at_s in (9.9, 14.8, 19.7, 24.6, 29.5)]
    assert acquired_after(*awake)[3:] == pytest.approx([5, 24.6 - LONGEST_REQUEST_S])
    again = [(30 + at_s / 2, empty) for at_s in range(32)]
    assert acquired_after((6.0, empty), *again)[-2:] == [5, 30]


def test_a_member_says_of_each_record_in_turn_what_becomes_of_it() -> None:
    client = MemoryClient(errors=[[None, "E", None]])
    member = ShareMember(client, group="g", clock=SetClock())
    settled = member.acknowledge(batch((HERE, [1, 2, 3])), [ShareAct.ACCEPT, ShareAct.RELEASE])
    assert settled.acts == [ShareAct.ACCEPT, ShareAct.RELEASE, ShareAct.ACCEPT]
    assert settled.error == "E"
    member.close()
    member.abandon()
    assert client.calls[1:] == ["close", "abandon"]
    assert ShareMember(MemoryClient(refuses=True), group="g", clock=SetClock()).subscribe([]) == (
        "REFUSED"
    )
    for refused in (
        lambda: member.assign({}),
        lambda: member.commit({}, op_id=1, wait=True),
        lambda: member.seek(None),
        member.membership,
    ):
        with pytest.raises(TypeError):
            refused()


@dataclass(slots=True)
class Scripted:
    ops: list[Op]
    shown: list[Observed] = field(default_factory=list)

    def next_op(self, seen: Observed) -> Op:
        self.shown.append(seen)
        return self.ops.pop(0)


def rows(live: Path, table: str, writer: str) -> list[Row]:
    batches = list(read_stream(live / f"{table}.{writer}.arrows"))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def recorder(live: Path, writer: str) -> Recorder:
    return Recorder(live, writer, worker=0, topics=TOPICS, acks="all", streams=(*STREAMS, SHARED))


def played(live: Path, client: MemoryClient, script: Scripted) -> Crew:
    """Carry out the ops of a script, by one thread of a crew."""
    clock, written = RunClock.starting_now(), recorder(live, "worker-0")
    crew = Crew(
        range(1),
        concurrency=8,
        worker=0,
        generator=script,
        clients=Clients(reader=lambda _: ShareMember(client, group="g", clock=clock)),
        recorder=written,
        clock=clock,
    )
    for _ in range(len(script.ops)):
        crew.invoke(Phase.MAIN)
        while not crew.free:
            crew.serve(1)
    crew.end()
    written.close()
    return crew


@pytest.mark.parametrize(
    ("errors", "confirmed"), [(["E", "E", "E"], 0), ([None, "E", None], 2), ([None] * 3, 3)]
)
def test_a_run_in_which_no_acknowledgement_was_confirmed_is_not_enough(
    run_paths: RunPaths, errors: Sequence[str | None], confirmed: int
) -> None:
    client = MemoryClient(batches=[batch((HERE, [4, 5, 6]))], errors=[errors])
    steps: list[Op] = [Subscribe(topics=["log-0"]), Poll(limit=9)]
    played(run_paths.live, client, Scripted([*steps, Acknowledge(acts=[ShareAct.ACCEPT])]))
    (unit,) = live_units("r", run_paths.live)
    tables, problems = ingest(unit, lambda _, __: ())
    ops = tables["ops"].to_pylist()
    told = [(row["f"], row["outcome"], row["messages"]) for row in ops]
    assert (told[-1], problems) == (("acknowledge", "ok", confirmed), [])
    gaps = sentences(traffic.CHECKER, whole_run(facts(plan={"workload": "shares"}), ops=ops))
    assert any("0 confirmed acknowledgements" in gap for gap in gaps) == (not confirmed)


def test_a_crew_records_what_was_delivered_and_what_became_of_it(run_paths: RunPaths) -> None:
    live, client = run_paths.live, MemoryClient()
    client.batches = [batch(), batch((HERE, [4, 5]), (THERE, [9]))]
    client.errors = [[None, "E", None]]
    script = Scripted([
        Subscribe(topics=["log-0"]), Poll(limit=9), Poll(limit=9),
        Acknowledge(acts=[ShareAct.ACCEPT, ShareAct.REJECT]), Poll(limit=9), Crash(leave=False),
    ])  # fmt: skip
    crew = played(live, client, script)
    told = rows(live, "shared", "worker-0")
    columns = ("op_id", "process", "act", "partition", "offset", "value", "delivery_count",
               "outcome", "error")  # fmt: skip
    assert [tuple(row[name] for name in columns) for row in told] == [
        (2, 0, "deliver", 0, 4, 1004, 2, "ok", None),
        (2, 0, "deliver", 0, 5, 1005, 2, "ok", None),
        (2, 0, "deliver", 1, 9, 1009, 2, "ok", None),
        (3, 0, "accept", 0, 4, 1004, None, "ok", None),
        (3, 0, "reject", 0, 5, 1005, None, "info", "E"),
        (3, 0, "accept", 1, 9, 1009, None, "ok", None),
    ]
    assert all(row["asked_ns"] <= row["told_ns"] for row in told)
    assert all(row["acquired_after_ns"] > 0 for row in told[:3])
    assert rows(live, "polled", "worker-0") == []
    assert [each.unhandled for each in script.shown] == [0, 0, 0, 3, 0, 0]
    ended = rows(live, "op_completions", "worker-0")
    assert [row["outcome"] for row in ended] == ["ok"] * 5 + ["info"]
    assert ended[3]["error"] == "E"
    assert crew.read == {("g", HERE), ("g", THERE)}
    wait_until(lambda: "abandon" in client.calls, timeout_s=10, what="the member's end")


def drain_of(live: Path, clients: Sequence[MemoryClient]) -> tuple[Drain, Recorder]:
    """A drain whose members are these clients, one after the other."""
    clock, written, left = RunClock.starting_now(), recorder(live, "drain"), list(clients)
    drain = Drain(
        lambda _: ShareMember(left.pop(0), group="g", clock=clock),
        ["log-0"],
        recorder=written,
        clock=clock,
    )
    return drain, written


def settled(live: Path) -> list[tuple[int, str, int]]:
    return [
        (row["process"] - FIRST_PROCESS, row["act"], row["offset"])
        for row in rows(live, "shared", "drain")
    ]


def test_the_last_member_accepts_what_is_left_until_the_group_is_done(run_paths: RunPaths) -> None:
    client = MemoryClient(batches=[batch((HERE, [1])), batch((THERE, [7]))])
    drain, written = drain_of(run_paths.live, [client])
    assert drain.drain(lambda: not client.batches, 10)
    written.close()
    assert settled(run_paths.live) == [
        (0, "deliver", 1), (0, "accept", 1), (0, "deliver", 7), (0, "accept", 7),
    ]  # fmt: skip
    assert client.calls[-1] == "close"


def test_the_last_member_goes_on_after_an_error_and_is_replaced_if_errors_last(
    run_paths: RunPaths,
) -> None:
    failing = [batch(error="E")] * (MOST_ERRORS + 1)
    first = MemoryClient(batches=[batch(error="E"), batch((HERE, [1]), error="E"), *failing[3:],
                                  batch((HERE, [2])), *failing])  # fmt: skip
    second = MemoryClient(batches=[batch((THERE, [7]))])
    drain, written = drain_of(run_paths.live, [first, second])
    began_s = stopwatch_s()
    assert drain.drain(lambda: not second.batches, 60)
    written.close()
    assert stopwatch_s() - began_s > 2 * MOST_ERRORS * REST_S
    assert settled(run_paths.live) == [
        (0, "deliver", 1), (0, "accept", 1), (0, "deliver", 2), (0, "accept", 2),
        (1, "deliver", 7), (1, "accept", 7),
    ]  # fmt: skip
    outcomes = [each["outcome"] for each in rows(run_paths.live, "op_completions", "drain")]
    assert (outcomes.count("info"), outcomes[-3]) == (1, "ok")
    assert (first.calls[-1], second.calls[-1]) == ("close", "close")


def test_a_drain_ends_at_its_limit_when_it_is_stopped_and_when_it_fails(
    run_paths: RunPaths,
) -> None:
    def fail() -> bool:
        raise OSError

    stop = new_event()
    stop.set()
    clients = [MemoryClient() for _ in range(3)]
    drain, written = drain_of(run_paths.live, clients)
    assert not drain.drain(lambda: False, 0)
    began_s = stopwatch_s()
    assert not drain.drain(lambda: False, 60, stop)
    assert stopwatch_s() - began_s < 30
    with pytest.raises(OSError):  # noqa: PT011 - the test's own
        drain.drain(fail, 10)
    written.close()
    assert [each.calls[-1] for each in clients] == ["close"] * 3


def test_a_group_is_done_only_if_each_partition_is_known_to_be() -> None:
    lags = {HERE: 0, THERE: 0}

    def told(asked: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {place: lag for place, lag in lags.items() if place in asked}

    places = [HERE, THERE]
    assert done_with(places, {HERE: 4, THERE: 2}, told)()
    assert not done_with(places, {HERE: 4}, told)()
    assert not done_with(places, {}, told)()
    lags[THERE] = 1
    assert not done_with(places, {HERE: 4, THERE: 2}, told)()
    del lags[THERE]
    assert not done_with(places, {HERE: 4, THERE: 2}, told)()
    # A group has no state of a partition without records.
    assert done_with(places, {HERE: 4, THERE: 0}, told)()


def test_the_last_member_is_told_nothing_that_only_javas_clients_know() -> None:
    own = {"client_kind": "java:4.3.1", "client": {"default.api.timeout.ms": "9000"}}
    plan = plan_from({"workload": "shares", **own})
    member = last_member(plan, "127.0.0.1:1", RunClock.starting_now())(FIRST_PROCESS)
    assert isinstance(member, ShareMember)
    member.abandon()


def test_settling_nothing_has_no_error() -> None:
    assert Settled(acts=[], errors=[], asked_ns=0, told_ns=0).error is None


@pytest.mark.night
@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [None, "java:4.3.1"])
def test_a_share_group_of_real_brokers_is_done_with_each_record(
    one_broker: KafkaCluster, run_paths: RunPaths, kind: str | None
) -> None:
    # The broker was started without what Logquake tells those of a run.
    usual = {"group.share.max.delivery.count.limit": "10"}
    alone = {"nodes": 1, "replication": 1, "min_insync": 1, "broker": usual}
    own = {"prefix": f"logquake-0000000{1 if kind is None else 2}-", "client_kind": kind}
    plan = plan_from({**alone, **own, "workload": "shares", "rate": 100})
    topics = one_broker.create_topics(plan.topic_names, partitions=plan.partitions, replication=1)
    clock = RunClock.starting_now()
    fleet = Fleet(
        plan, topics, one_broker.bootstrap(), clock=clock, paths=run_paths, java=java_client(plan)
    )
    fleet.start()
    fleet.phase(Phase.MAIN)
    wait_until(
        lambda: fleet.counts().total.ops.get((F.ACKNOWLEDGE, Outcome.OK), 0) >= 20,
        timeout_s=60,
        what="acknowledgements",
    )
    assert fleet.stop(30) == []
    ends = one_broker.leader_ends(plan.topic_partitions, committed=True, timeout_s=10)
    lags = partial(one_broker.share_lags, groups(plan)[0])
    written = drain_recorder(plan, topics, run_paths.live)
    drain = Drain(
        last_member(plan, one_broker.bootstrap(), clock),
        plan.topic_names,
        recorder=written,
        clock=clock,
    )
    assert drain.drain(done_with(plan.topic_partitions, ends, lags), 90)
    written.close()
    told = [
        row
        for writer in ("worker-0", "worker-1", "drain")
        for row in rows(run_paths.live, "shared", writer)
    ]
    given = {
        (row["topic"], row["partition"], row["offset"]) for row in told if row["act"] == "deliver"
    }
    assert len(given) == sum(ends.values()) > 0
    assert any(row["act"] == "accept" and row["outcome"] == "ok" for row in told)
    assert one_broker.share_lags("nobody-knows-it", plan.topic_partitions) == {}
