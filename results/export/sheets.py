"""Export a run as CSV files for spreadsheets and data frames: one file per table, with a header.

If a text begins like a formula (`=`, `+`, `-`, `@`, a tab, a carriage return), the export puts an
apostrophe before it. A spreadsheet then shows the text and does not compute it. OWASP's "CSV
Injection" describes this rule. A missing value is an empty cell. Times are nanoseconds since the
run's start. An integer has up to 64 bits, but a spreadsheet keeps only 53. Import such columns as
text if you need all digits.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from results.record.atomic import StoreError
from results.record.parquet import as_texts, open_parquet
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.whole import written_whole
from results.verdict_json import read_verdict

SHEETS = ("ops", "sends", "polls", "transactions", "faults", "truncations", "leadership")
"""The tables of the record that are exported. The anomalies of the verdict go into
`anomalies.csv`."""
_FORMULA = "^([=+\\-@\t\r])"
_AT_ONCE = 1 << 16
_LISTED = "; "
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("run_id", pa.string()), ("anomaly", pa.string()), ("class", pa.string()),
    ("allowed", pa.bool_()), ("trusted", pa.bool_()), ("why", pa.string()),
    ("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int64()),
    ("offset", pa.int64()), ("sentence", pa.string()), ("evidence", pa.string()),
]  # fmt: skip
_ANOMALIES = pa.schema(_COLUMNS)


def write_sheets(paths: RunPaths, folder: Path) -> list[Path]:
    """Write the tables of a run as CSV files. If a table is missing, its file has no rows.

    Args:
        paths: The run.
        folder: The folder for the files. It is created if it does not exist.

    Returns:
        The written files.

    Raises:
        StoreError: A table is damaged, or a file cannot be written.
    """
    files = [_write(folder / f"{name}.csv", TABLES[name], _rows(paths, name)) for name in SHEETS]
    anomalies = pa.Table.from_pylist(list(_anomalies(paths)), schema=_ANOMALIES)
    return [*files, _write(folder / "anomalies.csv", _ANOMALIES, iter([anomalies]))]


def _write(target: Path, schema: pa.Schema, parts: Iterator[pa.Table]) -> Path:
    with written_whole(target) as file, pa.csv.CSVWriter(file, _plain(schema)) as writer:
        for part in parts:
            writer.write_table(safe(part))
    return target


def _rows(paths: RunPaths, name: str) -> Iterator[pa.Table]:
    path = paths.table(name)
    if not path.exists():
        return
    try:
        with open_parquet(path) as opened:
            there = set(pq.read_schema(opened).names)
            texts = [each.name for each in TABLES[name] if pa.types.is_string(each.type)]
            words = [each for each in texts if each in there]
            for batch in pq.ParquetFile(opened, read_dictionary=words).iter_batches(_AT_ONCE):
                part = as_texts(pa.Table.from_batches([batch]))
                absent = [each for each in TABLES[name] if each.name not in part.column_names]
                for each in absent:  # The column is missing in old records.
                    part = part.append_column(each, pa.nulls(part.num_rows, each.type))
                yield part.select(TABLES[name].names).cast(TABLES[name])
    except (OSError, ValueError, pa.ArrowException) as damaged:
        raise StoreError(
            f"the table {path} cannot be read ({damaged}); recreate it with `logquake check`"
        ) from damaged


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which list columns are text columns, because CSV has no lists."""
    lists = {each.name for each in schema if pa.types.is_list(each.type)}
    return pa.schema(
        [pa.field(each.name, pa.string()) if each.name in lists else each for each in schema]
    )


def safe(table: pa.Table) -> pa.Table:
    """Return a table that is safe in a spreadsheet: with lists as text, and without formulas."""
    columns = []
    for field in table.schema:
        column: Any = table[field.name]
        if pa.types.is_list(field.type):
            texts = [None if each is None else _LISTED.join(map(str, each))
                     for each in column.to_pylist()]  # fmt: skip
            column = pa.chunked_array([pa.array(texts, pa.string())])
        if pa.types.is_string(column.type):
            column = pc.replace_substring_regex(column, _FORMULA, "'\\1")
        columns.append(column)
    return pa.table(columns, schema=_plain(table.schema))


def _anomalies(paths: RunPaths) -> Iterator[Mapping[str, object]]:
    verdict = read_verdict(paths.verdict)
    for name, summary in verdict.anomalies.items() if verdict else ():
        for each in summary.examples:
            yield {
                "run_id": verdict.run_id if verdict else "",
                "anomaly": name, "class": summary.anomaly_class.value, "allowed": each.allowed,
                "trusted": each.trusted, "why": each.why, "topic": each.topic,
                "topic_id": each.topic_id, "partition": each.partition, "offset": each.offset,
                "sentence": each.sentence, "evidence": json.dumps(each.evidence, sort_keys=True),
            }  # fmt: skip
