"""Rules that decide from two measurements whether a link's quality changed: pure functions.

A share, such as the share of lost datagrams, changed if Fisher's exact test (one-sided) gives a
probability below `CHANCE`. A duration changed if it grew by at least a threshold. The threshold is
at most half of the growth that the fault should cause.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence

from cluster.protocol import Link, Measured

CHANCE = 0.001
FASTER = 1.5
"""An unlimited link must be faster than the limited link by this factor."""
FEW_LOST = 0.05
"""The share of datagrams that a good link may lose. Lost datagrams are not sent again."""
SLACK = 1.25
"""The measured rate of a limited link may exceed its limit by this factor."""
BITS_PER_KBIT = 1000

Rule = Callable[[Measured, Measured], bool]
"""The type of a function that returns whether the second measurement shows the effect."""


def later_by(least_ms: float) -> Rule:
    """Return a rule: the fastest round trip takes longer by at least this many milliseconds.

    The rule uses the fastest round trip, because a busy machine may slow most round trips, but
    hardly ever all.
    """

    def is_later(good: Measured, bad: Measured) -> bool:
        usual_ms, late_ms = fastest_ms(good), fastest_ms(bad)
        return usual_ms is not None and late_ms is not None and late_ms - usual_ms >= least_ms

    return is_later


def spread_by(least_ms: float) -> Rule:
    """Return a rule: the spread of round trips (`spread_ms`) grows by this many ms or more."""

    def is_spread(good: Measured, bad: Measured) -> bool:
        usual_ms, wide_ms = spread_ms(good), spread_ms(bad)
        return usual_ms is not None and wide_ms is not None and wide_ms - usual_ms >= least_ms

    return is_spread


def is_whole(sent: int, came: int) -> bool:
    """Return whether all datagrams arrived, except the few that a good link may lose."""
    return sent > 0 and sent - came <= FEW_LOST * sent


def held_flows(midway: Measured, over: Measured, flows: int) -> int | None:
    """Return how many flows were held: all their datagrams arrived after the midway measurement.

    Return None if some datagrams of a flow arrived before the midway measurement, and others later.
    This happens when a stall begins during the measurement. Datagrams that never arrive are
    ignored. If the whole link stalls, all flows are held. All flows are also held if a machine
    stands still for a while.

    Args:
        midway: The measurement halfway.
        over: The measurement of the same datagrams at the end.
        flows: The number of ports that send the datagrams in turn.
    """
    soon, late = {*midway.numbers}, {*over.numbers} - {*midway.numbers}
    passed, held = {number % flows for number in soon}, {number % flows for number in late}
    return None if passed & held else len(held)


def made_silent(
    links: Collection[Link],
    before: Mapping[Link, bool],
    stalled: Collection[Link],
    dropped: Mapping[Link, int],
) -> bool:
    """Return whether at least one link is certainly silent because of this cut.

    Args:
        links: The links of the cut.
        before: For each link, whether a probe passed before the cut.
        stalled: Links that other faults stall. Their silence proves nothing.
        dropped: The number of packets that the cut dropped on each link.
    """
    return any(dropped.get(link, 0) > 0 or (before[link] and link not in stalled) for link in links)


def loses_more(good: Measured, bad: Measured) -> bool:
    """Return whether the share of lost datagrams is larger in the second measurement."""
    return is_larger_share(good.sent - good.arrived, good.sent, bad.sent - bad.arrived, of=bad.sent)


def doubles_more(good: Measured, bad: Measured) -> bool:
    """Return whether the share of duplicate datagrams is larger in the second measurement."""
    return is_larger_share(
        min(good.copies, good.arrived), good.arrived, min(bad.copies, bad.arrived), of=bad.arrived
    )


def reorders_more(good: Measured, bad: Measured) -> bool:
    """Return whether the share of overtaken datagrams is larger in the second measurement."""
    return is_larger_share(good.overtaken, good.arrived, bad.overtaken, of=bad.arrived)


def limited_to(rate_kbit: float, size: int) -> Rule:
    """Return a rule: the link stays below a rate, and was faster before.

    Args:
        rate_kbit: The limit in kilobits a second.
        size: The size of the test datagrams in bytes.
    """

    def is_limited(good: Measured, bad: Measured) -> bool:
        usual, slow = rate_of(good, size), rate_of(bad, size)
        if usual is None or slow is None:
            return False
        return slow <= SLACK * rate_kbit and usual >= FASTER * slow

    return is_limited


def fastest_ms(measured: Measured) -> float | None:
    """Return the fastest round trip in milliseconds, or None if nothing came back."""
    return min(measured.round_trip_ms, default=None)


def median_ms(measured: Measured) -> float | None:
    """Return the median round trip in milliseconds, or None if nothing came back."""
    return statistics.median(measured.round_trip_ms) if measured.round_trip_ms else None


def spread_ms(measured: Measured) -> float | None:
    """Return the distance in milliseconds between the first and third quartile of round trips.

    If a machine stalls at times, only a few round trips become long, and these do not change the
    quartiles.
    """
    if len(measured.round_trip_ms) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    quarters = statistics.quantiles(measured.round_trip_ms, n=4)
    return quarters[-1] - quarters[0]


def rate_of(measured: Measured, size: int) -> float | None:
    """Return the rate of the arriving payload in kbit/s, or None for too few datagrams."""
    if measured.arrived < 2 or measured.lasted_s <= 0:  # noqa: PLR2004 - a rate needs an interval
        return None
    came = measured.arrived + measured.copies - 1
    return came * size * 8 / BITS_PER_KBIT / measured.lasted_s


def is_larger_share(few: int, of_few: int, many: int, *, of: int) -> bool:
    """Return whether `many / of` exceeds `few / of_few` by more than chance (Fisher, 1922)."""
    drawn, all_of_them = few + many, of_few + of
    if drawn == 0 or of == 0 or of_few == 0:
        return False
    all_ways = _log_ways(all_of_them, drawn)
    chance = math.fsum(
        math.exp(_log_ways(of, hits) + _log_ways(of_few, drawn - hits) - all_ways)
        for hits in range(max(many, drawn - of_few), min(of, drawn) + 1)
    )
    return chance < CHANCE


def _log_ways(of: int, drawn: int) -> float:
    """Return the logarithm of a binomial coefficient, which may be too large for a float."""
    return math.lgamma(of + 1) - math.lgamma(drawn + 1) - math.lgamma(of - drawn + 1)


def together(series: Sequence[Measured]) -> Measured:
    """Combine several measurements of one link into one."""
    return Measured(
        sent=sum(each.sent for each in series),
        arrived=sum(each.arrived for each in series),
        copies=sum(each.copies for each in series),
        overtaken=sum(each.overtaken for each in series),
        round_trip_ms=tuple(trip for each in series for trip in each.round_trip_ms),
        lasted_s=sum(each.lasted_s for each in series),
    )
