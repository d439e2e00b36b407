"""The evidence for bugs of Kafka's transaction coordinator.

`benchmarks.mechanisms` explains what a rule is.
"""

import re

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.node_logs import Logs, place_of
from results.record.verdict import Example

_UNENDED = re.compile(r"(?:in (\S+), where the record was read, )?no marker ends its transaction")


def skips_a_marker(example: Example, logs: Logs) -> bool:
    """Return whether a coordinator sent no marker to a partition, because it took it for deleted.

    The logs have no marker of the transaction in this partition. The next transaction of the same
    producer ended the record.
    """
    found = _UNENDED.search(example.cause)
    writer = example.evidence.get("writer", example.evidence.get("op_id"))
    if not found or not isinstance(writer, int):
        return False
    place = re.escape(found[1] or place_of(example))
    sends = pq.read_table(
        logs.run.table("sends"), columns=["transactional_id"], filters=pc.field("op_id") == writer
    )
    clients = {re.escape(each) for each in sends["transactional_id"].to_pylist() if each}
    return any(
        re.search(
            rf"Couldn't find leader endpoint for partitions \w+\((?:[^)\n]*[ ,])?{place}[,)]"
            rf"[^\n]*while trying to send transaction markers for {client}, these partitions are"
            " likely deleted already",
            logs.of(node),
        )
        for client in clients
        for node in logs.nodes
    )
