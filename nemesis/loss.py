"""The fault `loss`: of 100 packets between the targets and the other nodes 5 to 30 get lost.

Each on its own, each way: TCP sends them again, later and later. Confirmed when the share of our
datagrams that do not arrive grew by more than chance (`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import loses_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.05, 0.3


def loss(aim: Aim, site: Site) -> BadLinks:
    """Make the fault; the share of packets is drawn."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(loss=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(loses_more))


SAYS = {
    "loss": InWords(
        does="5 to 30 of 100 packets get lost",
        injected="as `delay`",
        proven="the share of datagrams that do not arrive, beyond chance",
        undone="as `delay`",
    ),
}
