"""Cut links inside the node: packet filters cannot separate nodes that share an address.

Messages to a peer that is cut off are held back. When the link is restored, the held messages are
sent, as TCP sends dropped packets again. Each node cuts only the direction in which it sends. If a
request or its response is held back too long, the request times out, and the connection is closed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

CUTS_FILE = "cuts"
"""The file in a node's folder that lists which nodes this node cuts off when it starts."""


class Cuts:
    """The peers to which this node sends nothing now."""

    def __init__(self) -> None:
        self._peers: frozenset[int] = frozenset()
        self._held: Counter[int] = Counter()
        self._waiting: list[Callable[[], None]] = []

    @property
    def peers(self) -> frozenset[int]:
        """The ids of the peers that are cut off."""
        return self._peers

    @property
    def held(self) -> Mapping[int, int]:
        """For each peer, how often a message was held back."""
        return self._held

    def holds(self, peer: int) -> bool:
        """Return whether a message to a peer must be held back now. If so, count the message."""
        if peer not in self._peers:
            return False
        self._held[peer] += 1
        return True

    def cut(self, peers: Iterable[int]) -> None:
        """Cut off exactly these peers, and send the held messages to all others."""
        self._peers = frozenset(peers)
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def also(self, peers: Iterable[int]) -> None:
        """Cut off further peers at once.

        A signal handler may call this method, because it does nothing else.
        """
        self._peers |= frozenset(peers)

    def afterwards(self, go_on: Callable[[], None]) -> None:
        """Call a function once, when the cuts change. The function may register itself again."""
        self._waiting.append(go_on)


def cuts_of(folder: Path) -> frozenset[int]:
    """Return the peers that a node's file cuts off; an empty set if there is no file."""
    with suppress(FileNotFoundError):
        text = (folder / CUTS_FILE).read_text(encoding="ascii")
        return frozenset(map(int, text.split()))
    return frozenset()
