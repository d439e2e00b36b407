"""Hosts that are Docker containers: the only place that talks to a daemon.

`hosts` is the kind itself; `containers` makes its containers and network, `objects` names, lists
and removes them by their labels, `image` tries what an image has, `daemon` finds the daemon and
puts its refusals into sentences, `line` is a program of its own that keeps a node's container alive
for as long as its harness lives.

Imported by `cluster.hosts.choose`, `examine` and `heal`, and by `harness`.
"""
