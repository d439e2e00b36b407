"""Links that hold all packets for seconds, and then let them go in order: what stalls share.

Nothing is lost, and nothing is overtaken on its link: a request arrives seconds after its sender
gave it up, asked elsewhere, and was answered there. For that a link has to stall for longer than
time-outs: 2 to 8 s, as is drawn. Then packets pass for a moment, and are held again, until the
fault is healed, which lets go all that waits. TCP does its part: whoever gets no acknowledgement
sends again, ever more seldom, and all copies wait in the same queue.

Confirmed when half of the datagrams that are sent into a stall come late by a second or more, and
hardly any is lost, none comes twice, none behind a later one. So it takes a whole stall to confirm
one.
"""

from cluster.protocol import Link, Quality
from nemesis.evidence import held_for
from nemesis.protocol import Aim, Site
from nemesis.quality import BadLinks, Trial, drawn_seed

STALL_MS = (2000, 8000)
"""Time-outs of clients and brokers' sessions are within, or soon beyond."""
OPEN_MS = (300, 2000)
LATE_MS = 1000
"""Half of the shortest stall: who measures may come late to it."""
COUNT = 40
"""They come all at once in the end: a small buffer of a receiver has room for so many."""
SHAPES_WITHIN_S = 1.0
"""From the first of several links that begins to stall to the last."""


def stalling(aim: Aim, site: Site, links: tuple[Link, ...]) -> BadLinks:
    """Return the links of a fault that stall; how long is drawn.

    Args:
        aim: Which fault this is.
        site: Its hosts' links are shaped.
        links: Which; none: those between the targets and all other nodes.
    """
    quality = Quality(
        stall_ms=aim.rng.randint(*STALL_MS),
        open_ms=aim.rng.randint(*OPEN_MS),
        seed=drawn_seed(aim),
    )
    late_s = quality.stall_ms / 1000 + SHAPES_WITHIN_S
    trial = Trial(worse=held_for(LATE_MS), count=COUNT, late_s=late_s)
    return BadLinks(aim, site, quality, trial, links=links)
