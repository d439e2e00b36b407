"""The fault `keeper-kill`: the ZooKeeper that keeps the metadata is killed with SIGKILL.

Brokers continue with the metadata that they have. Leaders continue to serve, but no ISR changes, no
leader is elected, and no topic is created. ZooKeeper keeps its writes in a log. After a restart it
reads this log, and then the sessions continue. The heal starts ZooKeeper. Brokers whose sessions
ended meanwhile register again. There is one ZooKeeper server, so the fault does not imitate the
loss of one member of an ensemble.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site


def keeper_kill(aim: Aim, site: Site) -> Kill:
    """Make the fault. Its target is ZooKeeper."""
    return Kill(aim, site)


SAYS = {
    "keeper-kill": InWords(
        does="ZooKeeper is killed; brokers continue with the metadata that they have",
        injected="SIGKILL to its process group",
        proven="the process is not in `/proc`",
        undone=(
            "a start; ZooKeeper serves requests; after a session timeout the controller and all"
            " running brokers are registered there"
        ),
    ),
}
