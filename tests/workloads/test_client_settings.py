import pytest
from confluent_kafka import KafkaException

from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Isolation
from workloads.clients.java.settings import refuse_java_settings
from workloads.clients.settings import (
    OWNED,
    check_client_settings,
    consumer_settings,
    is_incremental,
    member_settings,
    producer_settings,
    share_settings,
    transactional_settings,
)
from workloads.final_reads import final_reader


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(acks="1"),
        Plan(acks="0", compression="mixed"),
        Plan(idempotence=False, retries=0, linger_ms=0.5, sends_per_op=100_000),
        Plan(client={"batch.size": "1000", "fetch.min.bytes": "1"}),
        Plan(workload="txn"),
        Plan(workload="txn", transaction_timeout_s=1),
        Plan(workload="txn", transaction_timeout_s=1.5, delivery_timeout_s=40),
        Plan(workload="txn", transaction_timeout_s=120, delivery_timeout_s=20),
        Plan(workload="groups", client={"session.timeout.ms": "8000"}),
        Plan(workload="groups", concurrency=64),
        Plan(workload="groups", group_protocol="consumer"),
        Plan(workload="groups", client={"group.protocol": "consumer"}),
        Plan(workload="groups", client={"group.remote.assignor": "range"}),
        Plan(workload="shares", client={"fetch.min.bytes": "1"}),
        Plan(client={"socket.timeout.ms": "20000"}),
    ],
)
def test_plans_that_librdkafka_takes(plan: Plan) -> None:
    check_client_settings(plan)


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ({"batch.size": "1", "no.such.key": "1"}, "no.such.key"),
        ({"fetch.min.bytes": "many"}, "client.fetch.min.bytes cannot be 'many'"),
        ({"acks": "1"}, "client.acks cannot be set, because the plan's acks determines it"),
        ({"fetch.max.bytes": "1000"}, "client.fetch.max.bytes cannot be '1000'"),
    ],
)
def test_a_setting_that_cannot_be_is_named_in_one_sentence(
    client: dict[str, str], says: str
) -> None:
    with pytest.raises(PlanError) as refused:
        check_client_settings(plan_from({"client": client}))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "who"),
    [
        ("socket.timeout.ms", "60000", "the record, which needs the earliest acquisition time"),
        ("fetch.wait.max.ms", "9000", "the record, "),
        ("request.timeout.ms", "60000", "the record, "),
        ("share.acknowledgement.mode", "implicit", "the workload"),
    ],
)
def test_what_the_record_of_a_share_group_relies_on_cannot_be_set(
    key: str, value: str, who: str
) -> None:
    told = plan_from({"workload": "shares", "client": {key: value}})
    for refuse in (check_client_settings, refuse_java_settings):
        with pytest.raises(
            PlanError, match=f"client.{key} cannot be set, because {who}.* determines it"
        ):
            refuse(told)
    with pytest.raises(PlanError, match=r"client\.fetch\.max\.wait\.ms cannot be set"):
        refuse_java_settings(told.model_copy(update={"client": {"fetch.max.wait.ms": "9000"}}))


def test_a_share_consumer_takes_nothing_that_a_flipped_bit_changed() -> None:
    settings = share_settings(Plan(workload="shares"), bootstrap="b", client_id="c", group="g")
    assert settings["check.crcs"] is True


def test_settings_that_do_not_go_together_are_told_as_such() -> None:
    with pytest.raises(PlanError, match="retries"):
        check_client_settings(Plan(retries=0))


def test_what_the_record_relies_on_is_the_users_to_set_through_the_plan_only() -> None:
    producer = producer_settings(Plan(retries=3), bootstrap="b:1", worker=0)
    consumer = consumer_settings(Plan(), bootstrap="b:1", client_id="c")
    for key in ("acks", "enable.idempotence", "retries", "delivery.timeout.ms", "linger.ms"):
        assert key in producer
        assert key in OWNED
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["enable.auto.commit"] is False


def test_a_delivery_ends_within_its_transaction_and_a_request_well_before() -> None:
    plan = Plan(workload="txn", transaction_timeout_s=12, delivery_timeout_s=30)
    settings = transactional_settings(plan, bootstrap="b:1", thread=5)
    assert settings["transactional.id"] == "txn-5"
    assert settings["transaction.timeout.ms"] == settings["delivery.timeout.ms"] == 12_000
    assert settings["socket.timeout.ms"] == settings["request.timeout.ms"] == 4000
    short = plan.model_copy(update={"delivery_timeout_s": 3})
    settings = transactional_settings(short, bootstrap="b:1", thread=5)
    assert settings["delivery.timeout.ms"] == settings["request.timeout.ms"] == 3000
    assert "transaction.timeout.ms" in OWNED


def test_a_member_begins_at_the_beginning_and_its_group_misses_it_soon() -> None:
    plan = Plan(workload="groups", client={"session.timeout.ms": "8000"})
    member = member_settings(plan, bootstrap="b:1", client_id="c", group="g")
    assert (member["group.id"], member["auto.offset.reset"]) == ("g", "earliest")
    assert member["session.timeout.ms"] == "8000"
    assert int(str(member["max.poll.interval.ms"])) <= 10_000
    assert member["enable.auto.commit"] is False


def test_isolation_is_the_workloads() -> None:
    reader = consumer_settings(
        Plan(), bootstrap="b:1", client_id="c", isolation=Isolation.READ_COMMITTED
    )
    assert reader["isolation.level"] == "read_committed"


def test_mixed_compression_differs_by_worker() -> None:
    kinds = [
        producer_settings(Plan(compression="mixed"), bootstrap="b:1", worker=worker)[
            "compression.type"
        ]
        for worker in range(5)
    ]
    assert sorted(map(str, kinds)) == ["gzip", "lz4", "none", "snappy", "zstd"]


def ways(**plan: object) -> set[tuple[object, ...]]:
    """Protocol, assignors of member and broker, and session of the groups of ten seeds."""
    keys = ("group.protocol", "partition.assignment.strategy", "group.remote.assignor",
            "session.timeout.ms")  # fmt: skip
    return {
        tuple(
            member_settings(
                plan_from({"workload": "groups", "seed": seed, **plan}),
                bootstrap="b:1",
                client_id="c",
                group=f"groups-{number}",
            ).get(key)
            for key in keys
        )
        for seed in range(10)
        for number in range(2)
    }


CLASSIC = {(None, each, None, 6000) for each in ("range", "roundrobin", "cooperative-sticky")}
CONSUMER = {("consumer", None, each, None) for each in ("uniform", "range")}


def test_each_group_has_its_own_way_as_far_as_brokers_and_clients_know_it() -> None:
    assert ways() == CLASSIC | CONSUMER
    assert ways(group_protocol="classic") == CLASSIC
    assert ways(group_protocol="consumer") == CONSUMER
    for classic in (
        {"system": "kafka:3.9.1"},
        {"system": "reference"},
        {"system": "command:broker.toml"},
        {"client_version": "2.3.0"},
        {"features": {"group.version": 0}},
        {"broker": {"group.coordinator.rebalance.protocols": "classic"}},
    ):
        assert ways(**classic) == CLASSIC


def test_what_the_user_says_of_groups_holds_for_all_of_them() -> None:
    assert ways(client={"partition.assignment.strategy": "roundrobin"}) == {
        (None, "roundrobin", None, 6000)
    }
    assert ways(client={"session.timeout.ms": "8000"}) == {
        (None, each, None, "8000") for _, each, *_ in CLASSIC
    }
    assert ways(client={"group.protocol": "consumer"}) == CONSUMER
    assert ways(client={"group.remote.assignor": "range"}) == {("consumer", None, "range", None)}
    assert {protocol for protocol, *_ in ways(client={"group.protocol": "classic"})} == {"classic"}


def test_two_groups_of_a_run_differ_and_all_members_of_one_are_alike() -> None:
    plan = Plan(workload="groups", seed=3)
    one, same, other = (
        member_settings(plan, bootstrap="b:1", client_id=client_id, group=group)
        for client_id, group in (("a", "groups-0"), ("b", "groups-0"), ("c", "groups-1"))
    )
    assert {**one, "client.id": "b"} == same
    assert {**one, "client.id": "c", "group.id": "groups-1"} != other


def test_single_partitions_move_in_the_consumer_protocol_and_with_cooperative_assignors() -> None:
    assert is_incremental({"group.protocol": "consumer"})
    assert is_incremental({"partition.assignment.strategy": "cooperative-sticky"})
    assert not is_incremental({"partition.assignment.strategy": "range"})


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"system": "reference"}, "the reference cluster supports only the classic protocol"),
        ({"system": "kafka:3.9.1"}, "Kafka 3.9.1 does not support the consumer protocol"),
        ({"client_version": "2.3.0"}, "librdkafka 2.3.0 does not support the consumer protocol"),
        ({"client_kind": "java:3.9.1"}, "Java client 3.9.1 does not support the consumer protocol"),
        ({"features": {"group.version": 0}}, "the feature group.version is off"),
        (
            {"broker": {"group.coordinator.rebalance.protocols": "classic"}},
            "group.coordinator.rebalance.protocols does not list the consumer protocol",
        ),
        ({"system": "command:broker.toml"}, "only after 45 s by default"),
    ],
)
def test_the_consumer_protocol_is_refused_where_it_cannot_be(
    plan: dict[str, object], says: str
) -> None:
    by_hand: dict[str, object] = {"client": {"group.protocol": "consumer"}}
    for asked in ({"group_protocol": "consumer"}, by_hand):
        with pytest.raises(PlanError, match=says):
            plan_from({"workload": "groups", **plan, **asked})
    other = plan_from({"workload": "log", "group_protocol": "consumer", **plan})
    assert other.workload == "log", "which has no groups"


def test_brokers_that_nobody_configures_may_have_it_with_a_longer_budget() -> None:
    plan: dict[str, object] = {
        "workload": "groups", "system": "command:broker.toml", "group_protocol": "consumer",
        "budgets": {"group_s": 90},
    }  # fmt: skip
    assert plan_from(plan).group_protocol == "consumer"
    with pytest.raises(PlanError, match=r"session\.timeout\.ms"):
        check_client_settings(plan_from({**plan, "client": {"session.timeout.ms": "8000"}}))


def test_a_client_that_goes_on_gives_up_before_a_paused_broker_is_back() -> None:
    plan = plan_from({"workload": "txn", "after_timeout": "go-on"})
    settings = transactional_settings(plan, bootstrap="b:1", thread=5)
    assert settings["delivery.timeout.ms"] == 2000
    assert settings["socket.timeout.ms"] == settings["request.timeout.ms"] == 1000
    check_client_settings(plan)
    slow = plan_from({"workload": "txn", "after_timeout": "go-on", "delivery_timeout_s": 8})
    assert transactional_settings(slow, bootstrap="b", thread=5)["delivery.timeout.ms"] == 8000
    check_client_settings(plan.model_copy(update={"delivery_timeout_s": 0.1}))


def test_only_clients_of_transactions_go_on_and_no_fault_is_too_long_for_them() -> None:
    for workload in ("log", "groups", "pipeline"):
        with pytest.raises(PlanError, match="only the workload txn supports it"):
            plan_from({"workload": workload, "after_timeout": "go-on"})
    fault = {"kind": "pause", "hold_s": 9}
    plan_from({"workload": "txn", "after_timeout": "go-on", "faults": [fault]})
    assert plan_from({"workload": "txn"}).delivery_timeout_s == 30


def test_the_plan_decides_how_producers_batch_and_the_users_setting_wins() -> None:
    contents = {"batch_bytes": 5000, "max_in_flight": 2}
    settings = producer_settings(plan_from({"contents": contents}), bootstrap="b", worker=0)
    assert settings["batch.size"] == 5000
    assert settings["max.in.flight.requests.per.connection"] == 2
    own = plan_from({"contents": contents, "client": {"batch.size": "7"}})
    assert producer_settings(own, bootstrap="b", worker=0)["batch.size"] == "7"
    assert "batch.size" not in producer_settings(Plan(), bootstrap="b", worker=0)


def test_final_reads_are_not_told_what_javas_clients_are() -> None:
    told = {"exclude.internal.topics": "true"}
    java = Plan(client_kind="java", client=told)
    final_reader(java, "127.0.0.1:1")(0).close()
    with pytest.raises(KafkaException, match="No such configuration property"):
        final_reader(Plan(client=told), "127.0.0.1:1")(0)
