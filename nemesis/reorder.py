"""The fault `reorder`: packets between a target and any other broker are held back at random.

Each packet is chosen with a probability of 10 to 40 %. A chosen packet is held back until a later
packet on the same link has passed, but not longer than 100 ms. Only one packet of a link waits at a
time. Further packets pass, even if they are chosen. So on a busy link, 9 to 29 % of the packets are
held back. In virtual time, the messages of a connection stay in order, and are late by up to 100
ms. The fault is confirmed if the share of overtaken test datagrams grows by more than chance
(`evidence`).
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
        does=(
            "each packet is held back until a later packet has passed, with a probability of 10 to"
            " 40 % and if no other packet waits"
        ),
        injected="like `delay`",
        proven="the share of datagrams that arrive after a later datagram",
        undone="like `delay`",
    ),
}
