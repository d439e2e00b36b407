"""Cut links in the node itself, if nodes share an address and packet filters cannot cut them.

Messages to a peer that is cut off are held. They are sent when the link is restored, as TCP sends
dropped packets again. The sender alone cuts one direction. If a message waits too long, its request
times out and breaks the connection.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

CUTS_FILE = "cuts"
"""The file in a node's folder with the ids of the nodes that are cut off when the node starts."""


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
        """Return whether messages to a peer are held now; count the held message."""
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

        A signal handler may call this, because it does nothing else.
        """
        self._peers |= frozenset(peers)

    def afterwards(self, go_on: Callable[[], None]) -> None:
        """Call a function when the cuts change. The function may have to register again."""
        self._waiting.append(go_on)


def cuts_of(folder: Path) -> frozenset[int]:
    """Return the peers that are cut off by a node's file; none without a file."""
    with suppress(FileNotFoundError):
        text = (folder / CUTS_FILE).read_text(encoding="ascii")
        return frozenset(map(int, text.split()))
    return frozenset()
