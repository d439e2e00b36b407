import pytest

from results.record.plan import Plan, PlanError, plan_from
from workloads.clients.settings import (
    OWNED,
    check_client_settings,
    consumer_settings,
    producer_settings,
)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(acks="1"),
        Plan(acks="0", compression="mixed"),
        Plan(idempotence=False, retries=0, linger_ms=0.5, sends_per_op=100_000),
        Plan(client={"batch.size": "1000", "fetch.min.bytes": "1"}),
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


def test_mixed_compression_differs_by_worker() -> None:
    kinds = [
        producer_settings(Plan(compression="mixed"), bootstrap="b:1", worker=worker)[
            "compression.type"
        ]
        for worker in range(5)
    ]
    assert sorted(map(str, kinds)) == ["gzip", "lz4", "none", "snappy", "zstd"]
