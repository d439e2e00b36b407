"""The page of a record's tables: their columns, types and units."""

import pyarrow as pa

from harness.documentation.markdown_tables import code, table
from results.record.tables import LIVE, SCHEMA_VERSION, TABLES

_TOP = f"""\
# Tables of the record

Each run has these tables as `record/*.parquet`, version {SCHEMA_VERSION} of the schema. A time is
in nanoseconds of the run's own clock, which no fault shifts. A table is absent if the run has no
row of it. [The record](../internals/results-record.md) lists the other files of a run.
"""
ABOUT = {
    "ops": "One row for each operation of a client.",
    "sends": "One row for each message that an operation sent.",
    "polls": "One row for each message that an operation read.",
    "arrivals": "What the plan's rate offered in each 100 ms, and what found no free process.",
    "availability": "The number of sends to each partition, and of successful sends, in each time"
    " window.",
    "assignments": "The partitions that a consumer was assigned or lost, and its seeks.",
    "commits": "One row for each commit of a group's position.",
    "transactions": "One row for each transaction, with its decision and its outcome.",
    "final_reads": "The end of each final read of a partition.",
    "reservations": "The values that each worker may write.",
    "faults": "One row for each fault: when it was requested, confirmed and healed, and what was"
    " measured.",
    "leadership": "The leaders of partitions, as brokers reported them to observers.",
    "replica_records": "Every record in the log of every replica, read from the brokers' files.",
    "replica_states": "The start and end of each replica's log, and its high watermark.",
    "truncations": "Each truncation of a replica's log.",
    "quorum_states": "The states of each voter of the controllers' quorum, as it reported them.",
    "kept_commits": "Positions of groups, read from the brokers' files.",
    "transforms": "The input and the output records of a pipeline.",
    "shared": "The deliveries and acknowledgements of each record of a share group.",
    "op_invocations": "The beginning of each operation.",
    "op_completions": "The end of each operation.",
    "send_invocations": "Each message, before it was handed to the producer.",
    "send_completions": "The result of each message.",
    "polled": "Each message, when it was read.",
}
"""What each table and each stream holds."""
_UNITS = {"_ns": "nanoseconds", "_s": "seconds", "_ms": "milliseconds", "_bytes": "bytes"}
_STREAMS = """\
## Live streams

During a run, each process writes streams to `record/live/`. These differ from the
tables: an operation's invocation and its completion are rows of their own.
"""


def page() -> str:
    """Return the page of all tables, and of the streams that are no tables."""
    parts = [_TOP, *(_section(name, schema, "##") for name, schema in TABLES.items()), _STREAMS]
    parts += (_section(name, schema, "###") for name, schema in LIVE.items() if name not in TABLES)
    return "\n".join(parts)


def _section(name: str, schema: pa.Schema, level: str) -> str:
    rows = ((code(each.name), code(each.type), unit(each.name)) for each in schema)
    return f"{level} `{name}`\n\n{ABOUT[name]}\n\n{table(('Column', 'Type', 'Unit'), rows)}"


def unit(column: str) -> str:
    """Return the unit of a column, which the end of its name says; empty: it has none."""
    return next((said for end, said in _UNITS.items() if column.endswith(end)), "")
