"""The texts about each kind of fault for the table in `docs/faults.md`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InWords:
    """One row of the table in `docs/faults.md`. Each fault module has such rows in `SAYS`.

    Attributes:
        does: The effect of the fault on the cluster.
        injected: The means of the injection.
        proven: The measurement that proves the effect.
        undone: The means of the heal, and the measurement that proves it.
        costs: The records that a correct Kafka may lose because of the fault, and the reason that
            allows the loss.
    """

    does: str
    injected: str
    proven: str
    undone: str
    costs: str = "nothing"
