"""Lines of real brokers of each version: the same story, in the words of their time.

Of 0.11 to 3.9 they are broker 3's: follower of 1 in epoch 0, of 2 in epoch 1 (as the rule says, it
drops what it has), leader in epoch 2.
"""

from pathlib import Path

import pytest

from cluster.files.logs import (
    LoggedLeadership,
    LoggedTruncation,
    log_events,
)
from cluster.files.quorum_log import quorum_transitions, quorum_votes

LINES = Path(__file__).parent / "data" / "lines"
ZOOKEEPER = ("0.11.0.3", "1.1.1", "2.8.2", "3.9.1")
BY_HIGH_WATERMARK = ("0.11.0.3", "2.8.2", "3.9.1")
FOLLOWED = "Map(u-1 -> (offset=0, leaderEpoch=0), t-0 -> (offset=4, leaderEpoch=3))"


def lines_of(name: str) -> list[str]:
    return (LINES / f"{name}.log").read_text(encoding="utf-8").splitlines()


def truncations(name: str) -> list[LoggedTruncation]:
    return [each for each in log_events(lines_of(name)) if isinstance(each, LoggedTruncation)]


@pytest.mark.parametrize("version", BY_HIGH_WATERMARK)
def test_a_follower_that_truncates_to_its_high_watermark_says_so(version: str) -> None:
    (cut,) = truncations(version)
    assert (cut.topic, cut.partition, cut.from_offset) == ("t", 0, 0)
    assert cut.reason == "follower of broker 2: local high watermark 0"


def test_with_leader_epochs_nothing_is_truncated() -> None:
    assert "Truncating to 0 has no effect" in "".join(lines_of("1.1.1"))
    assert truncations("1.1.1") == []


def test_a_truncation_to_where_an_epoch_ends() -> None:
    (cut,) = truncations("4.3.1")
    assert (cut.from_offset, cut.reason) == (
        345,
        "follower of broker 1: epoch 0 ends at offset 345 there",
    )


def test_up_to_2_8_only_the_leaders_answer_explains_what_nothing_else_does() -> None:
    (cut,) = truncations("2.8.2-epochs")
    assert cut.reason == "follower of broker 2: an epoch ends at offset 1 there"
    added = (
        "[2026-11-21 14:57:33,1] INFO [ReplicaFetcherManager on broker 3] Added fetcher for"
        " partitions List([u-0, initOffset 4 to broker BrokerEndPoint(2,127.0.0.1,29092)] ,"
        " [t-0, initOffset 0 to broker BrokerEndPoint(1,127.0.0.1,29091)] ) (kafka.server.X)"
    )
    deed = "[2026-11-21 14:57:33,2] INFO Truncating log t-0 to offset 4. (kafka.log.Log)"
    (cut,) = (each for each in log_events([added, deed]) if isinstance(each, LoggedTruncation))
    assert cut.reason == "follower of broker 1: an epoch ends at offset 4 there"
    (cut,) = (each for each in log_events([deed]) if isinstance(each, LoggedTruncation))
    assert cut.reason == ""


@pytest.mark.parametrize("version", ZOOKEEPER)
def test_each_change_of_leadership_is_told_once(version: str) -> None:
    told = [each for each in log_events(lines_of(version)) if isinstance(each, LoggedLeadership)]
    assert {(each.topic, each.partition, each.topic_id) for each in told} == {("t", 0, None)}
    first = [(each.leader, each.leader_epoch, each.isr) for each in told[:3]]
    assert first == [(1, 0, None), (2, 1, None), (3, 2, (3,))]
    assert len({(each.leader, each.leader_epoch) for each in told}) == len(told)


def test_the_isr_of_a_leader_is_told_in_both_spellings() -> None:
    old = (
        "[2026-11-21 14:57:33,1] TRACE Broker 1 received LeaderAndIsr request"
        " PartitionState(controllerEpoch=1, leader=1, leaderEpoch=0, isr=1,2,3, zkVersion=0,"
        " replicas=1,2,3) correlation id 1 from controller 0 epoch 1 for partition [a-b,4]"
        " (state.change.logger)"
    )
    done = (
        "[2026-11-21 14:57:33,2] TRACE Broker 1 completed LeaderAndIsr request correlationId 1 from"
        " controller 0 epoch 1 for the become-leader transition for partition a-b-4"
        " (state.change.logger)"
    )
    (event,) = log_events([old, done])
    assert isinstance(event, LoggedLeadership)
    assert (event.topic, event.partition, event.isr) == ("a-b", 4, (1, 2, 3))
    assert event.wall_clock == "2026-11-21 14:57:33,2"


def test_a_follower_whose_leader_no_line_names_has_none() -> None:
    """Without level TRACE, 2.8's line of a follower stands alone."""
    alone = [line for line in lines_of("2.8.2") if "] INFO [Broker id=3] Follower" in line]
    told = list(log_events(alone))
    assert [each.leader for each in told if isinstance(each, LoggedLeadership)] == [
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    "added",
    [
        f"to broker BrokerEndPoint(id=2, host=127.0.0.1:19060) for partitions {FOLLOWED}",
        f"to broker 2 for partitions {FOLLOWED}",
        "for partitions List([t-0, initOffset 4 to broker BrokerEndPoint(2,127.0.0.1,22588)] )",
    ],
    ids=["2.1 to 2.3", "2.6", "2.0"],
)
def test_a_truncation_without_a_reason_comes_from_the_broker_that_is_followed(added: str) -> None:
    begin = "[2026-11-21 16:25:17,618] INFO"
    lines = [
        f"{begin} [ReplicaFetcherManager on broker 1] Added fetcher {added} (kafka.server.X)",
        f"{begin} [Log partition=t-0, dir=/data] Truncating to offset 3 (kafka.log.Log)",
    ]
    (cut,) = log_events(lines)
    assert isinstance(cut, LoggedTruncation)
    assert cut.reason == "follower of broker 2: an epoch ends at offset 3 there"


def test_a_reason_without_effect_explains_no_later_truncation() -> None:
    said = next(line for line in lines_of("2.8.2") if "to local high watermark 0" in line)
    deed = next(line for line in lines_of("2.8.2") if "Truncating to offset 0" in line)
    nothing = deed.replace(
        "Truncating to offset 0",
        "Truncating to 0 has no effect as the largest offset in the log is -1",
    )
    (cut,) = log_events([said, nothing, deed])
    assert isinstance(cut, LoggedTruncation)
    assert cut.reason == ""


def test_the_quorums_transitions() -> None:
    told = list(quorum_transitions(lines_of("4.3.1-quorum")))
    seen = [(each.role, each.epoch, each.leader, each.voted_for) for each in told]
    assert seen[:4] == [
        ("unattached", 0, None, None),
        ("unattached", 1, None, None),
        ("voted", 1, None, 2),
        ("follower", 1, 2, 2),
    ]
    assert ("prospective", 3, 2, 2) in seen
    assert ("candidate", 4, None, 1) in seen
    assert ("leader", 4, 1, None) in seen
    assert ("resigned", 4, None, None) in seen
    candidate = next(each for each in told if each.role == "candidate")
    assert candidate.voted_directory == "fd379496-fa8e-d14c-2797-6aca9a1edf37"


def test_transitions_as_older_controllers_word_them() -> None:
    states = (
        "VotedState(epoch=5, votedId=2, voters=[1, 2, 3], electionTimeoutMs=1)",
        "FollowerState(fetchTimeoutMs=2000, epoch=5, leaderId=2, voters=[1, 2, 3])",
        "CandidateState(localId=3, epoch=6, retries=1)",
        "Leader(localId=3, epoch=6, epochStartOffset=9)",
    )
    begin = "[2026-01-01 00:00:00,1] INFO [RaftManager nodeId=3] Completed transition to"
    lines = [f"{begin} {state} from X (o.a.k.raft.QuorumState)" for state in states]
    told = [
        (each.role, each.epoch, each.leader, each.voted_for) for each in quorum_transitions(lines)
    ]
    assert told == [
        ("voted", 5, None, 2),
        ("follower", 5, 2, None),
        ("candidate", 6, None, 3),
        ("leader", 6, 3, None),
    ]


def test_votes_that_were_granted_and_not_pre_votes() -> None:
    told = list(quorum_votes(lines_of("4.3.1-quorum")))
    assert [(each.epoch, each.voted_for) for each in told] == [(1, 2), (2, 3)]
    states = quorum_transitions(lines_of("4.3.1-quorum"))
    voted = next(each for each in states if each.role == "voted")
    assert told[0].voted_directory == voted.voted_directory
    assert voted.voted_directory is not None


def test_votes_as_older_controllers_word_them() -> None:
    line = (
        "[2026-01-01 00:00:00,1] INFO [RaftManager nodeId=3] Vote request VoteRequestData("
        "clusterId='x', topics=[TopicData(topicName='__cluster_metadata', partitions=["
        "PartitionData(partitionIndex=0, candidateEpoch=7, candidateId=2, lastOffsetEpoch=6,"
        " lastOffset=9)])]) with epoch 7 is {} (org.apache.kafka.raft.KafkaRaftClient)"
    )
    (told,) = quorum_votes([line.format("rejected"), line.format("granted")])
    assert (told.epoch, told.voted_for, told.voted_directory) == (7, 2, None)
    nobody = line.replace("lastOffsetEpoch", f"candidateDirectoryId={'A' * 22}, lastOffsetEpoch")
    (told,) = quorum_votes([nobody.format("granted")])
    assert told.voted_directory is None


def test_a_resignation_does_not_tell_from_what_in_older_words() -> None:
    line = (
        "[2026-11-21 16:19:59,541] INFO [RaftManager id=1] Completed transition to"
        " ResignedState(localId=1, epoch=2, voters=[1, 2], electionTimeoutMs=1049,"
        " unackedVoters=[2], preferredSuccessors=[2]) (org.apache.kafka.raft.QuorumState)"
    )
    (told,) = quorum_transitions([line])
    assert (told.role, told.epoch, told.leader, told.voted_for) == ("resigned", 2, None, None)


def test_the_quorums_own_truncation_has_its_reason_behind_it() -> None:
    (cut,) = truncations("4.3.1-quorum")
    assert (cut.topic, cut.from_offset) == ("__cluster_metadata", 289)
    assert cut.reason == "follower of controller 2: the quorum's logs differ from that offset on"
    deed = [line for line in lines_of("4.3.1-quorum") if "Truncated to" not in line]
    (alone,) = [each for each in log_events(deed) if isinstance(each, LoggedTruncation)]
    assert (alone.from_offset, alone.reason) == (289, "")
