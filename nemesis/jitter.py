"""The fault `jitter`: each packet between a target and any other node has a random delay.

The delay is uniform between 0 and a maximum of 60 to 200 ms, in each direction. So two packets that
are sent shortly one after the other can arrive in the wrong order. The fault is confirmed if the
distance between the first and third quartile of round trips grows by a quarter of the maximum delay
or more. Because the fault delays both directions, the expected growth is more than twice this
threshold.
"""

from cluster.protocol import Quality
from nemesis.evidence import spread_by
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

LEAST_MS, MOST_MS = 30, 100


def jitter(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random maximum delay."""
    jitter_ms = aim.rng.randint(LEAST_MS, MOST_MS)
    quality = Quality(delay_ms=jitter_ms, jitter_ms=jitter_ms, seed=drawn_seed(aim))
    trial = Trial(worse=spread_by(jitter_ms / 2), count=600, interval_s=0.002)
    return BadLinks(aim, site, quality, trial)


SAYS = {
    "jitter": InWords(
        does="each packet has a random delay of up to 60 to 200 ms",
        injected="like `delay`",
        proven="the spread of round trips",
        undone="like `delay`",
    ),
}
