"""Starts what plays one fault of each kind on each kind of hosts, and hands out the stories.

What is asked for is told beforehand, so that rooms are played side by side while tests wait for
theirs: mostly they wait, for sessions to end and brokers to come back.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cluster.hosts.docker.objects import heal_docker
from cluster.hosts.groups import remove_groups
from cluster.hosts.namespace import enter_prefix
from cluster.kafka.fetch import fetch_kafka
from nemesis.claims import Aspect
from nemesis.registry import KINDS
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.cluster_hosts.hubs import REPOSITORY, as_ordinary_user
from tests.docker_lab import daemon
from tests.images.java_image import java_image
from tests.nemesis.all_proofs import KAFKA, KAFKA_WITH_ZOOKEEPER, OF_LINKS
from tests.ssh_lab import Lab

PROCESS, NAMESPACE, DOCKER, SSH = "process", "namespace", "docker", "ssh"
ORDINARY_USER = "namespace-ordinary-user"
WITH_ZOOKEEPER = "-zookeeper"
"""Ends the name of a room whose metadata ZooKeeper keeps."""
AT_ONCE = 3
"""Rooms that are played side by side."""
LIMIT_S = 1000.0
"""Of a room, which takes a third of it where nothing else runs."""
TOLD_LIMIT_S = 1400.0
Story = Mapping[str, Any]


class Rooms:
    """The rooms of a session of tests.

    Args:
        scratch: A folder that every user may enter.
        wanted: The rooms and kinds that will be asked for.
    """

    def __init__(self, scratch: Path, wanted: Iterable[tuple[str, str]]) -> None:
        self._scratch, self._undo = scratch, ExitStack()
        self._running: list[subprocess.Popen[str]] = []
        self._over = threading.Event()
        kinds: dict[tuple[str, bool], list[str]] = {}
        # Who leads by itself is whom the topic was made with, as long as no broker was away.
        by_itself = sorted(
            dict.fromkeys(wanted), key=lambda each: KINDS[each[1]].aspect is not Aspect.CLUSTER
        )
        for room, kind in by_itself:
            kinds.setdefault((room, kind in OF_LINKS), []).append(kind)
        # A lab for each part: what one cuts between two machines would be cut for the other's.
        self._labs = {
            of_links: self._undo.enter_context(Lab(self._folder(f"lab-{of_links}")))
            for room, of_links in kinds
            if room == SSH
        }
        if DOCKER in {room for room, _ in kinds}:
            self._undo.enter_context(daemon())
            java_image()
        # A room may have no network, so what is played there must be in the cache before.
        played = {room.endswith(WITH_ZOOKEEPER) for room, of_links in kinds if not of_links}
        for with_zookeeper in sorted(played):
            fetch_kafka(KAFKA_WITH_ZOOKEEPER if with_zookeeper else KAFKA, progress=print)
        pool = ThreadPoolExecutor(AT_ONCE)
        self._undo.callback(pool.shutdown)
        # What takes longest comes first.
        order = sorted(kinds, key=lambda each: each[1])
        self._played: dict[tuple[str, bool], Future[str]] = {
            (room, of_links): pool.submit(
                self._play, room, kinds[room, of_links], of_links=of_links
            )
            for room, of_links in order
        }

    def story(self, room: str, kind: str) -> Story:
        """Return how a kind went in a room; wait for it if need be."""
        return self._told(room, kind, of_links=kind in OF_LINKS)

    def refusals(self, room: str) -> Story:
        """Return why a room with brokers refused some faults."""
        return self._told(room, "refusals", of_links=False)

    def end(self, room: str) -> Story:
        """Return what was left in the end of a room with brokers."""
        return self._told(room, "end", of_links=False)

    def _told(self, room: str, name: str, *, of_links: bool) -> Story:
        played = self._played[room, of_links]
        path = self._place(room, of_links=of_links) / "run" / "stories" / f"{name}.json"
        wait_until(
            lambda: path.exists() or played.done(),
            timeout_s=TOLD_LIMIT_S,
            what=f"{name} in {room}",
        )
        assert path.exists(), f"{name} was not told in {room}: {played.result()}"
        story: Story = json.loads(path.read_text())
        assert "failed" not in story, story["failed"]
        return story

    def close(self) -> None:
        """End whatever still runs, and remove all."""
        self._over.set()
        for process in tuple(self._running):  # Whoever waits for one takes it off.
            process.kill()
        self._undo.close()

    def _play(self, room: str, kinds: list[str], *, of_links: bool) -> str:
        if self._over.is_set():
            return "it was ended before"
        folder = self._place(room, of_links=of_links)
        folder.mkdir()
        argv = self._command(room, folder, kinds)
        paths = {"HOME": str(folder), "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
        if not of_links:
            del paths["HOME"]  # Kafka is kept there.
        with (folder / "said").open("w") as said:
            process = subprocess.Popen(
                argv,
                env={**os.environ, **paths},
                cwd=REPOSITORY,
                stdout=said,
                stderr=said,
                text=True,
            )
            self._running.append(process)
            try:
                process.wait(LIMIT_S)
            finally:
                process.kill()
                process.wait()
                self._running.remove(process)
                remove_groups(RunPaths(folder / "run").processes)  # Of who was killed.
                if room == DOCKER:
                    heal_docker(folder / "run")
        return (folder / "said").read_text()

    def _command(self, room: str, folder: Path, kinds: list[str]) -> list[str]:
        script = str(Path(__file__).with_name("play_faults.py"))
        room = room.removesuffix(WITH_ZOOKEEPER)
        where, image, machines, prefix = room, "", "", list[str]()
        if room == DOCKER:
            image = java_image()
        elif room == SSH:
            lab = self._labs[set(kinds) <= set(OF_LINKS)]
            where = f"ssh:{lab.hosts_file()}"
            inits = {f"n{at}": each.init for at, each in enumerate(lab.machines, start=1)}
            machines = json.dumps(inits)
            prefix = ["nsenter", f"--net=/proc/{lab.hub}/ns/net", "--"]
        elif room != PROCESS:
            where, prefix = NAMESPACE, enter_prefix(root=room == NAMESPACE)
        argv = [
            *prefix,
            sys.executable,
            script,
            str(folder / "run"),
            where,
            image,
            machines,
            *kinds,
        ]
        return (
            as_ordinary_user(argv, folder) if room == ORDINARY_USER and not os.geteuid() else argv
        )

    def _place(self, room: str, *, of_links: bool) -> Path:
        return self._scratch / f"{room}-{'links' if of_links else 'brokers'}"

    def _folder(self, name: str) -> Path:
        folder = self._scratch / name
        folder.mkdir(mode=0o700)
        return folder
