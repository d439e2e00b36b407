"""Read from the rows of `faults` the facts about topics that faults deleted and recreated.

The facts describe the topic's last incarnation. These facts are in the heal effect of the fault's
row. A fault that was never healed has no heal effect. Then the judge skips the topic of the fault,
and the verdict is unknown because of the fault.
"""

from collections.abc import Iterator
from math import isfinite

import pyarrow as pa

from checkers.columns import ints, present, select, texts
from checkers.disk_losses import json_object
from checkers.facts import RemadeTopic
from results.record.clock import NS_PER_S
from results.record.terms import REMADE_PREFIX

_KIND = "remade-back"
"""The `kind` in the heal effect of a fault that recreated a topic."""


def remade_topics(faults: pa.Table) -> tuple[RemadeTopic, ...]:
    """Return the topics' last incarnations, in the order of the faults. Skip damaged rows."""
    over = select(faults, present(faults, "healed_ns"))
    confirmed = present(over, "confirmed_ns").tolist()
    healed_ns = ints(over, "healed_ns").tolist()
    rows = zip(texts(over, "heal_effect"), healed_ns, confirmed, strict=True)
    return tuple(topic for told, at, was in rows for topic in _topics(told, at, confirmed=was))


def _topics(heal_effect: str, healed_ns: int, *, confirmed: bool) -> Iterator[RemadeTopic]:
    match json_object(heal_effect):
        case {
            "kind": kind,
            "topic": str(topic),
            "topic_id": str(topic_id),
            "age_s": int() | float() as age_s,
            "replicas": dict(replicas),
            "acked": list(acked),
        } if kind == _KIND and topic.startswith(REMADE_PREFIX) and isfinite(age_s):
            yield RemadeTopic(
                topic=topic,
                topic_id=topic_id,
                replicas={
                    int(number): tuple(map(str, nodes))
                    for number, nodes in replicas.items()
                    if str(number).isdecimal() and isinstance(nodes, list)
                },
                acked=tuple(place for each in acked for place in _acked(each)),
                made_ns=healed_ns - round(age_s * NS_PER_S),
                healed_ns=healed_ns,
                confirmed=confirmed,
            )
        case _:
            pass


def _acked(told: object) -> Iterator[tuple[int, int, int]]:
    match told:
        case {"partition": int(partition), "offset": int(offset), "value": int(value)}:
            yield partition, offset, value
        case _:
            pass
