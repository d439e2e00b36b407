"""Build `Findings` from the (perhaps millions of) anomalous steps of readers and writers.

Each writer with many records causes `int-send-skip` when other writers are active. So the counting
is vectorized. Only the first `MAX_DESCRIBED` anomalies are described individually.
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
    """Describe the anomalies with the lowest offsets, and count the others by their labels.

    Args:
        rows: The number of steps that were compared.
        offsets: The offset of each anomaly.
        describe: A function that returns the anomaly for an index, without labels.
        excuses: For each excuse, a mask of the anomalies to which the excuse applies. For each
            premise, a mask of the anomalies for which the premise is broken.
        broken: Premises that are broken for all anomalies.
    """
    fitting_of: Mapping[Excuse | Premise, Mask] = dict(excuses.items())
    by_offset = np.argsort(offsets, kind="stable")
    names = sorted(fitting_of)
    # Each fitting excuse is one bit. Even many anomalies have only few combinations of bits.
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
