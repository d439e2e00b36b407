"""The brokers, and the machines on which the brokers run.

Modules, in the order in which they may import each other:

- `nodes` defines the names of nodes.
- `protocol` defines the operations of machines and clusters.
- `files` reads Kafka's files.
- `logs`, `log_tail` and `replica_rows` pass the contents of files to the faults, and to the checks
  that judge a live run.
- `sessions` computes how long the cluster may take to notice an ended or lagging broker.
- `hosts` connects to machines.
- `reference` is a small Kafka written for Logquake.
- `kafka` runs both Apache Kafka and the reference Kafka.
- `systems` is the interface through which a run knows the system under test.

The package may import `results`. The packages `nemesis` and `harness` import `cluster`;
`checkers.spark` imports `cluster.files`.
"""
