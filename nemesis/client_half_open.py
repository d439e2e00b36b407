"""The fault `client-half-open`: connections of clients let nothing through, unknown to both ends.

A client waits for its answer until its request times out, and asks again on a new connection. What
it had sent comes after that, if the connection is still held when the fault is healed; see
`half_open`. Harness and observer live where clients do, and are hit as well.
"""

from nemesis.connections import of_clients
from nemesis.half_open import HalfOpen, in_words
from nemesis.protocol import Aim, Site


def client_half_open(aim: Aim, site: Site) -> HalfOpen:
    """Make the fault; its connections are drawn."""
    return HalfOpen(aim, of_clients(aim, site))


SAYS = {"client-half-open": in_words("clients and the targets")}
