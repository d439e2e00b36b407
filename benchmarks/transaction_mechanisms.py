"""The evidence for bugs of Kafka's transaction coordinator.

`benchmarks.mechanisms` explains what a rule is.
"""

import re

import pyarrow.parquet as pq

from benchmarks.node_logs import Logs, began_s, logged_s, place_of
from checkers.columns import NEVER
from results.record.clock import NS_PER_S
from results.record.verdict import Example

_COLUMNS = ("op_id", "transactional_id", "topic", "partition", "invoke_ns", "acked")
_UNENDED = re.compile(
    r"(?:in (\S+?)(?:, where the record was read,)? )?no marker ends its transaction"
)
_HANGS = re.compile(
    r"no marker for the transaction of op (\d+) [^:]*: its coordinator, (.*) did not write one"
)
_SILENT = re.compile(r"(n\d+), leader of __transaction_state-\d+ in epoch \d+, sent no marker")


def skips_a_marker(example: Example, logs: Logs) -> bool:
    """Return whether a coordinator sent no marker to a partition, because it took it for deleted.

    The logs have no marker of the transaction in this partition. So the transaction stays open, or
    the next transaction of the same producer ends the record. The coordinator skipped the marker
    after the transaction's send, and before the next acknowledged send of the same client to this
    partition.
    """
    found, silent = _UNENDED.search(example.cause), _SILENT.search(example.cause)
    hangs = _HANGS.search(example.cause)
    writer = example.evidence.get("writer", example.evidence.get("op_id"))
    if hangs:
        writer = int(hangs[1])
    if not (found or hangs) or not isinstance(writer, int):
        return False
    place = (found and found[1]) or place_of(example)
    sends = pq.read_table(logs.run.table("sends"), columns=[*_COLUMNS]).to_pylist()
    there = [each for each in sends if f"{each['topic']}-{each['partition']}" == place]
    began = [each for each in there if each["op_id"] == writer and each["transactional_id"]]
    if not began:
        return False
    client, sent_ns = began[0]["transactional_id"], began[0]["invoke_ns"]
    acked = (each for each in there if each["acked"])
    later = (each["invoke_ns"] for each in acked if each["transactional_id"] == client)
    next_ns = min((each for each in later if each > sent_ns), default=NEVER)
    skipped = (
        rf"Couldn't find leader endpoint for partitions \w+\((?:[^)\n]*[ ,])?{re.escape(place)}[,)]"
        rf"[^\n]*while trying to send transaction markers for {re.escape(client)}, these partitions"
        " are likely deleted already"
    )
    start_s = began_s(logs)
    return any(
        sent_ns <= (at_s - start_s) * NS_PER_S <= next_ns
        for node in logs.nodes
        if not silent or silent[1] == node
        if not hangs or re.search(rf"\b{node}\b", hangs[2])
        for at_s in logged_s(skipped, logs.of(node))
    )
