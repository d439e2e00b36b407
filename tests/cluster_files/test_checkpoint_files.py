"""The text files beside the logs, as a real broker wrote them, and broken."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.files.checkpoints import (
    EpochStart,
    QuorumState,
    leader_epochs,
    offset_checkpoint,
    partition_topic_id,
    properties,
    quorum_state,
    uuid_text,
)
from cluster.files.damage import DamagedFileError

NODE = Path(__file__).parent / "data" / "n2" / "data"

READERS: list[tuple[str, Callable[[str], object]]] = [
    ("replication-offset-checkpoint", offset_checkpoint),
    ("recovery-point-offset-checkpoint", offset_checkpoint),
    ("log-start-offset-checkpoint", offset_checkpoint),
    ("log-0-0/leader-epoch-checkpoint", leader_epochs),
    ("__cluster_metadata-0/quorum-state", quorum_state),
    ("log-0-0/partition.metadata", partition_topic_id),
    ("meta.properties", properties),
]


def text(name: str) -> str:
    return (NODE / name).read_text(encoding="utf-8")


def test_high_watermarks() -> None:
    high_watermarks = offset_checkpoint(text("replication-offset-checkpoint"))
    assert high_watermarks["log-0", 0] == 70
    assert high_watermarks["codecs", 0] == 41
    assert high_watermarks["log-1", 0] == 26


def test_a_checkpoint_without_lines() -> None:
    assert offset_checkpoint(text("log-start-offset-checkpoint")) == {}


def test_a_file_that_a_broker_has_made_and_not_yet_filled() -> None:
    assert offset_checkpoint("") == {}
    assert leader_epochs("") == []


def test_leader_epochs_keep_their_order() -> None:
    starts = [(each.epoch, each.start_offset) for each in leader_epochs(text(READERS[3][0]))]
    assert starts == [(0, 0), (1, 35), (2, 45), (3, 60)]
    assert leader_epochs("0\n1\n4 7\n") == [EpochStart(epoch=4, start_offset=7)]


def test_the_quorums_vote() -> None:
    assert quorum_state(text("__cluster_metadata-0/quorum-state")) == QuorumState(
        leader=2, epoch=5, voted_for=None, voted_directory=None
    )


def test_the_quorums_vote_for_a_directory() -> None:
    voted = (
        '{"leaderId":-1,"leaderEpoch":8,"votedId":3,'
        '"votedDirectoryId":"TbQcpdosSuiZDtJjrcTybA","data_version":1}'
    )
    assert quorum_state(voted) == QuorumState(
        leader=None,
        epoch=8,
        voted_for=3,
        voted_directory="4db41ca5-da2c-4ae8-990e-d263adc4f26c",
    )


def test_a_topics_id_is_a_uuid() -> None:
    assert partition_topic_id(text("log-0-0/partition.metadata")) == (
        "4db41ca5-da2c-4ae8-990e-d263adc4f26c"
    )
    assert uuid_text("AAAAAAAAAAAAAAAAAAAAAQ") == "00000000-0000-0000-0000-000000000001"


def test_a_brokers_properties() -> None:
    meta = properties(text("meta.properties"))
    assert meta["node.id"] == "2"
    assert meta["cluster.id"] == "MkU3OEVBNTcwNTJENDM2Qg"
    assert properties("# no\nhost=a\\:b\n") == {"host": "a:b"}


@pytest.mark.parametrize("name_reader", READERS, ids=lambda pair: pair[0])
def test_a_file_torn_anywhere_is_read_or_refused(
    name_reader: tuple[str, Callable[[str], object]],
) -> None:
    name, reader = name_reader
    whole = text(name)
    refused = 0
    for cut in range(len(whole)):
        try:
            reader(whole[:cut])
        except DamagedFileError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("reader", [reader for _, reader in READERS])
@given(garbage=st.text(max_size=60))
def test_garbage_raises_one_kind_of_error(reader: Callable[[str], object], garbage: str) -> None:
    refusal = None
    try:
        reader(garbage)
    except DamagedFileError as damage:
        refusal = str(damage)
    assert refusal is None or "\n" not in refusal


@pytest.mark.parametrize(
    ("reader", "broken", "what"),
    [
        (offset_checkpoint, "1\n0\n", "version"),
        (offset_checkpoint, "0\n2\nlog-0 0 5\n", "the file announces 2 lines but has 1"),
        (offset_checkpoint, "0\n1\nlog-0 0\n", "3 columns"),
        (offset_checkpoint, "0\n1\nlog-0 0 x\n", "'x' is not a number"),
        (leader_epochs, "0\n1\n1 2 3\n", "2 columns"),
        (quorum_state, "[]", "not a quorum state"),
        (quorum_state, '{"leaderId":1}', "not a quorum state"),
        (partition_topic_id, "version: 0\n", "no topic_id"),
        (partition_topic_id, "version: 0\ntopic_id: AAAA", "is not a Kafka id"),
    ],
)
def test_what_is_wrong_is_said(reader: Callable[[str], object], broken: str, what: str) -> None:
    with pytest.raises(DamagedFileError, match=what):
        reader(broken)
