"""Which runs can be judged while they go on."""

from typing import Protocol

from results.record.terms import Judge


class Stopping(Protocol):
    """What a plan tells of it."""

    @property
    def stop_on_violation(self) -> bool:
        """Whether the run is to end with its first violation."""

    @property
    def scenario(self) -> object:
        """None: it is an ordinary run."""

    @property
    def is_simulated(self) -> bool:
        """Whether it takes place in virtual time."""

    @property
    def reuses_sequences(self) -> bool:
        """Whether its clients may use a sequence number twice."""

    @property
    def judge(self) -> Judge:
        """Who judges it."""


def stop_refusal(plan: Stopping) -> str | None:
    """Return why a run cannot be judged while it goes on, None if it can, or need not."""
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
