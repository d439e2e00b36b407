"""Kafka's own reader of segments agrees with ours, in each of the ways in which it prints."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kafka_dump import (
    DumpedRecord,
    disagreements,
    dumped,
    read_here,
    segments_of,
    with_epochs,
)
from cluster.java import find_java
from cluster.kafka.fetch import fetch_kafka

DUMPS = Path(__file__).parent / "data" / "dumps"
FILES = Path(__file__).parents[1] / "cluster_files" / "data"
SEGMENT = "00000000000000000000.log"
BATCHES = FILES / "n2" / "data" / "txn-0" / SEGMENT
OLD = FILES / "zookeeper" / "n1" / "data" / "codecs-0" / SEGMENT
OURS = {f"txn-0/{SEGMENT}": BATCHES, f"old-0/{SEGMENT}": OLD}


def printed(name: str) -> str:
    return (DUMPS / f"{name}.txt").read_bytes().decode(errors="replace")


def ours() -> dict[str, tuple[DumpedRecord, ...]]:
    return {name: read_here(path.read_bytes()) for name, path in OURS.items()}


@pytest.mark.parametrize("version", ["2.8.2", "4.3.1"])
def test_what_newer_versions_print_is_what_is_read_here(version: str) -> None:
    assert dumped(printed(version)) == ours()


def test_what_older_versions_print_lacks_the_epochs() -> None:
    told = dumped(printed("1.1.1"))
    assert {record.epoch for each in told.values() for record in each} == {None}
    assert with_epochs(told, printed("1.1.1-batches")) == ours()


def test_payloads_are_no_lines_of_the_tool() -> None:
    """Sequence numbers are bytes of the payload, and one of them is a line's end."""
    assert "\n" in printed("4.3.1").split("offset: 11 ")[1].split("offset: 12")[0].strip("\n")
    assert [each.offset for each in dumped(printed("4.3.1"))[f"txn-0/{SEGMENT}"]] == list(range(15))


@pytest.fixture(name="run")
def made_run(tmp_path: Path) -> Path:
    for name, node in (("n1", FILES / "zookeeper" / "n1"), ("n2", FILES / "n2")):
        shutil.copytree(node / "data", tmp_path / "nodes" / name / "data")
    copied = tmp_path / "snapshots" / "step-01" / "n1" / "data" / "codecs-0"
    copied.mkdir(parents=True)
    shutil.copy(FILES / "old" / "magic-0.log", copied / SEGMENT)
    (tmp_path / "nodes" / "n1" / "data" / "codecs-0" / "other.log").touch()
    return tmp_path


def test_segments_are_those_of_nodes_and_of_steps(run: Path) -> None:
    found = [str(path.relative_to(run).parent) for path in segments_of(run)]
    assert found[:3] == [
        "nodes/n1/data/codecs-0", "nodes/n1/data/t-0", "nodes/n2/data/__cluster_metadata-0",
    ]  # fmt: skip
    assert found[-1] == "snapshots/step-01/n1/data/codecs-0"
    assert len(found) == len(set(found)) == 9


@pytest.mark.everything
@pytest.mark.kafka
@pytest.mark.parametrize("version", ["2.8.2", "4.3.1"])
def test_kafka_reads_every_segment_of_a_run_as_we_do(
    run: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution = fetch_kafka(version, progress=print)
    java = find_java()
    assert disagreements(run, java=java, distribution=distribution) == []

    def shifted(data: bytes) -> tuple[DumpedRecord, ...]:
        first, *rest = read_here(data)
        return (replace(first, sequence=first.sequence + 1), *rest)

    monkeypatch.setattr("benchmarks.kafka_dump.read_here", shifted)
    found = disagreements(run, java=java, distribution=distribution)
    assert len(found) == len(segments_of(run))
    assert found[0].startswith(f"nodes/n1/data/codecs-0/{SEGMENT}: ")
