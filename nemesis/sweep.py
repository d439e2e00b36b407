"""The heal of everything at the end of the main phase: faults, then brokers, then links."""

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
"""As a rule, for each of: the heals of faults together, all brokers being back."""
RETRY_S = 1.0
"""Between two tries to heal a fault, where one ends with an error."""
LINKS_LIMIT_S = 5.0
LINKS_STAY_S = OPEN_MS[1] / 1000 + 2 * BESIDE_S
"""Where links stalled, so long all have to work: longer than one that stalls is open in
between, and than a probe may wait for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealReport:
    """What the heal of everything came to.

    Attributes:
        done: What had to be done, in sentences.
        failed: What is not as it should be, in sentences.
        undone: Whether nothing of ours is in force all the same: links are whole and brokers run,
            and what failed is that they did not register in time, or did not delete a fault's own
            topics, which is their own doing.
    """

    done: tuple[str, ...]
    failed: tuple[str, ...]
    undone: bool = False

    @property
    def healed(self) -> bool:
        """Whether every fault, broker and link was seen to be whole."""
        return not self.failed


class _Findings:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self.late: list[str] = []
        """Of brokers that run and have not registered, and of topics that nobody else uses."""


def sweep(
    lives: Sequence[Life],
    site: Site,
    *,
    away: Collection[str] = (),
    limit_s: float = HEAL_LIMIT_S,
) -> HealReport:
    """Heal faults, start and continue brokers, join links, and see that all of it worked.

    Args:
        lives: The faults in force.
        site: Where.
        away: Nodes that stay as they are: a script leaves them down.
        limit_s: How long to wait for the faults together, and for all brokers to be back.
    """
    findings = _Findings()
    _heal_faults(lives, site, findings, limit_s)
    # Brokers start once those answer who keep the metadata.
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
    # All are undone before any is confirmed: of two brokers killed neither may be back alone.
    refused = [life for life in reversed(lives) if not _undone(life)]
    deadline_s = stopwatch_s() + limit_s
    for life in lives:
        name = f"fault {life.scheduled.fault_id} ({life.scheduled.kind})"
        is_over, why = _ended(life, undone=life not in refused, deadline_s=deadline_s)
        if is_over:
            findings.done.append(f"{name} was healed")
            continue
        undone = _undone(life)
        if _ended(life, undone=undone, deadline_s=0)[0]:  # Its tasks tell of a bug once.
            findings.failed.append(f"{name} was healed, and failed before: {why}")
        else:
            run = life.of_processes and _all_run(site, life.row.targets)
            late = undone and (run or life.of_own_topics)
            kind = findings.late if late else findings.failed
            kind.append(f"{name} is not healed: {why}")


def _ended(life: Life, *, undone: bool, deadline_s: float) -> tuple[bool, str | None]:
    """See that a fault is over, or why it is not; its failure may not keep others in force."""
    try:
        return _is_over(life, undone=undone, deadline_s=deadline_s), life.row.spec.not_healed
    except Exception as bug:  # noqa: BLE001 - one fault may not keep others in force
        return False, f"{type(bug).__name__}: {bug}"


def _undone(life: Life) -> bool:
    """Undo a fault; a bug in it, or a ledger on a full disk, may not keep others in force."""
    try:
        return life.heal()
    except Exception:  # noqa: BLE001 - tried again, and told then
        return False


def _is_over(life: Life, *, undone: bool, deadline_s: float) -> bool:
    """See that a fault is over; undo it again while that fails, for brokers are still starting."""
    while True:
        limit_s = max(1.0, deadline_s - stopwatch_s())
        if undone and life.confirm_healed(Patience(limit_s=limit_s)):
            return True
        if stopwatch_s() + RETRY_S >= deadline_s:
            return False
        pause_until(stopwatch_s() + RETRY_S)
        undone = life.heal()


def _mend_brokers(site: Site, nodes: Iterable[str], findings: _Findings, *, limit_s: float) -> None:
    """Start brokers that ended and continue those that stand still; wait until all are back."""
    started = [node for node in nodes if site.cluster.process(node) is not None]
    for node in started:
        try:
            if sentence := _mended_broker(site, node):
                findings.done.append(sentence)
        except FAILURES as failed:
            findings.failed.append(f"the broker of {node} could not be mended: {failed}")
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
            raise ClusterError("it is stopped, and this cluster cannot continue it")
        site.cluster.resume_node(node)
        return f"the broker of {node} stood still and was continued"
    return None


def all_back(site: Site, nodes: Collection[str]) -> bool:
    """Tell whether brokers run and are registered."""
    if not _all_run(site, nodes):
        return False
    cluster = site.cluster
    if isinstance(cluster, CanTellBack):
        return all(cluster.is_back(node) for node in nodes)
    view = cluster.view()
    return view is not None and view.registered.issuperset(nodes)


def _mend_links(site: Site, findings: _Findings) -> None:
    """Remove every cut, shape and block that is left, and probe every link."""
    network, hosts = site.network, site.hosts
    assert network is not None
    nodes = site.machines or (*site.cluster.nodes, *site.controllers)
    # Those of clients are not among the nodes', and not all hosts have them.
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
