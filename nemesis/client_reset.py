"""The fault `client-reset`: connections between clients and the targets are reset.

What was sent may have been done: the client retries it, and an idempotent one must not leave two of
it. Harness and observer live where clients do, and are hit as well; see `resets`.
"""

from nemesis.connections import of_clients
from nemesis.protocol import Aim, Site
from nemesis.resets import Resets, in_words


def client_reset(aim: Aim, site: Site) -> Resets:
    """Make the fault; connections and moments are drawn."""
    return Resets(aim, of_clients(aim, site))


SAYS = {"client-reset": in_words("clients and the targets")}
