"""The fault `pause-all`: every broker and every controller is paused with SIGSTOP at once.

This happens if a hypervisor is suspended, or takes a snapshot of all its machines. When the servers
continue, each still has its old view of the cluster. All leases, sessions and election timers have
expired. Each leader continues to lead until another server tells it that it is no longer the
leader. The heal sends SIGCONT.
"""

from nemesis.in_words import InWords
from nemesis.pause import Pause
from nemesis.protocol import Aim, Site


def pause_all(aim: Aim, site: Site) -> Pause:
    """Make the fault. Its targets are all servers."""
    return Pause(aim, site)


SAYS = {
    "pause-all": InWords(
        does="all brokers and all controllers are paused at once",
        injected="SIGSTOP to every server",
        proven="like `pause`, but for every server",
        undone="SIGCONT to all; each runs and is registered",
    ),
}
