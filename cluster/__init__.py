"""The brokers and the machines that they run on.

`nodes` has the names of nodes, `files` reads Kafka's files, `hosts` reaches machines, `reference`
is a small Kafka of our own, and `kafka` runs both Apache Kafka and that one; each may import those
before it. May import `results`; is imported by `nemesis` and `harness` (and `cluster.files` by
`checkers.spark`).
"""
