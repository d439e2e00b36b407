"""Ledgers that somebody else wrote: what the undo of a flipped bit does not do because of them."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cluster.files.batches import read_segment
from cluster.hosts.heal import Healed
from cluster.systems.registry import LOGS
from nemesis.ledger import Ledger, heal_dead_run, open_entries
from nemesis.undo import FlipBack
from results.record.paths import RunPaths
from results.store import Store
from results.trust import confined

DATA = Path(__file__).parent.parent / "cluster_files" / "data"


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    with Store(tmp_path / "runs").create("log", 7) as paths:
        paths.node("n1").mkdir()
    return paths


@pytest.fixture
def batch() -> bytes:
    """A sound batch of a broker."""
    segment = next(iter(sorted(DATA.glob("**/00000000000000000000.log")))).read_bytes()
    found = segment[: 12 + int.from_bytes(segment[8:12], "big")]
    assert read_segment(found).batches
    return found


@pytest.fixture
def flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.fixture
def undo(batch: bytes) -> FlipBack:
    """What puts the last bit of the batch right, at the start of a file `own.log`."""
    return FlipBack(
        node="n1", segment="own.log", position=0, byte=len(batch) - 1, bit=0,
        base_offset=int.from_bytes(batch[:8], "big"),
    )  # fmt: skip


def note(paths: RunPaths, undo: FlipBack, **told: object) -> None:
    """Write a ledger as a stranger does: of any values."""
    line = {"fault_id": 1, "undo": [{**asdict(undo), **told}]}
    paths.ledger.write_text(json.dumps(line) + "\n")


def test_10_the_node_s_own_bit_is_put_right(
    paths: RunPaths, batch: bytes, flipped: bytes, undo: FlipBack
) -> None:
    file = paths.node("n1") / "data" / "own.log"
    file.parent.mkdir()
    file.write_bytes(flipped)
    Ledger(paths.ledger).write(2, [replace(undo, segment="data/own.log")])
    assert heal_dead_run(paths, LOGS).done == ("flipped a bit back in data/own.log of n1",)
    assert file.read_bytes() == batch


@pytest.mark.parametrize(
    ("node", "segment"),
    [
        ("n1", "DEAR"),
        ("n1", "UP/dear"),
        ("n1", "link"),
        ("n1", "folder/dear"),
        ("n1", "hard"),
        ("n1/", "DEAR"),
        ("", "DEAR"),
        ("", "n1/own.log"),
        (".", "DEAR"),
        ("..", "DEAR"),
        ("ELSEWHERE", "dear"),
        ("../UP", "dear"),
        ("n1/folder", "dear"),
        ("linked", "dear"),
    ],
)
def test_10_an_undo_changes_no_file_but_the_node_s(
    *, node: str, segment: str, paths: RunPaths, tmp_path: Path, flipped: bytes, undo: FlipBack
) -> None:
    folder = paths.node("n1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    dear = elsewhere / "dear"
    dear.write_bytes(flipped)
    own = folder / "own.log"
    own.write_bytes(flipped)
    for base in (paths.root, paths.nodes, folder):  # Decoys: what a text seems to lead to.
        decoy = Path(f"{base}/{dear}")
        decoy.parent.mkdir(parents=True)
        decoy.write_bytes(b"decoy")
    (folder / "link").symlink_to(dear)
    (folder / "folder").symlink_to(elsewhere)
    (paths.nodes / "linked").symlink_to(elsewhere)
    os.link(dear, folder / "hard")

    def meant(word: str) -> str:
        up = os.path.relpath(elsewhere, folder)
        return word.replace("DEAR", str(dear)).replace("ELSEWHERE", str(elsewhere)).replace(
            "UP", up
        )  # fmt: skip

    note(paths, undo, node=meant(node), segment=meant(segment))
    assert heal_dead_run(paths, LOGS) == Healed()
    assert dear.read_bytes() == own.read_bytes() == flipped


EXTREMES = (-(10**30), -(1 << 63), -1_000_000, -2, -1, 8, 64, 1 << 31, (1 << 63) - 1, 1 << 63,
            10**15, 10**30)  # fmt: skip


@pytest.mark.parametrize("name", ["position", "byte", "bit"])
@pytest.mark.parametrize("number", EXTREMES)
def test_numbers_that_no_run_writes_change_nothing_and_are_no_error(
    *, name: str, number: int, paths: RunPaths, flipped: bytes, undo: FlipBack
) -> None:
    file = paths.node("n1") / "own.log"
    file.write_bytes(flipped)
    note(paths, undo, **{name: number})
    assert heal_dead_run(paths, LOGS) == Healed()
    assert file.read_bytes() == flipped
    assert open_entries(paths.ledger) == (), "it is told once, and not at each heal"


def test_a_bit_before_its_batch_is_none_of_it(
    paths: RunPaths, batch: bytes, flipped: bytes, undo: FlipBack
) -> None:
    file = paths.node("n1") / "own.log"
    file.write_bytes(batch + flipped)
    note(paths, undo, position=len(batch), byte=0)
    assert heal_dead_run(paths, LOGS) == Healed()
    assert file.read_bytes() == batch + flipped


def test_a_batch_that_says_it_is_huge_is_not_read(paths: RunPaths, undo: FlipBack) -> None:
    file = paths.node("n1") / "own.log"
    file.write_bytes(undo.base_offset.to_bytes(8, "big") + b"\xff" * 4)
    os.truncate(file, 1 << 40)
    note(paths, undo)
    assert heal_dead_run(paths, LOGS) == Healed()


def test_a_way_is_confined_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.log").touch()
    assert confined(tmp_path, "data/0.log") == tmp_path / "data" / "0.log"
    for way in ("", ".", "..", "data", "data/../data/0.log", "/etc/passwd", "none", "x\0y"):
        assert confined(tmp_path, way) is None
