"""Hosts that are Docker containers; only this package talks to the Docker daemon.

- `hosts`: the class of this kind of hosts.
- `containers`: makes the containers and the network.
- `objects`: names, lists and removes these objects by their labels.
- `image`: checks the contents of an image.
- `daemon`: finds the daemon, and turns the daemon's refusals into sentences.
- `line`: a separate program that keeps a node's container alive until the harness ends.

`cluster.hosts.choose`, `examine` and `heal` import this package. The package `harness` imports this
package, too.
"""
