"""What time a broker takes it to be, by the timestamp of a line that it is made to log.

A connection that begins with a size no request may have is closed at once, and the broker says so
in its `server.log`, in every version, with the address of whoever knocked: the line is ours, and it
is written with the broker's own clock. Nothing else comes of it.
"""

import re
from contextlib import suppress
from datetime import datetime

from cluster.kafka.wire import WireError, channel_to
from cluster.protocol import ClusterError, Disk
from results.record.clock import WaitTimeoutError, unix_s, wait_until

CONNECT_TIMEOUT_S = 2.0
SAID_TIMEOUT_S = 5.0
MOST_KNOCKS = 5
CLOSE_S = 0.1
"""An answer that came so soon is close enough; on a busy machine another one may come sooner."""
LOG = "logs/server.log"
STAMP_FORMAT = "%Y-%m-%d %H:%M:%S,%f"
_STAMP = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] "


def clock_error_s(address: tuple[str, int], disk: Disk, *, node: str) -> float:
    """Return by how much a broker's clock is ahead of ours, good to some hundredths of a second.

    The zone of time in its log is taken to be ours: on a machine of another zone differences
    between two answers are true, each by itself is not.

    Args:
        address: Of its listener.
        disk: The node's files.
        node: For messages.

    Raises:
        ClusterError: It cannot be reached, or says nothing within seconds.
    """
    told: list[tuple[float, float]] = []
    while len(told) < MOST_KNOCKS and (not told or min(told)[0] > CLOSE_S):
        told.append(_asked_once(address, disk, node=node))
    return min(told)[1]


def _asked_once(address: tuple[str, int], disk: Disk, *, node: str) -> tuple[float, float]:
    """Return how far the answer may be wrong, and by how much the clock is ahead."""
    try:
        start = disk.size(LOG)
    except OSError as unreadable:
        raise ClusterError(f"the log of {node} cannot be read: {unreadable}") from unreadable
    before_s = unix_s()
    try:
        port = channel_to(*address).knock(timeout_s=CONNECT_TIMEOUT_S)
    except WireError as failed:
        raise ClusterError(f"{node} could not be asked for the time: {failed}") from failed
    after_s = unix_s()
    stamp_s = _stamp_of(disk, start, port, node=node)
    # The line was written between the knock and its answer, the end of the connection.
    return (after_s - before_s) / 2, stamp_s - (before_s + after_s) / 2


def _stamp_of(disk: Disk, start: int, port: str, *, node: str) -> float:
    said = re.compile(rf"{_STAMP}.*:{port}\b.*closing connection".encode(), re.MULTILINE)

    def line() -> float | None:
        with suppress(OSError):
            if found := said.search(disk.read(LOG, at=start)):
                return datetime.strptime(found[1].decode(), STAMP_FORMAT).timestamp()  # noqa: DTZ007 - the log has none
        return None

    try:
        return wait_until(
            line, timeout_s=SAID_TIMEOUT_S, what=f"{node} to log that we knocked", interval_s=0.05
        )
    except WaitTimeoutError as late:
        raise ClusterError(f"{late}, so its time is not known") from late
