"""The fault `keeper-kill`: SIGKILL to the ZooKeeper that keeps the metadata.

Brokers go on with what they know: who leads serves on, and no ISR changes, nobody is elected, no
topic is made. What ZooKeeper wrote is in its log, and its sessions go on when it has read that.
Healed by a start; brokers whose sessions ended meanwhile register anew. There is one server: an
ensemble that loses one of its members is not imitated.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site


def keeper_kill(aim: Aim, site: Site) -> Kill:
    """Return the fault; its target is ZooKeeper."""
    return Kill(aim, site)


SAYS = {
    "keeper-kill": InWords(
        does="ZooKeeper is gone without a word; brokers go on with what they know",
        injected="SIGKILL to its process group",
        proven="the process is gone from `/proc`",
        undone="a start; it serves, and after a session's time has a controller and all brokers"
        " that run",
    ),
}
