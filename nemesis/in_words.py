"""The texts about each kind of fault for the table in `docs/faults.md`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InWords:
    """One row of the table in `docs/faults.md`. `SAYS` of a fault module has one for each kind.

    Attributes:
        does: The effect of the fault on the cluster.
        injected: The means of the injection.
        proven: The measurement of its effect.
        undone: The means of the heal, and its measurement.
        costs: The records that a correct Kafka may lose because of the fault, and the excuse that
            allows the loss.
    """

    does: str
    injected: str
    proven: str
    undone: str
    costs: str = "nothing"
