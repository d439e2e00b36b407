"""The fault `kill-all`: every broker and every controller is killed with SIGKILL at once.

This happens if a rack, a hypervisor or an orchestrator fails, but the machines keep their memory.
All written data is in the kernel's page cache, so no acknowledged message may be lost. Each server
starts from its own files. It has no leader, follower or controller to ask. The heal starts all
servers. ZooKeeper, if there is one, keeps running. To simulate a power loss of all brokers, list
`power-loss` with the target `all` in the plan. That fault may lose data that no replica had
flushed.
"""

from nemesis.in_words import InWords
from nemesis.kill import Kill
from nemesis.protocol import Aim, Site


def kill_all(aim: Aim, site: Site) -> Kill:
    """Make the fault. Its targets are all servers; in a plan with the target `all`, all brokers."""
    return Kill(aim, site)


SAYS = {
    "kill-all": InWords(
        does="all brokers and all controllers are killed at once; the page cache stays intact",
        injected="SIGKILL to every server's process group",
        proven="like `kill`, but for every server",
        undone="all servers are started; each is registered again",
    ),
}
