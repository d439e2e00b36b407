"""The fault `bit-flip`: which bit, what a reader makes of it, and that it is put right again."""

import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cluster.files.batches import read_segment
from cluster.hosts.disk import LocalDisk
from cluster.logs import RECOVERY_POINTS
from cluster.protocol import ClusterError
from cluster.systems.registry import LOGS
from nemesis.bit_flip import BitFlip, chosen_bit, flip_back
from nemesis.bits import put_right, turn_over
from nemesis.disk_effects import FlippedBit
from nemesis.ledger import Ledger, heal_dead_run
from nemesis.protocol import Aim
from nemesis.scheduled import ScheduledFault
from nemesis.undo import FlipBack
from tests.nemesis.conftest import World

DATA = Path(__file__).parents[1] / "cluster_files" / "data" / "n2" / "data"
SEGMENT = f"codecs-0/{0:020}.log"
PLACE = ("codecs", 0)


@pytest.fixture
def node(world: World) -> Path:
    """Return the folder of n2, with a log that a real broker wrote."""
    folder = world.paths.node("n2")
    (folder / "data" / "codecs-0").mkdir(parents=True)
    shutil.copy(DATA / SEGMENT, folder / "data" / SEGMENT)
    return folder


def chosen(disk: LocalDisk, seed: int, led: Collection[tuple[str, int]] = ()) -> FlippedBit:
    return chosen_bit("n2", disk, led=led, rng=Random(seed), logs=LOGS)


def drawn(node: Path, seed: int = 0) -> FlipBack:
    return flip_back(chosen(LocalDisk(node), seed))


def test_one_bit_of_one_batch_is_turned_over_and_back(node: Path) -> None:
    disk, segment = LocalDisk(node), node / "data" / SEGMENT
    before = segment.read_bytes()
    for seed in range(20):
        flip = drawn(node, seed)
        assert "does not match its CRC" in turn_over(disk, flip, LOGS)
        now = segment.read_bytes()
        (byte,) = (
            at for at, pair in enumerate(zip(before, now, strict=True)) if len(set(pair)) > 1
        )
        assert (byte, before[byte] ^ now[byte]) == (flip.byte, 1 << flip.bit)
        missing = {each.position for each in read_segment(before).batches} - {
            each.position for each in read_segment(now).batches
        }
        assert missing == {flip.position}
        assert put_right(disk, flip, LOGS)
        assert segment.read_bytes() == before
        assert not put_right(disk, flip, LOGS)
        assert segment.read_bytes() == before


def test_what_is_not_our_bit_is_left_alone(node: Path) -> None:
    disk, segment = LocalDisk(node), node / "data" / SEGMENT
    flip = drawn(node)
    turn_over(disk, flip, LOGS)
    other = bytearray(segment.read_bytes())
    other[flip.byte + (1 if flip.byte + 1 < len(other) else -1)] ^= 1
    segment.write_bytes(other)
    with pytest.raises(ClusterError, match="even with the bit flipped back"):
        put_right(disk, flip, LOGS)
    assert segment.read_bytes() == bytes(other)
    for shorter in (other[: flip.position], other[: flip.byte], b""):
        segment.write_bytes(shorter)
        assert not put_right(disk, flip, LOGS)
        assert segment.read_bytes() == bytes(shorter)
    with pytest.raises(ClusterError, match="no longer exists"):
        turn_over(disk, flip, LOGS)
    segment.unlink()
    assert not put_right(disk, flip, LOGS)


def test_a_batch_of_other_offsets_is_another_one(node: Path) -> None:
    segment = node / "data" / SEGMENT
    flip = drawn(node)
    turn_over(LocalDisk(node), flip, LOGS)
    data = bytearray(segment.read_bytes())
    data[flip.position + 7] ^= 1  # The last byte of its base offset, which no sum covers.
    segment.write_bytes(data)
    assert not put_right(LocalDisk(node), flip, LOGS)


def test_a_partition_that_the_broker_follows_is_taken_if_there_is_one(node: Path) -> None:
    shutil.copytree(node / "data" / "codecs-0", node / "data" / "led-0")
    shutil.copytree(node / "data" / "codecs-0", node / "data" / "__consumer_offsets-0")
    disk = LocalDisk(node)
    taken = {chosen(disk, seed, {("led", 0)}).topic for seed in range(20)}
    assert taken == {"codecs"}
    both = {("led", 0), PLACE}
    assert {chosen(disk, seed, both).topic for seed in range(20)} == {
        "codecs", "led",
    }  # fmt: skip


def test_a_batch_is_taken_that_a_broker_would_look_at(node: Path) -> None:
    folder = node / "data" / "codecs-0"
    data = (folder / f"{0:020}.log").read_bytes()
    split = read_segment(data).batches[2]
    (folder / f"{0:020}.log").write_bytes(data[: split.position])
    (folder / f"{split.base_offset:020}.log").write_bytes(data[split.position :])
    (node / "data" / RECOVERY_POINTS).write_text(f"0\n1\ncodecs 0 {split.base_offset}\n")
    for seed in range(20):
        flip = chosen(LocalDisk(node), seed)
        assert flip.base_offset >= split.base_offset
        assert flip.recovery_point == split.base_offset
        assert flip.log_end == read_segment(data).batches[-1].end_offset


def test_a_node_without_a_batch_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no log of n2 has a batch"):
        drawn(tmp_path)


def test_it_lives_and_is_over(world: World, node: Path) -> None:
    before = (node / "data" / SEGMENT).read_bytes()
    fault = ScheduledFault(fault_id=1, at_s=0, kind="bit-flip", target="n2", hold_s=0)
    world.nemesis(fault).run(world.stop)
    (row,) = world.last_rows()
    assert row["healed_ns"] > row["confirmed_ns"]
    assert '"flipped_back": ["codecs-0"]' in row["heal_effect"]
    assert world.cluster.calls[1:] == ["start n2"]
    assert (node / "data" / SEGMENT).read_bytes() == before
    assert '"flip-back"' in world.paths.ledger.read_text()


@pytest.mark.parametrize("looks", [True, False])
def test_who_would_not_start_with_it_is_always_killed(
    world: World, node: Path, monkeypatch: pytest.MonkeyPatch, *, looks: bool
) -> None:
    assert (node / "data" / SEGMENT).exists()
    monkeypatch.setattr(world.cluster, "reads_all_at_start", looks, raising=False)
    downs = set()
    for seed in range(12):
        aim = Aim(fault_id=seed, targets=("n2",), rng=Random(seed))
        flip = BitFlip(aim, replace(world.site(), disk_of=lambda _: LocalDisk(node)))
        flip.inject()
        flip.heal()
        downs |= {call for call in world.cluster.calls if not call.startswith("start")}
    assert downs == ({"kill n2"} if looks else {"kill n2", "stop n2"})


def test_what_was_written_until_the_broker_was_down_lies_behind_the_bit_as_well(
    world: World, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = node / "data" / SEGMENT
    whole = segment.read_bytes()
    batches = read_segment(whole).batches
    segment.write_bytes(whole[: batches[1].position])

    def go_down(called: str, down: Callable[..., object]) -> None:
        def write_and_go(*args: object) -> object:
            segment.write_bytes(whole)
            return down(*args)

        monkeypatch.setattr(world.cluster, called, write_and_go)

    go_down("kill_node", world.cluster.kill_node)
    go_down("stop_node", world.cluster.stop_node)
    fault = ScheduledFault(fault_id=1, at_s=0, kind="bit-flip", target="n2", hold_s=0)
    world.nemesis(fault).run(world.stop)
    (row,) = world.last_rows()
    (flip,) = json.loads(row["effect"])["flips"]
    assert flip["end_offset"] == batches[0].end_offset
    assert flip["log_end"] == batches[-1].end_offset


def test_a_dead_runs_bit_is_put_right(world: World, node: Path) -> None:
    before, flip = (node / "data" / SEGMENT).read_bytes(), drawn(node)
    Ledger(world.paths.ledger).write(1, [flip])
    turn_over(LocalDisk(node), flip, LOGS)
    done = heal_dead_run(world.paths, LOGS).done
    assert f"flipped a bit back in data/{SEGMENT} of n2" in done
    assert (node / "data" / SEGMENT).read_bytes() == before
    assert heal_dead_run(world.paths, LOGS).done == ()
