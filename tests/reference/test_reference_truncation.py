"""The three rules of truncation, each at the example that it was made for.

KIP-101: https://cwiki.apache.org/confluence/display/KAFKA/KIP-101 (scenarios 1 and 2),
KIP-279: https://cwiki.apache.org/confluence/display/KAFKA/KIP-279 (two quick leader changes).
"""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.files.logs import LoggedTruncation, log_events
from cluster.reference.bugs import Bug
from cluster.reference.settings import Settings, Truncation
from tests.reference.batch_maker import produced
from tests.reference.replicas_lab import Lab

A, B = 1, 2
RULES = tuple(Truncation)


def lab(truncation: Truncation, *bugs: Bug) -> Lab:
    """Two brokers, of which A leads."""
    return Lab(settings=Settings(truncation=truncation, bugs=bugs), nodes=(A, B))


def values(cluster: Lab, node: int) -> list[bytes]:
    data = cluster.replicas(node).partitions["t-0"].log.read(0, max_bytes=1 << 20)
    batches = read_segment(data).batches
    return [record.value or b"" for each in batches for record in records(each)]


def cuts(cluster: Lab, node: int) -> list[LoggedTruncation]:
    """Return what the node's own lines tell of truncations, to who reads a real broker's."""
    lines = (f"[2026-01-01 00:00:00,000] INFO {line}" for line in cluster.brokers[node].said)
    return [each for each in log_events(lines) if isinstance(each, LoggedTruncation)]


def lead_again(cluster: Lab) -> None:
    """Have the leader lead in the next epoch."""
    state = cluster.states[0]
    cluster.states[0] = replace(
        state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )


def a_follower_cuts_and_leads(cluster: Lab) -> int:
    """KIP-101, scenario 1: a follower learns of a new epoch, and leads before it fetched again.

    The second message is acknowledged, since both have it; but the follower does not know that.
    """
    cluster.exchange()
    cluster.produce(A, 0, produced(b"message1"))
    cluster.exchange()
    second = cluster.produce(A, 0, produced(b"message2"))
    cluster.exchange()
    (answer,) = cluster.answers[second].partitions
    assert answer.error_code is ErrorCode.none
    assert cluster.replicas(B).partitions["t-0"].high_watermark == 1
    lead_again(cluster)
    cluster.tell(B)
    assert cluster.elect(0, B)
    cluster.tell(B)
    cluster.kill(A)
    return answer.base_offset


@pytest.mark.parametrize("rule", [Truncation.LEADER_EPOCH_V0, Truncation.LEADER_EPOCH])
def test_by_leader_epochs_a_follower_keeps_what_is_committed(rule: Truncation) -> None:
    cluster = lab(rule)
    a_follower_cuts_and_leads(cluster)
    assert values(cluster, B) == [b"message1", b"message2"]


@pytest.mark.parametrize(
    "cluster",
    [
        lab(Truncation.HIGH_WATERMARK),
        lab(Truncation.LEADER_EPOCH, Bug.TRUNCATE_TO_HIGH_WATERMARK),
    ],
    ids=["rule", "bug"],
)
def test_by_high_watermark_an_acknowledged_message_is_lost(cluster: Lab) -> None:
    lost = a_follower_cuts_and_leads(cluster)
    assert values(cluster, B) == [b"message1"]
    (cut,) = cuts(cluster, B)
    assert cut.from_offset == lost
    assert cut.reason == "follower of broker 1: local high watermark 1"


def two_quick_leader_changes(cluster: Lab) -> None:
    """KIP-279: both write what the other never sees, and the first one leads again."""
    cluster.exchange()
    cluster.produce(A, 0, produced(b"common"))
    cluster.exchange()
    for connection in list(cluster.connections):
        cluster.break_connection(connection)
    for value in (b"a1", b"a2", b"a3"):
        cluster.produce(A, 0, produced(value), acks=1)
    cluster.elect(0, B)
    cluster.tell(B)
    cluster.produce(B, 0, produced(b"b1"), acks=1)
    cluster.elect(0, A)
    cluster.tell(A)
    cluster.tell(B)
    cluster.calm_down()


def test_by_the_first_answer_to_epochs_two_replicas_differ() -> None:
    cluster = lab(Truncation.LEADER_EPOCH_V0)
    two_quick_leader_changes(cluster)
    assert values(cluster, A) == [b"common", b"a1", b"a2", b"a3"]
    assert values(cluster, B) == [b"common", b"b1", b"a2", b"a3"]


def test_by_agreement_they_do_not() -> None:
    cluster = lab(Truncation.LEADER_EPOCH)
    two_quick_leader_changes(cluster)
    assert values(cluster, A) == values(cluster, B) == [b"common", b"a1", b"a2", b"a3"]
    (cut,) = cuts(cluster, B)
    assert (cut.from_offset, cut.reason) == (
        1,
        "follower of broker 1: epoch 0 ends at offset 4 there",
    )


def test_an_acknowledgement_before_the_commit_is_one_too_early() -> None:
    for bugs, answered in (((), False), ((Bug.ACK_BEFORE_COMMIT,), True)):
        cluster = lab(Truncation.LEADER_EPOCH, *bugs)
        sent = cluster.produce(A, 0, produced(b"message1"))
        assert (sent in cluster.answers) == answered
        cluster.exchange()
        assert sent in cluster.answers
