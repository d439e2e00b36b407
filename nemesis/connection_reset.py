"""The fault `connection-reset`: connections between the targets and other servers are reset.

Those of replicas that fetch, of controllers' quorum, of heartbeats and forwarded requests, and,
where there is one, of ZooKeeper's sessions; see `resets`. Brokers see each other all along.
"""

from nemesis.connections import between_servers
from nemesis.protocol import Aim, Site
from nemesis.resets import Resets, in_words


def connection_reset(aim: Aim, site: Site) -> Resets:
    """Make the fault; connections and moments are drawn."""
    return Resets(aim, between_servers(aim, site))


SAYS = {"connection-reset": in_words("the targets and all other servers")}
