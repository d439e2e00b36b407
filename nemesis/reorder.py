"""The fault `reorder`: 10 to 40 % of the packets between targets and others are held back.

Such a packet waits until a later packet on the same link has passed, but not longer than 100 ms.
Only one packet of a link waits at a time. The fault is confirmed if the share of overtaken test
datagrams grows by more than chance (`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import reorders_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.1, 0.4


def reorder(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random share of packets."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(reorder=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(reorders_more))


SAYS = {
    "reorder": InWords(
        does="10 to 40 % of the packets are held back until a later packet has passed",
        injected="like `delay`",
        proven="the share of datagrams that arrive after a later datagram",
        undone="like `delay`",
    ),
}
