"""Runs where hosts of one kind are: one fault of each kind, seen by witnesses of its own.

    python play_faults.py FOLDER HOSTS IMAGE MACHINES KIND...

Writes `FOLDER/stories/KIND.json` when a kind has been played: what witnesses saw before, while and
after, and what the fault says of itself. Brokers are started only if a kind needs some.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

from cluster.hosts.abilities import abilities_of, able
from cluster.hosts.agent import start_ticks
from cluster.hosts.choose import make_hosts
from cluster.hosts.faulty_disks import FaultyNamespaceDisks, FaultyProcesses
from cluster.hosts.linked import LinkedHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.protocol import CLIENTS, Ability, CanPartition, ClusterError, HasFiles
from nemesis import unclean_election
from nemesis.effects import HealEffect, effect_to_json
from nemesis.network import Network
from nemesis.protocol import Aim, Fault, Patience, Site
from nemesis.registry import CLIENTS_ASK, KINDS
from nemesis.replicas import wait_whole
from nemesis.schedule import deal_schedule, unsupported
from nemesis.stalls import STALL_MS
from nemesis.targets import KEEPER, SERVERS
from results.record.clock import (
    RunClock,
    WaitTimeoutError,
    pause_until,
    stopwatch_s,
    wait_until,
)
from results.record.nodes import ZOOKEEPER_MACHINE
from results.record.paths import RunPaths
from results.record.plan import ALL, Plan
from results.record.plan_parts import PlannedFault
from tests.brokers import brokers_of
from tests.machine import fuse_works, tun_opens
from tests.nemesis.all_proofs import KAFKA, KAFKA_WITH_ZOOKEEPER, OF_LINKS, PROOFS, SEEDS_OF
from tests.nemesis.play_in_namespaces import Sleepers
from tests.nemesis.proofs import LATE, NODE, how_late
from tests.nemesis.witnesses import (
    OWN_TIME,
    REPLICA,
    Client,
    Elections,
    Place,
    Seen,
    Sockets,
    folder_on,
    kernel_of,
    seen_connections,
    seen_disk,
    seen_files,
    seen_pair,
    seen_quorum,
    seen_requests,
    seen_resources,
    seen_votes,
    seen_zookeeper,
)
from workloads.scripted import Script

NODES = ("n1", "n2", "n3")
ROLLED = NODES[:2]
STORY, PAIR = ("story", 0), ("pair", 0)
LOG = f"{REPLICA}/00000000000000000000.log"
SHARED = Path("/dev/shm")  # noqa: S108 - looked at
"""Where libfaketime has its clocks; what it leaves of brokers that are killed must be removed."""
DISK_MB = 64
MESSAGES = 40
PREPARED = ("clock", "resources")
"""Families, called as what hosts must be able to do, that brokers have to be started for."""
SHOWN_LIMIT_S, GONE_LIMIT_S, CONFIRM_LIMIT_S, TIDY_LIMIT_S = 30.0, 90.0, 15.0, 10.0
LOOK_INTERVAL_S = 0.1
LATE_LIMIT_S = 200.0
"""For links that stall: a look may take two stalls, and come to nothing."""
LATENT, NOTICED = 1, 2
"""Seeds: whose first draw lets a bit flip stop the broker in order, and kill it."""
SEEDS = {"docker": NOTICED, "process": NOTICED}
WRITES = 0
"""Seed: whose first draw has a disk refuse writes, also those of mapped pages."""


ON_FUSE = {name for name, kind in KINDS.items() if Ability.FAULTY_DISK in kind.needs}
Aimed = tuple[tuple[str, ...], tuple[str, int] | None]
"""Targets, and the partition that is meant."""


class Room:
    """Three nodes of one kind of hosts, with brokers or without.

    Args:
        folder: The run's.
        where: The hosts, as `make_hosts` takes them.
        image: Of containers.
        machines: Of ssh hosts: by node the number here of its first process.
        with_brokers: Otherwise something sleeps in their place.
        with_zookeeper: Whether a ZooKeeper keeps the metadata.
    """

    def __init__(
        self,
        folder: Path,
        where: str,
        image: str,
        *,
        machines: dict[str, int],
        with_brokers: bool,
        with_zookeeper: bool = False,
    ) -> None:
        self.paths, self.kind = RunPaths(folder), where.partition(":")[0]
        self._why_not = abilities_of(where)
        self.paths.live.mkdir(parents=True)
        self._outside = (ZOOKEEPER_MACHINE,) if with_zookeeper else ()
        self._machines, self._sent = machines, 0
        self._asks = threading.Thread()
        self._undo = ExitStack()
        disk_mb = DISK_MB if self.kind == "namespace" and with_brokers else None
        hosts = make_hosts(
            where, (*NODES, *self._outside), self.paths.processes, image=image, disk_mb=disk_mb,
            faulty_disks=with_brokers and Ability.FAULTY_DISK in able(self._why_not),
        )  # fmt: skip
        self.hosts = hosts
        self._undo.callback(hosts.down)
        hosts.up()
        self.cluster = self._brokers() if with_brokers else Sleepers(NODES, hosts, folder)
        self.site = Site(
            cluster=self.cluster,
            network=Network(hosts) if isinstance(hosts, CanPartition) else None,
            state_of=hosts.state_of,
            hosts=hosts,
            disk_of=hosts.disk,
        )
        if with_brokers:
            self._begin_story()
        else:
            self._listen()

    def close(self) -> None:
        """Take all down."""
        self._undo.close()

    def play(self, kind: str, number: int) -> Seen:
        """Return the story of one fault, or how it is refused where these hosts cannot do it."""
        if not KINDS[kind].needs <= able(self._why_not):
            return self._refused(kind, number)
        one = WRITES if kind in ON_FUSE else SEEDS.get(self.kind, LATENT)
        first, *others = SEEDS_OF.get(kind, (one,))
        story = self._played(kind, number, first)
        again = [self._played(kind, number, seed) for seed in others]
        return {**story, "others": again}

    def _played(self, kind: str, number: int, seed: int) -> Seen:
        proof = PROOFS[kind]
        if kind not in OF_LINKS:
            self._script.send(MESSAGES)
            self._sent += MESSAGES
            assert wait_whole(self.site, Patience(limit_s=GONE_LIMIT_S))
        targets, place = aimed = self._aim(kind)
        look = self._witness(proof.witness, aimed)
        before, looks, kernel = self._before(kind, look), list[Seen](), self._kernel()
        aim = Aim(fault_id=number, targets=targets, rng=Random(seed), place=place)
        fault = KINDS[kind].make(aim, self.site)
        with looking(look, looks) if proof.from_start else ExitStack():
            fault.inject()
            effect = fault.confirm(Patience(limit_s=CONFIRM_LIMIT_S))

        chance = Random(seed)

        def shown() -> bool:
            # A look that waited for one link ends as that opens: the next one would begin with it.
            if proof.witness == LATE and how_late(looks[-1:]):
                pause_until(stopwatch_s() + chance.uniform(0, STALL_MS[1] / 1000))
            looks.append(look())
            return proof.shows(before, looks)

        until(shown, LATE_LIMIT_S if proof.witness == LATE else SHOWN_LIMIT_S)
        healed, after = self._healed(fault), list[Seen]()

        def gone() -> bool:
            after.append(look())
            still = proof.lasts and proof.shows(before, after[-1:])
            return proof.gone(before, after[-1]) and not still

        until(gone, GONE_LIMIT_S)
        return {
            "before": before,
            "looks": looks,
            "after": after[-1],
            "targets": targets,
            "effect": effect and json.loads(effect_to_json(effect)),
            "healed": healed and json.loads(effect_to_json(healed)),
            "undone": kernel == self._kernel(),
        }

    def _refused(self, kind: str, number: int) -> Seen:
        """Return what users are told of a kind that cannot be done, and what trying it does."""
        can, why_not = able(self._why_not), self._why_not
        written = Plan(faults=(PlannedFault(at_s=1, kind=kind),))
        dealt = Plan(nemesis=(ALL,))
        (refused,) = unsupported(written, abilities=can, why_not=why_not)
        dropped = deal_schedule(dealt, abilities=can, why_not=why_not).dropped
        kernel, tried = self._kernel(), ""
        if kind in OF_LINKS:
            aim = Aim(fault_id=number, targets=(NODE,), rng=Random(LATENT), place=None)
            fault = KINDS[kind].make(aim, self.site)
            try:
                fault.inject()
            except ClusterError as failed:
                tried = str(failed)
            fault.heal()
        return {
            "refused": refused,
            "left_out": " ".join(dropped),
            "tried": tried,
            "why_not": {**why_not},
            "tun_opens": tun_opens(),
            "fuse_works": fuse_works(),
            "undone": kernel == self._kernel(),
        }

    def _before(self, kind: str, look: Callable[[], Seen]) -> Seen:
        """Look until nothing shows of a fault that is still to come: a machine may be busy."""
        proof, looks = PROOFS[kind], list[Seen]()

        def is_good() -> bool:
            looks.append(look())
            good = kind not in OF_LINKS or proof.gone(looks[-1], looks[-1])
            return good and not proof.shows(looks[-1], looks[-1:])

        until(is_good, SHOWN_LIMIT_S)
        return looks[-1]

    def _kernel(self) -> Seen:
        """Return what the kernel of each node has of links, routes and rules."""
        return {
            node: kernel_of(self._network(node))
            for node in (*NODES, *self._outside)
            if self._is_apart
        }

    @property
    def _is_apart(self) -> bool:
        return self.kind != "process"

    def _healed(self, fault: Fault) -> HealEffect | None:
        fault.heal()
        return fault.confirm_healed(Patience(limit_s=GONE_LIMIT_S))

    def refusals(self) -> Seen:
        """Return why faults that would come to nothing are refused; nothing is done by that."""
        leader = self._look_at_quorum(NODE)["leader"]
        other = next(node for node in NODES if node != f"n{leader}")
        aims = {
            "another than the controller": ("controller-failover", (other,), None),
            "all who elect": ("unclean-election", NODES, STORY),
            "some of the replicas": ("unclean-election", ("n1",), STORY),
        }
        return {what: self._refusal(*aim) for what, aim in aims.items()}

    def _refusal(self, kind: str, targets: tuple[str, ...], place: tuple[str, int] | None) -> str:
        aim = Aim(fault_id=0, targets=targets, rng=Random(0), place=place)
        try:
            KINDS[kind].make(aim, self.site)
        except ClusterError as refused:
            return str(refused)
        return ""

    def end(self) -> Seen:
        """Return what can be read of the story in the end, and what was collected of it."""
        names = [record.name for record in self._script.read(within_s=30)]
        self._script.close()
        assert isinstance(self.cluster, KafkaCluster)
        self.cluster.stop(20)
        sizes = {}
        for node in NODES:
            if isinstance(self.hosts, HasFiles):
                self.hosts.fetch(node)
            sizes[node] = (self.paths.node(node) / "data" / LOG).stat().st_size
        return {"sent": self._sent, "read": names, "collected": sizes, "left": self._left()}

    def _left(self) -> list[str]:
        """Return clocks that brokers have left.

        One that had to be killed counts as ended before its agent has buried it and tidied.
        """
        try:
            wait_until(lambda: not self._clocks(), timeout_s=TIDY_LIMIT_S, what="no clock")
        except WaitTimeoutError:
            return self._clocks()
        return []

    def _clocks(self) -> list[str]:
        names = {path.name.rpartition("_")[2]: path.name for path in SHARED.iterdir()}
        lines = self.paths.processes.read_text().splitlines()
        ours = {(entry.get("pid"), entry.get("start_ticks")) for entry in map(json.loads, lines)}
        return [
            names[f"{pid}"]
            for pid, ticks in ours
            # A number may be that of another run's broker by now.
            if f"{pid}" in names and start_ticks(pid) in {0, ticks}
        ]

    def _aim(self, kind: str) -> Aimed:
        """Return whom a kind hits, and where."""
        # The second have a replica of what is written meanwhile.
        if kind in OF_LINKS or {Ability.FAULTY_DISK, Ability.FILES} <= KINDS[kind].needs:
            return (NODE,), None
        if SERVERS in KINDS[kind].only or KINDS[kind].aims == CLIENTS_ASK:
            return NODES, None
        if "majority" in KINDS[kind].aims:
            return NODES[:2], None
        if KEEPER in KINDS[kind].only:
            return (ZOOKEEPER_MACHINE,), None
        if kind in self._aims:
            return self._aims[kind]()
        return (NODES[list(KINDS).index(kind) % len(NODES)],), None

    @property
    def _aims(self) -> Mapping[str, Callable[[], Aimed]]:
        def leader() -> Aimed:
            return _names([self.client.metadata(STORY[0])["leader"]]), STORY

        def follower() -> Aimed:  # Its files are compared with those of the others.
            state = self.client.metadata(STORY[0])
            return _names(each for each in state["isr"] if each != state["leader"])[:1], None

        return {
            "preferred-election": leader,
            "reassignment": leader,
            "controller-failover": lambda: (
                _names([self._look_at_quorum(NODE)["leader"]]),
                None,
            ),
            "unclean-election": lambda: (_names(self.client.metadata(PAIR[0])["replicas"]), PAIR),
            "rolling-restart": lambda: (ROLLED, None),
            "disputed-election": lambda: (NODES, None),
            "power-loss": follower,
            "wipe": follower,
            "bit-flip": follower,
        }

    def _witness(self, name: str, aimed: Aimed) -> Callable[[], Seen]:
        """Return who looks at what a fault that is aimed so does."""
        if name == "zookeeper":
            return self._look_at_zookeeper
        (node, *_), place = aimed
        own, other = NODES.index(node), (NODES.index(node) + 1) % len(NODES)
        witnesses: Mapping[str, Callable[[], Seen]] = {
            "links": lambda: self._sockets.look(count=20, size=100, tail_s=0.4),
            "traffic": lambda: self._sockets.look(count=150, size=1200, tail_s=0.9),
            # What waits for one stall there, and for another one back, has 16 s to go.
            LATE: lambda: self._sockets.look(
                count=40, size=100, tail_s=18.0, flows=20, interval_s=0.0
            ),
            "brokers": lambda: {"brokers": self.places[node].brokers()},
            "files": lambda: self._look_at_files(node),
            "each node's files": lambda: {each: self._look_at_files(each) for each in ROLLED},
            "all nodes' files": lambda: {each: self._look_at_files(each) for each in NODES},
            "disk": lambda: seen_disk(self.places[node]),
            "resources": lambda: seen_resources(self.places[node]),
            "requests": lambda: seen_requests(self.places[node], self._below(node)),
            "written files": lambda: seen_pair(self.places[node], self.client, PAIR[0]),
            "quorum": lambda: self._look_at_quorum(node),
            "servers": lambda: {each: self.places[each].brokers() for each in NODES},
            "voters": lambda: {each: seen_votes(self.places[each]) for each in NODES},
            "metadata": lambda: self.client.metadata((place or STORY)[0]),
            "elections": lambda: {**self.elections.look()},
            "connections": self._look_at_connections,
            "topics": lambda: {"topics": self.client.topics()},
            "stamps": lambda: {
                "ahead_s": self.client.stamp_s(own),
                "other_s": self.client.stamp_s(other),
            },
        }
        return witnesses[name]

    def _look_at_files(self, node: str) -> Seen:
        other = next(each for each in NODES if each != node)
        return seen_files(self.places[node], self.places[other])

    def _look_at_quorum(self, node: str) -> Seen:
        return seen_quorum([self.places[each] for each in NODES], self.places[node])

    def _look_at_zookeeper(self) -> Seen:
        assert isinstance(self.cluster, KafkaCluster)
        networks = {node: self._network(node) if self._is_apart else None for node in NODES}
        return seen_zookeeper(
            (self.paths.root / "zookeeper").absolute(), self.cluster.zookeeper or "", networks
        )

    def _look_at_connections(self) -> Seen:
        if not self._asks.is_alive():  # So that clients send something, too; it may wait long.
            self._asks = threading.Thread(target=self.cluster.view, daemon=True)
            self._asks.start()
        networks: dict[str, int | None] = {node: self._network(node) for node in NODES}
        addresses = {node: self.hosts.address(node) for node in NODES}
        return seen_connections({**networks, CLIENTS: None}, addresses)

    def _brokers(self) -> KafkaCluster:
        self.plan = Plan(
            system=f"kafka:{KAFKA_WITH_ZOOKEEPER}:zookeeper" if self._outside else f"kafka:{KAFKA}",
            topics=1,
            partitions=1,
            nemesis=tuple(name for name in PREPARED if Ability(name) in able(self._why_not)),
            disk_mb=DISK_MB if self.kind == "namespace" else None,
        )
        return brokers_of(self.plan, self.hosts, self.paths)

    def _begin_story(self) -> None:
        cluster = self.cluster
        assert isinstance(cluster, KafkaCluster)
        self._undo.callback(cluster.close)
        cluster.start()
        self.places = {node: self._found(node) for node in NODES}
        (topic,) = cluster.create_topics([STORY[0]], partitions=1, replication=3)
        configs = {"min.insync.replicas": "1"}
        cluster.create_topic(PAIR[0], assignment={0: ["n1", "n2"]}, configs=configs)
        own = {number: [node] for number, node in enumerate(NODES)}
        stamped = {"message.timestamp.type": "LogAppendTime", **configs}
        cluster.create_topic(OWN_TIME, assignment=own, configs=stamped)
        clock, live = RunClock.starting_now(), self.paths.live
        self._script = Script(self.plan, topic, cluster.bootstrap(), clock=clock, live=live)
        self._undo.callback(self._script.close)
        self.client = Client(cluster.bootstrap())
        self.elections = Elections(self.client, PAIR[0])
        # How long a leader is left alone is for the witness to say, who may be slow.
        paused = patch.object(unclean_election, "pause_until", self._pause_until_written)
        self._undo.enter_context(paused)

    def _pause_until_written(self, _: float, stop: threading.Event | None = None) -> bool:
        until(lambda: self.elections.acked >= 0, SHOWN_LIMIT_S)
        return stop is not None and stop.is_set()

    def _listen(self) -> None:
        assert isinstance(self.hosts, LinkedHosts)
        networks: dict[str, int | None] = {node: self._network(node) for node in NODES}
        addresses = {node: self.hosts.address(node) for node in NODES}
        self._sockets = Sockets({**networks, CLIENTS: None}, addresses)
        self._undo.callback(self._sockets.close)

    def _network(self, node: str) -> int:
        if self._machines:
            return self._machines[node]
        assert isinstance(self.hosts, LinkedHosts)
        return self.hosts.machine(node).process.pid

    def _below(self, node: str) -> Path:
        """Return a node's data as nobody sees them through its file system."""
        if isinstance(self.hosts, FaultyNamespaceDisks):
            root = Path(f"/proc/{self.hosts.machine(node).process.pid}/root")
            return root / self.hosts.mount_point(node).relative_to("/")
        return self.paths.node(node).absolute() / "data"

    def _found(self, node: str) -> Place:
        """Find where a node's broker lives."""
        folder = self.paths.node(node).absolute()
        if self.kind == "process":
            root = Path("/")
            if isinstance(self.hosts, FaultyProcesses):
                root = Path(f"/proc/{self.hosts.machine(node).process.pid}/root")
            return Place(root=root, folder=folder, network=None)
        network = self._network(node)
        if self.kind == "docker":
            return Place(root=Path("/"), folder=folder, network=network, contained=True)
        folder = folder_on(network, node) if self._machines else folder
        return Place(root=Path(f"/proc/{network}/root"), folder=folder, network=network)


def until(done: Callable[[], bool], limit_s: float) -> None:
    """Look again and again; who reads the story judges what was seen in the end."""
    try:
        wait_until(done, timeout_s=limit_s, what="it to be seen", interval_s=LOOK_INTERVAL_S)
    except WaitTimeoutError:
        return


@contextmanager
def looking(look: Callable[[], Seen], looks: list[Seen]) -> Iterator[None]:
    """Look again and again meanwhile; keep what differs from the look before."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            now = look()
            if not looks or looks[-1] != now:
                looks.append(now)
            pause_until(stopwatch_s() + LOOK_INTERVAL_S, over)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _names(ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"n{each}" for each in ids)


def tell(path: Path, deed: Callable[[], Seen]) -> None:
    """Write down what comes of something, be it that it failed."""
    started_s = stopwatch_s()
    try:
        story = deed()
    except Exception:  # noqa: BLE001 - told to the test of this kind
        story = {"failed": traceback.format_exc()}
    story["took_s"] = stopwatch_s() - started_s
    written = path.with_suffix(".part")
    written.write_text(json.dumps(story))
    written.rename(path)


def main(folder: Path, where: str, image: str, machines: str, *kinds: str) -> None:
    """Play one fault of each kind; one that fails keeps no other from being played."""
    stories = folder / "stories"
    stories.mkdir(parents=True)
    with_brokers = not set(kinds) <= set(OF_LINKS)
    room = Room(
        folder,
        where,
        image,
        machines=json.loads(machines or "{}"),
        with_brokers=with_brokers,
        with_zookeeper=all(KEEPER in KINDS[kind].only for kind in kinds),
    )
    try:
        for number, kind in enumerate(kinds, start=1):
            tell(stories / f"{kind}.json", partial(room.play, kind, number))
        if with_brokers:
            tell(stories / "refusals.json", room.refusals)
            tell(stories / "end.json", room.end)
    finally:
        room.close()
    os._exit(0)  # No thread of a client keeps it.


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
