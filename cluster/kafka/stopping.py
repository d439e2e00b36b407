"""Detects controllers that wait in vain for a lost quorum while a cluster stops for good.

A stopping controller waits up to 5 s for the other voters (`KafkaRaftClient.shutdown`). The last
controllers wait for voters that have ended already. If a controller has nothing left to do but to
wait, Logquake kills it. Two signs must show this: by the node's log, the wait has begun and not
ended; and the node's broker has closed all its logs. A separate controller has no broker. So
Logquake does not kill it early, but waits until it ends.
"""

from collections.abc import Callable, Sequence

from cluster.logs import DATA
from cluster.protocol import ClusterError, Disk
from results.record.clock import stopwatch_s
from results.record.terms import CLEAN_SHUTDOWN

BEGUN = b"] Beginning graceful shutdown ("
"""A log line of `KafkaRaftClient` since 2.8, at the start of a controller's last stop phase."""
_OVER = (b"raceful shutdown completed", b"raceful shutdown timed out", b"raceful shutdown failed")
_ASKED_EACH_S = 0.2
_GONE_FOR_S = 1.0
"""Before a kill, the quorum must be lost for this many seconds.

Any voter that can end by itself ends within this time.
"""
_LOG = "logs/server.log"
_CLOSED = f"{DATA}/{CLEAN_SHUTDOWN}"


class Quorum:
    """The voters of a quorum that stops for good.

    Args:
        voters: The nodes of all voters.
        runs: Returns whether a voter's process exists.
    """

    def __init__(self, voters: Sequence[str], runs: Callable[[str], bool]) -> None:
        self._voters, self._runs = voters, runs
        self._told: set[str] = set()
        self._ended: set[str] = set()

    def tell(self, node: str) -> None:
        """Record that a voter was asked to stop. If other voters end, `is_gone` ignores this."""
        self._told.add(node)

    def is_gone(self) -> bool:
        """Return whether the voters that have not ended are no longer a majority."""
        left = [each for each in self._voters if each in self._told - self._ended]
        self._ended |= {each for each in left if not self._runs(each)}
        return (len(self._voters) - len(self._ended)) * 2 <= len(self._voters)


class Voter:
    """A voter that is about to stop; create this object before the stop.

    Args:
        node: The voter's name.
        quorum: The voter's quorum.
        disk: The voter's files.
        has_broker: Whether the node also has a broker, which closes its logs first.

    Attributes:
        closed: Whether the broker is known to have closed all its logs.
    """

    def __init__(self, node: str, quorum: Quorum, disk: Disk, *, has_broker: bool) -> None:
        self._quorum, self._disk = quorum, disk
        self._asked_s = stopwatch_s()
        self._gone_s: float | None = None
        self.closed = False
        quorum.tell(node)
        try:
            self._log_bytes = disk.size(_LOG)
            # A marker from an earlier stop stays until the broker has loaded its logs.
            self._can_tell = has_broker and not _is_there(disk, _CLOSED)
        except (OSError, ClusterError):
            self._log_bytes, self._can_tell = 0, False

    def waits_in_vain(self) -> bool:
        """Return whether the voter waits only for voters that have ended; False if unknown.

        You can call this often.
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
