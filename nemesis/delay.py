"""The fault `delay`: packets between a target and any other broker are late by 50 to 300 ms.

The delay applies to each direction, so a round trip is longer by twice the delay. Brokers on two
continents have such delays. The fault is confirmed if the fastest round trip takes longer than
before. The difference must be at least the delay of one direction.
"""

from cluster.protocol import Quality
from nemesis.evidence import later_by
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

LEAST_MS, MOST_MS = 50, 300


def delay(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random delay."""
    delay_ms = aim.rng.randint(LEAST_MS, MOST_MS)
    quality = Quality(delay_ms=delay_ms, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, Trial(worse=later_by(delay_ms), count=200))


SAYS = {
    "delay": InWords(
        does=(
            "packets between the targets and all other brokers are delayed by 50 to 300 ms in each"
            " direction"
        ),
        injected="a traffic shaper on each link's sender",
        proven="round trips of numbered datagrams, before and during the fault",
        undone="removal of the shape; the same measurement",
    ),
}
