import pytest

from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Isolation
from workloads.clients.settings import (
    OWNED,
    check_client_settings,
    consumer_settings,
    member_settings,
    producer_settings,
    transactional_settings,
)


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
    ],
)
def test_plans_that_librdkafka_takes(plan: Plan) -> None:
    check_client_settings(plan)


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ({"batch.size": "1", "no.such.key": "1"}, "no.such.key"),
        ({"fetch.min.bytes": "many"}, "client.fetch.min.bytes cannot be 'many'"),
        ({"acks": "1"}, "client.acks cannot be set: the plan's acks decides it"),
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
