"""A network partition of any shape: the base of the faults with one lasting cut of links."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.protocol import ClusterError, Link
from nemesis.evidence import made_silent
from nemesis.grudges import kept_reverses, links_of
from nemesis.link_effects import CutEffect, JoinEffect, LinkEffect, LinkHealed
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Join
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

if TYPE_CHECKING:
    import networkx as nx


class Cut:
    """A cut of some links, confirmed by probes over each link before, during and after the cut.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The fault cuts links of this network.
        grudge: The links to cut.
    """

    def __init__(self, aim: Aim, site: Site, grudge: "nx.DiGraph[str]") -> None:
        if site.network is None:
            raise ClusterError("these hosts cannot cut the network between nodes")
        self.targets = aim.targets
        self.links = links_of(grudge)
        if not self.links:
            raise ClusterError(f"no link to cut around {', '.join(aim.targets)}")
        self._network: Network = site.network
        self._cut_id = f"fault-{aim.fault_id}"
        self._kept = kept_reverses(grudge)
        self._before: Mapping[Link, bool] = {}
        self._first_drops: Mapping[Link, int] = {}
        self._last_drops: Mapping[Link, int] = {}
        self._stalled: frozenset[Link] = frozenset()
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[Join, ...]:
        """Return the undo step that removes the cut."""
        return (Join(cut_id=self._cut_id, links=self.links),)

    def inject(self) -> None:
        """Probe the links, and then cut them."""
        self._before = self._network.probe([*self.links, *self._kept])
        stalled = self._network.stalled_links()
        if not any(self._before[link] or link in stalled for link in self.links):
            raise ClusterError("every link of this cut had already failed before the fault")
        self._started_s = stopwatch_s()
        self._network.cut(self._cut_id, self.links)

    def confirm(self, patience: Patience) -> CutEffect | None:
        """Confirm that no probe passes, and that the other direction of a one-way cut is open.

        At least one link must be silent because of this cut: it worked before the cut and no other
        fault stalls it, or the cut dropped packets of this link. If the other direction did not
        work before the cut, or if another fault cuts or stalls it, it is not checked.
        """
        try:
            during = wait_until(
                self._probe_while_cut,
                timeout_s=patience.limit_s,
                what="the cut to take effect",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        took_s = stopwatch_s() - self._started_s
        links = tuple(self._link_effect(link, during) for link in [*self.links, *self._kept])
        return CutEffect(cut_id=self._cut_id, took_s=took_s, links=links)

    def heal(self) -> None:
        """Remove this cut. The cuts of other faults remain."""
        if self._cut_id in self._network.cut_ids():
            self._healed_s = stopwatch_s()
            # These counts are evidence only, and may be missing after a failed cut. Errors here
            # must not prevent the removal of the cut.
            with suppress(ClusterError, OSError):
                self._last_drops = self._network.dropped(self._cut_id)
        self._network.join(self._cut_id)

    def confirm_healed(self, patience: Patience) -> JoinEffect | None:
        """Confirm that probes pass again, except where another fault cuts or stalls the link."""
        try:
            after = wait_until(
                self._probe_after,
                timeout_s=patience.limit_s,
                what="the links to work again",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        took_s = stopwatch_s() - self._healed_s
        links = tuple(self._link_healed(link, after) for link in self.links)
        return JoinEffect(cut_id=self._cut_id, took_s=took_s, links=links)

    def _probe_while_cut(self) -> Mapping[Link, bool] | None:
        stalled = self._network.stalled_links()
        during = self._network.probe([*self.links, *self._kept])
        open_still = any(during[link] for link in self.links)
        self._first_drops = self._network.dropped(self._cut_id)
        # If another fault cuts or stalls the opposite direction, the silence there proves nothing.
        silent = self._network.silent_links()
        expected = {link for link in self._kept if self._before[link]} - silent
        if open_still or not all(during[link] for link in expected):
            return None
        self._stalled = stalled | self._network.stalled_links()
        proven = made_silent(self.links, self._before, self._stalled, self._first_drops)
        return during if proven else None

    def _probe_after(self) -> Mapping[Link, bool] | None:
        after = self._network.probe(self.links)
        silent = self._network.silent_links()
        return after if all(after[link] or link in silent for link in self.links) else None

    def _link_effect(self, link: Link, during: Mapping[Link, bool]) -> LinkEffect:
        return LinkEffect(
            sender=link[0],
            receiver=link[1],
            cut=link in self.links,
            before=self._before[link],
            during=during[link],
            stalled_by_others=link in self._stalled,
            dropped=self._first_drops.get(link, 0),
        )

    def _link_healed(self, link: Link, after: Mapping[Link, bool]) -> LinkHealed:
        at_first = self._first_drops.get(link, 0)
        return LinkHealed(
            sender=link[0],
            receiver=link[1],
            after=after[link],
            cut_by_others=link in self._network.cut_links(),
            stalled_by_others=link in self._network.stalled_links(),
            dropped_at_first=at_first,
            dropped_while_held=max(0, self._last_drops.get(link, 0) - at_first),
        )
