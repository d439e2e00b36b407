"""The base of the stall faults: links hold all packets for seconds, and then release them in order.

No packet is lost unless the queue is full, and no waiting packet overtakes another on its link. A
request arrives seconds late. By then, its sender may have given up, and may have got a response to
a retry. For this effect, a stall must be longer than the sender's timeout. All stalls of a fault
take equally long: 2 to 8 s, chosen at random. After a stall, packets pass for a moment, and are
held again. This repeats until the heal, which releases all packets.

TCP retransmits unacknowledged data after longer and longer waits, and all copies wait in the same
queue. On real hosts, a link that stalls in one direction also holds the acknowledgements of the
other direction. In virtual time, such a link does not hold these acknowledgements.

Each link gets its own proof from test datagrams, which are all sent at one moment. After a third of
a stall, none has arrived. At the end of the stall, nearly all have arrived, only once and in order.
This test needs no clock on the receiver, and shows which direction stalls. If a link stalls in one
direction only, datagrams in the open direction arrive soon, and only the answers to them wait. If
the answers on a link come back at once, the link was open, and the test is repeated.

A fault can also stall half of the connections of a link. If a client then gives up one connection
and opens another, its next request overtakes the previous one with a probability of one half.
Addresses and ports decide which connections stall. Both directions of a connection stall together.
The test uses datagrams from 20 ports. After a third of a stall, all datagrams of some ports have
arrived, and no datagram of other ports has.

The heal is confirmed if nearly all datagrams of repeated tests come back soon. The tests continue
for longer than a stalling link stays open between two stalls.
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
"""Shortest and longest stall in milliseconds. The timeouts of clients, and the sessions of brokers,
end within this range or soon after it."""
OPEN_MS = (300, 2000)
COUNT, SIZE = 40, 64
"""The number of datagrams of a test, and their size. At the end of a stall, all datagrams arrive at
the same moment, so they must fit into a small receive buffer."""
MIDWAY = 1 / 3
"""A test must see that datagrams are held for this share of a stall."""
LEAST_FLOWS = 3
"""The smallest number of stalled flows, and of passing flows, that proves the fault. Each of 20
flows stalls with a probability of one half, so a smaller number occurs in less than one of a
thousand tests."""
HALF = 0.5
SOON_S = 0.5
"""The longest round trip in seconds over a good link, even on a busy machine."""
BESIDE_S = 0.5
"""A healed link must work for this many seconds longer than a stalling link is open."""
GAP_S = 1.0
"""The longest time between two tests in seconds. No stall is short enough to fit between them."""
LOOK_S, BACK_S = 0.2, 0.02
"""Seconds between two tests, and between two checks whether all datagrams are back."""
ARRIVES_S = 2.0
"""After the end of a stall, all datagrams must arrive within this many seconds."""
MOST_LOOKS_BEFORE = 8
PROVEN = (
    "numbered datagrams, all sent at once: after a third of a stall none has arrived. After the"
    " stall nearly all have arrived in order. If the other direction does not stall, its"
    " datagrams arrive soon, but their answers are held back"
)
HALF_PROVEN = (
    "numbered datagrams from 20 ports: after a third of a stall, the datagrams of 3 or more ports"
    " have not arrived, and the datagrams of 3 or more ports have. After the stall nearly all"
    " have arrived"
)
UNDONE = (
    "removal of the shape, which releases all packets; then nearly all datagrams return soon, for"
    " longer than a pause between two stalls"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A finished test of a stalling link: the measurements midway and at the end."""

    midway: Measured
    midway_s: float
    over: Measured
    over_s: float


@dataclass(slots=True, kw_only=True)
class _Flight:
    """A running test of a link: its datagrams, and later its midway measurement."""

    volley: Volley
    began_s: float
    midway: Measured | None = None
    midway_s: float = 0.0


class StalledLinks:
    """A fault that makes the links around the targets stall.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to shape links.
        quality: The length of the stalls, and the share of stalling connections.
        links: The links. Empty means the links between each target and all other nodes.
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
        """The open directions of the links that stall in one direction only. Packets must pass in
        these directions."""
        self._before: Mapping[Link, Measured] = {}
        self._flights: dict[Link, _Flight] = {}
        self._seen: dict[Link, _Seen] = {}
        self._in_force = False
        self._at_heal: Volley | None = None
        self._good_s: tuple[float, float] | None = None
        """The start times of the first and last good test in a row."""
        self._gone: set[str] = set()
        self._killed: set[str] = set()
        self._dropped = 0
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Unshape, ...]:
        """Return the undo step that removes the traffic shape from the links."""
        return (Unshape(shape_id=self._shape_id, links=self.links),)

    def inject(self) -> None:
        """Check that the links are good, and then make them stall."""
        watched = [*self.links, *self._back]
        for _ in range(MOST_LOOKS_BEFORE):
            self._before = _soon(self._hosts, watched)
            if all(_is_good(self._before[link]) for link in self._open(watched)):
                break
        if not any(self._before[link].arrived for link in self.links):
            raise ClusterError("every link of this fault had already failed before the fault")
        self._started_s = stopwatch_s()
        self._note(self.links)
        self._in_force = True
        self._hosts.shape(self._shape_id, self.links, self.quality)

    def confirm(self, patience: Patience) -> QualityEffect | None:
        """Confirm that all uncut links stall. Wait up to two stalls and pauses beyond the limit."""
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
        """Send datagrams into the links, and then remove the stalls."""
        self._healed_s, self._good_s = stopwatch_s(), None
        if self._in_force:
            # The datagrams are evidence only. Errors here must not prevent the end of the stall.
            with suppress(ClusterError, OSError):
                self._at_heal = _volley(self._hosts, self._open(self.links))
                # Wait until the datagrams are in the stalled queue.
                pause_until(stopwatch_s() + BACK_S)
        ends = self._hosts.unshape(self._shape_id)
        self._in_force = False
        self._gone.update(node for node, end in ends.items() if end.gone)
        self._killed.update(node for node, end in ends.items() if end.killed)
        self._dropped += sum(end.dropped for end in ends.values())
        self._note(())

    def confirm_healed(self, patience: Patience) -> ClearEffect | None:
        """Confirm that all uncut links worked for longer than the pause between two stalls."""
        try:
            after = wait_until(
                self._good_for_long,
                timeout_s=patience.limit_s + self._span_s,
                what="the links to work again",
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
        """Test each link that has no proof yet. Return whether all links now have a proof."""
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
        """Continue the test of a link: take its midway measurement, or check its end."""
        now, age_s = flight.volley.look()[link], stopwatch_s() - flight.began_s
        stall_s = self.quality.stall_ms / 1000
        if flight.midway is None:
            if _is_back(now) or (age_s >= MIDWAY * stall_s and not self._waits(link, now)):
                del self._flights[link]  # The link is open now. The next test may see a stall.
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
        """Return whether a midway measurement shows that the link stalls."""
        if link in self._back:
            return is_whole(midway.sent, midway.arrived) and not midway.round_trip_ms
        return midway.arrived == 0 or (self._half and midway.arrived < midway.sent)

    def _is_proven(self, link: Link, midway: Measured, over: Measured) -> bool:
        """Return whether nearly all datagrams arrived once, and the expected ones were held."""
        if over.copies or not is_whole(over.sent, over.arrived):
            return False
        if link in self._back:
            return is_whole(over.sent, len(over.round_trip_ms))
        if not self._half:
            return not over.overtaken
        held = held_flows(midway, over, MOST_FLOWS)
        return held is not None and LEAST_FLOWS <= held <= MOST_FLOWS - LEAST_FLOWS

    def _good_for_long(self) -> Mapping[Link, Measured] | None:
        """Test once more. Return the measurements if all tests were good for long enough.

        The tests follow each other so closely that no stall fits in between.
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
        """Return the measurements of the datagrams that were sent just before the heal."""
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
    """Return a fault that makes the given links stall. The length of its stalls is random.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to shape links.
        links: The links. Empty means the links between each target and all other nodes.
        share: The share of connections that stall.
    """
    quality = Quality(
        stall_ms=aim.rng.randint(*STALL_MS),
        open_ms=aim.rng.randint(*OPEN_MS),
        stall_share=share,
        seed=drawn_seed(aim),
    )
    return StalledLinks(aim, site, quality, links=links)


def look_good(hosts: CanShape, links: Collection[Link]) -> bool:
    """Return whether nearly all test datagrams come back soon. If so, no link stalls now."""
    return all(map(_is_good, _soon(hosts, links).values()))


def _soon(hosts: CanShape, links: Collection[Link]) -> Mapping[Link, Measured]:
    """Run one test until nearly all datagrams are back or `SOON_S` is over; return the result."""
    volley, began_s = _volley(hosts, links), stopwatch_s()
    while not all(map(_is_back, (seen := volley.look()).values())):
        if stopwatch_s() > began_s + SOON_S:
            break
        pause_until(stopwatch_s() + BACK_S)
    return seen


def _volley(hosts: CanShape, links: Collection[Link]) -> Volley:
    return hosts.volley(links, count=COUNT, flows=MOST_FLOWS)


def _is_back(seen: Measured) -> bool:
    """Return whether nearly all datagrams have come back."""
    return is_whole(COUNT, len(seen.round_trip_ms))


def _is_good(seen: Measured) -> bool:
    """Return whether nearly all datagrams came back soon, and each only once."""
    soon = max(seen.round_trip_ms, default=0.0) < SOON_S * 1000
    return soon and _is_back(seen) and not seen.copies
