"""What a topic's own settings do to the logs of its replicas."""

from dataclasses import replace

from cluster.reference.log.files import segments
from cluster.reference.machine import RollAt
from cluster.reference.settings import Settings, TopicSettings
from tests.reference.batch_maker import produced
from tests.reference.replicas_lab import NODES, Lab

BATCH_BYTES = len(produced(b"1"))


def test_segments_are_rolled_at_the_topics_own_size_also_after_a_start() -> None:
    """`segment.bytes`: other topics, and this one without it, have `log.segment.bytes`."""
    lab = Lab(settings=Settings(), segment_bytes=1 << 30)
    lab.produce(1, 0, produced(b"1"))
    lab.exchange()
    own = TopicSettings(segment_bytes=2 * BATCH_BYTES)
    lab.states[0] = replace(lab.states[0], settings=own)
    for node in NODES:
        lab.tell(node)
    for _ in range(4):
        lab.produce(1, 0, produced(b"1"))
        lab.exchange()
    assert segments(lab.brokers[2].disk) == {"t-0": [0, 2, 4]}
    lab.kill(2)
    lab.start(2)
    lab.calm_down()
    for _ in range(3):
        lab.produce(1, 0, produced(b"1"))
        lab.exchange()
    assert [segments(lab.brokers[node].disk) for node in NODES] == [{"t-0": [0, 2, 4, 6]}] * 3
    back = replace(lab.states[0], settings=TopicSettings())
    effects = lab.replicas(1).apply(lab.now, [back])
    assert effects == [RollAt(folder="t-0", segment_bytes=1 << 30)]
    assert lab.replicas(1).apply(lab.now, [back]) == []
