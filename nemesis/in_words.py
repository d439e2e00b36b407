"""The texts of the table in `docs/faults.md`, which describes each kind of fault."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InWords:
    """One row of the table in `docs/faults.md`. Each fault module has such rows in `SAYS`.

    Attributes:
        does: The effect of the fault on the cluster.
        injected: How the fault is injected.
        proven: The measurement that proves the effect.
        undone: How the fault is healed, and the measurement that proves the heal.
        costs: The records that a correct Kafka may lose because of the fault, and the reason that
            allows the loss.
    """

    does: str
    injected: str
    proven: str
    undone: str
    costs: str = "nothing"
