"""Links that hold all packets for seconds, and then let them go in order: what stalls share.

Nothing is lost, and nothing is overtaken on its link: a request arrives seconds after its sender
gave it up, asked elsewhere, and was answered there. For that a link has to stall for longer than
time-outs: 2 to 8 s, as is drawn. Then packets pass for a moment, and are held again, until the
fault is healed, which lets go all that waits. TCP does its part: whoever gets no acknowledgement
sends again, ever more seldom, and all copies wait in the same queue. On real hosts a link that
stalls one way holds the acknowledgements of the other way, too; in virtual time it does not.

Each link is proven by itself, by datagrams that are sent over it at once: after a third of a stall
none has arrived, and in the end all have, once and in order, all but a few. That needs no clock of
the receiver, and tells the direction: over the other way of a link that stalls one way all arrive
soon, and their answers wait. Shapers begin one after the other, and so do stalls: datagrams that
are back at once were sent too early, or too late, and others follow them, link by link.

Or only half of the connections over a link stall, while the other half passes: whoever gives one up
and opens another has an even chance that its next request overtakes the last. Which ones is decided
by their addresses and ports, for both directions alike. Of datagrams from 20 ports those of some
ports have all arrived after a third of a stall, and those of the others have not.

A heal is proven by looks that all come back soon, over a span of time in which no link that still
stalls would be open all along.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cluster.protocol import MOST_FLOWS, CanShape, ClusterError, Link, Measured, Quality, Volley
from nemesis.evidence import held_flows, is_whole
from nemesis.link_effects import ClearEffect, LinkClear, LinkMeasured, LinkQuality, QualityEffect
from nemesis.protocol import Aim, Patience, Site
from nemesis.quality import cut_either_way, drawn_seed, shaped, shaping, summary
from nemesis.undo import Unshape
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until

STALL_MS = (2000, 8000)
"""Time-outs of clients and brokers' sessions are within, or soon beyond."""
OPEN_MS = (300, 2000)
COUNT, SIZE = 40, 64
"""They come all at once in the end: a small buffer of a receiver has room for so many."""
MIDWAY = 1 / 3
"""Of a stall: so much of it a look that is to prove something has to see."""
LEAST_FLOWS = 3
"""Of 20 flows of which each stalls or passes by the toss of a coin, fewer of one sort come about
less than once in a thousand times."""
HALF = 0.5
SOON_S = 0.5
"""A round trip over a good link takes no longer on a busy machine."""
BESIDE_S = 0.5
"""So much longer than a link is open between two stalls it must be good to count as healed."""
GAP_S = 1.0
"""Between two looks, at most: half of the shortest stall, so that none fits in between."""
LOOK_S, BACK_S = 0.2, 0.02
"""Between two looks, and between two questions whether all is back."""
ARRIVES_S = 2.0
"""After the end of a stall, at most."""
MOST_LOOKS_BEFORE = 8
PROVEN = (
    "of numbered datagrams, sent at once, none has arrived after a third of a stall; in the end all"
    " have, in order, hardly any lost; over the other way, if it does not stall, all arrive soon"
    " and no answer does"
)
HALF_PROVEN = (
    "of numbered datagrams from 20 ports those of 3 or more have not come after a third of a stall,"
    " those of 3 or more have; in the end all have, hardly any lost"
)
UNDONE = (
    "removal of its shape, which lets all go; for longer than links are open between two stalls all"
    " datagrams come back soon"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A look into a stall: how a link was midway, and in the end."""

    midway: Measured
    midway_s: float
    over: Measured
    over_s: float


@dataclass(slots=True, kw_only=True)
class _Flight:
    """Datagrams that are on their way over a link, and how they were midway, once it is so late."""

    volley: Volley
    began_s: float
    midway: Measured | None = None
    midway_s: float = 0.0


class StalledLinks:
    """Links around the targets that stall.

    Args:
        aim: Which fault this is.
        site: Its hosts' links are shaped.
        quality: How long they stall, and which share of their connections.
        links: Which; none: those between the targets and all other nodes.
    """

    def __init__(
        self, aim: Aim, site: Site, quality: Quality, *, links: tuple[Link, ...] = ()
    ) -> None:
        self._hosts = shaping(site)
        self.targets = aim.targets
        self.links = shaped(aim, site, links)
        self.quality = quality
        self._site = site
        self._shape_id = f"fault-{aim.fault_id}"
        self._half = quality.stall_share < 1
        self._back = tuple((b, a) for a, b in self.links if (b, a) not in self.links)
        """The other ways of links that stall one way: they must go on passing packets."""
        self._before: Mapping[Link, Measured] = {}
        self._flights: dict[Link, _Flight] = {}
        self._seen: dict[Link, _Seen] = {}
        self._in_force = False
        self._at_heal: Volley | None = None
        self._good_s: tuple[float, float] | None = None
        """When the first and the last of the good looks in a row began."""
        self._gone: set[str] = set()
        self._killed: set[str] = set()
        self._dropped = 0
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Unshape, ...]:
        """Return the shape to remove."""
        return (Unshape(shape_id=self._shape_id, links=self.links),)

    def inject(self) -> None:
        """See that the links are good, then have them stall."""
        watched = [*self.links, *self._back]
        for _ in range(MOST_LOOKS_BEFORE):
            self._before = _soon(self._hosts, watched)
            if all(_is_good(self._before[link]) for link in self._open(watched)):
                break
        if not any(self._before[link].arrived for link in self.links):
            raise ClusterError("every link of this fault was dead before it")
        self._started_s = stopwatch_s()
        self._note(self.links)
        self._in_force = True
        self._hosts.shape(self._shape_id, self.links, self.quality)

    def confirm(self, patience: Patience) -> QualityEffect | None:
        """See that every link that is not cut stalls; two whole rounds longer than patience."""
        rounds_s = 2 * (self.quality.stall_ms + self.quality.open_ms) / 1000
        try:
            wait_until(
                self._look,
                timeout_s=patience.limit_s + rounds_s,
                what="the links to stall",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return QualityEffect(
            shape_id=self._shape_id,
            took_s=stopwatch_s() - self._started_s,
            quality=self.quality,
            links=tuple(self._link_quality(link) for link in self.links if link in self._seen),
            back=tuple(self._link_quality(link) for link in self._back if link in self._seen),
        )

    def heal(self) -> None:
        """Send something into the links, then let them stall no more."""
        self._healed_s, self._good_s = stopwatch_s(), None
        if self._in_force:
            # Evidence only: nothing may stand between a stall and its end.
            with suppress(ClusterError, OSError):
                self._at_heal = _volley(self._hosts, self._open(self.links))
                pause_until(stopwatch_s() + BACK_S)  # They are to be where they are held.
        ends = self._hosts.unshape(self._shape_id)
        self._in_force = False
        self._gone.update(node for node, end in ends.items() if end.gone)
        self._killed.update(node for node, end in ends.items() if end.killed)
        self._dropped += sum(end.dropped for end in ends.values())
        self._note(())

    def confirm_healed(self, patience: Patience) -> ClearEffect | None:
        """See that every link that is not cut is good for longer than it is between two stalls."""
        try:
            after = wait_until(
                self._good_for_long,
                timeout_s=patience.limit_s + self._span_s,
                what="the links to stall no more",
                interval_s=LOOK_S,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        let_go = self._let_go()
        return ClearEffect(
            shape_id=self._shape_id,
            took_s=stopwatch_s() - self._healed_s,
            links=tuple(
                LinkClear(
                    sender=link[0],
                    receiver=link[1],
                    after=summary(after[link], SIZE) if link in after else None,
                    let_go=let_go.get(link),
                )
                for link in self.links
            ),
            ended_before=tuple(sorted(self._gone)),
            killed=tuple(sorted(self._killed)),
            dropped=self._dropped,
        )

    @property
    def _span_s(self) -> float:
        return self.quality.open_ms / 1000 + BESIDE_S

    def _note(self, links: Collection[Link]) -> None:
        if self._site.network is not None:
            self._site.network.note_stall(self._shape_id, links)

    def _look(self) -> bool:
        """Look at each link that is not proven yet; return whether all are by now."""
        for link in self._open(self._watched):
            if link in self._flights:
                self._follow(link, self._flights[link])
            elif link not in self._seen:
                self._flights[link] = _Flight(
                    volley=_volley(self._hosts, [link]), began_s=stopwatch_s()
                )
        proven = all(link in self._seen for link in self._open(self._watched))
        return proven and any(link in self._seen for link in self.links)

    def _follow(self, link: Link, flight: _Flight) -> None:
        """See what has become of a volley: it is back, or it waits, or it has come in the end."""
        now, age_s = flight.volley.look()[link], stopwatch_s() - flight.began_s
        stall_s = self.quality.stall_ms / 1000
        if flight.midway is None:
            if _is_back(now) or (age_s >= MIDWAY * stall_s and not self._waits(link, now)):
                del self._flights[link]  # It is open now; the next one will see.
            elif age_s >= MIDWAY * stall_s:
                flight.midway, flight.midway_s = now, age_s
        elif self._is_proven(link, flight.midway, now):
            del self._flights[link]
            self._seen[link] = _Seen(
                midway=flight.midway, midway_s=flight.midway_s, over=now, over_s=age_s
            )
        elif age_s > stall_s + ARRIVES_S:
            del self._flights[link]

    @property
    def _watched(self) -> list[Link]:
        return [link for link in (*self.links, *self._back) if self._before[link].arrived]

    def _waits(self, link: Link, midway: Measured) -> bool:
        """Tell whether what is on its way over a link may show midway that it stalls."""
        if link in self._back:
            return is_whole(midway.sent, midway.arrived) and not midway.round_trip_ms
        return midway.arrived == 0 or (self._half and midway.arrived < midway.sent)

    def _is_proven(self, link: Link, midway: Measured, over: Measured) -> bool:
        """Tell whether all came in the end, once, and what was held was held as it should be."""
        if over.copies or not is_whole(over.sent, over.arrived):
            return False
        if link in self._back:
            return is_whole(over.sent, len(over.round_trip_ms))
        if not self._half:
            return not over.overtaken
        held = held_flows(midway, over, MOST_FLOWS)
        return held is not None and LEAST_FLOWS <= held <= MOST_FLOWS - LEAST_FLOWS

    def _good_for_long(self) -> Mapping[Link, Measured] | None:
        """Look once more; return what was seen if all looks were good for long enough.

        They begin so close to each other that no stall fits in between.
        """
        began_s = stopwatch_s()
        after = _soon(self._hosts, [*self._open((*self.links, *self._back))])
        cut_since = cut_either_way(self._site)
        seen = {link: each for link, each in after.items() if link not in cut_since}
        if not all(map(_is_good, seen.values())):
            self._good_s = None
            return None
        first_s, last_s = self._good_s or (began_s, began_s)
        if began_s - last_s > GAP_S:
            first_s = began_s
        self._good_s = (first_s, began_s)
        return seen if began_s - first_s >= self._span_s else None

    def _let_go(self) -> Mapping[Link, LinkMeasured]:
        """Return what became of what was sent right before the heal."""
        if self._at_heal is not None:
            with suppress(ClusterError, OSError):
                told = self._at_heal.look()
                return {link: summary(each, SIZE) for link, each in told.items()}
        return {}

    def _open(self, links: Collection[Link]) -> list[Link]:
        cut = cut_either_way(self._site)
        return [link for link in links if link not in cut]

    def _link_quality(self, link: Link) -> LinkQuality:
        seen = self._seen[link]
        return LinkQuality(
            sender=link[0],
            receiver=link[1],
            before=summary(self._before[link], SIZE),
            during=summary(seen.over, SIZE),
            midway=summary(seen.midway, SIZE),
            midway_s=round(seen.midway_s, 3),
            over_s=round(seen.over_s, 3),
            flows=MOST_FLOWS,
            flows_held=held_flows(seen.midway, seen.over, MOST_FLOWS) or 0,
        )


def stalling(aim: Aim, site: Site, links: tuple[Link, ...], *, share: float = 1.0) -> StalledLinks:
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
    return StalledLinks(aim, site, quality, links=links)


def look_good(hosts: CanShape, links: Collection[Link]) -> bool:
    """Tell whether datagrams over all connections of links come back soon: none stalls now."""
    return all(map(_is_good, _soon(hosts, links).values()))


def _soon(hosts: CanShape, links: Collection[Link]) -> Mapping[Link, Measured]:
    """Return what became of datagrams over links, as soon as all are back, or late."""
    volley, began_s = _volley(hosts, links), stopwatch_s()
    while not all(map(_is_back, (seen := volley.look()).values())):
        if stopwatch_s() > began_s + SOON_S:
            break
        pause_until(stopwatch_s() + BACK_S)
    return seen


def _volley(hosts: CanShape, links: Collection[Link]) -> Volley:
    return hosts.volley(links, count=COUNT, flows=MOST_FLOWS)


def _is_back(seen: Measured) -> bool:
    """Tell whether all have come back, all but a few."""
    return is_whole(COUNT, len(seen.round_trip_ms))


def _is_good(seen: Measured) -> bool:
    """Tell whether all came back soon, once, all but a few."""
    soon = max(seen.round_trip_ms, default=0.0) < SOON_S * 1000
    return soon and _is_back(seen) and not seen.copies
