"""Hosts that are Docker containers; only this package talks to the Docker daemon.

- `hosts`: the class of this kind of hosts.
- `containers`: makes its containers and its network.
- `objects`: names, lists and removes these objects by their labels.
- `image`: checks the contents of an image.
- `daemon`: finds the daemon, and explains its refusals in sentences.
- `line`: a separate program that keeps a node's container alive as long as the harness lives.

`cluster.hosts.choose`, `examine` and `heal` import this package, as does `harness`.
"""
