"""The fault `client-reset`: connections between clients and the targets are reset.

When a connection is reset, the broker may already have executed the last request. The client
retries this request. If an idempotent producer does so, the log must not get a second copy. The
harness and the observers are on the clients' machine, and are affected as well. See `resets`.
"""

from nemesis.connections import of_clients
from nemesis.protocol import Aim, Site
from nemesis.resets import Resets, in_words


def client_reset(aim: Aim, site: Site) -> Resets:
    """Make the fault. The connections and the times are random."""
    return Resets(aim, of_clients(aim, site))


SAYS = {"client-reset": in_words("clients and the targets")}
