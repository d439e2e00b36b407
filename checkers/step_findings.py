"""From steps of readers and writers to `Findings`: there may be millions of them.

`int-send-skip` is what every writer of many records does beside others, so that counting must cost
no Python for each; only the first `MAX_DESCRIBED` are looked at one by one.
"""

from collections.abc import Callable, Mapping

import numpy as np

from checkers.columns import Ints, Mask
from checkers.findings import findings
from checkers.protocol import MAX_DESCRIBED, Excuse, Findings, Labels, Premise
from results.record.verdict import Anomaly


def step_findings(
    rows: int,
    offsets: Ints,
    describe: Callable[[int], Anomaly],
    excuses: Mapping[Excuse, Mask] | Mapping[Excuse | Premise, Mask],
    *,
    broken: tuple[str, ...] = (),
) -> Findings:
    """Describe the first anomalies by offset, and count the others.

    Args:
        rows: How many rows were looked at.
        offsets: Of each anomaly.
        describe: Gives the anomaly of an index, without labels.
        excuses: Which of the anomalies each excuse fits; and which lack a premise.
        broken: The premises that are broken for all of them.
    """
    fitting_of: Mapping[Excuse | Premise, Mask] = dict(excuses.items())
    by_offset = np.argsort(offsets, kind="stable")
    names = sorted(fitting_of)
    # Which excuses fit, as bits: so few combinations, however many anomalies.
    fits = np.zeros(len(offsets), dtype=np.int64)
    for bit, name in enumerate(names):
        fits |= fitting_of[name].astype(np.int64) << bit

    def labels(fitting: int) -> Labels:
        kept = [name for bit, name in enumerate(names) if fitting >> bit & 1]
        lacking = [name.value for name in kept if isinstance(name, Premise)]
        fitting_ones = tuple(name.value for name in kept if isinstance(name, Excuse))
        return fitting_ones, (*broken, *lacking)

    head, rest = by_offset[:MAX_DESCRIBED].tolist(), by_offset[MAX_DESCRIBED:]
    described = findings(rows, head, describe, lambda index: labels(int(fits[index])))
    kinds, counts = np.unique(fits[rest], return_counts=True)
    beyond = {
        labels(kind): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)
    }
    return Findings(rows=rows, anomalies=described.anomalies, beyond=beyond)
