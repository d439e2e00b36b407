"""The fault `reorder`: of 100 packets between targets and others 10 to 40 are held back.

Each waits until a later one of its link has passed, or for 100 ms should none come; one at a time.
Confirmed when the share of our datagrams that arrive behind a later one grew by more than chance
(`evidence`).
"""

from cluster.protocol import Quality
from nemesis.evidence import reorders_more
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, drawn_seed, of_shares

LEAST, MOST = 0.1, 0.4


def reorder(aim: Aim, site: Site) -> BadLinks:
    """Make the fault; the share of packets is drawn."""
    share = round(aim.rng.uniform(LEAST, MOST), 3)
    quality = Quality(reorder=share, seed=drawn_seed(aim))
    return BadLinks(aim, site, quality, of_shares(reorders_more))


SAYS = {
    "reorder": InWords(
        does="10 to 40 of 100 packets are held back until another has passed",
        injected="as `delay`",
        proven="the share that arrives behind a later one",
        undone="as `delay`",
    ),
}
