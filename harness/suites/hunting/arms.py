"""Choose the values of a hunt's next run by multi-armed bandits, one bandit for each choice.

The method is Thompson sampling (W. R. Thompson, Biometrika 1933; Chapelle and Li, NIPS 2011). Each
value has a beta distribution, which is computed from the gains of the runs with this value. One
random number comes from each distribution, and the value with the highest number is chosen. So even
a value with little gain is chosen now and then. The gain of a run counts less with each later run,
because behaviour is new only once. At the start, the distributions promise more than most values
keep, so that values without runs come first (Sutton and Barto, Reinforcement Learning, 2018, 2.6).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

FADES = 0.93
RECENT = 12
"""Each run is compared with this number of earlier runs."""
EVEN = 0.5
HOPEFUL = (3.0, 1.0)
"""The two parameters of a beta distribution without runs: an expected gain of 0.75."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """One run, as the bandits see it.

    Attributes:
        choices: The run's values for each choice (`system`, `workload`, ...).
        gain: A number from 0 to 1: how much new behaviour the run reached, compared with earlier
            runs.
    """

    choices: Mapping[str, tuple[str, ...]]
    gain: float


def best(
    choice: str,
    values: Sequence[str],
    pulls: Sequence[Pull],
    rng: Random,
    *,
    count: int = 1,
    starts: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return the values with the highest random numbers, in the order of `values`.

    Args:
        choice: The choice, such as `system`.
        values: All values of the choice.
        pulls: The runs so far, the oldest first. Without runs, all values are equally likely.
        rng: The source of random numbers.
        count: How many values to return.
        starts: The parameters that replace `HOPEFUL`, for some of the values.
    """
    drawn = {}
    for value in values:
        gained, missed = _seen(choice, value, pulls)
        start = starts.get(value, HOPEFUL)
        drawn[value] = rng.betavariate(start[0] + gained, start[1] + missed)
    chosen = sorted(values, key=lambda value: -drawn[value])[:count]
    return tuple(value for value in values if value in chosen)


def _seen(choice: str, value: str, pulls: Sequence[Pull]) -> tuple[float, float]:
    """Return two sums for a value: of the gains, and of 1 - gain."""
    gained, missed, weight = 0.0, 0.0, 1.0
    for pull in reversed(pulls):
        weight *= FADES
        if value in pull.choices.get(choice, ()):
            gained += weight * pull.gain
            missed += weight * (1 - pull.gain)
    return gained, missed


def gains(scores: Sequence[float]) -> list[float]:
    """Return each run's gain: the share of recent earlier runs with a lower score.

    An earlier run with an equal score counts half.

    Args:
        scores: The scores of the runs, in order. A score says how much new behaviour the run
            reached in a minute.
    """
    found = []
    for at, score in enumerate(scores):
        before = scores[max(0, at - RECENT) : at]
        better = sum(each < score for each in before) + EVEN * sum(each == score for each in before)
        found.append(better / len(before) if before else EVEN)
    return found
