from pathlib import Path

from results.record.stream import StreamWriter, read_stream

ROW = {"op_id": 1, "mop": 0, "pos": 0, "topic": "log-0", "topic_id": "id-0", "partition": 1,
       "offset": 5, "value": 6, "leader_epoch": None, "isolation": "read_uncommitted",
       "damage": None}  # fmt: skip


def rows_of(path: Path) -> list[dict[str, object]]:
    return [row for batch in read_stream(path) for row in batch.to_pylist()]


def test_a_stream_that_was_cut_is_read_to_its_last_whole_batch(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path, "polled", "w")
    for offset in range(3):
        writer.append(list({**ROW, "offset": offset, "topic": f"log-{offset}"}.values()))
        writer.flush()
    path = tmp_path / "polled.w.arrows"
    whole = path.read_bytes()
    writer.close()
    seen = set()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        rows = rows_of(path)
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        seen.add(len(rows))
    assert seen == {0, 1, 2, 3}
