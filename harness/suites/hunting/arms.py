"""Choose the values of a hunt's next run by a multi-armed bandit with linear payoffs.

The method is Thompson sampling (S. Agrawal and N. Goyal, ICML 2013). The expected gain of a run is
the sum of the effects of its values. Ridge regression estimates the effects from the runs so far.
For the next run, a random vector of effects comes from the posterior distribution, and the values
with the highest effects are chosen. A run has several families of faults. The regression separates
the effect of a family from the effects of the other families in the same runs. The effect of a
value without runs is uncertain, so such values are chosen often. Older runs count less, because
behaviour is new only once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

FADES = 0.97
RECENT = 12
"""Each run is compared with this number of earlier runs."""
EVEN = 0.5
SPREAD = 0.15
"""The standard deviation of the effect of a value without runs."""
_OF_ALL = 0.01
"""The precision of the base to which the effects are added, before the first run."""

Arm = tuple[str, str]
"""A choice and one of its values: `("workload", "log")`."""
Effects = Mapping[Arm, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """One run, as the bandit sees it.

    Attributes:
        choices: The run's values for each choice (`system`, `workload`, ...).
        gain: A number from 0 to 1: how much new behaviour the run reached, compared with earlier
            runs.
    """

    choices: Mapping[str, tuple[str, ...]]
    gain: float

    @property
    def arms(self) -> list[Arm]:
        """The run's values, each with its choice."""
        return [(choice, value) for choice, values in self.choices.items() for value in values]


def sampled(pulls: Sequence[Pull], starts: Effects, rng: Random) -> Effects:
    """Return a random effect of each value that had a run, from the posterior distribution.

    Args:
        pulls: The runs so far, the oldest first.
        starts: For some values, the expected effect before the first run; 0 for all others. The
            result has these values even if they had no run.
        rng: The source of random numbers.
    """
    arms = sorted({arm for pull in pulls for arm in pull.arms} | starts.keys())
    at = {arm: place for place, arm in enumerate(arms, 1)}
    precision = np.eye(len(arms) + 1)
    precision[0, 0] = _OF_ALL
    weighted = np.array([0.0, *(starts.get(arm, 0.0) for arm in arms)])
    weight = 1.0
    for pull in reversed(pulls):
        weight *= FADES
        row = np.zeros(len(arms) + 1)
        row[[0, *(at[arm] for arm in pull.arms)]] = 1
        precision += weight * np.outer(row, row)
        weighted += weight * pull.gain * row
    covariance = np.linalg.inv(precision)
    noise = np.array([rng.gauss(0, SPREAD) for _ in range(len(arms) + 1)])
    effects = covariance @ weighted + np.linalg.cholesky(covariance) @ noise
    return {arm: float(effects[place]) for arm, place in at.items()}


def best(
    choice: str, values: Sequence[str], effects: Effects, rng: Random, *, count: int = 1
) -> tuple[str, ...]:
    """Return the values with the highest effects, in the order of `values`.

    Args:
        choice: The choice, such as `system`.
        values: All values of the choice.
        effects: The effects of values that had runs. Each other value gets a random effect. So
            without any effects, all values are equally likely.
        rng: The source of random numbers.
        count: How many values to return.
    """
    drawn = {
        value: effects[choice, value] if (choice, value) in effects else rng.gauss(0, SPREAD)
        for value in values
    }
    chosen = sorted(values, key=lambda value: -drawn[value])[:count]
    return tuple(value for value in values if value in chosen)


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
