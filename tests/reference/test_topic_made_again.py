"""A topic that was deleted and made again keeps its records when its brokers start again."""

import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from cluster.files.messages import Message, RemoveTopicRecord, TopicRecord
from cluster.reference.broker.states import Told, told
from cluster.reference.controller.image import MetadataImage, PartitionImage, placement
from cluster.reference.settings import Settings
from tests.reference.batch_maker import produced
from tests.reference.replicas_lab import NODES, TOPIC_ID, Lab

FORMER_ID = UUID(int=6)
LOG = "t-0/00000000000000000000.log"


def made(topic_id: UUID) -> list[Message]:
    partition = PartitionImage(
        topic="t",
        topic_id=topic_id,
        partition=0,
        replicas=NODES,
        isr=NODES,
        leader=NODES[0],
        leader_epoch=0,
        partition_epoch=0,
    )
    return [TopicRecord(name="t", topic_id=topic_id), placement(partition)]


def replayed(*messages: Message) -> Told:
    """Return what a broker is told that replays all of it at once, as after a start."""
    image = MetadataImage()
    changes = [each for n, message in enumerate(messages) for each in image.replay(message, n)]
    return told(changes, image, Settings())


def test_what_a_start_replays_of_a_former_topic_costs_the_present_one_nothing() -> None:
    lab = Lab(settings=Settings())
    lab.produce(1, 0, produced(b"1"))
    lab.exchange()
    lab.kill(1)
    lab.start(1)
    means = replayed(*made(FORMER_ID), RemoveTopicRecord(topic_id=FORMER_ID), *made(TOPIC_ID))
    lab.carry(1, lab.replicas(1).remove(lab.now, means.gone))
    assert [each.topic_id for each in means.states] == [TOPIC_ID]
    lab.tell(1)
    assert lab.replicas(1).partitions["t-0"].log.end_offset == 1


@pytest.mark.parametrize(
    ("states", "files", "why"),
    [
        ([], {}, "the topicId .* does not exist in the metadata image"),
        ([{"topic_id": FORMER_ID}], {}, "the topicId .* does not exist in the metadata image"),
        ([{"replicas": NODES[1:], "isr": NODES[1:]}], {}, "does not contain the local brokerId 1"),
        ([{}], {"t-0/partition.metadata": None}, "it has no partition.metadata"),
    ],
)
def test_a_log_that_is_nobodys_is_set_aside_once_all_is_known(
    states: list[dict[str, Any]], files: dict[str, None], why: str
) -> None:
    """As KRaft does: what it was not told to delete it renames."""
    lab = Lab(settings=Settings())
    lab.produce(1, 0, produced(b"1"))
    lab.exchange()
    lab.kill(1)
    disk = lab.brokers[1].disk
    kept = disk.read(LOG)
    for path in files:
        disk.remove(path)
    lab.start(1)
    said: list[str] = []
    replicas, lab.brokers[1].said = lab.replicas(1), said
    now = [replace(lab.states[0], leader=2, partition_epoch=9, **each) for each in states]
    lab.carry(1, replicas.apply(lab.now, now))
    lab.carry(1, replicas.brokers(lab.now, {}, own_epoch=-1))
    assert (disk.read(LOG), said) == (kept, [])
    lab.carry(1, replicas.brokers(lab.now, lab.alive, own_epoch=lab.alive[1]))
    assert re.fullmatch(f"Found stray log dir t-0: .*{why}", said[0])
    aside = said[1].removeprefix("Log in t-0 marked stray and renamed to ")
    assert disk.read(f"{aside}/{LOG.removeprefix('t-0/')}") == kept
    mine = [state for state in now if 1 in state.replicas]
    assert list(replicas.partitions) == ["t-0"] * len(mine)
    assert [each.log.end_offset for each in replicas.partitions.values()] == [0] * len(mine)
    assert [path for path in disk.paths() if path == LOG] == [LOG] * len(mine)


def test_a_topic_that_was_made_again_and_deleted_again_is_gone() -> None:
    gone = [RemoveTopicRecord(topic_id=each) for each in (FORMER_ID, TOPIC_ID)]
    means = replayed(*made(FORMER_ID), gone[0], *made(TOPIC_ID), gone[1])
    assert (means.gone, means.states) == (("t-0",), ())
