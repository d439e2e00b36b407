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
    """Return why a run cannot be judged during the run; None if it can, or if not requested."""
    if not plan.stop_on_violation:
        return None
    refusals = {
        "a simulated run is over in seconds and judged then; leave it out, or take other hosts": (
            plan.is_simulated
        ),
        "a story is judged by its end; leave it out": plan.scenario is not None,
        "whether librdkafka used a sequence number twice shows in the logs of stopped brokers only;"
        " leave it or after_timeout out, or take --client-kind java": plan.reuses_sequences,
        "Jepsen's definitions are for whole histories; take the judge contract or strict": (
            plan.judge is Judge.JEPSEN
        ),
    }
    why = next((sentence for sentence, holds in refusals.items() if holds), None)
    return f"stop_on_violation: {why}" if why else None
