"""Links that hold all packets for seconds, and then let them go in order: what stalls share.

Nothing is lost, and nothing is overtaken on its link: a request arrives seconds after its sender
gave it up, asked elsewhere, and was answered there. For that a link has to stall for longer than
time-outs: 2 to 8 s, as is drawn. Then packets pass for a moment, and are held again, until the
fault is healed, which lets go all that waits. TCP does its part: whoever gets no acknowledgement
sends again, ever more seldom, and all copies wait in the same queue.

Confirmed when half of the datagrams that are sent into a stall come late by a second or more, and
hardly any is lost, none comes twice, none behind a later one. So it takes a whole stall to confirm
one.

Or only half of the connections over a link stall, while the other half passes: whoever gives one up
and opens another has an even chance that its next request overtakes the last. Which ones is decided
by their addresses and ports, for both directions alike. Confirmed when of datagrams from several
ports some come so late, and some do not.
"""

from cluster.protocol import MOST_FLOWS, Link, Quality
from nemesis.evidence import held_for, held_in_part_for
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


HALF = 0.5
"""Of connections: of as many flows as are measured, all or none stall twice in a million times."""


def stalling(aim: Aim, site: Site, links: tuple[Link, ...], *, share: float = 1.0) -> BadLinks:
    """Return the links of a fault that stall; how long is drawn.

    Args:
        aim: Which fault this is.
        site: Its hosts' links are shaped.
        links: Which; none: those between the targets and all other nodes.
        share: Of connections that stall.
    """
    quality = Quality(
        stall_ms=aim.rng.randint(*STALL_MS),
        open_ms=aim.rng.randint(*OPEN_MS),
        stall_share=share,
        seed=drawn_seed(aim),
    )
    late_s = quality.stall_ms / 1000 + SHAPES_WITHIN_S
    whole = share == 1
    trial = Trial(
        worse=(held_for if whole else held_in_part_for)(LATE_MS),
        count=COUNT,
        late_s=late_s,
        flows=1 if whole else MOST_FLOWS,
    )
    return BadLinks(aim, site, quality, trial, links=links)
