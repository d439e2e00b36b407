"""The fault `pause-all`: SIGSTOP to every broker and every controller at once.

A hypervisor is suspended, or a snapshot is taken of all its machines. When they go on, each server
believes what it believed: every lease, session and election timer has run out everywhere, and
whoever led goes on to lead until somebody says otherwise. Healed by SIGCONT.
"""

from nemesis.in_words import InWords
from nemesis.pause import Pause
from nemesis.protocol import Aim, Site


def pause_all(aim: Aim, site: Site) -> Pause:
    """Return the fault; its targets are all servers."""
    return Pause(aim, site)


SAYS = {
    "pause-all": InWords(
        does="all brokers and all controllers stand still at once",
        injected="SIGSTOP to every server",
        proven="as `pause`, of every server",
        undone="SIGCONT to all; each runs and is registered",
    ),
}
