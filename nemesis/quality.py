"""Links made bad: what `delay`, `jitter`, `loss`, `duplicate`, `reorder`, `bandwidth` share.

A fault shapes the links between its targets and all other nodes, both ways. It is confirmed when
every link that no partition cuts is measured to be worse than before, by the rule of the fault;
its end, when the same rule finds what it was worse than what is now.

How many datagrams that takes is so chosen that the weakest fault of a kind is missed by one look
less than once in a million; a machine that is so busy that a look comes to nothing is looked at
again.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cluster.protocol import CanShape, ClusterError, Link, Measured, Quality
from nemesis.evidence import Rule, fastest_ms, median_ms, rate_of, spread_ms, together
from nemesis.grudges import isolation, links_of
from nemesis.link_effects import ClearEffect, LinkClear, LinkMeasured, LinkQuality, QualityEffect
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Unshape
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

SEED_BITS = 32
LOOKS_BEFORE = 2
"""Which must agree; together they send as much as one look while the fault is in force."""
MOST_LOOKS_BEFORE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a fault's effect is measured.

    Attributes:
        worse: Whether a link is worse, as this fault makes it.
        count: How many datagrams a look sends over each link.
        size, interval_s, burst: Of them (`CanShape.measure`).
    """

    worse: Rule
    count: int = 50
    size: int = 64
    interval_s: float = 0.005
    burst: int = 1


def of_shares(worse: Rule) -> Trial:
    """Return how it is measured that a share of datagrams fares otherwise.

    In bursts: a packet that is held back is passed by the next of its link, whosever that is, and
    of a link on which brokers are busy few of ours would be passed by ours.
    """
    return Trial(worse=worse, count=1024, interval_s=0.0016, burst=8)


class BadLinks:
    """The links around the targets with a quality of their own.

    Args:
        aim: Which fault this is.
        site: Its hosts' links are shaped.
        quality: What the links do to packets.
        trial: How that is seen.
        links: Which; none: those between the targets and all other nodes.
    """

    def __init__(
        self, aim: Aim, site: Site, quality: Quality, trial: Trial, *, links: tuple[Link, ...] = ()
    ) -> None:
        self._hosts = shaping(site)
        self.targets = aim.targets
        self.links = shaped(aim, site, links)
        self.quality = quality
        self._site = site
        self._trial = trial
        self._shape_id = f"fault-{aim.fault_id}"
        self._before: Mapping[Link, Measured] = {}
        self._during: dict[Link, list[Measured]] = {}
        self._ended_before: set[str] = set()
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Unshape, ...]:
        """Return the shape to remove."""
        return (Unshape(shape_id=self._shape_id, links=self.links),)

    def inject(self) -> None:
        """Measure the links as they are, then shape them."""
        self._before = self._steady()
        if not any(each.arrived for each in self._before.values()):
            raise ClusterError("every link of this fault was dead before it")
        self._started_s = stopwatch_s()
        self._hosts.shape(self._shape_id, self.links, self.quality)

    def confirm(self, patience: Patience) -> QualityEffect | None:
        """See that every link that is not cut is worse than before."""
        try:
            worse = wait_until(
                self._worse_links,
                timeout_s=patience.limit_s,
                what="the links to be worse",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        took_s = stopwatch_s() - self._started_s
        links = tuple(self._link_quality(link) for link in self.links if link in worse)
        return QualityEffect(
            shape_id=self._shape_id, took_s=took_s, quality=self.quality, links=links
        )

    def heal(self) -> None:
        """Take the shape away, and no other."""
        self._healed_s = stopwatch_s()
        ends = self._hosts.unshape(self._shape_id)
        self._ended_before.update(node for node, end in ends.items() if end.gone)

    def confirm_healed(self, patience: Patience) -> ClearEffect | None:
        """See that every link that is not cut is better than it was under the fault."""
        try:
            after = wait_until(
                self._better_links,
                timeout_s=patience.limit_s,
                what="the links to be better",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        took_s = stopwatch_s() - self._healed_s
        links = tuple(self._link_clear(link, after) for link in self.links)
        return ClearEffect(
            shape_id=self._shape_id,
            took_s=took_s,
            links=links,
            ended_before=tuple(sorted(self._ended_before)),
        )

    def _steady(self) -> Mapping[Link, Measured]:
        """Measure the links until looks in a row agree, or a few have been taken.

        A machine that stalls for a moment makes links look worse than they are, and worse than
        such a look no fault would ever seem, however often one looked while it is in force.
        """
        looks: list[Mapping[Link, Measured]] = []
        while len(looks) < LOOKS_BEFORE or not self._agree(looks[-LOOKS_BEFORE:]):
            if len(looks) == MOST_LOOKS_BEFORE:
                break
            looks.append(self._measured(self.links, count=self._trial.count // LOOKS_BEFORE))
        last = looks[-LOOKS_BEFORE:]
        return {link: together([look[link] for look in last]) for link in self.links}

    def _agree(self, looks: Sequence[Mapping[Link, Measured]]) -> bool:
        """Tell whether no link is worse in one look than in another, by the rule of the fault."""
        worse = self._trial.worse
        return not any(
            worse(one[link], other[link])
            for link in self._open_links()
            for one, other in itertools.permutations(looks, 2)
        )

    def _worse_links(self) -> Collection[Link]:
        """Measure once more; return the links that are worse if none is not, otherwise nothing."""
        tried = [link for link in self._open_links() if self._before[link].arrived]
        for link, measured in self._measured(tried).items():
            self._during.setdefault(link, []).append(measured)
        cut_since = self._cut_links()
        counted = [link for link in tried if link not in cut_since]
        return counted if all(self._is_worse(link) for link in counted) else ()

    def _is_worse(self, link: Link) -> bool:
        return self._trial.worse(self._before[link], together(self._during[link]))

    def _better_links(self) -> Mapping[Link, Measured] | None:
        after = self._measured(self._open_links())
        cut_since = self._cut_links()
        better = all(
            self._is_better(link, measured)
            for link, measured in after.items()
            if link not in cut_since
        )
        return {link: after[link] for link in after if link not in cut_since} if better else None

    def _is_better(self, link: Link, after: Measured) -> bool:
        during = self._during.get(link)
        if during is None:  # It was cut while the fault was confirmed, or the fault never was.
            return after.arrived > 0
        worse = together(during)
        if not self._trial.worse(self._before[link], worse):
            return after.arrived > 0
        return self._trial.worse(after, worse)

    def _measured(
        self, links: Collection[Link], *, count: int | None = None
    ) -> Mapping[Link, Measured]:
        if not links:
            return {}
        trial = self._trial
        return self._hosts.measure(
            links,
            count=count or trial.count,
            size=trial.size,
            interval_s=trial.interval_s,
            burst=trial.burst,
        )

    def _open_links(self) -> list[Link]:
        cut = self._cut_links()
        return [link for link in self.links if link not in cut]

    def _cut_links(self) -> Collection[Link]:
        return cut_either_way(self._site)

    def _link_quality(self, link: Link) -> LinkQuality:
        return LinkQuality(
            sender=link[0],
            receiver=link[1],
            before=self._summary(self._before[link]),
            during=self._summary(together(self._during[link])),
        )

    def _link_clear(self, link: Link, after: Mapping[Link, Measured]) -> LinkClear:
        seen = after.get(link)
        return LinkClear(
            sender=link[0], receiver=link[1], after=None if seen is None else self._summary(seen)
        )

    def _summary(self, measured: Measured) -> LinkMeasured:
        return summary(measured, self._trial.size)


def shaping(site: Site) -> CanShape:
    """Return the hosts of a site, if they can make links bad; otherwise raise `ClusterError`."""
    if site.hosts is None or not isinstance(site.hosts, CanShape):
        raise ClusterError("these hosts cannot make the network between nodes bad")
    return site.hosts


def shaped(aim: Aim, site: Site, links: tuple[Link, ...]) -> tuple[Link, ...]:
    """Return the links to shape: those given, or those between the targets and all other nodes.

    Raises:
        ClusterError: There is none.
    """
    found = links or links_of(isolation(site.cluster.nodes, aim.targets))
    if not found:
        raise ClusterError(f"no link to shape around {', '.join(aim.targets)}")
    return found


def cut_either_way(site: Site) -> Collection[Link]:
    """Return the links whose datagrams or answers another fault drops."""
    cut = site.network.cut_links() if site.network else frozenset()
    return cut | {(b, a) for a, b in cut}


def summary(measured: Measured, size: int) -> LinkMeasured:
    """Return what is recorded of a series of datagrams of so many bytes."""
    return LinkMeasured(
        sent=measured.sent,
        arrived=measured.arrived,
        copies=measured.copies,
        overtaken=measured.overtaken,
        fastest_ms=_rounded(fastest_ms(measured)),
        median_ms=_rounded(median_ms(measured)),
        spread_ms=_rounded(spread_ms(measured)),
        rate_kbit=_rounded(rate_of(measured, size)),
    )


def drawn_seed(aim: Aim) -> int:
    """Return the seed of a quality's own draws."""
    return aim.rng.getrandbits(SEED_BITS)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
