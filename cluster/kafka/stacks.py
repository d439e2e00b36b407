"""What JVMs print when they are sent SIGQUIT: their threads' stacks, and the deadlocks they find.

HotSpot prints the threads, then "Found one Java-level deadlock:" with each thread of the circle and
who holds what it waits for, and last the heap. All of it goes to the process's standard output.
"""

import re
import signal
from collections.abc import Callable, Collection

from cluster.protocol import Disk
from results.record.clock import WaitTimeoutError, wait_until

PRINTED_WITHIN_S = 5.0
STDOUT = "logs/stdout.log"
NOTHING = f"it printed no stacks within {PRINTED_WITHIN_S:g} s"
_DONE = "\nHeap\n"
_CIRCLE = re.compile(
    r"^Found .*?deadlock:?\n(.*?)^Java stack information", re.DOTALL | re.MULTILINE
)
_WAITS = re.compile(
    r'^"(?P<who>.+)":\n\s+waiting .*,\n\s+which is held by (?:"(?P<by>.+)"|(?P<nobody>.+))$',
    re.MULTILINE,
)


def printed_stacks(
    nodes: Collection[str],
    disk: Callable[[str], Disk],
    send_signal: Callable[[str, signal.Signals], object],
) -> dict[str, str]:
    """Have JVMs print their stacks to their standard output, and tell what each found.

    Args:
        nodes: Whose.
        disk: A node's files.
        send_signal: Sends one to a node's process.

    Returns:
        By node: `deadlock:` and who waits for whom, empty without one, or `NOTHING`.
    """
    before = {node: _size(disk(node)) for node in nodes}
    for node in nodes:
        send_signal(node, signal.SIGQUIT)
    return {node: _found(disk(node), before[node]) for node in nodes}


def deadlock(printed: str) -> str:
    """Return who waits for whom in the deadlocks of a thread dump; empty if there is none."""
    circles = (_WAITS.finditer(each) for each in _CIRCLE.findall(printed))
    return "; ".join(
        ", ".join(f"{each['who']} waits for {each['by'] or each['nobody']}" for each in circle)
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
