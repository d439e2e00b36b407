"""Who of a KRaft quorum that stops for good waits for nobody, and need not be waited for.

A controller that stops waits up to 5 s for the others to hear of it (`KafkaRaftClient.shutdown`).
The last ones of a quorum wait for voters that are gone. One is killed then, but only if it is known
to do nothing else: its own log says that it has begun to wait, and not that it has ended to; and
its broker has closed all its logs. A controller of its own has none that tell it: it is waited for.
"""

from collections.abc import Callable, Sequence

from cluster.logs import DATA
from cluster.protocol import ClusterError, Disk
from results.record.clock import stopwatch_s
from results.record.terms import CLEAN_SHUTDOWN

BEGUN = b"] Beginning graceful shutdown ("
"""`KafkaRaftClient` says so since 2.8, as the last controller's part of a stop begins."""
_OVER = (b"raceful shutdown completed", b"raceful shutdown timed out", b"raceful shutdown failed")
_ASKED_EACH_S = 0.2
_GONE_FOR_S = 1.0
"""So long a quorum must have been gone: a voter that still could end by itself has ended."""
_LOG = "logs/server.log"
_CLOSED = f"{DATA}/{CLEAN_SHUTDOWN}"


class Quorum:
    """The voters of a cluster that stops.

    Args:
        voters: All of them.
        runs: Tells whether the process of one exists.
    """

    def __init__(self, voters: Sequence[str], runs: Callable[[str], bool]) -> None:
        self._voters, self._runs = voters, runs
        self._told: set[str] = set()
        self._ended: set[str] = set()

    def tell(self, node: str) -> None:
        """Take a voter for one that is told to stop: only the end of such a one counts."""
        self._told.add(node)

    def is_gone(self) -> bool:
        """Tell whether so many voters have ended that the others are no majority."""
        left = [each for each in self._voters if each in self._told - self._ended]
        self._ended |= {each for each in left if not self._runs(each)}
        return (len(self._voters) - len(self._ended)) * 2 <= len(self._voters)


class Voter:
    """A voter that is about to be told to stop: made before it is.

    Args:
        node: Its name.
        quorum: Of which it is one.
        disk: Its files.
        has_broker: Whether it has a broker, too, which has logs to close before.

    Attributes:
        closed: Whether its broker is known to have closed all its logs since.
    """

    def __init__(self, node: str, quorum: Quorum, disk: Disk, *, has_broker: bool) -> None:
        self._quorum, self._disk = quorum, disk
        self._asked_s = stopwatch_s()
        self._gone_s: float | None = None
        self.closed = False
        quorum.tell(node)
        try:
            self._log_bytes = disk.size(_LOG)
            # One of an earlier stop stays until the broker has loaded its logs, and proves nothing.
            self._can_tell = has_broker and not _is_there(disk, _CLOSED)
        except (OSError, ClusterError):
            self._log_bytes, self._can_tell = 0, False

    def waits_in_vain(self) -> bool:
        """Tell whether it is known to wait only, for voters that are gone.

        What cannot be asked is not known. It may be called as often as one likes.
        """
        now_s = stopwatch_s()
        if not self._can_tell or now_s < self._asked_s + _ASKED_EACH_S:
            return False
        self._asked_s = now_s
        try:
            if not self._quorum.is_gone():
                return False
            self._gone_s = now_s if self._gone_s is None else self._gone_s
            return now_s >= self._gone_s + _GONE_FOR_S and self._only_waits()
        except (OSError, ClusterError):
            return False

    def _only_waits(self) -> bool:
        _, begun, since = self._disk.read(_LOG, at=self._log_bytes).rpartition(BEGUN)
        if not begun or any(each in since for each in _OVER):
            return False
        self.closed = _is_there(self._disk, _CLOSED)
        return self.closed


def _is_there(disk: Disk, path: str) -> bool:
    try:
        disk.size(path)
    except FileNotFoundError:
        return False
    return True
