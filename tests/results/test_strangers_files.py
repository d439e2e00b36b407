"""Files of a run that anybody may have written: links, pipes, deep nesting, bombs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.layout import TableFile
from cluster.files.damage import Problem
from cluster.files.node_files import NodeFiles
from results.environment import read_environment
from results.nights import read_night
from results.page.broker_logs import _lines
from results.page.holdings import unread_nodes
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s
from results.record.hidden import plan_without_secrets
from results.record.milestones import load_milestones
from results.record.parquet import open_parquet
from results.record.paths import RunPaths
from results.record.plan import PlanError, load_plan
from results.record.reading import MAX_BYTES, UnsafeFileError, open_file, read_bytes
from results.record.steps import load_steps
from results.record.story import load_story
from results.record.stream import StreamTail, read_stream, read_whole
from results.record.tables import LIVE, TABLES
from results.record.thrift import page_header
from results.record.topics import load_topics
from results.site.tallies import Tallies
from results.tables import RunTables, read_table
from results.verdict_json import read_verdict

LIMIT_S = 20
READERS: dict[str, Callable[[Path], object]] = {
    "plan": load_plan,
    "milestones": load_milestones,
    "steps": load_steps,
    "topics": load_topics,
    "story": load_story,
    "verdict": read_verdict,
    "night": read_night,
    "environment": read_environment,
    "bytes": read_bytes,
}
REFUSED = (UnsafeFileError, StoreError, PlanError)


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return READERS[request.param]


def test_8_a_link_is_not_followed(reader: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("secret = 1\n")
    (tmp_path / "file").symlink_to("elsewhere")
    with pytest.raises(REFUSED, match=r"symbolic link.*remove it"):
        reader(tmp_path / "file")


def test_links_in_a_circle_are_refused(reader: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("file")
    with pytest.raises(REFUSED, match="symbolic link"):
        reader(tmp_path / "file")


@pytest.mark.timeout(LIMIT_S)
def test_18_a_pipe_keeps_nobody_waiting(reader: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(REFUSED, match="named pipe"):
        reader(tmp_path / "file")


def test_a_file_without_an_end_is_refused(reader: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, 1 << 40)
    with pytest.raises(REFUSED, match="larger than"):
        reader(file)


def test_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeFileError, match="a folder"):
        open_file(tmp_path)
    with pytest.raises(UnsafeFileError, match="a device"):
        open_file(Path("/dev/zero"))


def test_a_file_of_just_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * MAX_BYTES)
    assert len(read_bytes(tmp_path / "file")) == MAX_BYTES


@pytest.mark.parametrize("name", ["verdict", "environment", "night", "story", "topics"])
def test_deep_nesting_is_one_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises((StoreError, ValueError)) as refused:
        READERS[name](file)
    assert not isinstance(refused.value, RecursionError)


def test_a_user_s_own_plan_may_be_a_link_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("seed = 7\n")
    (tmp_path / "plan.toml").symlink_to("real.toml")
    assert load_plan(tmp_path / "plan.toml", own=True) == {"seed": 7}


SLOW = {
    "one long key": ".".join("a" * 14_000) + "=1\n",
    "a long key among others": "name = 'log'\n" + ".".join("a" * 40_000) + " = 1\nseed = 7\n",
    "quoted parts": " . ".join(['"="'] * 14_000) + "=1\n",
    "long tables": "[" + ".".join("a" * 14_000) + "]\n",
    "in a table of its own line": "x = {" + ".".join("a" * 14_000) + " = 1}\n",
    "much of all": "".join(f"k{number}=1\n" for number in range(40_000)),
}


@pytest.mark.parametrize("what", SLOW)
def test_a_plan_that_takes_long_to_parse_is_refused_at_once(what: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SLOW[what])
    begun_s = stopwatch_s()
    for own in (False, True):
        with pytest.raises(PlanError, match=r"more than 32 dots|(longer|larger) than 256 KiB"):
            load_plan(plan, own=own)
    assert plan_without_secrets(f"# password\n{SLOW[what]}").startswith("# (hidden)")
    assert stopwatch_s() - begun_s < 2


@pytest.mark.parametrize("text", [
    "[" + ".".join("a" * 32) + "]\n" + "".join(f"k{number}=1\n" for number in range(28_000)),
    "".join(".".join("a" * 31) + f".k{number}=1\n" for number in range(3_500)),
], ids=["keys of a deep table", "deep keys"])  # fmt: skip
def test_the_slowest_plans_that_are_parsed_take_seconds(text: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    begun_s = stopwatch_s()
    load_plan(plan)
    assert stopwatch_s() - begun_s < 10


def test_a_comment_may_have_dots(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f"seed = 7\n  # {'.' * 80}\nrate = 1.5 # {'.' * 30}\n")
    assert load_plan(plan) == {"seed": 7, "rate": 1.5}


def rows_of(count: int) -> pa.Table:
    """Return rows of arrivals, all alike."""
    columns = [
        pa.array(["x" if pa.types.is_string(field.type) else 1], field.type).take(
            pa.array(np.zeros(count, np.int64))
        )
        for field in TABLES["arrivals"]
    ]
    return pa.table(columns, schema=TABLES["arrivals"])


def rows_without_end(path: Path) -> None:
    part = rows_of(1 << 20)
    with pq.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(24):
            writer.write_table(part)


def page_without_end(path: Path) -> None:
    table = rows_of(2)
    long = pa.array(["x" * (80 << 20)] * 2, pa.string())
    table = table.set_column(0, table.schema.field(0), long)
    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def text_in_every_row(path: Path) -> None:
    table = rows_of(90_000)
    # Coded, so that what writes it has no bomb in its own memory.
    long = pa.DictionaryArray.from_arrays(np.zeros(90_000, np.int32), pa.array(["x" * 8192]))
    table = table.set_column(0, pa.field(table.schema.names[0], long.type), long)
    pq.write_table(table, path, compression="zstd", store_schema=False)


def another_codec(path: Path) -> None:
    pq.write_table(rows_of(3), path, compression="brotli")


def zeros_in_between(path: Path) -> None:
    """Take no room in an archive, and none on a disk as a hole."""
    rows_without_end(path)
    data = path.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    with path.open("wb") as file:
        file.write(data[:end])
        file.seek(60 << 20)
        file.write(data[end:])


def size_told_twice(path: Path) -> None:
    """The true one, and then one of a type that Arrow skips."""
    table = pa.table({"op_id": pa.array(["x" * (80 << 20)])})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    data = path.read_bytes()
    column = pq.read_metadata(path).row_group(0).column(0)
    at = column.data_page_offset
    header = page_header(data[at : at + 64])
    behind = at + header.header_bytes
    small = bytes([0x06, 0x04, 0xD0, 0x0F])  # A field of type i64, its number 2, its value 1000.
    disguised = data[at : behind - 1] + small + b"\0"
    foot = -8 - int.from_bytes(data[-8:-4], "little")
    sizes = (column.total_compressed_size, column.total_compressed_size + len(small))
    told, tells = (varint(2 * size) for size in sizes)
    end = data[foot:].replace(told, tells)
    assert len(told) == len(tells)
    path.write_bytes(data[:at] + disguised + data[behind:foot] + end)


def varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


BOMBS = [rows_without_end, page_without_end, text_in_every_row, another_codec, zeros_in_between,
         size_told_twice]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_15_to_17_a_bomb_of_parquet_is_refused_before_it_is_decoded(
    bomb: Callable[[Path], None], tmp_path: Path
) -> None:
    paths = RunPaths(tmp_path)
    paths.record.mkdir()
    bomb(paths.table("arrivals"))
    assert paths.table("arrivals").stat().st_blocks * 512 < 1 << 20
    before = pa.total_allocated_bytes()
    with pytest.raises(StoreError, match=r"cannot be read"):
        read_table(paths, "arrivals")
    tables = RunTables(paths)
    assert not tables.record("arrivals").num_rows
    assert tables.unreadable == ["record/arrivals.parquet"]
    assert pa.total_allocated_bytes() - before < 64 << 20


@pytest.mark.parametrize("bomb", [each for each in BOMBS if each is not text_in_every_row])
def test_a_judge_takes_a_bomb_for_a_damaged_table(
    bomb: Callable[[Path], None], tmp_path: Path
) -> None:
    bomb(tmp_path / "arrivals.parquet")
    assert not TableFile("arrivals", tmp_path / "arrivals.parquet").sound


def test_a_table_with_zeros_in_between_is_read(tmp_path: Path) -> None:
    """Only what its columns stand for counts."""
    file = tmp_path / "arrivals.parquet"
    pq.write_table(rows_of(3), file)
    data = file.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    file.write_bytes(data[:end] + bytes(5_000) + data[end:])
    assert TableFile("arrivals", file).sound


HEADER = bytes([0x15, 0x00, 0x15, 0x10, 0x15, 0x10, 0x2C, 0x15, 0x04, 0x00, 0x00])
"""Of a page: its type, unpacked and packed 8 bytes, and as field 5 a structure with 2 values."""


def test_a_header_of_a_page_is_read() -> None:
    page = page_header(HEADER)
    assert (page.unpacked_bytes, page.packed_bytes, page.values) == (8, 8, 2)


@pytest.mark.parametrize("header", [
    HEADER[:-1] + bytes([0x05, 0x04, 0x02, 0x00]),  # A size twice, and less the second time.
    HEADER[:-1] + bytes([0x06, 0x0C, 0x02, 0x00]),  # A whole number of 64 bits.
    HEADER[:-1] + bytes([0x05]) + varint(2 * ((1 << 16) + 2)) + bytes([0x02, 0x00]),
    bytes([0x05, 0x03, 0x02]) + HEADER,  # A field below 0.
    bytes([0x15, 0x00, 0x16, 0x10, *HEADER[4:]]),  # A size of another type.
    bytes([0x15, 0x00, 0x15]) + varint(2 * ((1 << 32) + 8)) + HEADER[4:],  # Cut off, it is 8.
    HEADER[:6] + bytes([0x28, 0x01, 0x61, 0x00]),  # A text where the number of values is.
    HEADER[:7] + bytes([0x16, 0x04, 0x00, 0x00]),  # The number of values is of another type.
])  # fmt: skip
def test_a_header_that_arrow_reads_otherwise_is_refused(header: bytes) -> None:
    with pytest.raises(ValueError, match="the header of a page has"):
        page_header(header)


def test_a_page_ends_in_its_column(tmp_path: Path) -> None:
    """Else the pages behind it would be seen by nobody but Arrow."""
    file = tmp_path / "arrivals.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), file, use_dictionary=False, write_statistics=False,
                   compression="none")  # fmt: skip
    open_parquet(file).close()
    data = file.read_bytes()
    at = pq.read_metadata(file).row_group(0).column(0).data_page_offset
    header = page_header(data[at : at + 64])
    told = bytes([0x15, *varint(2 * header.packed_bytes)])
    longer = bytes([0x15, *varint(2 * header.packed_bytes + 2)])
    place = data.rindex(told, at, at + header.header_bytes)
    assert len(told) == len(longer)
    file.write_bytes(data[:place] + longer + data[place + len(told) :])
    with pytest.raises(UnsafeFileError, match="ends after its column"):
        open_parquet(file)


def test_a_long_text_in_each_row_costs_a_judge_nothing(tmp_path: Path) -> None:
    """It reads words as dictionaries, so that the text is there once."""
    text_in_every_row(tmp_path / "arrivals.parquet")
    name = TABLES["arrivals"].names[0]
    before = pa.total_allocated_bytes()
    column = TableFile("arrivals", tmp_path / "arrivals.parquet").read_columns([name])
    assert column.num_rows == 90_000
    assert pa.total_allocated_bytes() - before < 8 << 20


def test_a_table_by_a_link_is_not_read(tmp_path: Path) -> None:
    pq.write_table(rows_of(3), tmp_path / "elsewhere.parquet")
    (tmp_path / "arrivals.parquet").symlink_to("elsewhere.parquet")
    assert not TableFile("arrivals", tmp_path / "arrivals.parquet").sound
    with pytest.raises(UnsafeFileError):
        open_parquet(tmp_path / "arrivals.parquet")


def test_no_folder_of_a_run_is_followed_that_is_a_link(tmp_path: Path) -> None:
    private, run = RunPaths(tmp_path / "private"), RunPaths(tmp_path / "run")
    logs = private.nodes / "n1" / "logs"
    for folder in (private.live, private.statistics, logs, private.nodes / "n1" / "data"):
        folder.mkdir(parents=True)
    pq.write_table(rows_of(3), private.table("arrivals"))
    pq.write_table(pa.table({"second": [1]}), private.statistics / "lag.parquet")
    (private.record / "ingest.json").write_text('{"problems": [{"unit": "n1", "sentence": "x"}]}')
    (private.nodes / "n1" / "data" / "replication-offset-checkpoint").write_text(
        "0\n1\nlog-0 0 7\n"
    )
    (logs / "server.log").write_text("[2026-11-21 10:45:01,000] INFO log-0-0 truncated to 5\n")
    with pa.ipc.new_stream(str(private.live / "polled.worker-0.arrows"), LIVE["polled"]) as writer:
        writer.write_batch(polled(3))

    def read() -> list[object]:
        notes: list[object] = [Tallies().rows(run.live, "polled"), unread_nodes(run)]
        stream = run.live / "polled.worker-0.arrows"
        notes += [sum(batch.num_rows for batch in read_stream(stream))]
        tables = RunTables(run)
        notes += [tables.record("arrivals").num_rows, tables.statistics("lag").num_rows]
        problems: list[Problem] = []
        files = NodeFiles(root=run.nodes / "n1", node="n1", snapshot="", problems=problems)
        notes += [files.offsets("replication-offset-checkpoint")]
        return [*notes, list(_lines(run.nodes / "n1" / "logs" / "server.log"))]

    run.root.mkdir()
    nothing = read()
    assert not any(nothing)
    for folder in (private.record, private.statistics, private.nodes):
        (run.root / folder.name).symlink_to(folder)
    assert read() == nothing
    for folder in (private.record, private.statistics, private.nodes):
        (run.root / folder.name).unlink()
        shutil.copytree(folder, run.root / folder.name)
    assert all(read()), "all of it is there to be read"


def test_a_file_that_was_within_bounds_is_looked_at_again_once_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.parquet"
    pq.write_table(rows_of(3), file)
    open_parquet(file).close()
    found = file.stat()
    data = bytearray(file.read_bytes())
    data[-8:-4] = (1 << 30).to_bytes(4, "little")
    file.write_bytes(data)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(UnsafeFileError, match="with a footer of more than"):
        open_parquet(file)


def polled(count: int) -> pa.RecordBatch:
    columns = [pa.nulls(count, field.type) for field in LIVE["polled"]]
    return pa.RecordBatch.from_arrays(columns, schema=LIVE["polled"])


def shrunk(path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(str(path), LIVE["polled"], options=options) as writer:
        writer.write_batch(polled(4_000_000))


def body_that_is_not_there(path: Path) -> None:
    """A header that names two gigabytes, and a file that has as many, all holes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, LIVE["polled"]) as writer:
        writer.write_batch(polled(3_000))
    data = sink.getvalue().to_pybytes()
    start = 8 + int.from_bytes(data[4:8], "little")  # Behind the schema.
    header = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    body = (len(data) - 8 - header).to_bytes(8, "little")
    assert data[start:header].count(body) == 1
    lies = data[start:header].replace(body, (2 << 30).to_bytes(8, "little"))
    path.write_bytes(data[:start] + lies + data[header:])
    os.truncate(path, 3 << 30)


def columns_without_width(path: Path) -> None:
    """Two billion rows of nothing need no bytes at all."""
    schema = pa.schema([("op_id", pa.null())])
    with pa.ipc.new_stream(str(path), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.nulls(2**31 - 1)], schema=schema))


def packed_nulls(path: Path) -> None:
    """Four million rows of nothing, packed into some kilobytes."""
    pq.write_table(pa.Table.from_batches([polled(4_000_000)]), path, compression="zstd")


OF_STREAMS = (shrunk, body_that_is_not_there, columns_without_width, packed_nulls)


@pytest.mark.parametrize("bomb", OF_STREAMS)
def test_15_to_17_a_bomb_of_a_stream_is_refused_before_it_is_decoded(
    bomb: Callable[[Path], None], tmp_path: Path
) -> None:
    stream = tmp_path / "polled.worker-0.arrows"
    bomb(stream)
    before = pa.total_allocated_bytes()
    assert list(read_stream(stream)) == []
    assert Tallies().rows(tmp_path, "polled") == 0
    with pytest.raises(pa.ArrowInvalid):
        StreamTail(stream).read(1 << 20)
    with pytest.raises((pa.ArrowInvalid, UnsafeFileError)):
        list(read_whole(stream))
    assert pa.total_allocated_bytes() == before


@pytest.mark.timeout(LIMIT_S)
def test_a_stream_that_is_a_pipe_or_a_link_has_no_rows(tmp_path: Path) -> None:
    with pa.ipc.new_stream(str(tmp_path / "elsewhere"), LIVE["polled"]) as writer:
        writer.write_batch(polled(3))
    os.mkfifo(tmp_path / "polled.worker-0.arrows")
    (tmp_path / "polled.worker-1.arrows").symlink_to("elsewhere")
    assert Tallies().rows(tmp_path, "polled") == 0
    for number in (0, 1):
        assert list(read_stream(tmp_path / f"polled.worker-{number}.arrows")) == []


def test_a_bomb_costs_a_process_little_memory(tmp_path: Path) -> None:
    """What Arrow counts leaves out what C++ takes for itself: the kernel's own figure."""
    paths = RunPaths(tmp_path)
    paths.record.mkdir()
    page_without_end(paths.table("arrivals"))
    script = """if True:
        import json, resource, sys
        from pathlib import Path
        from results.record.paths import RunPaths
        from results.tables import RunTables
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = RunTables(RunPaths(Path(sys.argv[1]))).record("arrivals").num_rows
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([rows, grown]))
    """
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True, text=True
    )
    rows, grown_kib = json.loads(said.stdout)
    assert rows == 0
    assert grown_kib < 64 << 10
