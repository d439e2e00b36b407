"""What the quorum's leaders told of it while the run went on: `quorum_states` in short.

`quorum_states` has no partition, and grows with the run; the checks of the controllers' log need
only this of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, ints, present, select, texts

Marks = Mapping[str, int]
"""A node's name, and the offset below which its log was known to be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """What the leaders of the quorum told.

    A leader that describes the quorum tells its high watermark, and how far each node had fetched
    when the leader had last made sure that their logs are the same up to there. So below the
    smaller of both, that node's log is committed: it must never change again.

    Attributes:
        marks: By node, the highest such offset of the run.
        step_marks: The same by a scenario's step, of what was told before the step began: its
            copies of files are younger.
        announced: The highest high watermark that was told in an epoch, by epoch.
    """

    marks: Marks = field(default_factory=dict)
    step_marks: Mapping[str, Marks] = field(default_factory=dict)
    announced: Mapping[int, int] = field(default_factory=dict)


def quorum_facts(states: pa.Table, step_begins_ns: Mapping[str, int]) -> QuorumFacts:
    """Sum up what the quorum's leaders told.

    Args:
        states: Rows of `quorum_states`.
        step_begins_ns: When each step of a scenario began, by its name.
    """
    told = select(states, present(states, "high_watermark") & (ints(states, "epoch") >= 0))
    times = ints(told, "observed_ns")
    steps = {
        name: _marks(select(told, (times >= 0) & (times < begun_ns)))
        for name, begun_ns in step_begins_ns.items()
    }
    epochs, marks = ints(told, "epoch"), ints(told, "high_watermark")
    return QuorumFacts(
        marks=_marks(told),
        step_marks=steps,
        announced={
            epoch: int(marks[epochs == epoch].max()) for epoch in np.unique(epochs).tolist()
        },
    )


def _marks(told: pa.Table) -> dict[str, int]:
    ends = ints(told, "log_end_offset")
    sure = np.where(ends >= 0, np.minimum(ends, ints(told, "high_watermark")), NONE)
    nodes = np.array(texts(told, "node"), dtype=object)
    highest = {node: int(sure[nodes == node].max()) for node in sorted(set(nodes.tolist()))}
    return {node: mark for node, mark in highest.items() if mark >= 0}
