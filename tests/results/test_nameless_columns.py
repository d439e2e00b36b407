"""A flipped bit in the name of a column, as the end of a Parquet file has it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.record.parquet import open_parquet
from results.record.reading import UnsafeFileError


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record" / "table.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"offset_of": [1, 2, 3]}), path, store_schema=False)
    data = path.read_bytes()
    at = data.rindex(b"offset_of")
    path.write_bytes(data[:at] + b"\xef" + data[at + 1 :])
    with pytest.raises(UnsafeFileError, match="with invalid column names"):
        open_parquet(path)
