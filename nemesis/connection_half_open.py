"""The fault `connection-half-open`: connections between servers deliver nothing, without an error.

A replica that fetches over such a connection waits for an answer until its request times out (30 s
by default). Meanwhile it may leave the ISR, although a new connection would reach the leader. See
`half_open`.
"""

from nemesis.connections import between_servers
from nemesis.half_open import HalfOpen, in_words
from nemesis.protocol import Aim, Site


def connection_half_open(aim: Aim, site: Site) -> HalfOpen:
    """Make the fault, with random connections."""
    return HalfOpen(aim, between_servers(aim, site))


SAYS = {"connection-half-open": in_words("the targets and all other servers")}
