"""The stories beside the two examples, as data: that they hang together, and fit each version."""

from collections.abc import Iterator, Sequence

import pytest

from harness.scenarios.actions import (
    Action,
    Answered,
    Cut,
    Join,
    Kill,
    Pause,
    PowerLoss,
    Produce,
    Resume,
    Start,
    Stop,
)
from harness.scenarios.choices import scenario_named, scenario_of, story_values
from harness.scenarios.every import Part, parts
from harness.scenarios.protocol import Condition, Expected, FilesSight, ReplicaSight, Step
from results.record.plan import Plan, plan_from
from results.record.terms import Validity

NAMES = (
    "leader-epoch-handson",
    "replication-steps",
    "n-minus-one",
    "late-leader-and-isr",
    "last-replica-standing",
)
PARTS = [part for part in parts() if part.scenario.name in NAMES]


class ReplicaAtRest:
    """Sees the same of every node."""

    def __init__(self, *, log_end: int, high_watermark: int, epochs: Sequence[int] = ()) -> None:
        lines = tuple(zip(epochs[::2], epochs[1::2], strict=True))
        self._replica = ReplicaSight(log_end=log_end, high_watermark=high_watermark)
        self._files = FilesSight(
            high_watermark=high_watermark, recovery_point=None, epochs=lines, log_end=log_end
        )

    def replica(self, node: str) -> ReplicaSight:
        assert node
        return self._replica

    def files(self, node: str) -> FilesSight:
        assert node
        return self._files

    def partition(self) -> None:
        return None

    def belief(self, node: str) -> None:
        assert node

    def quorum(self, node: str) -> None:
        assert node

    def quorum_file(self, node: str) -> None:
        assert node

    def lines(self, node: str, pattern: str) -> list[str]:
        return [node, pattern]

    def running(self, node: str) -> bool:
        return bool(node)


def told(name: str, system: str | None = None, **choices: str) -> tuple[Plan, tuple[Step, ...]]:
    plan = plan_from(story_values(scenario_named(name), choices, system=system))
    return plan, scenario_of(plan).steps(plan)


def actions_of(steps: Sequence[Step]) -> Iterator[Action]:
    for step in steps:
        for move in step.moves:
            if not isinstance(move, Condition):
                yield move


def conditions(step: Step, words: str) -> list[Condition]:
    return [it for it in step.moves if isinstance(it, Condition) and words in it.what]


def acknowledged(steps: Sequence[Step]) -> set[str]:
    names, sent = set[str](), 0
    for action in actions_of(steps):
        if isinstance(action, Produce):
            if action.answered:
                names |= {f"message{sent + 1 + each}" for each in range(action.count)}
            sent += action.count
    return names


def expected_of(plan: Plan) -> Expected:
    return scenario_of(plan).expected(plan)


def test_there_is_something_to_test() -> None:
    assert {part.scenario.name for part in PARTS} == set(NAMES)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_is_acknowledged_is_read_or_named_as_lost(part: Part) -> None:
    plan, steps = told(part.scenario.name, part.system, **part.choices)
    expected = expected_of(plan)
    assert expected.read is not None
    assert set(expected.read).isdisjoint(expected.lost)
    assert {*expected.read, *expected.lost} == acknowledged(steps)
    assert (expected.valid is Validity.INVALID) == bool(expected.lost)
    assert expected.moral


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_whatever_a_story_breaks_it_heals(part: Part) -> None:
    _plan, steps = told(part.scenario.name, part.system, **part.choices)
    down, paused, cut, waiting = set[str](), set[str](), set[str](), 0
    for action in actions_of(steps):
        match action:
            case Kill(node) | Stop(node) | PowerLoss(node):
                down.add(node)
            case Start(node):
                down.remove(node)
            case Pause(node):
                paused.add(node)
            case Resume(node):
                paused.remove(node)
            case Cut(name):
                cut.add(name)
            case Join(name):
                cut.remove(name)
            case Produce(wait=False):
                waiting += 1
            case Answered():
                waiting -= 1
            case _:
                pass
    assert (down, paused, cut, waiting) == (set(), set(), set(), 0)


@pytest.mark.parametrize("system", ["kafka:2.8.2", "kafka:4.3.1"])
def test_the_hands_on_looks_at_exactly_these_lines(system: str) -> None:
    _plan, steps = told("leader-epoch-handson", system)
    (check,) = conditions(steps[2], "leader-epoch-checkpoint of n1")
    assert check.look(ReplicaAtRest(log_end=1, high_watermark=1, epochs=(0, 0, 1, 1))).holds
    for wrong in ((), (0, 0), (0, 0, 1, 0), (0, 0, 1, 1, 2, 1)):
        assert not check.look(ReplicaAtRest(log_end=1, high_watermark=1, epochs=wrong)).holds
    (left,) = conditions(steps[2], "leader-epoch-checkpoint of n3")
    assert left.look(ReplicaAtRest(log_end=1, high_watermark=1, epochs=(0, 0))).holds
    (empty,) = conditions(steps[0], "leader-epoch-checkpoint of n1")
    assert empty.look(ReplicaAtRest(log_end=0, high_watermark=0)).holds
    assert [conditions(steps[4], f"leader-epoch-checkpoint of {node}")[0].what for node in
            ("n1", "n3")] == [
        "leader-epoch-checkpoint of n1 has: 0 0, 1 1",
        "leader-epoch-checkpoint of n3 has: 0 0, 1 1",
    ]  # fmt: skip


def test_a_mark_that_lags_behind_is_not_taken_for_one_that_does_not() -> None:
    _plan, steps = told("replication-steps")
    first = {it.what: it for it in conditions(steps[0], "")}
    behind, level = ReplicaAtRest(log_end=1, high_watermark=0), ReplicaAtRest(
        log_end=1, high_watermark=1
    )  # fmt: skip
    for follower in ("n2", "n3"):
        check = first[f"the high watermark of {follower} is 0"]
        assert check.look(behind).holds
        assert not check.look(level).holds
    assert first["the high watermark of n1 is 1"].look(level).holds


def test_an_isr_that_shrinks_commits_from_3_0_on() -> None:
    _plan, steps = told("replication-steps", "kafka:4.3.1:controllers")
    assert conditions(steps[5], "the high watermark of n1 is 3")
    _plan, steps = told("replication-steps", "kafka:2.8.2")
    assert conditions(steps[5], "the high watermark of n1 is 2")
    assert "KAFKA-13091" in steps[5].why


@pytest.mark.parametrize("system", ["kafka:4.3.1:controllers", "kafka:2.8.2"])
def test_a_fetch_waits_for_less_long_than_whoever_waits_for_it(system: str) -> None:
    plan, _steps = told("replication-steps", system)
    wait_ms = int(plan.broker["replica.fetch.wait.max.ms"])
    for limit in ("replica.lag.time.max.ms", "replica.socket.timeout.ms", "request.timeout.ms"):
        assert wait_ms < int(plan.broker[limit])


def test_eligible_leader_replicas_are_switched_by_the_feature_s_level() -> None:
    for elr, level, end in (("on", 1, Validity.VALID), ("off", 0, Validity.INVALID)):
        plan, _steps = told("last-replica-standing", elr=elr)
        assert plan.features == {"eligible.leader.replicas.version": level}
        assert expected_of(plan).valid is end
        assert len(expected_of(plan).lost) == (0 if elr == "on" else 100)


def test_the_late_one_is_the_one_that_the_controller_cannot_reach() -> None:
    for late, deaf in (("new-leader", "n2"), ("old-leader", "n1")):
        _plan, steps = told("late-leader-and-isr", late=late)
        cuts = [action for action in actions_of(steps) if isinstance(action, Cut)]
        assert [cut.links for cut in cuts] == [(("n3", deaf),)]
