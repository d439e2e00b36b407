"""The fault `connection-reset`: connections between the targets and other servers are reset.

These are connections of fetching replicas, of the controller quorum, of heartbeats, and of
forwarded requests. In a cluster with ZooKeeper, the connections of ZooKeeper sessions are reset,
too. Brokers can open new connections to each other all the time. See `resets`.
"""

from nemesis.connections import between_servers
from nemesis.protocol import Aim, Site
from nemesis.resets import Resets, in_words


def connection_reset(aim: Aim, site: Site) -> Resets:
    """Make the fault. The connections and the times are random."""
    return Resets(aim, between_servers(aim, site))


SAYS = {"connection-reset": in_words("the targets and all other servers")}
