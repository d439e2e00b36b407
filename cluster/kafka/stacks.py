"""Makes JVMs print their thread stacks with SIGQUIT, and finds deadlocks in the output.

HotSpot prints the threads first. Then comes "Found one Java-level deadlock:", followed by each
thread of the cycle and the owner of the lock that this thread waits for. The heap comes last. All
output goes to the process's standard output.
"""

import re
import signal
from collections.abc import Callable, Collection

from cluster.protocol import Disk
from results.record.clock import WaitTimeoutError, wait_until

PRINTED_WITHIN_S = 5.0
STDOUT = "logs/stdout.log"
NOTHING = f"the process printed no stack traces within {PRINTED_WITHIN_S:g} s"
_DONE = "\nHeap\n"
_CIRCLE = re.compile(
    r"^Found .*?deadlock:?\n(.*?)^Java stack information", re.DOTALL | re.MULTILINE
)
_WAITS = re.compile(
    r'^"(?P<who>.+)":\n\s+waiting .*,\n\s+which is held by (?:"(?P<by>.+)"|(?P<unnamed>.+))$',
    re.MULTILINE,
)


def printed_stacks(
    nodes: Collection[str],
    disk: Callable[[str], Disk],
    send_signal: Callable[[str, signal.Signals], object],
) -> dict[str, str]:
    """Make JVMs print their thread stacks to standard output, and return the deadlocks found.

    Args:
        nodes: The nodes whose processes to signal.
        disk: Returns a node's files.
        send_signal: Sends a signal to a node's process.

    Returns:
        For each node: `deadlock:` and the waiting threads; an empty text if there is no deadlock;
        `NOTHING` if no stacks were printed.
    """
    before = {node: _size(disk(node)) for node in nodes}
    for node in nodes:
        send_signal(node, signal.SIGQUIT)
    return {node: _found(disk(node), before[node]) for node in nodes}


def deadlock(printed: str) -> str:
    """Return the threads that wait for each other, as the thread dump of a JVM lists them.

    The result is an empty string if there is no deadlock.
    """
    circles = (_WAITS.finditer(each) for each in _CIRCLE.findall(printed))
    return "; ".join(
        ", ".join(f"{each['who']} waits for {each['by'] or each['unnamed']}" for each in circle)
        for circle in circles
    )


def _found(disk: Disk, start: int) -> str:
    def whole() -> str | None:
        try:
            text = disk.read(STDOUT, at=start).decode("utf-8", errors="replace")
        except OSError:
            return None
        return text if _DONE in text else None

    try:
        found = deadlock(wait_until(whole, timeout_s=PRINTED_WITHIN_S, what="its stacks"))
    except WaitTimeoutError:
        return NOTHING
    return f"deadlock: {found}" if found else ""


def _size(disk: Disk) -> int:
    try:
        return disk.size(STDOUT)
    except OSError:
        return 0
