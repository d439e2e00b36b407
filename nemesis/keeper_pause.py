"""The fault `keeper-pause`: the ZooKeeper that keeps the metadata is paused with SIGSTOP.

Its connections stay open, but it does not answer. If the pause is longer than the session timeout,
the sessions of the brokers and of the controller expire by ZooKeeper's own clock. After the pause,
the brokers and the controller may all learn this at once. The heal sends SIGCONT.
"""

from nemesis.in_words import InWords
from nemesis.pause import Pause
from nemesis.protocol import Aim, Site


def keeper_pause(aim: Aim, site: Site) -> Pause:
    """Make the fault. Its target is ZooKeeper."""
    return Pause(aim, site)


SAYS = {
    "keeper-pause": InWords(
        does="ZooKeeper is paused; when it continues, sessions may have expired",
        injected="SIGSTOP",
        proven="`/proc` state T",
        undone=(
            "SIGCONT; ZooKeeper serves requests; after a session timeout the controller and all"
            " running brokers are registered there"
        ),
    ),
}
