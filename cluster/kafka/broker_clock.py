"""Makes a broker log a line, and reads the broker's clock from the line's timestamp.

If the first request on a connection has an impossible size, a broker closes the connection at once.
Brokers of all versions log this, with the client's address, in `server.log`. So Logquake can
identify the line. The line's timestamp comes from the broker's own clock. The connection has no
other effect.
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
"""A response within this time is accurate enough. If it is slower, the request is repeated."""
LOG = "logs/server.log"
STAMP_FORMAT = "%Y-%m-%d %H:%M:%S,%f"
_STAMP = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] "


def clock_error_s(address: tuple[str, int], disk: Disk, *, node: str) -> float:
    """Return the seconds by which a broker's clock is ahead of this machine's clock.

    The error of the result is a few hundredths of a second. Timestamps in the log are taken as
    times in this machine's time zone. If the broker's machine has another time zone, only the
    difference of two results is correct.

    Args:
        address: Host and port of the broker's listener.
        disk: The node's files.
        node: The node's name, for messages.

    Raises:
        ClusterError: The broker cannot be reached, or does not log the line within some seconds.
    """
    told: list[tuple[float, float]] = []
    while len(told) < MOST_KNOCKS and (not told or min(told)[0] > CLOSE_S):
        told.append(_asked_once(address, disk, node=node))
    return min(told)[1]


def _asked_once(address: tuple[str, int], disk: Disk, *, node: str) -> tuple[float, float]:
    """Measure once: return the uncertainty, and how far the clock is ahead, both in seconds."""
    try:
        start = disk.size(LOG)
    except OSError as unreadable:
        raise ClusterError(f"the log of {node} cannot be read: {unreadable}") from unreadable
    before_s = unix_s()
    try:
        port = channel_to(*address).knock(timeout_s=CONNECT_TIMEOUT_S)
    except WireError as failed:
        raise ClusterError(f"the time of {node} could not be requested: {failed}") from failed
    after_s = unix_s()
    stamp_s = _stamp_of(disk, start, port, node=node)
    # The broker wrote the line between our invalid request and the connection's end.
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
            line,
            timeout_s=SAID_TIMEOUT_S,
            what=f"{node} to log our invalid request",
            interval_s=0.05,
        )
    except WaitTimeoutError as late:
        raise ClusterError(f"{late}, so the time of {node} is not known") from late
