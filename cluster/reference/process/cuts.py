"""Links cut by the node itself: for hosts that share an address, where no packet filter can.

What goes to a peer that is cut off is held, and goes when the link is whole again, as TCP would
send again what a filter dropped. One direction is cut by its sender alone. What waits too long
breaks its connection, by the time-outs of requests.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

CUTS_FILE = "cuts"
"""Relative to a node's folder: who is cut off from its start on, node ids."""


class Cuts:
    """Which peers this node's bytes do not reach now."""

    def __init__(self) -> None:
        self._peers: frozenset[int] = frozenset()
        self._held: Counter[int] = Counter()
        self._waiting: list[Callable[[], None]] = []

    @property
    def peers(self) -> frozenset[int]:
        """Node ids."""
        return self._peers

    @property
    def held(self) -> Mapping[int, int]:
        """By peer: how often something was to be sent, and was held."""
        return self._held

    def holds(self, peer: int) -> bool:
        """Tell whether nothing may be sent to a peer now; whoever asks has something to send."""
        if peer not in self._peers:
            return False
        self._held[peer] += 1
        return True

    def cut(self, peers: Iterable[int]) -> None:
        """Let nothing go to these peers; to all others it goes (again)."""
        self._peers = frozenset(peers)
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def also(self, peers: Iterable[int]) -> None:
        """Let nothing go to these peers either, at once: nothing else is done, as in a signal."""
        self._peers |= frozenset(peers)

    def afterwards(self, go_on: Callable[[], None]) -> None:
        """Have something tried again when cuts change; it waits again if it must."""
        self._waiting.append(go_on)


def cuts_of(folder: Path) -> frozenset[int]:
    """Return who is cut off by a node's file; nobody if it has none."""
    with suppress(FileNotFoundError):
        text = (folder / CUTS_FILE).read_text(encoding="ascii")
        return frozenset(map(int, text.split()))
    return frozenset()
