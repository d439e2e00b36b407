"""The workloads by name. To add a workload, write a module and a test, and extend `WORKLOADS`."""

from collections.abc import Mapping

from workloads import groups, keyed, log, pipeline, shares, surge, txn
from workloads.protocol import Workload

WORKLOADS: Mapping[str, Workload] = {
    "log": log.WORKLOAD,
    "txn": txn.WORKLOAD,
    "groups": groups.WORKLOAD,
    "pipeline": pipeline.WORKLOAD,
    "shares": shares.WORKLOAD,
    "surge": surge.WORKLOAD,
    "keyed": keyed.WORKLOAD,
}
