"""The brokers and the machines that they run on.

`nodes` has the names of nodes, `protocol` what machines and clusters can do, `files` reads Kafka's
files. `logs`, `log_tail` and `replica_rows` hand them to faults and to looks at a run that goes on;
`sessions` has how long brokers hide an end. `hosts` reaches machines, `reference` is a small Kafka
of our own, `kafka` runs both Apache Kafka and that one, and `systems` is the seam by which runs
know what stands under test. Each may import those before it. May import `results`; is imported by
`nemesis` and `harness` (and `cluster.files` by `checkers.spark`).
"""
