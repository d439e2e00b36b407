"""How to reach the machines of a run, and how to leave none of it behind.

One file a kind of host: `namespace` (each node has a network namespace and an address of its own;
the network between them, made by `links`, can be cut by `cuts`) and `process` (all nodes share this
machine's loopback; any Unix); or a package, `docker` (containers) and `ssh` (other machines), whose
class is in `hosts`. `examine` tries what works here and `choose` takes the best of it,
`signals` hits processes and never a stranger's, `ledger` writes down what was started, `leftovers`
ends what a dead run left.

Every machine has an init of its own, the `agent`: a small program that starts the node's processes,
and kills them all as soon as the harness has gone, however it went. Namespaces have no names and
vanish with their last process, so that nothing has to be removed from the file system.

May import `cluster.protocol`, `cluster.files` and `results.record`; is imported by `cluster.kafka`,
`cluster.reference`, `nemesis` and `harness`. This module imports nothing, so that an agent starts
in a few hundredths of a second.

To add a kind: a module with a class that satisfies `Hosts` (and `CanPartition` if it can), one
member in `cluster.hosts.choose.HostKind` with its line in `make_hosts`. The conformance tests,
`tests/cluster_hosts/test_hosts_conformance.py`, run in each room of the `conftest.py` beside them:
give the new kind one.
"""
