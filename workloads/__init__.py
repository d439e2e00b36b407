"""The clients of a run, which execute ops on the cluster and record these ops.

A workload is a pure generator (`log.py`, `txn.py`, `groups.py`). The generator gets the time, the
phase and the observations, and returns the next op for a free process. The other modules execute
and record ops:

- `allotment.py` assigns numbers (values) to messages, and `assigning.py` assigns partitions to
  readers.
- `worker.py` is an operating system process. It executes the ops of many logical processes
  (`crew.py`) on the recording clients of `clients/`, and writes the live streams (`recorder.py`).
- `aside.py` runs calls that wait for a coordinator, such as transactions, in separate tasks.
- `fleet.py` starts, controls and counts the workers. The harness uses it.
- `final_reads.py` reads every partition to its end when the workers have stopped.

Only `harness` and `benchmarks` import this package. This package imports only `results.record` of
Logquake, because clients know only the bootstrap addresses of a cluster. Only `clients/` uses
confluent_kafka.

To add a workload, write a new module with a generator (`Generator` in `protocol.py`) and a
`WORKLOAD`, and write a test in `tests/workloads`. Add a line to `registry.WORKLOADS`. A new kind of
op needs more changes.
"""
