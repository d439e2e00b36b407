"""When a broker was down or stood still by a fault's own witness: then it answered nobody."""

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from checkers.columns import equal, ints, present, select, texts
from checkers.disk_losses import heal_begun_ns
from checkers.facts import Absence, Disturbance

_AWAY = frozenset({None, "T", "Z", "X"})
"""States of a process that answers nothing, as in `/proc/PID/stat`; None: it is gone."""
_ENDED = _AWAY - {"T"}
"""Of those, the states of a process that does not go on."""
_BROKEN = (ValueError, KeyError, TypeError, AttributeError)


def absences(faults: pa.Table) -> tuple[Absence, ...]:
    """Return from when to when which brokers were certainly away, by what faults saw of them.

    From the moment in which a fault was confirmed to the one in which its heal began: before it the
    broker may have lived on, and after it it may have come back.
    """
    seen = select(faults, present(faults, "confirmed_ns") & present(faults, "healed_ns"))
    rows = zip(
        texts(seen, "effect"), texts(seen, "heal_effect"),
        ints(seen, "confirmed_ns").tolist(), ints(seen, "healed_ns").tolist(), strict=True,
    )  # fmt: skip
    return tuple(each for row in rows for each in _absences(*row))


def answers_around(
    leadership: pa.Table, faults: Iterable[Disturbance]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return `RunFacts.answers`: when targets of faults that nobody saw work had answered.

    Args:
        leadership: Its `observer`, `asked_ns` and `observed_ns`; files tell no times.
        faults: Of the run.
    """
    found = {}
    for fault in faults:
        for node in fault.nodes if fault.confirmed_ns < 0 else ():
            rows = select(leadership, equal(leadership, "observer", node))
            asked, seen = ints(rows, "asked_ns"), ints(rows, "observed_ns")
            before = int(seen[seen <= fault.begun_ns].max(initial=-1))
            later = seen[asked > fault.begun_ns]
            found[node, fault.begun_ns] = (before, int(later.min()) if len(later) else -1)
    return found


def _absences(effect: str, heal: str, confirmed_ns: int, healed_ns: int) -> Iterator[Absence]:
    try:
        told = json.loads(effect)
        seen = [(str(each["node"]), each["state_after"]) for each in told["processes"]]
    except _BROKEN:
        return
    until_ns = heal_begun_ns(heal, healed_ns)
    if until_ns > confirmed_ns:
        yield from (
            Absence(node=node, from_ns=confirmed_ns, until_ns=until_ns, gone=state in _ENDED)
            for node, state in seen
            if state in _AWAY
        )
