"""The fault `bandwidth`: little gets through between the targets and the other nodes.

256 to 1024 kilobits a second on each link, each way; what would wait longer than 0.3 s is lost.
Confirmed when our datagrams, more than fit, arrive no faster than that, and did before.
"""

from cluster.protocol import Quality
from nemesis.evidence import limited_to
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

LEAST_KBIT, MOST_KBIT = 256, 1024
DATAGRAM_BYTES = 1400
INTERVAL_S = 0.002
"""5.6 megabits a second are offered."""


def bandwidth(aim: Aim, site: Site) -> BadLinks:
    """Make the fault; the rate is drawn."""
    rate_kbit = aim.rng.randint(LEAST_KBIT, MOST_KBIT)
    quality = Quality(rate_kbit=rate_kbit, seed=drawn_seed(aim))
    worse = limited_to(rate_kbit, DATAGRAM_BYTES)
    trial = Trial(worse=worse, count=500, size=DATAGRAM_BYTES, interval_s=INTERVAL_S)
    return BadLinks(aim, site, quality, trial)


SAYS = {
    "bandwidth": InWords(
        does="256 to 1024 kbit/s a link, each way",
        injected="as `delay`",
        proven="the rate at which a burst arrives",
        undone="as `delay`",
    ),
}
