"""Which epochs an unclean election that was permitted may have begun."""

import pytest

from checkers.columns import NEVER
from checkers.unclean_elections import Unclean, unclean_elections
from results.record.milestones import Milestone
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, group, leads

LATE: Row = {"failed": "an ISR was not full"}


@pytest.mark.parametrize(
    ("after", "until", "may"),
    [(1, 2, False), (1, 3, True), (2, 3, True), (4, 4, False), (4, 5, True), (5, NEVER, False)],
)
def test_an_election_begins_one_of_its_epochs_after_one_and_until_another(
    after: int, until: int, *, may: bool
) -> None:
    assert Unclean(epoch=3, last=5, start=0, until_ns=NEVER).may_begin(after, until) is may


@pytest.mark.parametrize(
    ("detail", "stopped", "last"), [({}, True, 2), ({}, False, NEVER), (LATE, True, NEVER)]
)
def test_without_a_log_of_elections_a_later_one_is_known_only_after_the_recovery(
    detail: Row, last: int, *, stopped: bool
) -> None:
    stones = [Milestone(name="recovered", at_ns=9, detail=detail)]
    stones += [Milestone(name="stopped", at_ns=10)] if stopped else []
    plan: dict[str, object] = {
        "system": "kafka:2.8.2", "broker": {"unclean.leader.election.enable": "true"}
    }  # fmt: skip
    about = facts(plan=plan, milestones=tuple(stones))
    on = group(about, leadership=[leads(1, 2, source="zookeeper")])
    assert unclean_elections(on).over_from() == last


def test_zookeeper_shows_no_later_election_if_the_observer_lost_it() -> None:
    """A broker answers as leader of epoch 1; ZooKeeper named epoch 0, and was silent since then."""
    plan: dict[str, object] = {
        "system": "kafka:3.9.1:zookeeper", "broker": {"unclean.leader.election.enable": "true"}
    }  # fmt: skip

    def over_from(last_s: int) -> int:
        rows = [leads(1, 0, source="zookeeper"), leads(2, 1, at=last_s * S)]
        stones = [Milestone(name=name, at_ns=9) for name in ("recovered", "stopped")]
        on = group(facts(plan=plan, milestones=tuple(stones)), leadership=rows)
        return unclean_elections(on).over_from()

    assert over_from(11) == 1, "the answer itself shows the election"
    assert over_from(12) == NEVER
