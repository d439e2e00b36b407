"""What is told of the controllers' logs: the common start in one, the rest record by record."""

import itertools

import pytest

from cluster.files.metadata_names import NamedRecord
from harness.scenarios.protocol import QuorumSight
from harness.scenarios.quorum_look import _role, _short, _spans


def rows(*names: str, epoch: int = 1) -> list[NamedRecord]:
    return [NamedRecord(offset, epoch, name) for offset, name in enumerate(names)]


def test_what_was_there_from_the_start_is_one_span_an_epoch() -> None:
    log = [*rows("LeaderChange", "TopicRecord t"), NamedRecord(2, 2, "LeaderChange")]
    spans = list(_spans(log, told_from=3))
    assert [(each.first, each.last, each.epoch, each.name) for each in spans] == [
        (0, 1, 1, ""),
        (2, 2, 2, ""),
    ]


def test_what_came_later_is_told_record_by_record_but_for_idle_ones() -> None:
    log = rows("LeaderChange", "TopicRecord a-1", "NoOpRecord", "NoOpRecord", "PartitionRecord")
    spans = list(_spans(log, told_from=1))
    assert [(each.first, each.last, each.name) for each in spans] == [
        (0, 0, ""),
        (1, 1, "topic a-1"),
        (2, 3, ""),
        (4, 4, "partition"),
    ]


def test_spans_follow_one_another_without_gaps() -> None:
    log = rows(*("NoOpRecord", "TopicRecord x", "TopicRecord y") * 5)
    for told_from in range(len(log) + 1):
        spans = list(_spans(log, told_from))
        assert spans[0].first == 0
        assert spans[-1].last == len(log) - 1
        assert all(one.last + 1 == next_.first for one, next_ in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("LeaderChange", "leader change"),
        ("TopicRecord peter-test01", "topic peter-test01"),
        ("NoOpRecord", ""),
        ("BrokerRegistrationChangeRecord", "broker registration change"),
        ("KRaftVersion", "kraft version"),
        ("type 99", "type 99"),
    ],
)
def test_records_are_called_as_people_do(name: str, short: str) -> None:
    assert _short(name) == short


@pytest.mark.parametrize(
    ("state", "role"),
    [
        (QuorumSight(leader="n101", epoch=1), "leader"),
        (QuorumSight(leader="n102", epoch=1, voted_for="n102"), "follower"),
        (QuorumSight(leader=None, epoch=2, voted_for="n101"), "candidate"),
        (QuorumSight(leader=None, epoch=2, voted_for="n103"), "voted"),
        (QuorumSight(leader=None, epoch=2), "unattached"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_role_is_what_quorum_state_says_of_its_node(state: QuorumSight, role: str) -> None:
    assert _role("n101", state) == role
