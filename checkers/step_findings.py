"""From steps of readers and writers to `Findings`: there may be millions of them.

`int-send-skip` is what every writer of many records does beside others, so that counting must cost
no Python for each; only the first `MAX_DESCRIBED` are looked at one by one.
"""

from collections.abc import Callable, Mapping

import numpy as np

from checkers.columns import Ints, Mask
from checkers.findings import findings
from checkers.protocol import MAX_DESCRIBED, Excuse, Findings, Labels
from results.record.verdict import Anomaly


def step_findings(
    rows: int,
    offsets: Ints,
    describe: Callable[[int], Anomaly],
    excuses: Mapping[Excuse, Mask],
    *,
    broken: tuple[str, ...] = (),
) -> Findings:
    """Describe the first anomalies by offset, and count the others.

    Args:
        rows: How many rows were looked at.
        offsets: Of each anomaly.
        describe: Gives the anomaly of an index, without labels.
        excuses: Which of the anomalies each excuse fits.
        broken: The premises that are broken for all of them.
    """
    by_offset = np.argsort(offsets, kind="stable")
    names = sorted(excuses)
    # Which excuses fit, as bits: so few combinations, however many anomalies.
    fits = np.zeros(len(offsets), dtype=np.int64)
    for bit, name in enumerate(names):
        fits |= excuses[name].astype(np.int64) << bit

    def labels(fitting: int) -> Labels:
        kept = (name.value for bit, name in enumerate(names) if fitting >> bit & 1)
        return tuple(kept), broken

    head, rest = by_offset[:MAX_DESCRIBED].tolist(), by_offset[MAX_DESCRIBED:]
    described = findings(rows, head, describe, lambda index: labels(int(fits[index])))
    kinds, counts = np.unique(fits[rest], return_counts=True)
    beyond = {
        labels(kind): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)
    }
    return Findings(rows=rows, anomalies=described.anomalies, beyond=beyond)
