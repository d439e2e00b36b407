"""The base of the faults that degrade links: `delay`, `jitter`, `loss`, `duplicate` and more.

`reorder` and `bandwidth` also use it. Each fault shapes the links between its targets and all other
nodes, in both directions. Each fault has a rule that compares two measurements. The fault is
confirmed if every link is worse than before by this rule. Links that a network partition cuts, and
links that did not work before the fault, are left out. The heal is confirmed if every link was
worse during the fault than after it. A link that was never measured as worse must only work.

A measurement sends many test datagrams. So even for the weakest fault of a kind, the probability
that the measurement misses it is below one in a million. On a busy machine a measurement may fail,
and is repeated.
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
"""The number of successive measurements before the fault that should agree. Together they send as
many datagrams as one measurement during the fault."""
MOST_LOOKS_BEFORE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The way to measure a fault's effect.

    Attributes:
        worse: The rule that decides whether a link is worse.
        count: The number of datagrams that a measurement sends over each link.
        size, interval_s, burst: Parameters of the datagrams (`CanShape.measure`).
    """

    worse: Rule
    count: int = 50
    size: int = 64
    interval_s: float = 0.005
    burst: int = 1


def of_shares(worse: Rule) -> Trial:
    """Return the trial for an effect on a share of datagrams, such as loss.

    The datagrams are sent in bursts, because of reordering. A delayed packet is overtaken by the
    next packet on the link, from any sender. Without bursts, a busy link would rarely change the
    order of two test datagrams.
    """
    return Trial(worse=worse, count=1024, interval_s=0.0016, burst=8)


class BadLinks:
    """A fault that degrades the links around the targets.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to shape links.
        quality: The effect of the links on packets.
        trial: The way to measure the effect.
        links: The links. Empty means the links between the targets and all other nodes.
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
        """Return the undo step that removes the traffic shape from the links."""
        return (Unshape(shape_id=self._shape_id, links=self.links),)

    def inject(self) -> None:
        """Measure the links, and then degrade them."""
        self._before = self._steady()
        if not any(each.arrived for each in self._before.values()):
            raise ClusterError("every link of this fault had already failed before the fault")
        self._started_s = stopwatch_s()
        self._hosts.shape(self._shape_id, self.links, self.quality)

    def confirm(self, patience: Patience) -> QualityEffect | None:
        """Confirm that each link that worked before, and is not cut, is worse than before."""
        try:
            worse = wait_until(
                self._worse_links,
                timeout_s=patience.limit_s,
                what="the links to become worse",
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
        """Remove only this fault's traffic shape."""
        self._healed_s = stopwatch_s()
        ends = self._hosts.unshape(self._shape_id)
        self._ended_before.update(node for node, end in ends.items() if end.gone)

    def confirm_healed(self, patience: Patience) -> ClearEffect | None:
        """Confirm that every link is better than during the fault, except links that are cut."""
        try:
            after = wait_until(
                self._better_links,
                timeout_s=patience.limit_s,
                what="the links to recover",
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
        """Measure the links until two measurements in a row agree, at most eight times.

        If the machine stalls for a moment, links look worse than they are. After such a
        measurement, links would not look worse during the fault than before it.
        """
        looks: list[Mapping[Link, Measured]] = []
        while len(looks) < LOOKS_BEFORE or not self._agree(looks[-LOOKS_BEFORE:]):
            if len(looks) == MOST_LOOKS_BEFORE:
                break
            looks.append(self._measured(self.links, count=self._trial.count // LOOKS_BEFORE))
        last = looks[-LOOKS_BEFORE:]
        return {link: together([look[link] for look in last]) for link in self.links}

    def _agree(self, looks: Sequence[Mapping[Link, Measured]]) -> bool:
        """Return whether all measurements are equal by the fault's rule."""
        worse = self._trial.worse
        return not any(
            worse(one[link], other[link])
            for link in self._open_links()
            for one, other in itertools.permutations(looks, 2)
        )

    def _worse_links(self) -> Collection[Link]:
        """Measure once more. If all links are worse, return them. Otherwise return nothing."""
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
        if during is None:  # It was never measured during the fault, for example because of a cut.
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
    """Return the hosts of a site if they can shape links. Otherwise raise `ClusterError`."""
    if site.hosts is None or not isinstance(site.hosts, CanShape):
        raise ClusterError("these hosts cannot degrade the network between nodes")
    return site.hosts


def shaped(aim: Aim, site: Site, links: tuple[Link, ...]) -> tuple[Link, ...]:
    """Return the given links. If there are none, return the links between targets and others.

    Raises:
        ClusterError: There is no link.
    """
    found = links or links_of(isolation(site.cluster.nodes, aim.targets))
    if not found:
        raise ClusterError(f"no link to shape around {', '.join(aim.targets)}")
    return found


def cut_either_way(site: Site) -> Collection[Link]:
    """Return the links on which a cut drops either the datagrams or the answers to them."""
    cut = site.network.cut_links() if site.network else frozenset()
    return cut | {(b, a) for a, b in cut}


def summary(measured: Measured, size: int) -> LinkMeasured:
    """Return the recorded summary of a measurement with datagrams of a given size."""
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
    """Return the random seed for the packet effects on the hosts."""
    return aim.rng.getrandbits(SEED_BITS)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
