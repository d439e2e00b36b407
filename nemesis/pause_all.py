"""The fault `pause-all`: every broker and every controller is paused with SIGSTOP at once.

This happens if a hypervisor is suspended, or takes a snapshot of all its machines. When the servers
continue, each still has its old view of the cluster. After a long pause, all leases, sessions and
election timers have expired. Each leader still believes that it leads, until another server tells
it otherwise. The heal sends SIGCONT.
"""

from nemesis.in_words import InWords
from nemesis.pause import Pause
from nemesis.protocol import Aim, Site


def pause_all(aim: Aim, site: Site) -> Pause:
    """Make the fault. Its targets are all servers; in a plan with the target `all`, all brokers."""
    return Pause(aim, site)


SAYS = {
    "pause-all": InWords(
        does="all brokers and all controllers are paused at once",
        injected="SIGSTOP to every server",
        proven="like `pause`, but for every server",
        undone="SIGCONT to all; each runs and is registered",
    ),
}
