"""What a replica's log was like after its broker had started again; and moves of the log start.

From `replica_states`: each look says in which of its broker's lives (`incarnation`) it was taken.
The last look of one life is compared with the first of the next one, which may come up to a second
later: a log that is longer then has fetched meanwhile.

What would not prove it: a look without a log end, or of an unknown life. A high watermark that is
lower after a start is no anomaly by itself: a broker writes it to its disk every five seconds only.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import Ints, equal, ints, present, select, words_of
from checkers.group import Group
from checkers.transitions.events import Events, end_of_run_ns


def find(group: Group, events: Events) -> None:
    """Add the recoveries of a partition's replicas, and the moves of their log starts."""
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
    """Return the rows after which another life begins."""
    return np.asarray(np.flatnonzero(lives[1:] > lives[:-1]), dtype=np.int64)
