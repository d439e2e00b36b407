"""Attacks the reference cluster with a million invalid frames, which no correct client sends.

Run it with `python -m benchmarks.hostile [--frames 1000000] [--processes 20000]` from the
repository. The first target is three nodes inside this process, with their real driver, links and
files. Their clients need no sockets. The second target is three real processes. After each wave of
frames, the program checks five things. All nodes run. Each partition has a leader. A correct client
is served. All logs are equal. The logs can be read. The program prints how the nodes treated the
frames, and the memory size of the processes. If a check fails, the program exits with 1 and saves
the latest frames.
"""

import argparse
import asyncio
import os
import select
import socket
import sys
import tempfile
import traceback
from collections import Counter, deque
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.files.batches import read_segment, records
from results.record.clock import stopwatch_s, wait_until
from tests.reference.hostile_frames import PREY, HostileFrames
from tests.reference.hostility import CANARY, Hostility
from tests.reference.node_processes import LIMIT_S, NodeProcesses, node_processes
from tests.reference.nodes_inside import NodesInside

MIB = 1 << 20
SENT_AT_ONCE = 200
SOUND = "sound"


def main(arguments: list[str] | None = None) -> int:
    """Attack both targets, and print the results. Return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--frames", type=int, default=1_000_000, help="to nodes in this process")
    parser.add_argument("--processes", type=int, default=20_000, help="frames to real processes")
    parser.add_argument("--wave", type=int, default=10_000, help="frames before each look")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last", type=Path, default=Path("hostile-frames.txt"))
    asked = parser.parse_args(arguments)
    last: deque[tuple[int, str, bytes]] = deque()
    try:
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            root = Path(folder)
            asyncio.run(inside(root / "inside", asked, last))
            outside(root / "outside", asked, last)
    except Exception:  # noqa: BLE001 - any exception is a result
        traceback.print_exc()
        lines = (f"n{node} {kind} {data.hex()}\n" for node, kind, data in last)
        asked.last.write_text("".join(lines))
        print(f"seed {asked.seed} broke something; the latest frames are in {asked.last}")
        return 1
    return 0


async def inside(
    root: Path, asked: argparse.Namespace, last: deque[tuple[int, str, bytes]]
) -> None:
    """Attack nodes inside this process."""
    nodes = NodesInside(root)
    try:
        await nodes.start()
        hostility = Hostility(nodes, Random(asked.seed), last=last)
        await hostility.begin()
        found, begun_s = 0, stopwatch_s()
        for sent in range(0, asked.frames, asked.wave):
            await hostility.wave(min(asked.wave, asked.frames - sent))
            found += await hostility.look()
            done = min(sent + asked.wave, asked.frames)
            rate = done / (stopwatch_s() - begun_s)
            size = _resident_mib(os.getpid())
            print(
                f"{done:>9} frames, {rate:5.0f} a second, {found} records, {size} MiB", flush=True
            )
        for what, count in sorted(hostility.seen.items()):
            print(f"{count:>9} {what}")
    finally:
        for failed in (node.driver.failure for node in nodes.nodes.values()):
            if failed is not None:
                traceback.print_exception(failed)
        nodes.close()


def outside(root: Path, asked: argparse.Namespace, last: deque[tuple[int, str, bytes]]) -> None:
    """Attack three real processes."""
    if not asked.processes:
        return
    random = Random(asked.seed)
    frames, seen = HostileFrames(random), Counter[str]()
    with node_processes(root) as nodes:
        nodes.create(CANARY)
        nodes.create(PREY, 2)
        for wave in range(0, asked.processes, asked.wave):
            for number in range(wave, min(wave + asked.wave, asked.processes), SENT_AT_ONCE):
                node = random.choice(nodes.ids)
                sent = [frames(number + each) for each in range(SENT_AT_ONCE)]
                last.extend((node, kind, data) for kind, data, _ in sent)
                while len(last) > 2 * SENT_AT_ONCE:
                    last.popleft()
                _send(nodes.ports[node], [(kind, data) for kind, data, _ in sent], seen)
            look_outside(nodes, wave)
            sizes = [_resident_mib(nodes.pid(node)) for node in nodes.ids]
            print(f"{wave + asked.wave:>9} frames to processes of {sizes} MiB", flush=True)
    print(dict(seen))


def look_outside(nodes: NodeProcesses, wave: int) -> None:
    """Check that all node processes run and serve, and that their logs are equal."""
    assert all(nodes.runs(node) for node in nodes.ids), [nodes.said(it)[-900:] for it in nodes.ids]
    nodes.wait_live()
    nodes.wait_led(CANARY)
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True})
    value = b"canary %d" % wave
    producer.produce(CANARY, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert failed == [None]
    reader = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": f"g{wave}"})
    reader.assign([TopicPartition(CANARY, 0, 0)])
    values: list[bytes | None] = []
    wait_until(lambda: value in _read_into(values, reader), timeout_s=LIMIT_S, what="the canary")
    reader.close()
    wait_until(lambda: len(_stored(nodes)) == 1, timeout_s=LIMIT_S, what="logs to be the same")
    (log,) = _stored(nodes)
    read = read_segment(log)
    assert not read.damage, read.damage
    assert [each.value for batch in read.batches for each in records(batch)][-1] == value


def _read_into(values: list[bytes | None], reader: Consumer) -> list[bytes | None]:
    message = reader.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value())
    return values


def _stored(nodes: NodeProcesses) -> set[bytes]:
    path = f"data/{CANARY}-0/00000000000000000000.log"
    return {(nodes.folder(node) / path).read_bytes() for node in nodes.ids}


def _send(port: int, frames: list[tuple[str, bytes]], seen: Counter[str]) -> None:
    """Send frames to a node. After each invalid frame, its connection ends.

    So the next frame arrives on a new connection.
    """
    client: socket.socket | None = None
    for kind, data in frames:
        if client is None:
            client = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
            seen["connections"] += 1
        seen[kind] += 1
        try:
            client.sendall(data)
            if kind == SOUND:
                while select.select([client], [], [], 0)[0] and client.recv(1 << 16):
                    seen["pieces of answers"] += 1
                continue
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):  # Until the node closes the connection, too.
                seen["pieces of answers"] += 1
        except TimeoutError:
            raise  # The node neither answers nor closes.
        except OSError:
            seen["hung up before the end"] += 1
        client.close()
        client = None
    if client is not None:
        client.close()


def _resident_mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") // MIB


if __name__ == "__main__":
    sys.exit(main())
