"""The fault `duplicate`: of 100 packets between the targets and the other nodes 5 to 30 come twice.

TCP drops the second, if it is right. Confirmed when the share of our datagrams that arrive again
grew by more than chance (`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import doubles_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.05, 0.3


def duplicate(aim: Aim, site: Site) -> BadLinks:
    """Make the fault; the share of packets is drawn."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(duplicate=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(doubles_more))


SAYS = {
    "duplicate": InWords(
        does="5 to 30 of 100 packets come twice",
        injected="as `delay`",
        proven="the share that arrives again",
        undone="as `delay`",
    ),
}
