"""Heavy load: what a plan becomes by it, and that its readers read about what is sent."""

import tomllib
from random import Random

import pytest

from results.record.loads import Load
from results.record.plan import Plan, PlanError, dump_plan, plan_from
from results.record.terms import Phase
from workloads.assigning import HEAVY_AGAIN_SHARE, READ_AGAIN_LIMIT, Assigner
from workloads.log import LogGenerator
from workloads.protocol import Generator, Key, Observed, Op, Poll, Send, Txn
from workloads.registry import WORKLOADS

GENERATORS = {name: each.generator for name, each in WORKLOADS.items() if name != "shares"}
"""Of those that have such a load."""
ALONE = sorted({*GENERATORS} - {"groups", "txn", "pipeline"})
"""Workloads whose processes all send and read by themselves."""


def observed(
    thread: int = 0,
    positions: dict[Key, int] | None = None,
    in_flight: dict[Key, int] | None = None,
    *,
    assigned: bool = True,
) -> Observed:
    return Observed(
        now_ns=0,
        phase=Phase.MAIN,
        thread=thread,
        assigned=assigned,
        positions=positions or {},
        in_flight=in_flight or {},
    )


def ops(generator: Generator, count: int, in_flight: dict[Key, int]) -> list[Op]:
    return [generator.next_op(observed(in_flight=in_flight)) for _ in range(count)]


def test_light_is_the_default_and_changes_nothing() -> None:
    assert plan_from({"load": "light"}) == plan_from({}) == Plan()
    assert Plan().load is Load.LIGHT


@pytest.mark.parametrize("workload", GENERATORS)
def test_heavy_load_is_few_processes_with_many_sends_an_op(workload: str) -> None:
    plan = plan_from({"workload": workload, "load": "heavy"})
    assert plan.rate == 0
    assert plan.sends_per_op >= 100
    assert plan.concurrency <= 16
    assert plan_from(tomllib.loads(dump_plan(plan))) == plan


@pytest.mark.parametrize(("key", "value"), [("rate", 7), ("concurrency", 4), ("sends_per_op", 3)])
@pytest.mark.parametrize("workload", ["log", "txn"])
def test_what_the_user_sets_goes_before_the_load(workload: str, key: str, value: int) -> None:
    plan = plan_from({"workload": workload, "load": "heavy", key: value})
    heavy = plan_from({"workload": workload, "load": "heavy"})
    assert plan == heavy.model_copy(update={key: value})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"hosts": "simulated", "system": "reference"},
            "load: simulated brokers have no load limit",
        ),
        (
            {"scenario": {"name": "acks-1", "topic": "t"}, "workload": "script"},
            "load: in a scenario the steps decide what is sent; remove load",
        ),
    ],
)
def test_heavy_load_is_refused_where_it_makes_no_sense(more: dict[str, object], told: str) -> None:
    plan_from(more)
    with pytest.raises(PlanError, match=told):
        plan_from({**more, "load": "heavy"})


@pytest.mark.parametrize("workload", GENERATORS)
def test_a_heavy_process_sends_more_often_than_it_reads_and_does_both(workload: str) -> None:
    plan = plan_from({"workload": workload, "load": "heavy"})
    generator = GENERATORS[workload](plan, worker=0, workers=2)
    thread = 2 if workload in {"groups", "pipeline"} else 0  # The first belongs to a group.
    made = [generator.next_op(observed(thread)) for _ in range(400)]
    sends = [op for op in made if isinstance(op, Send | Txn)]
    assert any(isinstance(op, Poll) for op in made)
    assert len(sends) > (150 if plan.transactional else 250)
    assert all(len(op.values) == plan.sends_per_op for op in made if isinstance(op, Send))


@pytest.mark.parametrize("workload", ALONE)
def test_a_partition_without_a_leader_does_not_hold_up_all_heavy_processes(workload: str) -> None:
    plan = plan_from({"workload": workload, "load": "heavy"})
    stuck = plan.topic_partitions[3]
    generator = GENERATORS[workload](plan, worker=0, workers=2)
    sends = [op for op in ops(generator, 400, {stuck: 2}) if isinstance(op, Send)]
    assert sends
    assert stuck not in {op.key for op in sends}


def test_heavy_log_leaves_a_process_that_reads() -> None:
    plan = plan_from({"load": "heavy"})
    generator = LogGenerator(plan, worker=0, workers=2)
    busy = dict.fromkeys(plan.topic_partitions[:3], 1)
    assert {type(op) for op in ops(generator, 100, busy)} == {Poll}


def read_of(assigner: Assigner, plan: Plan, *, rounds: int) -> tuple[int, int]:
    """Play readers of one worker that follow ends: 10,000 records more of each partition a round.

    Returns:
        How many records there are of what they follow, and how many they read of it.
    """
    threads = range(0, plan.concurrency, plan.workers)
    own = {key for thread in threads for key in assigner.share_of(thread)}
    positions: dict[int, dict[Key, int]] = {thread: {} for thread in threads}
    read = 0
    for number in range(1, rounds + 1):
        end = number * 10_000
        for thread in threads:
            kept = positions[thread] if number % 2 else {}
            seen = observed(thread, positions[thread], assigned=bool(kept))
            starts = assigner.assign(seen, kept=kept).starts
            positions[thread] = dict.fromkeys(starts, end)
            read += sum(end - (start or 0) for start in starts.values())
            assigner.note(positions[thread])
    return len(own) * rounds * 10_000, read


@pytest.mark.parametrize("seed", range(5))
def test_heavy_readers_read_not_much_more_than_there_is(seed: int) -> None:
    plan = plan_from({"load": "heavy", "topics": 1, "partitions": 12})
    there, read = read_of(Assigner(plan, Random(seed)), plan, rounds=200)
    assert there <= read < 2 * there


def test_light_readers_read_all_again_and_again() -> None:
    plan = plan_from({"concurrency": 8, "topics": 1, "partitions": 12})
    there, read = read_of(Assigner(plan, Random(1)), plan, rounds=200)
    assert read > 2 * there


def test_heavy_readers_start_a_partition_over_within_their_budget() -> None:
    plan = plan_from({"load": "heavy", "concurrency": 2, "topics": 1, "partitions": 4})
    assigner, again, end = Assigner(plan, Random(1)), 0, 0
    for number in range(1, 400):
        end = number * READ_AGAIN_LIMIT
        known = dict.fromkeys(plan.topic_partitions, end)
        assigner.note(known)
        starts = assigner.assign(observed(0, known, assigned=False), kept={}).starts
        again += sum(end for start in starts.values() if start is None)
    assert 0 < again <= HEAVY_AGAIN_SHARE * 4 * end


def test_a_heavy_reader_that_lost_its_place_goes_on_close_to_the_end() -> None:
    plan = plan_from({"load": "heavy", "concurrency": 2, "topics": 1, "partitions": 4})
    assigner = Assigner(plan, Random(1))
    assigner.note(dict.fromkeys(plan.topic_partitions, 1_000_000))
    first = assigner.assign(observed(0, assigned=False), kept=()).starts
    later = assigner.assign(observed(0, assigned=False), kept=()).starts
    assert None in first.values()
    assert set(later.values()) == {1_000_000 - READ_AGAIN_LIMIT}
