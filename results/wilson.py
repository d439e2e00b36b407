"""The Wilson score interval: the confidence interval of a rate k of N."""

from math import sqrt

Z_95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution: 95 % lie between minus and plus this value."""


def wilson_interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a probability, for `count` successes in `of` trials.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, Journal of
    the American Statistical Association 22 (1927), 209-212. Unlike the textbook interval, this
    interval is also useful if there are few trials, or if all trials succeed or all fail. For
    example, 20 of 20 gives 0.84 to 1.
    """
    if of == 0:
        return 0.0, 1.0
    seen, weight = count / of, Z_95 * Z_95 / of
    centre = (seen + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(seen * (1 - seen) / of + weight / (4 * of)) / (1 + weight)
    # The ends 0 and 1 are exact, without rounding errors.
    low = 0.0 if count == 0 else max(0.0, centre - half)
    high = 1.0 if count == of else min(1.0, centre + half)
    return low, high
