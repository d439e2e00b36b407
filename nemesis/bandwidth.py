"""The fault `bandwidth`: the links between a target and any other broker have little bandwidth.

Each link has 256 to 1024 kilobits a second in each direction. Packets that would wait longer than
0.3 s are lost. To confirm the fault, Logquake sends more datagrams than the link can carry. The
fault is confirmed if their rate of arrival is at most 1.25 times the limit. Before the fault, the
rate must have been at least 1.5 times as high.
"""

from cluster.protocol import Quality
from nemesis.evidence import limited_to
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

LEAST_KBIT, MOST_KBIT = 256, 1024
DATAGRAM_BYTES = 1400
INTERVAL_S = 0.002
"""Seconds between two test datagrams. This makes 5.6 megabits a second."""


def bandwidth(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random rate."""
    rate_kbit = aim.rng.randint(LEAST_KBIT, MOST_KBIT)
    quality = Quality(rate_kbit=rate_kbit, seed=drawn_seed(aim))
    worse = limited_to(rate_kbit, DATAGRAM_BYTES)
    trial = Trial(worse=worse, count=500, size=DATAGRAM_BYTES, interval_s=INTERVAL_S)
    return BadLinks(aim, site, quality, trial)


SAYS = {
    "bandwidth": InWords(
        does="each link has only 256 to 1024 kbit/s in each direction",
        injected="like `delay`",
        proven="the rate at which a burst arrives",
        undone="like `delay`",
    ),
}
