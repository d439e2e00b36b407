"""A small harness to be killed: hosts up, something that runs, faults, hosts down, and again.

`python -m tests.cluster_hosts.small_harness session PLAN STORE SEED` is the outer half, as that of
a real run: it makes the run's folder, holds its lock, and starts the inner half (`stage`) through
the hosts' prefix. The stage writes each thing that it is about to do into `deeds` in the run's
folder, so that it can be killed in the middle of it, and lives until then.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from random import Random

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import make_hosts
from cluster.hosts.ledger import mark
from cluster.hosts.namespace import enter_prefix
from cluster.protocol import (
    Ability,
    CanFaultDisk,
    CanLimitDisk,
    CanLimitResources,
    CanPartition,
    CanShape,
    CanShiftClock,
    CanSlowDisk,
    Command,
    Connection,
    HasConnections,
    HasFiles,
    Hosts,
    Link,
    ProcessId,
    Quality,
)
from harness.interrupt import die_with_parent
from nemesis.families import breaks_disks
from nemesis.ledger import Ledger
from nemesis.undo import (
    FreeResources,
    Join,
    MendDisk,
    QuickenDisk,
    Restart,
    Resume,
    Unblock,
    Undo,
)
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan, load_plan, plan_from
from results.store import Store

NODES = ("n1", "n2", "n3")
DEEDS = "deeds"
"""In the run's folder: a line for each thing that was begun."""
HOLD = "LOGQUAKE_TEST_HOLD"
"""Environment variable: before which deed, counted from 1, it waits for the file `GO`."""
ONLY = "LOGQUAKE_TEST_ONLY"
"""Environment variable: the name of the only fault that it injects."""
GO = "go"
GO_LIMIT_S = 60.0
BLOCKED = [Connection(client="n1", client_port=40_000, server="n2", server_port=9092)]
BROKER = ("sh", "-c", "setsid sleep 1000 & sleep 1000 & exec sleep 1000")
"""Stands for a broker: with a child, and one that went its own way."""


def session(plan_file: Path, store: Path, seed: int) -> None:
    """Make a run, and play it in a process of its own."""
    plan = plan_from(load_plan(plan_file))
    prefix = enter_prefix() if plan.hosts == "namespace" else []
    with Store(store).create("crash", seed) as paths:
        paths.plan.write_text(dump_plan(plan), encoding="utf-8")
        stage_line = [sys.executable, "-m", "tests.cluster_hosts.small_harness", "stage"]
        played = subprocess.Popen(
            [*prefix, *stage_line, str(paths.root), str(store), str(seed)],
            stdin=subprocess.PIPE,
            env=os.environ | mark(paths.processes),
            start_new_session=True,
        )
        (paths.root / "stage.pid").write_text(str(played.pid))
        played.wait()


def stage(root: Path, seed: int) -> None:
    """Make hosts, break them, heal them, take them down; again and again, until somebody kills."""
    die_with_parent()
    paths = RunPaths(root)
    plan = plan_from(load_plan(paths.plan))
    harness = SmallHarness(plan, paths, Random(seed))
    while True:
        harness.live()


@dataclass(frozen=True, slots=True)
class Deed:
    """A fault: what would undo it, how it is done, and how undone."""

    name: str
    undo: tuple[Undo, ...]
    inject: Callable[[], object]
    heal: Callable[[], object]


class SmallHarness:
    """What lives in the stage.

    Args:
        plan: Which hosts.
        paths: The run's.
        rng: Decides on the faults.
    """

    def __init__(self, plan: Plan, paths: RunPaths, rng: Random) -> None:
        self._plan, self._paths, self._rng = plan, paths, rng
        self._ledger = Ledger(paths.ledger)
        self._faults = 0
        self._deeds = 0
        why_not = abilities_of(plan.hosts)
        self._can = {each for each in Ability if not why_not.get(each, "no")}

    def live(self) -> None:
        """Make the hosts, break and heal, and take them down."""
        plan = self._plan
        hosts = make_hosts(
            plan.hosts, NODES, self._paths.processes, image=plan.image, disk_mb=plan.disk_mb,
            faulty_disks=breaks_disks(plan),
        )  # fmt: skip
        self._tell("up")
        hosts.up()
        brokers = {node: self._start(hosts, node) for node in NODES}
        faults = [
            each
            for each in self._faults_of(hosts, brokers)
            if each.name == os.environ.get(ONLY, each.name)
        ]
        for deed in self._rng.sample(faults, min(len(faults), 5)):
            self._faults += 1
            self._ledger.write(self._faults, deed.undo)
            self._tell(f"inject {deed.name}")
            deed.inject()
            self._tell(f"heal {deed.name}")
            deed.heal()
            self._ledger.strike(self._faults)
        self._tell("down")
        hosts.down()

    def _start(self, hosts: Hosts, node: str) -> ProcessId:
        self._tell(f"spawn {node}")
        folder = self._paths.node(node)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(hosts, HasFiles):
            hosts.provide(node, [])
        env: Mapping[str, str] = {}
        if isinstance(hosts, CanShiftClock) and Ability.CLOCK in self._can:
            env = hosts.clock_environment(node)
        limited = isinstance(hosts, CanLimitResources) and Ability.RESOURCES in self._can
        log = folder / "logs" / "broker"
        return hosts.spawn(
            node, Command(argv=BROKER, log=log, cwd=folder, env=env, limited=limited)
        )

    def _faults_of(self, hosts: Hosts, brokers: dict[str, ProcessId]) -> Iterator[Deed]:
        node = self._rng.choice(NODES)
        broker = brokers[node]
        links = list(permutations(NODES, 2))[: self._rng.randint(1, 6)]
        yield Deed(
            "pause",
            (Resume(node=node, pid=broker.pid, start_ticks=broker.start_ticks),),
            lambda: hosts.send_signal(broker, signal.SIGSTOP),
            lambda: None,  # It stays so to the end: nobody hears SIGTERM or the end of a pipe.
        )
        yield Deed(
            "kill",
            (Restart(node=node),),
            lambda: hosts.send_signal(broker, signal.SIGKILL),
            lambda: self._start(hosts, node),
        )
        if isinstance(hosts, CanPartition) and Ability.CUT in self._can:
            yield Deed(
                "cut",
                (Join(cut_id="c", links=tuple(links)),),
                lambda: hosts.cut("c", links),
                lambda: hosts.join("c"),
            )
        if isinstance(hosts, CanShape) and Ability.SHAPE in self._can:
            slow = Quality(delay_ms=20, loss=0.2, seed=1)
            yield Deed(
                "shape",
                (),
                lambda: hosts.shape("s", links, slow),
                lambda: hosts.unshape("s"),
            )
            yield Deed(
                "stall",
                (),
                lambda: self._stall(hosts, links),
                lambda: hosts.unshape("h"),
            )
        if isinstance(hosts, HasConnections) and Ability.CONNECTIONS in self._can:
            yield Deed(
                "block",
                (Unblock(block_id="b"),),
                lambda: hosts.block("b", BLOCKED),
                lambda: hosts.unblock("b"),
            )
        if isinstance(hosts, CanLimitDisk) and self._plan.disk_mb:
            yield Deed("full", (), lambda: hosts.fill_disk(node), lambda: hosts.empty_disk(node))
        if isinstance(hosts, CanFaultDisk) and isinstance(hosts, CanSlowDisk):
            undo = (MendDisk(node=node),)
            broken = partial(hosts.fault_disk, node, "refused", ["write"])
            yield Deed("broken", undo, broken, partial(hosts.mend_disk, node))
            late, quick = partial(hosts.slow_disk, node, 0.5), partial(hosts.quicken_disk, node)
            yield Deed("late", (QuickenDisk(node=node),), late, quick)
        if isinstance(hosts, CanShiftClock) and Ability.CLOCK in self._can:
            yield Deed(
                "clock",
                (),
                lambda: hosts.set_clock(node, offset_s=100, rate=2),
                lambda: hosts.reset_clock(node),
            )
        if isinstance(hosts, CanLimitResources) and Ability.RESOURCES in self._can:
            yield from self._limits(hosts, node)

    def _limits(self, hosts: CanLimitResources, node: str) -> Iterator[Deed]:
        undo = (FreeResources(node=node),)
        yield Deed(
            "processor",
            undo,
            lambda: hosts.limit_processor(node, 0.05),
            lambda: hosts.limit_processor(node, None),
        )
        yield Deed(
            "memory",
            undo,
            lambda: hosts.limit_memory(node, 1 << 26),
            lambda: hosts.limit_memory(node, None),
        )

    def _stall(self, hosts: CanShape, links: list[Link]) -> None:
        """Have links stall, and hold something."""
        hosts.shape("h", links, Quality(stall_ms=600_000, open_ms=1))
        held = hosts.volley(links, count=20)
        wait_until(
            lambda: all(each.sent == 20 for each in held.look().values()),
            timeout_s=GO_LIMIT_S,
            what="something to be held",
        )

    def _tell(self, deed: str) -> None:
        with (self._paths.root / DEEDS).open("a") as file:
            file.write(f"{deed}\n")
        self._deeds += 1
        if os.environ.get(HOLD) == str(self._deeds):
            told = self._paths.root / GO
            wait_until(told.exists, timeout_s=GO_LIMIT_S, what="the word", interval_s=0.001)


if __name__ == "__main__":
    if sys.argv[1] == "session":
        session(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        stage(Path(sys.argv[2]), int(sys.argv[4]))
