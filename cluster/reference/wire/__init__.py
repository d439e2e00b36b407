"""Encode messages as bytes: Kafka's protocol with clients, a compact protocol between nodes.

Clients use Kafka's protocol in any supported version (listed in `apis.py`). All nodes of a cluster
have the same version, so they exchange their own messages directly (`peers.py`). The first bytes of
a connection distinguish nodes from clients.
"""
