"""A swarm draws what the user left open, stores it, and draws nothing that could not be played."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.kafka.configuration import server_properties
from cluster.protocol import Endpoint
from cluster.reference.settings import Settings
from cluster.sessions import OURS
from cluster.systems.registry import system_of
from harness.another_system import moved
from harness.drawing import with_drawn
from harness.elsewhere import refuse_elsewhere
from harness.java_client import java_client, try_java_client
from harness.plans import completed_plan
from harness.scenarios.choices import values_behind
from harness.swarm import Said, misfits, split
from harness.swarm_rows import Row, Value
from harness.swarm_table import ROWS
from results.record.plan import Plan, PlanError, dump_plan, plan_from
from results.record.tuning import LAG_TIME, number_of, tunes_a_broker, tunes_a_client
from workloads.clients.java.settings import (
    producer_settings,
    refuse_java_settings,
    transactional_settings,
)
from workloads.clients.settings import check_client_settings
from workloads.registry import WORKLOADS

SEEDS = range(40)
SYSTEMS = (
    "kafka:4.3.1", "kafka:4.3.1:controllers", "kafka:4.0.0", "kafka:3.9.1:zookeeper", "kafka:3.5.2",
    "kafka:2.0.1", "kafka:0.11.0.1", "reference",
)  # fmt: skip
SIMULATED: Mapping[str, object] = {"system": "reference", "hosts": "simulated"}


def drawn(seed: int, values: Mapping[str, object] | None = None, **more: object) -> Plan:
    said = {"swarm": True, **(values or {}), **more}
    return completed_plan(said, {"seed": seed}, broker={}, client={})


def cells() -> Iterator[tuple[Row, Value]]:
    return ((row, value) for row in ROWS for value in row.values)


def value_at(plan: Plan, key: str) -> object:
    table, name = split(key)
    values = plan.model_dump(mode="json")
    return (values[table] if table else values).get(name)


def test_each_row_has_a_name_of_its_own_values_with_reasons_and_settings_that_tune() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row, value in cells():
        assert value.why, row.name
        assert value.settings, row.name
        for key in value.settings:
            table, name = split(key)
            allowed = {"broker": tunes_a_broker, "client": tunes_a_client}.get(table)
            assert name in Plan.model_fields if not table else True, key
            assert allowed is None or allowed(name), key


def test_what_weakens_promises_is_in_no_row() -> None:
    names = {key for _, value in cells() for key in value.settings}
    weak = ("unclean.leader", "min.insync", "log.retention", "cleanup.policy", "expiration")
    assert not [name for name in names if any(each in name for each in weak)]
    assert not {"acks", "min_insync", "idempotence", "retries", "replication"} & names


def test_a_seed_draws_the_same_again_and_others_draw_others() -> None:
    plans = [drawn(seed) for seed in SEEDS]
    assert plans == [drawn(seed) for seed in SEEDS]
    assert len({dump_plan(plan.model_copy(update={"seed": 0})) for plan in plans}) == len(plans)
    for row in (each for each in ROWS if each.name in {"num.io.threads", "partitions", "topics"}):
        keys = next(iter(row.values)).settings.keys()
        on = sum(keys <= {*plan.swarmed} for plan in plans)
        assert 0.3 * len(plans) < on < 0.7 * len(plans), row.name
        (key,) = keys
        seen = {value_at(plan, key) for plan in plans}
        assert seen >= {value.settings[key] for value in row.values}, row.name


def test_every_value_is_drawn_in_some_run() -> None:
    seen: set[tuple[str, object]] = set()
    java: dict[str, object] = {"client_kind": "java"}
    for values in (
        {}, java, {"workload": "txn"}, {"workload": "groups"}, {"workload": "keyed"},
        {"system": "kafka:3.9.1:zookeeper", "workload": "groups"},
        {"system": "kafka:3.9.1:zookeeper", "workload": "txn"}, SIMULATED,
    ):  # fmt: skip
        for seed in SEEDS:
            plan = drawn(seed, values)
            seen |= {(key, value_at(plan, key)) for key in plan.swarmed}
    assert [
        (row.name, value.settings)
        for row, value in cells()
        if not all(each in seen for each in value.settings.items())
    ] == []


def test_what_is_drawn_is_as_if_it_had_been_set_and_is_stored_whole() -> None:
    for seed in SEEDS:
        plan = drawn(seed)
        said = Said(values={"seed": seed, "swarmed": list(plan.swarmed), "swarm": True})
        for key in plan.swarmed:
            said = said.with_all({key: value_at(plan, key)})
        assert with_drawn(plan_from(dict(said.values)), said.values) == plan
        stored = tomllib.loads(dump_plan(plan))
        again = completed_plan(stored, {}, broker={}, client={})
        other = completed_plan(stored, {"seed": 99}, broker={}, client={})
        assert again == plan
        assert other == plan.model_copy(update={"seed": 99})


def test_without_it_nothing_is_drawn() -> None:
    for seed in SEEDS:
        plain = completed_plan({}, {"seed": seed}, broker={}, client={})
        assert (plain.swarmed, plain.broker, plain.client, plain.rate) == ((), {}, {}, 500)
        off = completed_plan({"swarm": False}, {"seed": seed}, broker={}, client={})
        assert off == plain


def test_what_the_user_sets_is_not_drawn_and_changes_nothing_of_the_rest() -> None:
    user: dict[str, object] = {
        "partitions": 7,
        "broker": {"num.io.threads": "5"},
        "node": {"n2": {"queued.max.requests": "9"}},
    }
    for seed in SEEDS:
        plan = drawn(seed, user)
        assert (plan.partitions, plan.broker["num.io.threads"]) == (7, "5")
        assert "queued.max.requests" not in plan.broker
        free = drawn(seed)
        ours = {"partitions", "broker.num.io.threads", "broker.queued.max.requests"}
        assert {*plan.swarmed} == {*free.swarmed} - ours
        for key in plan.swarmed:
            assert value_at(plan, key) == value_at(free, key)


def test_a_new_row_changes_no_draw_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [drawn(seed) for seed in SEEDS]
    new = Row(name="new", values=(Value(settings={"broker.num.replica.alter": "1"}, why="none"),))
    monkeypatch.setattr("harness.swarm.ROWS", (new, *ROWS))
    for plan, old in zip([drawn(seed) for seed in SEEDS], before, strict=True):
        kept = {key: each for key, each in plan.broker.items() if key != "num.replica.alter"}
        swarmed = tuple(key for key in plan.swarmed if "num.replica.alter" not in key)
        assert plan.model_copy(update={"broker": kept, "swarmed": swarmed}) == old


KINDS = st.fixed_dictionaries(
    {
        "system": st.sampled_from(SYSTEMS),
        "workload": st.sampled_from([*WORKLOADS]),
        "load": st.sampled_from(["light", "heavy"]),
    },
    optional={"client_kind": st.just("java")},
)


@given(seed=st.integers(0, 2**32), values=KINDS)
def test_whatever_is_drawn_can_be_played(seed: int, values: Mapping[str, str]) -> None:
    try:
        completed_plan(values, {"seed": seed}, broker={}, client={})
    except PlanError:
        return  # There is no such run, with a swarm or without.
    plan = drawn(seed, values)
    (refuse_java_settings if plan.wants_java else check_client_settings)(plan)
    wait_ms = number_of(plan.broker.get("replica.fetch.wait.max.ms", "250"))
    lag_ms = number_of(plan.broker.get(LAG_TIME, OURS[LAG_TIME]))
    assert wait_ms is not None
    assert lag_ms is not None
    assert 2 * wait_ms <= lag_ms
    if plan.wants_java:
        assert_java_takes(plan)
    if plan.is_kafka and plan.version_numbers >= (4,):  # KIP-1030
        sizes = [each for name, each in plan.broker.items() if name.endswith("segment.bytes")]
        assert all(int(size) >= 1 << 20 for size in sizes)
    segment = int(plan.broker.get("log.segment.bytes", str(1 << 30)))
    if segment < 1 << 20:
        longest = max([plan.payload_bytes, *(size for size, _ in plan.contents.sizes)])
        assert max(longest, plan.contents.batch_bytes or 0) < segment


def assert_java_takes(plan: Plan) -> None:
    """Hold what `ProducerConfig.postProcessAndValidate` does of a producer's times."""
    of = transactional_settings if plan.transactional else producer_settings
    given = of(plan, bootstrap="", **{"thread" if plan.transactional else "worker": 0})
    told = {**given.plans, **given.own}
    request_ms, linger_ms = int(told["request.timeout.ms"]), int(told["linger.ms"])
    assert request_ms + linger_ms <= int(told["delivery.timeout.ms"])


@pytest.mark.night
@pytest.mark.kafka
def test_the_java_client_itself_takes_what_is_drawn() -> None:
    plans = [drawn(seed, client_kind="java:4.3.1", workload="txn") for seed in SEEDS]
    short = [plan for plan in plans if plan.transaction_timeout_s == 1][:3]
    quick = [plan for plan in plans if "request.timeout.ms" in plan.client][:3]
    assert len(short) == len(quick) == 3
    for plan in (*short, *quick):
        try_java_client(plan, java_client(plan))


def test_settings_that_a_version_does_not_have_are_not_drawn() -> None:
    since = {
        "max.incremental.fetch.session.cache.slots": (1, 1),
        "metadata.log.max.record.bytes.between.snapshots": (3, 0),
        "group.coordinator.append.linger.ms": (4, 0),
    }
    for system in SYSTEMS[:-1]:
        plans = [drawn(seed, system=system, workload="groups") for seed in SEEDS[:20]]
        for name, first in since.items():
            has = plans[0].version_numbers >= first
            quorum = plans[0].has_quorum or not name.startswith("metadata")
            assert any(name in plan.broker for plan in plans) == (has and quorum), (system, name)


def test_virtual_time_takes_what_is_drawn_and_the_reference_cluster_knows_it() -> None:
    known = {each.name.replace("_", ".") for each in fields(Settings)}
    for workload in ("log", "groups"):
        plans = [drawn(seed, SIMULATED, workload=workload) for seed in SEEDS]
        for plan in plans:
            refuse_elsewhere(plan, system_of(plan))
            assert {*plan.broker} <= known
        assert {plan.nodes for plan in plans} == {3, 5}
        assert len({plan.rate for plan in plans}) > 1


def test_brokers_are_told_what_was_drawn(tmp_path: object) -> None:
    plan = next(plan for seed in SEEDS if "num.io.threads" in (plan := drawn(seed)).broker)
    at = {f"n{n}": Endpoint(host="h", broker_port=9092, controller_port=9093) for n in (1, 2, 3)}
    told = server_properties(plan, "n1", endpoints=at, data=tmp_path)  # type: ignore[arg-type]  # A path.
    for name, value in plan.broker.items():
        assert f"{name}={value}\n" in told


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            values_behind({"scenario": {"name": "leader-epoch-1"}}),
            "swarm: in a scenario the steps decide",
        ),
        ({"system": "attached:mine.toml", "hosts": "attached"}, "of an attached cluster"),
    ],
)
def test_where_there_is_nothing_to_draw_it_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        completed_plan({**values, "swarm": True}, {"seed": 1}, broker={}, client={})


def test_faults_that_move_leaders_by_order_keep_leaders_from_going_back() -> None:
    name = "leader.imbalance.check.interval.seconds"
    assert any(name in drawn(seed).broker for seed in SEEDS)
    for nemesis in ("leadership", "all", "kill,leadership"):
        assert not any(name in drawn(seed, nemesis=nemesis).broker for seed in SEEDS[:10])


def test_the_cleaner_keeps_tombstones_for_as_long_as_it_does_by_default() -> None:
    """A replica that is away for longer than they are kept would miss them, and be right."""
    plans = [drawn(seed, workload="groups") for seed in SEEDS]
    assert any("log.cleaner.backoff.ms" in plan.broker for plan in plans)
    assert not any("log.cleaner.delete.retention.ms" in plan.broker for plan in plans)


@pytest.mark.parametrize("name", ["replica.fetch.max.bytes", "replica.fetch.response.max.bytes"])
@pytest.mark.parametrize("more", [{"rate": 500}, {"rate": 2000}, {"load": "heavy"}])
def test_followers_fetch_little_only_where_little_is_sent(
    name: str, more: Mapping[str, object]
) -> None:
    plans = [drawn(seed, more) for seed in SEEDS]
    assert {name in plan.broker for plan in plans} == {False, *([True] * (more == {"rate": 500}))}


@pytest.mark.parametrize("time_limit_s", [600, 601])
def test_a_long_run_has_no_segments_of_some_kib(time_limit_s: int) -> None:
    plans = [drawn(seed, system="kafka:3.9.1", rate=50, time_limit_s=time_limit_s)
             for seed in SEEDS]  # fmt: skip
    sizes = {plan.broker.get("log.segment.bytes") for plan in plans}
    assert sizes == {None, "1048576", *(("16384", "65536") if time_limit_s == 600 else ())}


@pytest.mark.parametrize("hold_s", [7.9, 8, 20])
def test_no_delivery_ends_under_a_fault_that_was_written_by_hand(hold_s: float) -> None:
    fault = {"at_s": 3, "kind": "kill", "target": "n1", "hold_s": hold_s}
    plans = [drawn(seed, faults=[fault]) for seed in SEEDS]
    assert {plan.delivery_timeout_s for plan in plans} == ({30, 8} if hold_s < 8 else {30})


def test_a_key_is_taken_apart_at_its_table_alone() -> None:
    assert split("rate") == ("", "rate")
    assert split("broker.num.io.threads") == ("broker", "num.io.threads")
    assert split("contents.batch_bytes") == ("contents", "batch_bytes")
    said = Said(values={"broker": {"a.b": "1"}, "rate": 3})
    assert [said.has(key) for key in ("broker.a.b", "rate", "client.a.b")] == [True, True, False]
    more = said.with_all({"client.x": "2", "broker.c": "3"})
    assert more.values == {
        "broker": {"a.b": "1", "c": "3"}, "rate": 3, "client": {"x": "2"},
    }  # fmt: skip
    assert said.values == {"broker": {"a.b": "1"}, "rate": 3}


PAIRS = (
    ("kafka:3.6.1", "kafka:3.7.1"), ("kafka:2.8.1", "kafka:3.2.1"), ("kafka:4.3.1", "kafka:4.2.0"),
    ("kafka:1.1.0:zookeeper", "kafka:1.1.1:zookeeper"), ("kafka:2.8.0:zookeeper", "kafka:2.8.1"),
)  # fmt: skip
"""A release that has a bug, and one that does not."""


@given(
    seed=st.integers(0, 2**32),
    pair=st.sampled_from(PAIRS),
    values=st.fixed_dictionaries(
        {"workload": st.sampled_from(["log", "txn", "groups", "keyed"])},
        optional={"rate": st.just(100), "client_kind": st.just("java")},
    ),
)
def test_a_control_has_all_settings_that_were_drawn(
    seed: int, pair: tuple[str, str], values: Mapping[str, object]
) -> None:
    bug, control = pair
    plan = drawn(seed, values, system=bug, group_protocol="classic")
    assert misfits(plan, plan) == {}
    new = moved(plan, control, run_id="log/1")
    if plan.mode == new.plan.mode:
        assert (new.plan.broker, new.plan.swarmed, new.notes) == (plan.broker, plan.swarmed, ())


def test_an_older_control_lacks_only_what_it_does_not_know() -> None:
    linger = "group.coordinator.append.linger.ms"
    for seed in SEEDS:
        plan = drawn(seed, system="kafka:4.0.0", workload="groups", group_protocol="classic")
        new = moved(plan, "kafka:3.9.1", run_id="log/1").plan
        assert plan.broker.keys() - new.broker.keys() == {linger} & plan.broker.keys()


@given(seed=st.integers(0, 2**32), values=KINDS)
def test_on_its_own_system_nothing_is_a_misfit(seed: int, values: Mapping[str, str]) -> None:
    try:
        plan = drawn(seed, values)
    except PlanError:
        return  # There is no such run, with a swarm or without.
    assert misfits(plan, plan) == {}
    if plan.is_reference:
        virtual = drawn(seed, {**SIMULATED, "workload": "log"})
        assert misfits(virtual, virtual) == {}


def test_on_another_system_what_it_does_not_take_is_left_out_and_said() -> None:
    name = "log.segment.bytes"
    old = "kafka:3.9.1"
    plans = [drawn(seed, system=old, rate=50) for seed in SEEDS]
    small = next(each for each in plans if each.broker.get(name) == "16384")
    new = moved(small, "kafka:4.3.1", run_id="log/1")
    assert name not in new.plan.broker
    assert f"broker.{name}" not in new.plan.swarmed
    assert (
        f"{name} = 16384, which the swarm chose, is left out, because kafka:4.3.1 does not have it"
        in new.notes
    )
    kept = {key: each for key, each in small.broker.items() if key != name}
    assert new.plan.broker == kept
    assert moved(small, "kafka:3.5.2", run_id="log/1").plan.broker == small.broker
    own = small.model_copy(update={"swarmed": ()})  # As if the user had set it all.
    assert moved(own, "kafka:4.3.1", run_id="log/1").plan.broker == small.broker


def test_what_was_drawn_after_a_setting_does_not_take_it_to_a_system_that_has_it_not() -> None:
    """Of the stored plan nobody would say that little is sent: payloads were drawn after it."""
    name = "log.segment.bytes"
    plans = [drawn(seed, system="kafka:3.9.1", rate=50) for seed in SEEDS]
    sized = [plan for plan in plans if name in plan.broker and plan.contents.sizes]
    assert sized
    for plan in sized:
        assert name not in moved(plan, "command:/b.toml", run_id="log/1").plan.broker
        assert moved(plan, "kafka:3.5.2", run_id="log/1").plan.broker[name] == plan.broker[name]


@pytest.mark.parametrize("workload", ["groups", "pipeline"])
def test_a_protocol_of_groups_that_an_older_control_lacks_is_left_out_and_said(
    workload: str,
) -> None:
    plans = [drawn(seed, system="kafka:4.0.0", workload=workload) for seed in SEEDS]
    protocols = set()
    for plan in plans:
        old, same = (
            moved(plan, system, run_id="log/1") for system in ("kafka:3.9.1", "kafka:4.2.0")
        )
        consumer = plan.group_protocol == "consumer"
        protocols.add(plan.group_protocol)
        assert same.plan.group_protocol == plan.group_protocol
        assert old.plan.group_protocol == ("mixed" if consumer else plan.group_protocol)
        told = [note for note in old.notes if note.startswith("group_protocol = consumer, which")]
        assert len(told) == consumer
        assert ("group_protocol" in old.plan.swarmed) == (plan.group_protocol == "classic")
    assert protocols == {"mixed", "classic", "consumer"}
    by_user = drawn(1, system="kafka:4.0.0", workload=workload, group_protocol="consumer")
    with pytest.raises(PlanError, match=r"Kafka 3\.9\.1 does not support the consumer protocol"):
        moved(by_user, "kafka:3.9.1", run_id="log/1")
