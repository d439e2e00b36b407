"""Which values a run of a hunt gets: a bandit for each choice, with a memory that fades.

Thompson sampling (W. R. Thompson, Biometrika 1933; Chapelle and Li, NIPS 2011): each value has a
beta distribution of how much its runs gained. A number is drawn from each distribution, and the
highest wins. So what gained little is still tried at times. What a run gained counts less with each
run that came after it, because behaviour is new only once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

FADES = 0.93
RECENT = 12
"""With so many earlier runs a run is compared."""
EVEN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """One run, as the bandits see it.

    Attributes:
        choices: By choice (`system`, `workload`, ...): the values that the run had.
        gain: How much it reached that was new, 0 to 1, as compared with the runs before it.
    """

    choices: Mapping[str, tuple[str, ...]]
    gain: float


def best(
    choice: str, values: Sequence[str], pulls: Sequence[Pull], rng: Random, *, count: int = 1
) -> tuple[str, ...]:
    """Return the values that come out highest, in the order of `values`.

    Args:
        choice: Which one.
        values: That there are.
        pulls: The runs so far, the oldest first; none: each value is as likely.
        rng: Draws.
        count: How many values.
    """
    drawn = {value: rng.betavariate(*_seen(choice, value, pulls)) for value in values}
    chosen = sorted(values, key=lambda value: -drawn[value])[:count]
    return tuple(value for value in values if value in chosen)


def _seen(choice: str, value: str, pulls: Sequence[Pull]) -> tuple[float, float]:
    """Return what a value gained and did not gain, with one of each to begin with."""
    gained, missed, weight = 1.0, 1.0, 1.0
    for pull in reversed(pulls):
        weight *= FADES
        if value in pull.choices.get(choice, ()):
            gained += weight * pull.gain
            missed += weight * (1 - pull.gain)
    return gained, missed


def gains(scores: Sequence[float]) -> list[float]:
    """Return how each run compares with those just before it: 1 if it beats them all, 0 if none.

    Args:
        scores: What each run reached that was new, a minute; in their order.
    """
    found = []
    for at, score in enumerate(scores):
        before = scores[max(0, at - RECENT) : at]
        better = sum(each < score for each in before) + EVEN * sum(each == score for each in before)
        found.append(better / len(before) if before else EVEN)
    return found
