"""The fault `client-half-open`: clients' connections deliver nothing, but look open at both ends.

A client waits for the response until the request times out, and then retries on a new connection.
If the old connection is still open at the heal, the first request arrives after the retry. See
`half_open`. The harness and the observers are on the clients' machine, so the fault may also choose
their connections.
"""

from nemesis.connections import of_clients
from nemesis.half_open import HalfOpen, in_words
from nemesis.protocol import Aim, Site


def client_half_open(aim: Aim, site: Site) -> HalfOpen:
    """Make the fault, with random connections."""
    return HalfOpen(aim, of_clients(aim, site))


SAYS = {"client-half-open": in_words("clients and the targets")}
