"""The brokers and the machines that they run on.

`files` reads Kafka's files, `hosts` reaches machines, `kafka` runs real Apache Kafka. May import
`results`; is imported by `nemesis` and `harness` (and `cluster.files` by `checkers.spark`).
"""
