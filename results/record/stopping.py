"""Decide which runs can be judged during the run."""

from typing import Protocol

from results.record.terms import Judge


class Stopping(Protocol):
    """The fields of a plan that decide whether a run can be judged during the run."""

    @property
    def stop_on_violation(self) -> bool:
        """Whether the run should stop at its first violation."""

    @property
    def scenario(self) -> object:
        """The scenario; None for an ordinary run."""

    @property
    def is_simulated(self) -> bool:
        """Whether the run uses virtual time."""

    @property
    def reuses_sequences(self) -> bool:
        """Whether clients may reuse a sequence number."""

    @property
    def judge(self) -> Judge:
        """The run's judge."""


def stop_refusal(plan: Stopping) -> str | None:
    """Return why the plan's run cannot be judged while it runs; None if nothing prevents it."""
    if not plan.stop_on_violation:
        return None
    refusals = {
        "a simulated run ends within seconds and is judged then; remove stop_on_violation, or use"
        " other hosts": plan.is_simulated,
        "a scenario is judged at its end; remove stop_on_violation": plan.scenario is not None,
        "only the logs of stopped brokers show whether librdkafka used a sequence number twice;"
        " remove stop_on_violation or after_timeout, or use --client-kind java": (
            plan.reuses_sequences
        ),
        "Jepsen's definitions apply only to whole histories; use the judge contract or strict": (
            plan.judge is Judge.JEPSEN
        ),
    }
    why = next((sentence for sentence, holds in refusals.items() if holds), None)
    return f"stop_on_violation: {why}" if why else None
