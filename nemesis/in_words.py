"""What a kind of fault is, in the words of the table of `docs/faults.md`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InWords:
    """One row of that table; each module of faults holds those of its kinds, by name, as `SAYS`.

    Attributes:
        does: What it does to the cluster.
        injected: By what.
        proven: How its effect is measured.
        undone: By what, and how that is seen.
        costs: Which records a correct Kafka may lose by it, and the excuse that says so.
    """

    does: str
    injected: str
    proven: str
    undone: str
    costs: str = "nothing"
