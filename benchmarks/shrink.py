"""Makes a small sample run from a stored run: `python -m benchmarks.shrink RUN NAME`.

The sample keeps the files that `check` reads: plan, milestones, topics, the record's tables, and
statistics. A scripted run also keeps its steps, with the checkpoint files at each step. Live
streams and segment files are left out, because the tables have their content. Data that identifies
the machine is removed, too: its name and its folders.
"""

import argparse
import json
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from results import samples
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.seal import seal
from results.store import Store

_TEXTS = (
    "plan.toml", "milestones.jsonl", "topics.json", "ledger.jsonl", "record/ingest.json",
    "steps.jsonl", "scenario.json",
)  # fmt: skip
_SMALL_FILE_BYTES = 64_000
_NODE_FILES = re.compile(
    r"(leader-epoch|replication-offset|recovery-point-offset|log-start-offset)-checkpoint"
    r"|quorum-state|server\.properties"
)
_INTERNAL = "__consumer_offsets-"
_BY_PLACE = ("topic", "partition", "offset", "value", "node")
_BY_PROCESS = ("process", "op_id", "mop", "pos")
_ZSTD_LEVEL = 19
_PRIVATE_KEYS = ("doctor", "java", "platform")


_Strings: TypeAlias = "pa.ChunkedArray[pa.StringScalar]"


@dataclass(frozen=True, slots=True)
class _Scrubber:
    """Replaces text that identifies the machine, by regular expressions in this order."""

    patterns: tuple[tuple[str, str], ...]

    def text(self, text: str) -> str:
        for pattern, instead in self.patterns:
            text = re.sub(pattern, instead.replace("\\", r"\\"), text)
        return text

    def column(self, column: "_Strings") -> "_Strings":
        for pattern, instead in self.patterns:
            column = pc.replace_substring_regex(column, pattern, instead)
        return column


def shrink_run(paths: RunPaths, target: Path) -> RunPaths:
    """Copy a run to a new folder, as small as `check` allows.

    Args:
        paths: The stored and judged run.
        target: The sample's folder. Its last two names become the run's id.

    Raises:
        StoreError: The run has no verdict, or the target exists already.
    """
    if not paths.verdict.exists():
        raise StoreError(f"the run {paths.run_id} has no verdict; judge it: logquake check")
    if target.exists():
        raise StoreError(f"{target} is there already; remove it first")
    target.mkdir(parents=True)
    sample = RunPaths(target.absolute())
    scrubber = _scrubber(paths, sample)
    for name in (*_TEXTS, "verdict.json"):
        _copy_text(paths.root / name, sample.root / name, scrubber)
    _copy_environment(paths, sample, scrubber)
    for folder in ("record", "statistics"):
        _copy_tables(paths.root / folder, sample.root / folder, scrubber, run_id=sample.run_id)
    _seal(sample.record)
    _copy_nodes(paths.nodes, sample.nodes, scrubber)
    _copy_nodes(paths.snapshots, sample.snapshots, scrubber)
    return sample


def _seal(record: Path) -> None:
    """Update the seals (checksums) of the rewritten tables in the notes of ingest."""
    notes = record / "ingest.json"
    if notes.exists():
        seals = {path.stem: seal(path) for path in sorted(record.glob("*.parquet"))}
        values = {**json.loads(notes.read_text(encoding="utf-8")), "seals": seals}
        notes.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Make a sample in the folder of samples. Return 254 if that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", help="folder, id, or latest")
    parser.add_argument("name", help="of the sample, such as loss-acks-1")
    parser.add_argument("--store", type=Path, default=Path("runs"))
    parser.add_argument("--samples", type=Path, default=_samples())
    arguments = parser.parse_args(argv)
    try:
        run = Store(arguments.store).find(arguments.run)
        sample = shrink_run(run, arguments.samples / arguments.name)
    except StoreError as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 254
    files = [path for path in sample.root.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    sys.stdout.write(f"{sample.root}: {len(files)} files, {size:,} bytes\n")
    return 0


def _scrubber(paths: RunPaths, sample: RunPaths) -> _Scrubber:
    # The run may have been moved, so match its folder by the end of the path only.
    inside = r"""[^\s"'=,]*/""" + re.escape(paths.run_id)
    words = {str(Path.cwd()): ".", str(Path.home()): "~"}
    if len(platform.node()) > 2:  # noqa: PLR2004 - a name this short occurs inside of words
        words[platform.node()] = "machine"
    longest_first = sorted(words.items(), key=lambda each: -len(each[0]))
    return _Scrubber(
        (
            (inside, "RUN"),
            (re.escape(paths.run_id), sample.run_id),
            *((re.escape(word), instead) for word, instead in longest_first),
        )
    )


def _copy_text(source: Path, target: Path, scrubber: _Scrubber) -> None:
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8", errors="replace")
        target.write_text(scrubber.text(text), encoding="utf-8")


def _copy_environment(paths: RunPaths, sample: RunPaths, scrubber: _Scrubber) -> None:
    if not paths.environment.exists():
        return
    values = json.loads(paths.environment.read_text(encoding="utf-8"))
    kept = {key: value for key, value in values.items() if key not in _PRIVATE_KEYS}
    text = json.dumps(kept, indent=1, sort_keys=True) + "\n"
    sample.environment.write_text(scrubber.text(text), encoding="utf-8")


def _copy_tables(source: Path, target: Path, scrubber: _Scrubber, *, run_id: str) -> None:
    for path in sorted(source.glob("*.parquet")):
        target.mkdir(exist_ok=True)
        table = pq.read_table(path, partitioning=None)
        for number, field in enumerate(table.schema):
            if field.name == "run_id":
                ids = pa.array([run_id] * table.num_rows, type=field.type)
                table = table.set_column(number, field, ids)
            elif pa.types.is_string(field.type):
                table = table.set_column(number, field, scrubber.column(table[field.name]))
        _write_small(table, target / path.name)


def _samples() -> Path:
    return Path(str(samples.__file__)).resolve().parent


def _write_small(table: pa.Table, path: Path) -> None:
    """Write a table in the smallest form. The order of rows may change, as with Spark."""
    order = _BY_PROCESS if "pos" in table.column_names else (*_BY_PLACE, "op_id")
    keys: list[tuple[str, Literal["ascending", "descending"]]] = [
        (name, "ascending") for name in order if name in table.column_names
    ]
    ordered = table.sort_by(keys) if keys else table
    whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    other = [name for name in table.column_names if name not in whole]
    # Offsets, values and times rise in small steps. For others a dictionary is smaller.
    deltas = _parquet(
        ordered, use_dictionary=other, column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED")
    )
    path.write_bytes(min(deltas, _parquet(ordered, use_dictionary=True), key=len))


def _parquet(table: pa.Table, **encoding: Any) -> bytes:  # noqa: ANN401 - pyarrow's options
    sink = pa.BufferOutputStream()
    # With checksums, a flipped bit is detected instead of changing a value.
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        write_page_checksum=True,
        **encoding,
    )
    return sink.getvalue().to_pybytes()


def _copy_nodes(folder: Path, target: Path, scrubber: _Scrubber) -> None:
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        wanted = _NODE_FILES.fullmatch(path.name) and not path.parent.name.startswith(_INTERNAL)
        if wanted and path.is_file() and path.stat().st_size <= _SMALL_FILE_BYTES:
            _copy_text(path, target / path.relative_to(folder), scrubber)


if __name__ == "__main__":
    sys.exit(main())
