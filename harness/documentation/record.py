"""Write the page of the record's tables: their columns, types and units."""

import pyarrow as pa

from harness.documentation.markdown_tables import code, table
from results.record import descriptions
from results.record.tables import LIVE, SCHEMA_VERSION, TABLES

_TOP = f"""\
# Tables of the record

Each run has these tables as `record/*.parquet`, version {SCHEMA_VERSION} of the schema. A time is
in nanoseconds of the run's own clock, which no fault shifts. A table is absent if the run has no
rows for it. [The record](../internals/results-record.md) lists the other files of a run.
"""
_UNITS = {"_ns": "nanoseconds", "_s": "seconds", "_ms": "milliseconds", "_bytes": "bytes"}
_STREAMS = """\
## Live streams

During a run, each process writes streams to `record/live/`. These differ from the
tables: the invocation of an operation is one row, and the completion is another row.
"""


def page() -> str:
    """Return the page of all tables, and of the streams that have no table."""
    parts = [_TOP, *(_section(name, schema, "##") for name, schema in TABLES.items()), _STREAMS]
    parts += (_section(name, schema, "###") for name, schema in LIVE.items() if name not in TABLES)
    return "\n".join(parts)


def _section(name: str, schema: pa.Schema, level: str) -> str:
    rows = (
        (code(each.name), code(each.type), unit(each.name), text(name, each.name))
        for each in schema
    )
    columns = table(("Column", "Type", "Unit", "What it is"), rows)
    return f"{level} `{name}`\n\n{descriptions.TABLES.get(name, '')}\n\n{columns}"


def text(table_name: str, column: str) -> str:
    """Return a column's description. It lists the column's possible terms if these are fixed."""
    described = descriptions.column_description(table_name, column)
    terms = ", ".join(map(code, descriptions.terms_of(table_name, column)))
    return f"{described} One of {terms}." if terms and described else described


def unit(column: str) -> str:
    """Return the unit at the end of a column's name; an empty string if the name has no unit."""
    return next((said for end, said in _UNITS.items() if column.endswith(end)), "")
