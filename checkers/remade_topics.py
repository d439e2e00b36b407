"""Topics that faults made again: what the judge must know of their last incarnations.

The fault's own row has it. It is written when the fault is over; of one that never was, nothing is
judged, and the run is unknown for that.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.columns import ints, present, select, texts
from checkers.disk_losses import json_object
from checkers.facts import RemadeTopic
from results.record.terms import REMADE_PREFIX

_KIND = "remade-back"
"""Of the effect of such a heal."""


def remade_topics(faults: pa.Table) -> tuple[RemadeTopic, ...]:
    """Return the last incarnations, in the faults' order; a row that is damaged has none."""
    over = select(faults, present(faults, "healed_ns"))
    times = (ints(over, name).tolist() for name in ("requested_ns", "healed_ns"))
    rows = zip(texts(over, "heal_effect"), *times, strict=True)
    return tuple(topic for row in rows for topic in _topics(*row))


def _topics(heal_effect: str, begun_ns: int, healed_ns: int) -> Iterator[RemadeTopic]:
    match json_object(heal_effect):
        case {
            "kind": kind,
            "topic": str(topic),
            "topic_id": str(topic_id),
            "replicas": dict(replicas),
            "acked": list(acked),
        } if kind == _KIND and topic.startswith(REMADE_PREFIX):
            yield RemadeTopic(
                topic=topic,
                topic_id=topic_id,
                replicas={
                    int(number): len(nodes)
                    for number, nodes in replicas.items()
                    if str(number).isdecimal() and isinstance(nodes, list)
                },
                acked=tuple(place for each in acked for place in _acked(each)),
                begun_ns=begun_ns,
                healed_ns=healed_ns,
            )
        case _:
            pass


def _acked(told: object) -> Iterator[tuple[int, int, int]]:
    match told:
        case {"partition": int(partition), "offset": int(offset), "value": int(value)}:
            yield partition, offset, value
        case _:
            pass
