"""The fault `keeper-pause`: SIGSTOP to the ZooKeeper that keeps the metadata.

Its connections stay open and answer nothing. When it goes on, sessions have run out by its own
clock, of brokers and of the controller, and all of them may find that out at once. Healed by
SIGCONT.
"""

from nemesis.in_words import InWords
from nemesis.pause import Pause
from nemesis.protocol import Aim, Site


def keeper_pause(aim: Aim, site: Site) -> Pause:
    """Return the fault; its target is ZooKeeper."""
    return Pause(aim, site)


SAYS = {
    "keeper-pause": InWords(
        does="ZooKeeper stands still; sessions run out when it goes on",
        injected="SIGSTOP",
        proven="`/proc` state T",
        undone="SIGCONT; it serves, and after a session's time has a controller and all brokers"
        " that run",
    ),
}
