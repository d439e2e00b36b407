"""Frames and messages as bytes: Kafka's protocol with clients, a compact one between nodes.

Clients speak Kafka's protocol in whichever version they like (`apis.py` has the list). Nodes of one
cluster are of one version, so they send their own messages as they are (`peers.py`), told apart by
the first bytes of a connection.
"""
