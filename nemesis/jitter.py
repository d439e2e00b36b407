"""The fault `jitter`: each packet between the targets and the other nodes is late by another time.

Between nothing and 60 to 200 ms, each way and evenly spread, so that packets close behind each
other change places. Confirmed when the first and the last quarter of round trips are further apart
than before by a quarter of that: of two such ways more than twice as much is expected.
"""

from cluster.protocol import Quality
from nemesis.evidence import spread_by
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

LEAST_MS, MOST_MS = 30, 100


def jitter(aim: Aim, site: Site) -> BadLinks:
    """Make the fault; how far packets stray is drawn."""
    jitter_ms = aim.rng.randint(LEAST_MS, MOST_MS)
    quality = Quality(delay_ms=jitter_ms, jitter_ms=jitter_ms, seed=drawn_seed(aim))
    trial = Trial(worse=spread_by(jitter_ms / 2), count=600, interval_s=0.002)
    return BadLinks(aim, site, quality, trial)


SAYS = {
    "jitter": InWords(
        does="each packet is late by another time, up to 60 to 200 ms",
        injected="as `delay`",
        proven="the spread of round trips",
        undone="as `delay`",
    ),
}
