"""The fault `kill-all`: SIGKILL to every broker and every controller at once.

A rack, a hypervisor or an orchestrator fails, and the machines' memory does not: what was written
lies in the kernel's page cache, so that no acknowledged record may be lost. Each server starts
from its files alone: none has a leader, a follower or a controller to ask. Healed by a start of
all. ZooKeeper, where there is one, goes on. A loss of power of all brokers is `power-loss` with the
target `all`, written by hand: it may take what no replica had flushed.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site


def kill_all(aim: Aim, site: Site) -> Kill:
    """Return the fault; its targets are all servers."""
    return Kill(aim, site)


SAYS = {
    "kill-all": InWords(
        does="all brokers and all controllers are gone at once; the page cache is not",
        injected="SIGKILL to every server's process group",
        proven="as `kill`, of every server",
        undone="a start of all; each is registered anew",
    ),
}
