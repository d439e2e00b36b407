"""What clients do, and how it is recorded.

A workload is a pure generator (`log.py`, `txn.py`, `groups.py`): from the time, the phase and what
was observed it gives the next op for a process that is free. `allotment.py` deals the values and
`assigning.py` the partitions. `worker.py` is an operating system process that carries the ops of
many logical processes out (`crew.py`), on the recording clients of `clients/`, and writes the live
streams (`recorder.py`); what waits for a coordinator, as transactions do, is done `aside`;
`fleet.py` is how the controlling side starts, steers and counts the workers; `final_reads.py` reads
every partition to its end once the workers have stopped.

Only `harness` and `benchmarks` import this package. It imports `results.record` and nothing else of
ours: clients know a cluster by its bootstrap addresses alone. confluent_kafka stays in `clients/`.

To add a workload: write its generator (`Generator` in `protocol.py`) and its `WORKLOAD` in a module
of its own, its test beside those of `tests/workloads`, and a line in `registry.WORKLOADS`. Ops
of a new kind take more.
"""
