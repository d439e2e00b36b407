"""The network between the nodes, with all cuts and stalls of all faults.

The module wraps `CanPartition` hosts. Two faults may cut the same link. If one of them is healed,
the link is still cut, and this is correct. Only code that knows all cuts can distinguish this case
from a failed heal.
"""

from collections.abc import Collection, Mapping

from cluster.protocol import CanPartition, Link
from results.record.runtime import new_lock


class Network:
    """Cuts, reconnects and probes links, and lists all cuts. Several threads can use it.

    Args:
        hosts: The hosts that execute the cuts. Only one thread at a time calls the hosts.
    """

    def __init__(self, hosts: CanPartition) -> None:
        self._hosts = hosts
        self._cuts: dict[str, frozenset[Link]] = {}
        self._stalls: dict[str, frozenset[Link]] = {}
        self._ever_cut: set[Link] = set()
        self._ever_stalled: set[Link] = set()
        self._lock = new_lock()

    def cut(self, cut_id: str, links: Collection[Link]) -> None:
        """Cut links, in addition to all existing cuts."""
        with self._lock:
            # Note the cut first, because an incomplete cut must be removed like a complete one.
            self._cuts[cut_id] = frozenset(links)
            self._ever_cut.update(links)
            self._hosts.cut(cut_id, links)

    def join(self, cut_id: str) -> None:
        """Remove only this cut. Idempotent."""
        with self._lock:
            self._hosts.join(cut_id)
            self._cuts.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        """Return, for each link, the number of packets that an active cut has dropped so far."""
        with self._lock:
            return dict(self._hosts.dropped(cut_id)) if cut_id in self._cuts else {}

    def probe(self, links: Collection[Link]) -> Mapping[Link, bool]:
        """Send test datagrams over each link. Return for each link whether a datagram arrived."""
        with self._lock:
            return dict(self._hosts.probe(links)) if links else {}

    def cut_links(self) -> frozenset[Link]:
        """Return the links that any fault cuts now."""
        with self._lock:
            return frozenset(link for links in self._cuts.values() for link in links)

    def note_stall(self, shape_id: str, links: Collection[Link]) -> None:
        """Record the links that a shape stalls. An empty collection ends the stall."""
        with self._lock:
            self._stalls.pop(shape_id, None)
            if links:
                self._stalls[shape_id] = frozenset(links)
                self._ever_stalled.update(links)

    def stalled_links(self) -> frozenset[Link]:
        """Return the links that any fault stalls now."""
        with self._lock:
            return frozenset().union(*self._stalls.values())

    def silent_links(self) -> frozenset[Link]:
        """Return the links that are cut or stalled. Probes over these may come late or never."""
        with self._lock:
            return frozenset().union(*self._cuts.values(), *self._stalls.values())

    def ever_cut(self) -> frozenset[Link]:
        """Return all links that were cut at any time."""
        with self._lock:
            return frozenset(self._ever_cut)

    def ever_stalled(self) -> frozenset[Link]:
        """Return all links that were stalled at any time."""
        with self._lock:
            return frozenset(self._ever_stalled)

    def cut_ids(self) -> list[str]:
        """Return the ids of the active cuts, the oldest first."""
        with self._lock:
            return list(self._cuts)
