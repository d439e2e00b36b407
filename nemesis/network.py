"""The network under the nodes as faults see it: hosts, and all that keeps probes from arriving.

A wrapper around `CanPartition` hosts. Two cuts may cover one link; healing the first then leaves
the link cut, rightly so, and only who knows all cuts can tell that from a heal that failed.
"""

from collections.abc import Collection, Mapping

from cluster.protocol import CanPartition, Link
from results.record.runtime import new_lock


class Network:
    """Cuts, joins and probes links; knows what is cut. Used by several faults' threads.

    Args:
        hosts: What can really cut; asked by one thread at a time.
    """

    def __init__(self, hosts: CanPartition) -> None:
        self._hosts = hosts
        self._cuts: dict[str, frozenset[Link]] = {}
        self._stalls: dict[str, frozenset[Link]] = {}
        self._ever_cut: set[Link] = set()
        self._ever_stalled: set[Link] = set()
        self._lock = new_lock()

    def cut(self, cut_id: str, links: Collection[Link]) -> None:
        """Cut links, in addition to what is cut already."""
        with self._lock:
            # Noted first: a cut that failed half-way must be joined like a whole one.
            self._cuts[cut_id] = frozenset(links)
            self._ever_cut.update(links)
            self._hosts.cut(cut_id, links)

    def join(self, cut_id: str) -> None:
        """Undo one cut, and no other. Idempotent."""
        with self._lock:
            self._hosts.join(cut_id)
            self._cuts.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return how many packets each link of a cut has dropped so far; none if it is no cut."""
        with self._lock:
            return dict(self._hosts.dropped(cut_id)) if cut_id in self._cuts else {}

    def probe(self, links: Collection[Link]) -> Mapping[Link, bool]:
        """Try each directed link with datagrams of our own; tell for each if one arrived."""
        with self._lock:
            return dict(self._hosts.probe(links)) if links else {}

    def cut_links(self) -> frozenset[Link]:
        """Return the links that are cut now, by whichever fault."""
        with self._lock:
            return frozenset(link for links in self._cuts.values() for link in links)

    def note_stall(self, shape_id: str, links: Collection[Link]) -> None:
        """Record which links a shape stalls; an empty collection ends that."""
        with self._lock:
            self._stalls.pop(shape_id, None)
            if links:
                self._stalls[shape_id] = frozenset(links)
                self._ever_stalled.update(links)

    def stalled_links(self) -> frozenset[Link]:
        """Return the links that stall now, by whichever fault."""
        with self._lock:
            return frozenset().union(*self._stalls.values())

    def silent_links(self) -> frozenset[Link]:
        """Return the links over which a probe may not arrive in time: cut ones, stalled ones."""
        with self._lock:
            return frozenset().union(*self._cuts.values(), *self._stalls.values())

    def ever_cut(self) -> frozenset[Link]:
        """Return all links that were cut at some time."""
        with self._lock:
            return frozenset(self._ever_cut)

    def ever_stalled(self) -> frozenset[Link]:
        """Return all links that stalled at some time."""
        with self._lock:
            return frozenset(self._ever_stalled)

    def cut_ids(self) -> list[str]:
        """Return the cuts in force, the oldest first."""
        with self._lock:
            return list(self._cuts)
