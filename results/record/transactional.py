"""Decide which clients can write in transactions (KIP-98)."""

from typing import Protocol


class Asked(Protocol):
    """The fields of a plan that decide whether clients can write in transactions."""

    @property
    def is_reference(self) -> bool:
        """Whether the brokers are the reference cluster."""

    @property
    def acks(self) -> str:
        """The `acks` setting of producers."""

    @property
    def idempotent(self) -> bool:
        """Whether producers are idempotent."""

    @property
    def transaction_timeout_s(self) -> float:
        """Time after which an open transaction is aborted."""


def transactions_refusal(plan: Asked) -> str | None:
    """Return why a plan's clients cannot write in transactions; None if they can."""
    if plan.is_reference:
        return "workload: the reference cluster does not support transactions; use log or groups"
    if plan.acks != "all":
        return f'acks: transactions need acks = "all", not {plan.acks!r}'
    if not plan.idempotent:
        return "idempotence: transactions need idempotent producers, and thus message format v2"
    if plan.transaction_timeout_s < 1:
        return "transaction_timeout_s: a client needs at least one second"
    return None
