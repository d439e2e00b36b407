"""Whether a link's quality changed, by what was measured before and after: pure rules.

A share (of lost datagrams, say) changed if Fisher's exact test, one-sided, takes the difference for
chance with a probability below `CHANCE`; a time, if it moved by half of what the fault promises.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence

from cluster.protocol import Link, Measured

CHANCE = 0.001
FASTER = 1.5
"""So much faster than while limited a link must be without a limit."""
FEW_LOST = 0.05
"""Such a share of datagrams a good link may lose: nobody sends them again."""
SLACK = 1.25
"""So much above its limit the rate of a limited link may be measured."""
BITS_PER_KBIT = 1000

Rule = Callable[[Measured, Measured], bool]
"""Whether the second is worse than the first, as the fault would have it."""


def later_by(least_ms: float) -> Rule:
    """Return the rule that the fastest round trip takes longer by so many milliseconds.

    The fastest, because a busy machine makes most of them slow, and never all.
    """

    def is_later(good: Measured, bad: Measured) -> bool:
        usual_ms, late_ms = fastest_ms(good), fastest_ms(bad)
        return usual_ms is not None and late_ms is not None and late_ms - usual_ms >= least_ms

    return is_later


def spread_by(least_ms: float) -> Rule:
    """Return the rule that round trips differ by so many milliseconds more (`spread_ms`)."""

    def is_spread(good: Measured, bad: Measured) -> bool:
        usual_ms, wide_ms = spread_ms(good), spread_ms(bad)
        return usual_ms is not None and wide_ms is not None and wide_ms - usual_ms >= least_ms

    return is_spread


def is_whole(sent: int, came: int) -> bool:
    """Tell whether all came, all but so few as a good link may lose."""
    return sent > 0 and sent - came <= FEW_LOST * sent


def held_flows(midway: Measured, over: Measured, flows: int) -> int | None:
    """Return of how many flows nothing had arrived midway; None: of one only a part had.

    What never arrived tells nothing of its flow. A link that stalls as a whole holds all of them,
    as does a machine that stands still for a while; a look into which a stall begins splits some.

    Args:
        midway: Of the datagrams of a look.
        over: Of the same ones, in the end.
        flows: From how many ports they were sent, by turns.
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
    """Tell whether it is known of any silent link that a cut made it so.

    Args:
        links: Of the cut.
        before: Which of them probes got over before it.
        stalled: Those that other faults stall: their silence tells nothing.
        dropped: How many packets the cut itself dropped on each.
    """
    return any(dropped.get(link, 0) > 0 or (before[link] and link not in stalled) for link in links)


def loses_more(good: Measured, bad: Measured) -> bool:
    """Tell whether a larger share of what was sent did not arrive."""
    return is_larger_share(good.sent - good.arrived, good.sent, bad.sent - bad.arrived, of=bad.sent)


def doubles_more(good: Measured, bad: Measured) -> bool:
    """Tell whether a larger share of what arrived arrived again."""
    return is_larger_share(
        min(good.copies, good.arrived), good.arrived, min(bad.copies, bad.arrived), of=bad.arrived
    )


def reorders_more(good: Measured, bad: Measured) -> bool:
    """Tell whether a larger share of what arrived came behind a later one."""
    return is_larger_share(good.overtaken, good.arrived, bad.overtaken, of=bad.arrived)


def limited_to(rate_kbit: float, size: int) -> Rule:
    """Return the rule that a link keeps to a rate, and was faster without it.

    Args:
        rate_kbit: The limit.
        size: Of the datagrams that were sent, in bytes.
    """

    def is_limited(good: Measured, bad: Measured) -> bool:
        usual, slow = rate_of(good, size), rate_of(bad, size)
        if usual is None or slow is None:
            return False
        return slow <= SLACK * rate_kbit and usual >= FASTER * slow

    return is_limited


def fastest_ms(measured: Measured) -> float | None:
    """Return the fastest round trip in milliseconds; None: nothing came back."""
    return min(measured.round_trip_ms, default=None)


def median_ms(measured: Measured) -> float | None:
    """Return the median round trip in milliseconds; None: nothing came back."""
    return statistics.median(measured.round_trip_ms) if measured.round_trip_ms else None


def spread_ms(measured: Measured) -> float | None:
    """Return how far apart the first and the last quarter of the round trips are.

    Quarters, because a machine that stalls now and then makes some round trips long, but not so
    many.
    """
    if len(measured.round_trip_ms) < 2:  # noqa: PLR2004 - one is not apart from itself
        return None
    quarters = statistics.quantiles(measured.round_trip_ms, n=4)
    return quarters[-1] - quarters[0]


def rate_of(measured: Measured, size: int) -> float | None:
    """Return the kilobits a second that arrived, headers apart; None: too few to tell."""
    if measured.arrived < 2 or measured.lasted_s <= 0:  # noqa: PLR2004 - a rate needs an interval
        return None
    came = measured.arrived + measured.copies - 1
    return came * size * 8 / BITS_PER_KBIT / measured.lasted_s


def is_larger_share(few: int, of_few: int, many: int, *, of: int) -> bool:
    """Tell whether `many / of` is larger than `few / of_few` by more than chance (Fisher, 1922)."""
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
    """Return several series of one link as one."""
    return Measured(
        sent=sum(each.sent for each in series),
        arrived=sum(each.arrived for each in series),
        copies=sum(each.copies for each in series),
        overtaken=sum(each.overtaken for each in series),
        round_trip_ms=tuple(trip for each in series for trip in each.round_trip_ms),
        lasted_s=sum(each.lasted_s for each in series),
    )
