"""Repair an attached cluster after a dead run: undo faults, and delete topics and groups."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kio.schema.metadata.v12.response import MetadataResponse

from cluster.hosts.heal import Healed
from cluster.kafka import questions
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterError, Endpoint, UserError
from cluster.systems.attached.asking import Attached
from cluster.systems.attached.clean import clean_up
from cluster.systems.attached.commands import CommandError, Runner
from cluster.systems.attached.marker import Marker, read_marker
from cluster.systems.attached.status import GONE, PAUSED, RUNNING, state_said
from results.record.attached_file import OF_A_RUN
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import node_id
from results.record.paths import RunPaths
from results.record.plan import PlanError

BACK_LIMIT_S = 60.0
"""Seconds to wait until started brokers are registered. Brokers first read their logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The result of repairing a cluster after dead runs.

    Attributes:
        done: A sentence for each action.
        failed: A sentence for each failure.
        whole: The prefixes of the dead runs that have no traces left.
    """

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    whole: frozenset[str] = frozenset()


def mend_attached(path: Path, markers: Sequence[Marker]) -> Mended:
    """Repair the cluster that a file describes, after dead runs.

    Every pair of nodes is reconnected. Paused brokers are resumed, and dead brokers are started.
    Then the topics and groups of these runs are deleted. If there are topics of other runs, which
    may be in progress, no node is changed. In this case only the dead runs' topics and groups are
    deleted, and other traces are reported.

    Args:
        path: The cluster's file, as the user named it.
        markers: The dead runs' markers; if there are none, no command is run.

    Raises:
        PlanError, UserError: The file cannot be used.
    """
    attached = Attached(path)
    mending = _Mending(attached, _places(attached, markers))
    alone = mending.look_for_others({marker.prefix for marker in markers})
    if markers and alone:
        mending.join_all()
        mending.wake_all()
        if not mending.failed:
            mending.wait_back()
    mended = not mending.failed if alone else mending.is_whole()
    cleaned = {marker.prefix for marker in markers if mending.clean(marker.prefix)}
    return Mended(
        done=tuple(mending.done),
        failed=tuple(mending.failed),
        whole=frozenset(cleaned if mended else ()),
    )


def mend_run(path: Path, paths: RunPaths) -> Healed:
    """Undo what a run left on its cluster, according to its marker file. Idempotent.

    Args:
        path: The cluster's file, as the user named it.
        paths: The run's paths. The process that plays the run must have ended.
    """
    marker = read_marker(paths.attached)
    if marker is None:
        return Healed()
    try:
        mended = mend_attached(path, [marker])
    except (ClusterError, UserError, PlanError) as refused:
        mended = Mended(failed=(str(refused),))
    if marker.prefix in mended.whole:
        paths.attached.unlink(missing_ok=True)
        return Healed(done=mended.done, failed=mended.failed)
    left = f"the attached cluster is not as it was before the run; type: logquake heal {path}"
    return Healed(done=mended.done, failed=(*mended.failed, left))


class _Mending:
    def __init__(self, attached: Attached, places: Mapping[str, Endpoint]) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self._attached, self._places = attached, places
        self._runner = Runner(attached.file, attached.path)

    def join_all(self) -> None:
        """Reconnect all pairs of nodes; nothing changes for pairs that are not cut."""
        joined = False
        for node, other in self._pairs():
            try:
                self._runner.do(node_id(node), "join", self._towards(node, other))
                joined = True
            except CommandError as refused:
                self.failed.append(str(refused))
        if joined and not self.failed:
            self.done.append("joined all nodes of the attached cluster")

    def wake_all(self) -> None:
        """Resume paused brokers, and start brokers that do not run."""
        for node in self._places:
            try:
                if said := self._woken(node):
                    self.done.append(said)
            except (CommandError, WaitTimeoutError) as refused:
                self.failed.append(str(refused))

    def wait_back(self) -> None:
        """Wait until all brokers are registered."""

        def are_back() -> bool:
            with suppress(UserError):
                return self._attached.endpoints().keys() >= self._places.keys()
            return False

        try:
            wait_until(are_back, timeout_s=BACK_LIMIT_S, what="all brokers to be registered")
        except WaitTimeoutError as late:
            self.failed.append(str(late))

    def clean(self, prefix: str) -> bool:
        """Delete the topics and groups of a run; return whether that succeeded."""
        try:
            self.done += clean_up(self._attached, prefix)
        except (ClusterError, UserError) as left:
            self.failed.append(str(left))
            return False
        return True

    def look_for_others(self, known: set[str]) -> bool:
        """Return False if the cluster has topics of runs in other stores.

        Those runs may still be in progress.
        """
        try:
            said = self._topics()
        except UserError as silent:
            if not known:
                self.failed.append(str(silent))
            return True  # All brokers are down, so no other run is in progress.
        names = [str(topic.name) for topic in said.topics]
        others = [
            name for name in names if OF_A_RUN.match(name) and not any(map(name.startswith, known))
        ]
        if others:
            self.failed.append(
                f"{others[0]} belongs to a run that is not in this store and may be in progress,"
                " so no node was changed. Wait for its end, or heal its store with --store. If"
                " that store is lost, delete the topic"
            )
        return not others

    def _topics(self) -> MetadataResponse:
        """Ask all known brokers for topics.

        The file may name only a few brokers, which may be down.
        """
        try:
            return self._attached.metadata(None)
        except UserError:
            for at in self._places.values():
                with suppress(WireError):
                    where = (at.host, at.broker_port)
                    return self._attached.ask(where, questions.metadata(None), MetadataResponse)
            raise

    def is_whole(self) -> bool:
        """Return whether all brokers run, are registered and reachable, as far as known."""
        pairs = [
            (node, other)
            for node in self._places
            for other in self._places
            if node != other and self._runner.has(node_id(node), "reach")
        ]
        try:
            return (
                self._attached.endpoints().keys() >= self._places.keys()
                and all(self._runs(node) for node in self._places)
                and all(self._reaches(*pair) for pair in pairs)
            )
        except (CommandError, UserError) as unclear:
            self.failed.append(str(unclear))
            return False

    def _runs(self, node: str) -> bool:
        has = self._runner.has(node_id(node), "status")
        return not has or self._state(node)[0] is RUNNING

    def _reaches(self, node: str, other: str) -> bool:
        return self._runner.run(node_id(node), "reach", self._towards(node, other)).code == 0

    def _woken(self, node: str) -> str:
        broker = node_id(node)
        if not self._runner.has(broker, "status"):
            return ""
        state, pid = self._state(node)
        if state is PAUSED and self._runner.has(broker, "resume"):
            self._runner.do(broker, "resume", {**self._about(node), "pid": pid})
            self._wait_running(node)
            return f"continued the paused broker of {node}"
        if state is GONE and self._runner.has(broker, "start"):
            self._runner.do(broker, "start", self._about(node))
            self._wait_running(node)
            return f"started the broker of {node}"
        return ""

    def _wait_running(self, node: str) -> None:
        limit_s = self._attached.file.limits.start_s
        wait_until(
            lambda: self._state(node)[0] is RUNNING,
            timeout_s=limit_s,
            what=f"the command `status` of {node} to report a running broker",
        )

    def _state(self, node: str) -> tuple[str | None, int]:
        said = self._runner.run(node_id(node), "status", self._about(node))
        return state_said(node_id(node), said)

    def _about(self, node: str) -> dict[str, object]:
        at = self._places[node]
        return {"own_host": at.host, "own_port": at.broker_port}

    def _towards(self, node: str, other: str) -> dict[str, object]:
        at = self._places[other]
        return {**self._about(node), "host": at.host, "port": at.broker_port}

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for node in self._places:
            if self._runner.has(node_id(node), "join"):
                yield from ((node, other) for other in self._places if other != node)


def _places(attached: Attached, markers: Sequence[Marker]) -> dict[str, Endpoint]:
    """Return the brokers' addresses from dead runs' markers, and from the brokers themselves."""
    found: dict[str, Endpoint] = {}
    for marker in markers:
        found |= marker.places
    # The brokers may be cut off or dead, which is what this module repairs.
    with suppress(UserError):
        found |= attached.endpoints()
    return found
