"""What messages hold and how they are batched is drawn from the seed, and stored with the plan."""

import tomllib
from collections.abc import Mapping

import pytest

from cluster.protocol import UserError
from cluster.systems.registry import system_of
from harness.elsewhere import refuse_elsewhere
from harness.plans import completed_plan
from harness.scenarios.choices import values_behind
from results.record.plan import Plan, PlanError, dump_plan, plan_from
from results.record.plan_contents import Contents
from results.record.shapes import shape_of

SEEDS = range(60)


def drawn(
    values: Mapping[str, object] | None = None, *, client: Mapping[str, str] | None = None
) -> list[Plan]:
    """The plans of some seeds."""
    return [
        completed_plan(values or {}, {"seed": seed}, broker={}, client=client or {})
        for seed in SEEDS
    ]


def test_a_seed_draws_the_same_again_and_others_draw_others() -> None:
    plans = drawn()
    assert plans == drawn()
    assert len({plan.contents for plan in plans}) > len(plans) // 2
    assert {plan.compression for plan in plans} == {
        "none", "gzip", "snappy", "lz4", "zstd", "mixed",
    }  # fmt: skip
    assert {plan.contents.max_in_flight for plan in plans} == {1, 2, 3, 4, 5}
    assert {plan.contents.batch_bytes for plan in plans} == {None, 1, 1000, 16_384, 200_000}
    assert {plan.contents.headers for plan in plans} == {"plain", "mixed"}
    payloads = [plan.payload_bytes for plan in plans]
    assert min(payloads) < 50
    assert max(payloads) > 200
    longest = [max(size for size, _ in plan.contents.sizes) for plan in plans]
    assert all(900_000 <= size < 1_000_000 for size in longest)


@pytest.mark.parametrize("values", [{}, {"load": "heavy"}, {"time_limit_s": 900}])
def test_a_run_stays_small(values: Mapping[str, object]) -> None:
    for plan in drawn(values):
        # 250 messages a second at most, or 40,000 under heavy load.
        messages = 40_000 * 60 if plan.load.value == "heavy" else 250 * plan.time_limit_s
        longer = sum(size / one_in for size, one_in in plan.contents.sizes)
        assert messages * longer < 200e6


def test_a_stored_plan_draws_nothing_and_is_played_as_it_was() -> None:
    for plan in drawn():
        assert plan.contents.headers == "mixed" or plan.compression == "none"
        stored = tomllib.loads(dump_plan(plan))
        assert completed_plan(stored, {}, broker={}, client={}) == plan
        assert completed_plan(stored, {"seed": 99}, broker={}, client={}).contents == plan.contents


def test_a_plan_of_before_there_were_contents_is_as_it_was() -> None:
    old = tomllib.loads(dump_plan(Plan(seed=4)))
    del old["contents"]
    plan = completed_plan(old, {}, broker={}, client={})
    assert plan == Plan(seed=4)
    assert plan.contents == Contents()
    assert not shape_of(plan).others
    assert not shape_of(plan).mixed


def test_what_the_user_sets_is_not_drawn_and_changes_nothing_of_the_rest() -> None:
    said: dict[str, object] = {"payload_bytes": 33, "linger_ms": 7}
    for plan, free in zip(drawn(said), drawn(), strict=True):
        assert (plan.payload_bytes, plan.linger_ms) == (33, 7)
        assert plan.compression == free.compression
        assert plan.contents == free.contents.model_copy(update={"sizes": ()})
    own = {"contents": {"headers": "plain", "max_in_flight": 2}}
    for plan, free in zip(drawn(own), drawn(), strict=True):
        assert (plan.contents.headers, plan.contents.max_in_flight) == ("plain", 2)
        assert plan.contents.sizes == free.contents.sizes


def test_settings_of_clients_that_decide_the_same_leave_nothing_to_draw() -> None:
    for plan in drawn(client={"batch.size": "5000", "max.in.flight": "2"}):
        assert plan.contents.batch_bytes is None
        assert plan.contents.max_in_flight is None
    for plan in drawn({"acks": "1"}):  # Order is kept as the client's default keeps it.
        assert plan.contents.max_in_flight is None


@pytest.mark.parametrize("more", [{}, {"workload": "txn"}, {"idempotence": True}])
def test_more_requests_in_flight_than_brokers_know_again_are_refused(
    more: dict[str, object],
) -> None:
    with pytest.raises(PlanError) as refused:
        plan_from({"contents": {"max_in_flight": 6}, **more})
    assert str(refused.value).endswith(
        "contents.max_in_flight: idempotent producers can have at most 5 requests in flight, not 6"
    )
    assert plan_from({"contents": {"max_in_flight": 5}, **more}).contents.max_in_flight == 5


def test_who_is_not_idempotent_may_have_any_number_in_flight() -> None:
    plan = plan_from({"contents": {"max_in_flight": 6}, "idempotence": False})
    assert plan.contents.max_in_flight == 6


def test_nothing_is_drawn_that_brokers_do_not_have() -> None:
    for system in ("kafka:2.0.1", "kafka:0.11.0.3", "command:/tmp/none.toml"):
        assert not {"zstd", "mixed"} & {plan.compression for plan in drawn({"system": system})}
    old = {"broker": {"log.message.format.version": "0.10.2"}}
    assert {plan.compression for plan in drawn(old)} == {"none"}
    small = {"broker": {"message.max.bytes": "50000"}}
    assert all(size < 50_000 for plan in drawn(small) for size, _ in plan.contents.sizes)


def test_stories_and_virtual_time_draw_nothing() -> None:
    kinds: list[dict[str, object]] = [
        {"system": "reference", "hosts": "simulated"},
        values_behind({"scenario": {"name": "leader-epoch-1"}}),
    ]
    for values in kinds:
        for plan in drawn(values):
            assert plan.contents == Contents()
            assert (plan.payload_bytes, plan.compression) == (100, "none")


def test_virtual_time_refuses_contents_by_name() -> None:
    simulated: dict[str, object] = {"system": "reference", "hosts": "simulated"}
    plan = plan_from({**simulated, "contents": {"headers": "mixed"}})
    with pytest.raises(UserError, match=r"remove \[contents\]"):
        refuse_elsewhere(plan, system_of(plan))
    refuse_elsewhere(plan_from(simulated), system_of(plan))


@pytest.mark.parametrize(
    "sizes", [[[7, 10]], [[1_000_001, 10]], [[50, 0]], [[50, 2], [60, 2], [70, 2]]]
)
def test_sizes_that_cannot_be_are_refused(sizes: list[list[int]]) -> None:
    with pytest.raises(PlanError, match="contents"):
        plan_from({"contents": {"sizes": sizes}})
