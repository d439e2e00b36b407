"""Compare a replica's log before and after a broker's restart; find changes of the log start.

The source is `replica_states`: each answer contains the broker's incarnation, a number that grows
with each restart. The last answer of one incarnation is compared with the first answer of the next
incarnation. That first answer may come up to a second after the restart. By then, the replica may
already have fetched records, so the log may be longer.

What would not prove it: an answer without a log end, or an answer of an unknown incarnation. A
lower high watermark after a restart is not an anomaly by itself, because a broker writes its high
watermarks to disk only every five seconds.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, equal, ints, present, select, words_of
from checkers.group import Group
from checkers.transitions.events import Events, end_of_run_ns


def find(group: Group, events: Events) -> None:
    """Add the replicas' recoveries and changes of the log start to the transitions in `events`.

    If a fault recreated the topic, add this, too.
    """
    states = group.table("replica_states")
    times = ints(states, "observed_ns")
    told = ~present(states, "snapshot") & (times >= 0) & (times < end_of_run_ns(group.facts))
    looks = select(states, told)
    for node in words_of(looks, "node"):
        mine = select(looks, equal(looks, "node", node))
        lives = present(mine, "log_end_offset") & present(mine, "incarnation")
        _add_recoveries(select(mine, lives), events)
        _add_starts(select(mine, present(mine, "log_start_offset")), events)
    if (remade := group.remade) is not None:
        events.add("topic/made-again", remade.made_ns)


def _add_recoveries(looks: pa.Table, events: Events) -> None:
    times, lives, ends, marks = (
        ints(looks, name)
        for name in ("observed_ns", "incarnation", "log_end_offset", "high_watermark")
    )
    for at in _rises(lives).tolist():
        time_ns, before, after = int(times[at + 1]), int(ends[at]), int(ends[at + 1])
        events.add(f"recovery/{_log(before, after)}", time_ns)
        if 0 <= int(marks[at + 1]) < int(marks[at]):
            events.add("recovery/high-watermark-lower", time_ns)
        if int(lives[at + 1]) - int(lives[at]) > 1:
            events.add("recovery/life-unseen", time_ns)


def _log(before: int, after: int) -> str:
    if after == before:
        return "log-kept"
    if not after:
        return "log-empty"
    return "log-shorter" if after < before else "log-longer"


def _add_starts(looks: pa.Table, events: Events) -> None:
    times, starts = ints(looks, "observed_ns"), ints(looks, "log_start_offset")
    events.add_all("log-start/moved", times[1:][starts[1:] > starts[:-1]])
    events.add_all("log-start/stepped-back", times[1:][starts[1:] < starts[:-1]])


def _rises(lives: Ints) -> Ints:
    """Return the indices of the rows that are directly before a row of a later incarnation."""
    return np.asarray(np.flatnonzero(lives[1:] > lives[:-1]), dtype=np.int64)
