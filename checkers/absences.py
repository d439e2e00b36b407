"""Use the measurements of the faults to find the periods in which a broker was down or paused.

A broker answers no request in such a period.
"""

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from checkers.columns import equal, ints, present, select, texts
from checkers.disk_losses import heal_begun_ns
from checkers.facts import Absence, Disturbance
from checkers.protocol import Excuse

_AWAY = frozenset({None, "T", "Z", "X"})
"""The states (see `/proc/PID/stat`) of a process that answers no request.

None means that the process has ended.
"""
_ENDED = _AWAY - {"T"}
"""The states in `_AWAY` that mean an ended process. A stopped process (`T`) can continue."""
_BROKEN = (ValueError, KeyError, TypeError, AttributeError)


def absences(faults: pa.Table) -> tuple[Absence, ...]:
    """Return the periods in which a broker was certainly down or paused because of a fault.

    A period begins when the fault is confirmed. Before that, the broker may still have been alive.
    A period ends when the heal begins. After that, the broker may have come back. A flipped bit
    gives no period: when it is confirmed, the brokers run again.
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
    """Return the times of the targets' answers around the start of each unconfirmed fault.

    The key is the target and the start of the fault. The value is a pair: the time of the last
    answer before the start, and the time of the first answer after it. A time is -1 if there is no
    such answer. The result is stored as `RunFacts.answers`.

    Args:
        leadership: Rows with `observer`, `asked_ns` and `observed_ns`. Rows from files have no
            times.
        faults: The run's faults.
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
        again = told.get("kind") == Excuse.FLIP.value
    except _BROKEN:
        return
    until_ns = heal_begun_ns(heal, healed_ns)
    if until_ns > confirmed_ns and not again:
        yield from (
            Absence(node=node, from_ns=confirmed_ns, until_ns=until_ns, gone=state in _ENDED)
            for node, state in seen
            if state in _AWAY
        )
