"""Who sees what faults do, without asking a fault, its hosts, or the cluster's own code.

Processes by this machine's `/proc` and Docker's own command, files as a node's brokers see them,
links by programs with sockets of their own, metadata and stamps by a client, the quorum by the file
in which Kafka keeps what it knows of it.
"""

import errno
import itertools
import json
import mmap
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from results.record.clock import stopwatch_s, wait_until
from tests.docker_lab import container_of_process
from tests.nemesis.proofs import ASKED

PORT = 9100
REPLICA = "story-0"
PROBE_BYTES = bytes(4096)
METADATA_S = 1.5
TOLD_LIMIT_S = 60.0
ENDED = "] shut down completed (kafka.server.BrokerServer)"
BEGUN = "Starting controller (kafka.server.ControllerServer)"
"""A voter's first words of a life in which it may vote."""
VOTED = re.compile(r"Vote request VoteRequestData\(.*preVote=false.*\) with epoch \d+ is granted")
OWN_TIME = "own-time"
"""A topic of one partition a broker, which that one leads alone and stamps with its own clock."""
Seen = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node is, for who stands outside.

    Attributes:
        root: Of its file system, as seen from here.
        folder: Its own, on that file system; its brokers' command lines name it.
        network: A process in its network namespace; None: its network is ours.
        contained: Whether its processes are Docker's.
    """

    root: Path
    folder: Path
    network: int | None
    contained: bool = False

    def file(self, name: str) -> Path:
        """Return where a file of the node's folder is, seen from here."""
        return self.root / str(self.folder / name).lstrip("/")

    def brokers(self) -> Mapping[str, str]:
        """Return the state of each server of the node, by its number here."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                if self._is_mine(entry):
                    letter = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if letter not in "ZX":
                        found[entry.name] = self._state(int(entry.name), letter)
        return found

    def _is_mine(self, entry: Path) -> bool:
        settings = str(self.folder / "server.properties").encode()
        if settings not in (entry / "cmdline").read_bytes().split(b"\0"):
            return False
        network = self.network or os.getpid()
        return (entry / "ns/net").readlink() == Path(f"/proc/{network}/ns/net").readlink()

    def _state(self, pid: int, letter: str) -> str:
        container = container_of_process(pid) if self.contained else None
        return "T" if container and container["State"]["Paused"] else letter


def seen_files(place: Place, other: Place) -> Seen:
    """Look at a node's servers and files, and compare its replica with another's."""
    log, theirs = segments(place), segments(other)
    names = [path.name for path in place.file("data").iterdir()]
    return {
        "brokers": place.brokers(),
        "folders": sorted(names),
        "size": len(log),
        "differs": sum(a != b for a, b in zip(log, theirs, strict=False))
        + abs(len(log) - len(theirs)),
        "ended": said(place, ENDED),
        "invalid": said(place, "Found invalid messages in log segment"),
    }


def segments(place: Place) -> bytes:
    """Return all that a node's replica of the story holds."""
    try:
        paths = sorted(place.file(f"data/{REPLICA}").glob("*.log"))
        return b"".join(path.read_bytes() for path in paths)
    except OSError:
        return b""


def said(place: Place, words: str) -> int:
    """Return how often a node's brokers have said something."""
    log = place.file("logs/server.log")
    return log.read_text(errors="replace").count(words) if log.exists() else 0


def seen_resources(place: Place) -> Seen:
    """Look at what the kernel gives a node's server; None: there is no server, or no limit."""
    pids = list(place.brokers())
    if len(pids) != 1:
        return dict.fromkeys(("handles", "cpu", "quota", "waits", "most"))
    proc = Path("/proc", pids[0])
    limits = (proc / "limits").read_text()
    cpu, memory = (_group(proc, control) for control in ("cpu", "memory"))
    quota = _first_of(cpu, "cpu.max", "cpu.cfs_quota_us")
    most = _first_of(memory, "memory.max", "memory.limit_in_bytes")
    waits = re.search(r"nr_throttled (\d+)", _first_of(cpu, "cpu.stat"))
    return {
        "handles": int(re.search(r"Max open files +(\d+)", limits)[1]),  # type: ignore[index]
        "cpu": f"{cpu}",
        "quota": int(quota.split()[0]) if quota[:1].isdigit() else None,
        "waits": int(waits[1]) if waits else 0,
        "most": int(most) if most.strip().isdigit() and int(most) < 1 << 60 else None,
    }


def _group(proc: Path, control: str) -> Path:
    """Return the folder of a process's control group, of either version."""
    for line in (proc / "cgroup").read_text().splitlines():
        _, controls, path = line.split(":", 2)
        first = Path("/sys/fs/cgroup", control)
        if control in controls.split(","):
            return first / path.lstrip("/")
        if not controls and not first.exists():
            return Path("/sys/fs/cgroup") / path.lstrip("/")
    raise AssertionError(f"{proc} is in no group of {control}")


def _first_of(group: Path, *names: str) -> str:
    found = (group / name for name in names if (group / name).exists())
    return next((each.read_text() for each in found), "")


def seen_disk(place: Place) -> Seen:
    """Try to write to a node's disk."""
    probe, error = place.file("data/witness"), ""
    try:
        probe.write_bytes(PROBE_BYTES)
    except OSError as refused:
        error = os.strerror(refused.errno or 0)
    with suppress(OSError):
        probe.unlink(missing_ok=True)
    return {"brokers": place.brokers(), "error": _ERRORS.get(error, error)}


def seen_requests(place: Place, below: Path) -> Seen:
    """Write a page to a node's disk, flush it and read it; see how much of it lies below.

    Args:
        place: Where the node is, as its broker sees it.
        below: Its data folder, as everybody else does.
    """
    probe, errors, started_s = place.file("data/witness"), list[str](), stopwatch_s()
    try:
        opened = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        deeds = (lambda: os.pwrite(opened, PROBE_BYTES, 0), lambda: os.fsync(opened),
                 lambda: os.close(opened), probe.read_bytes)  # fmt: skip
        for deed in deeds:
            try:
                deed()
            except OSError as refused:
                errors.append(errno.errorcode[refused.errno or 0])
        stored = (below / "witness").stat().st_size
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    took_s = stopwatch_s() - started_s
    _dirty(place.file(f"data/{REPLICA}/{0:020}.index"))
    return {"brokers": place.brokers(), "errors": errors, "stored": stored, "took_s": took_s}


def _dirty(index: Path) -> None:
    """Leave a page of a mapped file to the kernel to write back, as a broker that is killed does.

    Nothing in it is changed. Where it cannot be written back, who opens the file next is told.
    """
    with index.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-1:] = mapped[-1:]


def seen_pair(place: Place, client: "Client", topic: str) -> Seen:
    """Have a client write to a topic, and look at what a node has of it."""
    client.acked(topic, 5)
    folder = place.file(f"data/{topic}-0")
    sizes = [path.stat().st_size for path in folder.glob("*.log")] if folder.exists() else []
    names = [path.name for path in place.file("data").iterdir()]
    return {"brokers": place.brokers(), "folders": sorted(names), "size": sum(sizes)}


_ERRORS = {"No space left on device": "ENOSPC", "Read-only file system": "EROFS"}


def seen_quorum(places: Sequence[Place], of: Place) -> Seen:
    """Return who leads the quorum, as the files of its voters say, and one node's servers."""
    states = []
    for place in places:
        with suppress(OSError, ValueError):
            state = json.loads(place.file("data/__cluster_metadata-0/quorum-state").read_text())
            states.append((state["leaderEpoch"], state["leaderId"]))
    epoch, leader = max(states)
    return {"leader": leader, "epoch": epoch, "brokers": of.brokers()}


def seen_votes(place: Place) -> Seen:
    """Return a node's servers, and how many of its lives ended without a word after a vote."""
    lives = place.file("logs/server.log").read_text(errors="replace").split(BEGUN)
    died = [life for life in lives[:-1] if VOTED.search(life) and ENDED not in life]
    return {"brokers": place.brokers(), "died": len(died)}


class Client:
    """A client of the brokers, and nothing else.

    Args:
        bootstrap: Of all of them.
    """

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, str | int | float] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
        }
        self._admin = AdminClient(dict(self._settings))

    def metadata(self, topic: str) -> Seen:
        """Return who leads a topic's first partition, by broker ids; no leader is -1."""
        told = self._listed(topic).topics[topic].partitions[0]
        return {"leader": told.leader, "replicas": told.replicas, "isr": told.isrs}

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._listed(None).topics)

    def _listed(self, topic: str | None) -> ClusterMetadata:
        def told() -> ClusterMetadata | None:
            with suppress(KafkaException):
                listed = self._admin.list_topics(topic, timeout=METADATA_S)
                return listed if topic is None or listed.topics[topic].partitions else None
            return None

        return wait_until(told, timeout_s=TOLD_LIMIT_S, what="metadata", interval_s=0.01)

    def acked(self, topic: str, messages: int) -> int:
        """Write some messages; return where the last one lies that was acknowledged; -1: none."""
        producer, at = Producer({**self._settings, "message.timeout.ms": 3000}), [-1]
        for _ in range(messages):
            producer.produce(
                topic,
                b"acknowledged",
                partition=0,
                on_delivery=lambda failed, sent: at.append(-1 if failed else sent.offset() or 0),
            )
        producer.flush(5)
        return max(at)

    def end(self, topic: str) -> int | None:
        """Return where a topic ends now, as its leader says; None: it does not."""
        consumer = Consumer({**self._settings, "group.id": "witness"})
        try:
            with suppress(KafkaException):
                ends = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=METADATA_S)
                return int(ends[1])
            return None
        finally:
            consumer.close()

    def stamp_s(self, partition: int) -> float:
        """Return by how much a record that a broker stamps is ahead of our clock."""
        producer, at = Producer(dict(self._settings)), list[int]()
        producer.produce(
            OWN_TIME,
            b"?",
            partition=partition,
            on_delivery=lambda _, sent: at.append(sent.offset() or 0),
        )
        before_s = time.time()  # noqa: TID251 - compared with a wall clock
        assert producer.flush(20) == 0
        after_s = time.time()  # noqa: TID251 - as above
        consumer = Consumer({**self._settings, "group.id": "witness"})
        try:
            consumer.assign([TopicPartition(OWN_TIME, partition, at[0])])
            record = consumer.poll(20)
            assert record is not None
            stamp = float(record.timestamp()[1]) / 1000
            # A clock like ours stamps it between the two.
            return min(0, stamp - before_s) + max(0, stamp - after_s)
        finally:
            consumer.close()


class Elections:
    """Who leads a topic, and whether what its leader acknowledged alone is still there.

    Args:
        client: Looks.
        topic: Of one partition.

    Attributes:
        acked: Where the last message lies that a leader acknowledged alone; -1: none so far.
    """

    def __init__(self, client: Client, topic: str) -> None:
        self._client, self._topic = client, topic
        self.acked = -1

    def look(self) -> Seen:
        """Look; where a leader is alone in the ISR for the first time, write something."""
        told = self._client.metadata(self._topic)
        if self.acked < 0 and told["isr"] == [told["leader"]]:
            self.acked = self._client.acked(self._topic, messages=5)
        end = self._client.end(self._topic) if self.acked >= 0 and told["leader"] > 0 else None
        return {**told, "lost": end is not None and end <= self.acked}


class Sockets:
    """A program on each machine, that asks and answers by sockets of its own.

    Args:
        networks: A process in the network of each machine; None: our own, where it only asks.
        addresses: Of the nodes.
    """

    def __init__(self, networks: Mapping[str, int | None], addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._names = {address: node for node, address in addresses.items()}
        self._series = 0
        self._locks = {name: threading.Lock() for name in networks}
        python = [sys.executable, "-S", "-m", "tests.nemesis.machine_sockets"]
        self._programs = {
            name: subprocess.Popen(
                [*python, "0", str(PORT)]
                if pid is None
                else ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *python, str(PORT), str(PORT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name, pid in networks.items()
        }
        for name in self._programs:
            self._order(name, {"do": "heard", "series": 0})

    def look(
        self, *, count: int, size: int, tail_s: float, flows: int = 1, interval_s: float = 0.003
    ) -> Seen:
        """Return what became of datagrams and connections over each link that is asked for."""
        self._series += 1
        order = {"do": "ask", "series": self._series, "count": count, "size": size}
        order |= {"tail_s": tail_s, "flows": flows, "interval_s": interval_s}

        def asked(asker: str, nodes: Sequence[str]) -> Seen:
            addresses = [self._addresses[node] for node in nodes]
            told = self._order(asker, {**order, "addresses": addresses})
            return {f"{asker}-{self._names[each]}": told[each] for each in addresses}

        with ThreadPoolExecutor() as pool:
            links = {
                name: link
                for each in pool.map(lambda a: asked(*a), ASKED)
                for name, link in each.items()
            }
        for name, link in links.items():
            asker, _, node = name.partition("-")
            heard = self._order(node, {"do": "heard", "series": self._series})
            own = self._addresses.get(asker)
            # Clients have whatever address is not a node's.
            came = dict(
                itertools.chain.from_iterable(
                    numbers
                    for sender, numbers in heard.items()
                    if (sender == own if own else sender not in self._names)
                )
            )
            link["heard"] = len(came)
            # By one socket; of answers that several sockets get nobody knows which came first.
            link["overtaken_there"] = sum(a > b for a, b in itertools.pairwise(came))
            sent_s, back_s = link.pop("sent_s"), link.pop("back_s")
            link["there_ms"] = [
                None if number not in came else (came[number] - at_s) * 1000
                for number, at_s in enumerate(sent_s)
            ]
            link["back_ms"] = [
                None if number not in came or at_s is None else (at_s - came[number]) * 1000
                for number, at_s in enumerate(back_s)
            ]
        return links

    def close(self) -> None:
        """End the programs."""
        for program in self._programs.values():
            program.kill()
            program.communicate()

    def _order(self, name: str, order: Seen) -> Seen:
        program = self._programs[name]
        with self._locks[name]:
            _pipe(program.stdin).write(json.dumps(order) + "\n")
            _pipe(program.stdin).flush()
            line = _pipe(program.stdout).readline()
        assert line, f"the sockets of {name} ended"
        told: Seen = json.loads(line)
        return told


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def seen_connections(networks: Mapping[str, int | None], addresses: Mapping[str, str]) -> Seen:
    """Return the connections between nodes, and of clients with nodes, as `ss` lists them.

    Of each: between whom it is, how many of both ends have it, the longest queue of what is not
    acknowledged, and how often that was sent again.

    Args:
        networks: A process in the network of each machine; None: our own.
        addresses: Of the nodes.
    """
    names = {address: node for node, address in addresses.items()}
    found: dict[str, dict[str, Seen]] = {"brokers": {}, "clients": {}}
    for network in networks.values():
        prefix = ["nsenter", f"--net=/proc/{network}/ns/net", "--"] if network else []
        argv = [*prefix, "ss", "-tnoH", "state", "established"]
        listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            queue, *ends = line.split()[1:4]
            ends = [end.replace("[::ffff:", "").replace("]", "") for end in ends]
            nodes = sorted(names.get(end.rpartition(":")[0], "clients") for end in ends)
            whose = found["clients" if "clients" in nodes else "brokers"]
            if nodes == ["clients", "clients"]:
                continue
            fresh = {"pair": "-".join(nodes), "ends": 0, "queue": 0, "again": 0}
            each = whose.setdefault(" ".join(sorted(ends)), fresh)
            again = re.search(r"timer:\(on,[^,]*,(\d+)\)", line)
            each["ends"] += 1
            each["queue"] = max(each["queue"], int(queue))
            each["again"] = max(each["again"], int(again[1]) if again else 0)
    return found


_ASKS = "import socket, sys; at = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1);\
at.settimeout(1); at.sendall(b'srvr'); print(at.recv(9).decode())"


def seen_zookeeper(folder: Path, address: str, networks: Mapping[str, int | None]) -> Seen:
    """Return the servers of a ZooKeeper by state, and who gets an answer from it.

    Args:
        folder: Of the server, which its command line names.
        address: Where it listens, `host:port`.
        networks: By name a process in whose network is asked; None: in ours.
    """
    servers: dict[str, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder / "zoo.cfg").encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                letter = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                servers |= {entry.name: letter} if letter not in "ZX" else {}
    asked = {}
    for name, network in networks.items():
        prefix = ["nsenter", f"--net=/proc/{network}/ns/net", "--"] if network else []
        argv = [*prefix, sys.executable, "-c", _ASKS, *address.split(":")]
        said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        asked[name] = said.startswith("Zookeeper")
    return {"servers": servers, "answered": asked}


def kernel_of(network: int) -> str:
    """Return the devices, routes and rules of a process's network."""
    script = "ip -brief link | cut -d' ' -f1; ip route; ip rule; nft -s list ruleset"
    argv = ["nsenter", f"--net=/proc/{network}/ns/net", "--", "sh", "-ec", script]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def folder_on(network: int, node: str) -> Path:
    """Return the folder of a node on a machine of its own, by the command line of its broker."""
    wanted = Path(f"/proc/{network}/ns/net").readlink()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "ns/net").readlink() != wanted:
                continue
            command = (entry / "cmdline").read_bytes().decode()
            if found := re.search(rf"\0([^\0]*/{node})/server\.properties\0", command):
                return Path(found[1])
    raise AssertionError(f"no broker of {node} is there")
