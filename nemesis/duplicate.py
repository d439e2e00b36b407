"""The fault `duplicate`: 5 to 30 % of packets between a target and any other broker arrive twice.

A correct TCP drops the second copy. The fault is confirmed if the share of test datagrams that
arrive twice grows by more than chance (`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import doubles_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.05, 0.3


def duplicate(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random share of packets."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(duplicate=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(doubles_more))


SAYS = {
    "duplicate": InWords(
        does="5 to 30 % of the packets arrive twice",
        injected="like `delay`",
        proven="the share of datagrams that arrive twice",
        undone="like `delay`",
    ),
}
