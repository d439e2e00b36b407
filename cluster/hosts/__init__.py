"""Connect to the machines of a run, and leave nothing of the run on these machines.

A module or a package implements each kind of hosts:

- `namespace`: each node has its own network namespace and address. `links` makes the network
  between the nodes, and `cuts` can cut this network.
- `process`: all nodes share this machine's loopback; this works on any Unix.
- `docker`: the nodes are containers. The class is in `docker.hosts`.
- `ssh`: the nodes are other machines. The class is in `ssh.hosts`.

Other modules work for all kinds. `examine` tests which kinds work on this machine, and `choose`
takes the best kind. `signals` sends signals only to processes of the run. `ledger` records the
processes that were started. `leftovers` kills processes of a dead run that still exist.

Every machine has its own init, the `agent`. The agent is a small program that starts the node's
processes. When the harness ends for any reason, the agent kills all these processes. Namespaces
have no names. A namespace vanishes with its last process, so nothing must be removed from the file
system.

This package may import `cluster.protocol`, `cluster.files` and `results.record`. `cluster.kafka`,
`cluster.reference`, `nemesis` and `harness` import `cluster.hosts`. This module imports nothing, so
that an agent starts in a few hundredths of a second.

To add a kind, write a module with a class that satisfies `Hosts` (and `CanPartition` if it can cut
links). Add a member to `cluster.hosts.choose.HostKind`, and a line for it to `make_hosts`. The
conformance tests are in `tests/cluster_hosts/test_hosts_conformance.py`. These tests run once in
each room. Rooms are test environments, which the `conftest.py` in that folder defines. Add a room
for the new kind.
"""
