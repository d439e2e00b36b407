"""How sure k of N makes one: the score interval for a proportion."""

from math import sqrt

Z_95 = 1.959963984540054
"""The 97.5 % point of the normal distribution: 95 % lie within it on both sides."""


def wilson_interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability that was seen `count` times in `of`.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, Journal of
    the American Statistical Association 22 (1927), 209-212. Unlike the textbook's interval it is of
    use for few trials, and for none or all of them: 20 of 20 is 0.84 to 1.
    """
    if of == 0:
        return 0.0, 1.0
    seen, weight = count / of, Z_95 * Z_95 / of
    centre = (seen + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(seen * (1 - seen) / of + weight / (4 * of)) / (1 + weight)
    # At the ends it is exact, and must not be spoilt by rounding.
    low = 0.0 if count == 0 else max(0.0, centre - half)
    high = 1.0 if count == of else min(1.0, centre + half)
    return low, high
