"""The fault `loss`: 5 to 30 % of the packets between a target and any other node get lost.

Each packet is lost independently, in each direction. TCP retransmits a lost packet after longer and
longer waits. The fault is confirmed if the share of lost test datagrams grows by more than chance
(`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import loses_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.05, 0.3


def loss(aim: Aim, site: Site) -> BadLinks:
    """Make the fault, with a random share of packets."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(loss=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(loses_more))


SAYS = {
    "loss": InWords(
        does="5 to 30 % of the packets are lost",
        injected="like `delay`",
        proven="the share of lost datagrams grows by more than chance explains",
        undone="like `delay`",
    ),
}
