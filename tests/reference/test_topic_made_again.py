"""A topic that was deleted and made again keeps its records when its brokers start again."""

from uuid import UUID

from cluster.files.messages import Message, RemoveTopicRecord, TopicRecord
from cluster.reference.broker.states import Told, told
from cluster.reference.controller.image import MetadataImage, PartitionImage, placement
from cluster.reference.settings import Settings
from tests.reference.batch_maker import produced
from tests.reference.replicas_lab import NODES, TOPIC_ID, Lab

FORMER_ID = UUID(int=6)


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


def test_a_topic_that_was_made_again_and_deleted_again_is_gone() -> None:
    gone = [RemoveTopicRecord(topic_id=each) for each in (FORMER_ID, TOPIC_ID)]
    means = replayed(*made(FORMER_ID), gone[0], *made(TOPIC_ID), gone[1])
    assert (means.gone, means.states) == (("t-0",), ())
