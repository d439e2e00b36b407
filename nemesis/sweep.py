"""Heal all faults, brokers and links at the end of the main phase, in this order."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cluster.protocol import CanPause, CanShape, CanTellBack, ClusterError, HasConnections
from nemesis.brokers import GONE, STOPPED, broker_runs
from nemesis.life import Life
from nemesis.protocol import FAILURES, Patience, Site
from nemesis.stalls import BESIDE_S, OPEN_MS, look_good
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until

HEAL_LIMIT_S = 60.0
"""The usual time limit in seconds: once for the heals of all faults, and once more for all
brokers."""
RETRY_S = 1.0
"""Seconds between two attempts to heal a fault after an error."""
LINKS_LIMIT_S = 5.0
LINKS_STAY_S = OPEN_MS[1] / 1000 + 2 * BESIDE_S
"""If links stalled before, all links must work for this many seconds. This is longer than the open
phase of a stalling link plus the longest wait of a probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealReport:
    """The result of healing all faults, brokers and links.

    Attributes:
        done: Sentences on the actions that were necessary.
        failed: Sentences on everything that is not healthy.
        undone: If True, all changes by Logquake are undone: links work and brokers run. `failed`
            may still name things that only the brokers can do: some did not register in time, or
            did not delete a fault's topics.
    """

    done: tuple[str, ...]
    failed: tuple[str, ...]
    undone: bool = False

    @property
    def healed(self) -> bool:
        """Return whether every fault, broker and link is confirmed healthy."""
        return not self.failed


class _Findings:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self.late: list[str] = []
        """Sentences on running brokers that have not registered, and on faults' own topics."""


def sweep(
    lives: Sequence[Life],
    site: Site,
    *,
    away: Collection[str] = (),
    limit_s: float = HEAL_LIMIT_S,
) -> HealReport:
    """Heal faults, start ended brokers, continue paused brokers, reconnect links, and check all.

    Args:
        lives: The active faults.
        site: The run's cluster and hosts.
        away: Nodes that stay down, because a script leaves them down.
        limit_s: The time limit for all faults together, and then once more for all brokers.
    """
    findings = _Findings()
    _heal_faults(lives, site, findings, limit_s)
    # The nodes that keep the metadata come first, because brokers need them.
    nodes = [node for node in (*site.controllers, *site.cluster.nodes) if node not in away]
    _mend_brokers(site, nodes, findings, limit_s=limit_s)
    if site.network is not None:
        _mend_links(site, findings)
    return HealReport(
        done=tuple(findings.done),
        failed=(*findings.failed, *findings.late),
        undone=not findings.failed,
    )


def _heal_faults(lives: Sequence[Life], site: Site, findings: _Findings, limit_s: float) -> None:
    # Undo all faults before any heal is confirmed, because two killed brokers may only be able to
    # come back together.
    refused = [life for life in reversed(lives) if not _undone(life)]
    deadline_s = stopwatch_s() + limit_s
    for life in lives:
        name = f"fault {life.scheduled.fault_id} ({life.scheduled.kind})"
        is_over, why = _ended(life, undone=life not in refused, deadline_s=deadline_s)
        if is_over:
            findings.done.append(f"{name} was healed")
            continue
        undone = _undone(life)
        if _ended(life, undone=undone, deadline_s=0)[0]:  # Its tasks raise a bug only once.
            findings.failed.append(f"{name} was healed, but an earlier attempt failed: {why}")
        else:
            run = life.of_processes and _all_run(site, life.row.targets)
            late = undone and (run or life.of_own_topics)
            kind = findings.late if late else findings.failed
            kind.append(f"{name} is not healed: {why}")


def _ended(life: Life, *, undone: bool, deadline_s: float) -> tuple[bool, str | None]:
    """Return whether a fault has ended and, if not, the reason. Catch all errors.

    So one fault's error does not keep other faults active.
    """
    try:
        return _is_over(life, undone=undone, deadline_s=deadline_s), life.row.spec.not_healed
    except Exception as bug:  # noqa: BLE001 - other faults must still be healed
        return False, f"{type(bug).__name__}: {bug}"


def _undone(life: Life) -> bool:
    """Undo a fault, and return whether that worked. Catch all errors.

    So a bug in one fault, or a full disk below the run's record, does not keep other faults active.
    """
    try:
        return life.heal()
    except Exception:  # noqa: BLE001 - retried, and reported then
        return False


def _is_over(life: Life, *, undone: bool, deadline_s: float) -> bool:
    """Confirm that a fault has ended. If not, undo it again: brokers may still be starting."""
    while True:
        limit_s = max(1.0, deadline_s - stopwatch_s())
        if undone and life.confirm_healed(Patience(limit_s=limit_s)):
            return True
        if stopwatch_s() + RETRY_S >= deadline_s:
            return False
        pause_until(stopwatch_s() + RETRY_S)
        undone = life.heal()


def _mend_brokers(site: Site, nodes: Iterable[str], findings: _Findings, *, limit_s: float) -> None:
    """Start ended brokers, continue paused brokers, and wait until all of them are back."""
    started = [node for node in nodes if site.cluster.process(node) is not None]
    for node in started:
        try:
            if sentence := _mended_broker(site, node):
                findings.done.append(sentence)
        except FAILURES as failed:
            findings.failed.append(f"the broker of {node} could not be restored: {failed}")
    try:
        wait_until(
            lambda: all_back(site, started),
            timeout_s=limit_s,
            what=f"brokers {', '.join(started)} to be registered",
            interval_s=0.2,
        )
    except WaitTimeoutError as late:
        kind = findings.late if _all_run(site, started) else findings.failed
        kind.append(str(late))
    except FAILURES as failed:
        findings.failed.append(str(failed))


def _all_run(site: Site, nodes: Iterable[str]) -> bool:
    return all(broker_runs(site, node) for node in nodes)


def _mended_broker(site: Site, node: str) -> str | None:
    process = site.cluster.process(node)
    state = None if process is None else site.state_of(process)
    if state in GONE:
        site.cluster.start_node(node)
        return f"the broker of {node} had ended and was started again"
    if state in STOPPED:
        if not isinstance(site.cluster, CanPause):
            raise ClusterError("its process is paused, and this cluster cannot continue it")
        site.cluster.resume_node(node)
        return f"the broker of {node} was paused and was continued"
    return None


def all_back(site: Site, nodes: Collection[str]) -> bool:
    """Return whether brokers run and are registered."""
    if not _all_run(site, nodes):
        return False
    cluster = site.cluster
    if isinstance(cluster, CanTellBack):
        return all(cluster.is_back(node) for node in nodes)
    view = cluster.view()
    return view is not None and view.registered.issuperset(nodes)


def _mend_links(site: Site, findings: _Findings) -> None:
    """Remove every remaining cut, shape and block, and probe every link."""
    network, hosts = site.network, site.hosts
    assert network is not None
    nodes = site.machines or (*site.cluster.nodes, *site.controllers)
    # Links of clients are not links of nodes, and exist on some hosts only.
    links = {*itertools.permutations(nodes, 2), *network.ever_cut(), *network.ever_stalled()}
    shapers: CanShape | None = hosts if isinstance(hosts, CanShape) else None
    stalled = network.ever_stalled()
    stay_s = LINKS_STAY_S if stalled else 0.0
    good_since_s: float | None = None

    def work() -> bool:
        nonlocal good_since_s
        began_s = stopwatch_s()
        stall = bool(stalled) and shapers is not None and not look_good(shapers, stalled)
        if stall or not all(network.probe(sorted(links)).values()):
            good_since_s = None
            return False
        good_since_s = began_s if good_since_s is None else good_since_s
        return began_s - good_since_s >= stay_s

    for cut_id in network.cut_ids():
        with _noting(findings, f"cut {cut_id} was removed"):
            network.join(cut_id)
    if shapers is not None:
        for shape_id in shapers.shape_ids():
            with _noting(findings, f"shape {shape_id} was removed"):
                shapers.unshape(shape_id)
                network.note_stall(shape_id, ())
    blockers: HasConnections | None = hosts if isinstance(hosts, HasConnections) else None
    if blockers is not None:
        for block_id in blockers.block_ids():
            with _noting(findings, f"block {block_id} was removed"):
                blockers.unblock(block_id)
                if blockers.is_blocked(block_id):
                    raise ClusterError(f"block {block_id} is still in force after its removal")
    try:
        wait_until(work, timeout_s=LINKS_LIMIT_S + stay_s, what="every link between nodes to work")
    except (*FAILURES, WaitTimeoutError) as failed:
        findings.failed.append(str(failed))


@contextmanager
def _noting(findings: _Findings, done: str) -> Iterator[None]:
    try:
        yield
    except FAILURES as failed:
        findings.failed.append(str(failed))
    else:
        findings.done.append(done)
