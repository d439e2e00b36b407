"""Links cut by the node itself: for hosts that share an address, where no packet filter can.

What goes to a peer that is cut off is held, and goes when the link is whole again, as TCP would
send again what a filter dropped. One direction is cut by its sender alone. What waits too long
breaks its connection, by the time-outs of requests.
"""

from collections.abc import Callable, Iterable


class Cuts:
    """Which peers this node's bytes do not reach now."""

    def __init__(self) -> None:
        self._peers: frozenset[int] = frozenset()
        self._waiting: list[Callable[[], None]] = []

    @property
    def peers(self) -> frozenset[int]:
        """Node ids."""
        return self._peers

    def holds(self, peer: int) -> bool:
        """Tell whether nothing may be sent to a peer now."""
        return peer in self._peers

    def cut(self, peers: Iterable[int]) -> None:
        """Let nothing go to these peers; to all others it goes (again)."""
        self._peers = frozenset(peers)
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def afterwards(self, go_on: Callable[[], None]) -> None:
        """Have something tried again when cuts change; it waits again if it must."""
        self._waiting.append(go_on)
