"""The clients of a run: they execute ops on the cluster, and record them.

A workload is a pure generator (`log.py`, `txn.py`, `groups.py`). The generator gets the time, the
phase and the observations, and returns the next op for a free process. The other modules execute
and record ops:

- `allotment.py` assigns numbers (values) to messages, and `assigning.py` assigns partitions to
  readers.
- `worker.py` is an operating system process. It executes the ops of many logical processes
  (`crew.py`) on the recording clients of `clients/`, and writes the live streams (`recorder.py`).
- `aside.py` runs calls that wait for a coordinator, such as transactions, in separate tasks.
- `fleet.py` starts, controls and counts the workers for the harness.
- `final_reads.py` reads every partition to its end when the workers have stopped.

Only `harness` and `benchmarks` import this package. From Logquake it imports only `results.record`:
clients know a cluster only by its bootstrap addresses. Only `clients/` uses confluent_kafka.

To add a workload, write its generator (`Generator` in `protocol.py`) and its `WORKLOAD` in a new
module, and its test in `tests/workloads`. Add a line to `registry.WORKLOADS`. A new kind of op
needs more changes.
"""
