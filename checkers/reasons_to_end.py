"""Decide whether a fault of the run explains why a server process ended or was paused.

The module `broker_ended` lists, for each fault, how the fault may end a process, and why.
"""

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from checkers.changes import (
    FOUND_LATE_NS,
    HANDLES,
    MEMORY,
    PROCESSOR,
    SETTLED_NS,
    deeds,
    takes_keeper,
)
from checkers.columns import NEVER, ints, select, texts
from checkers.disk_losses import LYING, Json, heal_begun_ns, json_object, took_nothing, was_begun
from checkers.facts import RunFacts
from checkers.group import Group
from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.terms import NO_HANDLE, UNMEASURED
from results.record.tuning import gives_up_ms

_TAKING = ("wipe", "bit-flip", "power-loss")
_HINDERING = ("disk-full", "read-only")
_BREAKING = "disk-errors"
"""The fault family that makes a broker's disk requests fail."""
_SHORT = "short"
"""A kind of disk error: a write stores only the first half of its data, and reports this."""
_LATE = "slow-disks"
"""The fault family that delays all requests to a real disk."""
_GOES_DOWN_NS = 30 * NS_PER_S
"""The maximum time from a broker's decision to give up until Logquake notices the broker's end."""
_RECOVERS_NS = 60 * NS_PER_S
"""After this time, a broker usually has fetched the data again that a fault took from its disk."""
_STARTING = ("kill", "stop", "rolling-restart")
"""Each of these faults stops a broker. The fault ends when that broker has registered again."""
_SHUTTING_OUT = (
    *_STARTING, *_TAKING, "pause", "isolate", "halves", "one-way-in", "one-way-out", "ring",
    "bridge", "flapping",
)  # fmt: skip
"""The faults that may disconnect a broker from the controllers, or stop the controllers."""
_WANTS = frozenset({HANDLES, PROCESSOR, MEMORY})
"""Resource faults. A controller with such a fault responds late or never."""
_STALLS = "stall"
"""The fault family that stalls links, and so delays the responses of a controller. Each request and
each response may wait for one stall, and a starting broker sends many requests."""
_REGISTERS_NS = 5 * NS_PER_S
"""The longest time for which a starting broker may already have waited when a fault begins."""
_SEEN_LATE_NS = 2 * FOUND_LATE_NS
"""The maximum time from a broker's last log line until Logquake notices that the broker ended."""
_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
"""Matches the time at the beginning of a log line, by the broker's own clock."""
_FORMAT = "%Y-%m-%d %H:%M:%S,%f"
_GIVING_UP = re.compile(
    r"unable to register with the controller quorum|Timed out while waiting for"
    r"|fatal error while waiting for the controller to acknowledge|ZooKeeperClientTimeoutException"
    r"|ZkTimeoutException"
)
"""The log lines that Kafka writes when a starting broker stops waiting. Sources:
BrokerLifecycleManager, FutureUtils.waitWithLogging, ZooKeeperClient, and ZkClient up to 1.0."""
_START_FAILED = re.compile(r"Fatal error during KafkaServer startup|Exiting Kafka")
"""The log line that a broker with ZooKeeper writes after any failed start. Runs of older versions
have no other line about a broker that gave up."""
_COMPLAINT = re.compile(rf"^(?!at ).*(?:FATAL|ERROR|Exception|Error:|{NO_HANDLE})")
"""Matches a log line that reports an error. Lines of a stack trace do not match."""
_LOGS_FAILED = re.compile("all log dirs .*have failed")
"""The log line of Kafka's LogManager before it halts the broker."""
_NO_MEMORY = "Terminating due to java.lang.OutOfMemoryError"
"""The last line of a JVM that exits because it lacks memory (`ExitOnOutOfMemoryError`)."""
STARVING = frozenset({HANDLES, MEMORY})
"""The resource faults that may end a broker."""
BY_KERNEL = f"was ended by {signal.SIGKILL.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end or the pause (SIGSTOP) of a process.

    Attributes:
        node: The node of the process.
        incarnation: The number of this start of the process, from the run's record.
        seen_ns: When Logquake noticed the end.
        how: A phrase for the report, such as `with exit code 1`.
        outside: Whether another program may have caused the end.
        signalled: Whether a signal certainly caused the end.
        disk_failed: Whether Logquake's own file system, which holds the node's data, had failed
            before the end.
        told: Whether Logquake had asked the process to stop.
        said: The last error lines that the process logged.
    """

    node: str
    incarnation: str
    seen_ns: int
    how: str
    outside: bool
    signalled: bool
    disk_failed: bool
    told: bool
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """One row of `faults`: a fault that may have affected its target nodes.

    Attributes:
        kind: The fault kind in the row.
        did: The fault's effect on servers (`changes.deeds`).
        family: The fault's family in the plan.
        nodes: The targets.
        of_keeper: Whether the fault hits ZooKeeper.
        asked_ns, confirmed_ns, healed_ns: When the fault was requested, confirmed and healed. -1 if
            the step did not happen.
        healing_ns: When the heal began. -1 if unknown.
        spec, effect, heal: The JSON objects in the row.
    """

    kind: str
    did: str
    family: str
    nodes: frozenset[str]
    of_keeper: bool
    asked_ns: int
    confirmed_ns: int
    healed_ns: int
    healing_ns: int
    spec: Json
    effect: Json
    heal: Json

    def hit(self, end: End) -> bool:
        """Return whether the fault targeted the process's node before the process ended."""
        return end.node in self.nodes and self.asked_ns <= end.seen_ns

    @property
    def took_data(self) -> bool:
        """Whether the fault may have taken data from the disks of its targets."""
        lied = self.family == LYING and not took_nothing(self.spec, self.effect)
        return self.kind in _TAKING or lied

    def was_over(self, at_ns: int) -> bool:
        """Return whether the fault was healed before a time."""
        return 0 <= self.healed_ns < at_ns

    def was_felt(self, at_ns: int) -> bool:
        """Return whether the fault was confirmed at or before a time."""
        return 0 <= self.confirmed_ns <= at_ns

    @property
    def is_old(self) -> bool:
        """Whether the row is from an old version, which did not record affected incarnations."""
        return "incarnations" not in self.spec

    def lives_since(self, end: End) -> int | None:
        """Return how many restarts lie between the incarnation that was hit and the ended one.

        0 means that the fault hit the ended incarnation itself. None means that it is unknown which
        incarnation the fault hit. In runs of older versions, the effect names the incarnations.
        """
        told = self.spec.get("incarnations") or self.effect.get("incarnations")
        hit = told.get(end.node) if isinstance(told, dict) else None
        if isinstance(hit, int) and end.incarnation.isdecimal():
            return int(end.incarnation) - hit
        return None


def _faults(group: Group) -> tuple[_Fault, ...]:
    table = group.table("faults")
    rows = select(table, was_begun(table))
    texts_of = (texts(rows, name) for name in ("kind", "spec", "effect", "heal_effect"))
    times = (ints(rows, name).tolist() for name in ("requested_ns", "confirmed_ns", "healed_ns"))
    each = zip(
        deeds(rows), takes_keeper(rows), rows["targets"].to_pylist(), *texts_of, *times, strict=True
    )
    return tuple(
        _Fault(
            kind=kind,
            did=did,
            family=str(json_object(spec).get("family") or ""),
            nodes=frozenset(nodes or ()),
            of_keeper=of_keeper,
            asked_ns=times_ns[0],
            confirmed_ns=times_ns[1],
            healed_ns=times_ns[2],
            healing_ns=heal_begun_ns(heal, times_ns[2]) if times_ns[2] >= 0 else -1,
            spec=json_object(spec),
            effect=json_object(effect),
            heal=json_object(heal),
        )
        for did, of_keeper, nodes, kind, spec, effect, heal, *times_ns in each
    )


def explains(group: Group, end: End) -> bool:
    """Return whether a fault of the run may be the reason why a process ended.

    If Logquake's own file system below the process had failed, no fault is the reason.
    """
    if end.disk_failed:
        return False
    faults = group.view(_faults)
    mine = [each for each in faults if each.hit(end)]
    return (
        (
            not (end.outside and end.signalled)
            and any(_of_disk(group.facts, each, end) for each in mine)
        )
        or any(_starved(each, end) for each in mine)
        or _shut_out(group.facts, mine, faults, end)
    )


def may_explain(group: Group, end: End) -> bool:
    """Return whether a process may have ended because a fault had taken data long before."""
    return not (end.disk_failed or (end.outside and end.signalled)) and any(
        each.hit(end) and each.took_data and _may_lack(group.facts, each, end)
        for each in group.view(_faults)
    )


def _may_lack(facts: RunFacts, fault: _Fault, end: End) -> bool:
    """Return whether a process may have run on a disk from which a fault had taken data.

    Such a fault stops the broker. The next incarnation starts on the remaining data. A later
    incarnation has the missing records, unless the one before it ended by itself, or the fault was
    over only a short time ago.
    """
    since = fault.lives_since(end)
    if since in {None, 0, 1} or not fault.was_over(end.seen_ns):
        return True
    assert since is not None
    early = not fault.was_over(end.seen_ns - _RECOVERS_NS)
    return since > 1 and (early or _ended_before(facts, end))


def _ended_before(facts: RunFacts, end: End) -> bool:
    """Return whether the incarnation before a process ended by itself, too."""
    before = str(int(end.incarnation) - 1)
    return any(
        each.name == ENDED
        and (each.detail.get("node"), each.detail.get("incarnation")) == (end.node, before)
        for each in facts.milestones
    )


def _of_disk(facts: RunFacts, fault: _Fault, end: End) -> bool:
    """Return whether a fault of the node's disk may be the reason why the process ended."""
    if fault.took_data:
        early = not fault.was_over(end.seen_ns - _RECOVERS_NS)
        return early and _may_lack(facts, fault, end)
    if any(_NO_MEMORY in line for line in end.said):
        return False  # A failed disk request fills no memory.
    if fault.kind in _HINDERING:
        return not fault.was_over(end.seen_ns - _GOES_DOWN_NS)
    breaks = fault.family == _BREAKING and _gives_reason(fault, end.node)
    return breaks and _was_on_it(fault, end)


def _was_on_it(fault: _Fault, end: End) -> bool:
    """Return whether a broker process ran while requests to its disk failed.

    The heal repairs the disk, kills a broker that still runs, and starts the next incarnation. That
    next incarnation has a working disk.
    """
    since = fault.lives_since(end)
    if since is not None:
        return since == 0
    mended_ns = fault.healing_ns if fault.healing_ns >= 0 else fault.healed_ns
    return not 0 <= mended_ns < end.seen_ns - FOUND_LATE_NS


def _gives_reason(fault: _Fault, node: str) -> bool:
    """Return whether failed disk requests gave a broker a reason to end.

    There are three cases without a reason:

    - A write stored its first half and reported this. write(2) allows this, and the caller
      continues with the rest.
    - The fault affected no request of the broker before the fault's heal. Rows of older versions
      count only the requests until the confirmation, and only for brokers that had ended by then.
    - Logquake tried to measure the fault's effect, but found none in time.
    """
    effect, heal = fault.effect, fault.heal
    if _SHORT in (effect.get("how"), heal.get("how")):
        return False
    in_all = heal.get("met")
    if isinstance(in_all, dict):
        return in_all.get(node) != 0
    ended, met = effect.get("ended"), effect.get("met")
    if isinstance(ended, list) and node in ended and isinstance(met, dict) and met.get(node) == 0:
        return False
    return effect.get("without_effect") != UNMEASURED


def _starved(fault: _Fault, end: End) -> bool:
    """Return whether a fault that limited a resource of the node is the reason for the end.

    The next incarnation has normal limits again. A fault that takes file handles may count without
    a confirmation: it is enough that the broker logged the lack of handles. The broker may have
    halted between two probes.
    """
    if fault.lives_since(end) != 0 or fault.was_over(end.seen_ns - _GOES_DOWN_NS):
        return False
    felt, heal = fault.confirmed_ns >= 0, {} if fault.healed_ns < 0 else fault.heal
    if fault.did == HANDLES and not end.signalled:
        return _lacked_handles(fault, end, heal) if heal or end.said else felt
    return fault.did == MEMORY and felt and _killed_by_kernel(end, heal)


def _lacked_handles(fault: _Fault, end: End, heal: Json) -> bool:
    """Return whether a broker's last log lines show that it ended because it lacked a file handle.

    The last error line must report the lack of a handle. Other threads may log more lines until the
    broker halts. So, if a line reports that all log directories failed, the lack may be reported on
    any line. A thread that accepts connections may also lack handles, but such a thread continues.
    In runs of older versions, it is enough if the first line about the lack has no `ERROR`.

    If the record of the broker's end has no lines, the function uses the lines from the fault's
    heal. Before the heal, these lines are unknown, and `heal` is empty.
    """
    said = heal.get("said")
    noted = said.get(end.node) if isinstance(said, dict) else None
    words = end.said or (map(str, noted) if isinstance(noted, list) else ())
    complaints = [line for line in words if _COMPLAINT.search(line)]
    lacked = [NO_HANDLE in line for line in complaints]
    failed = any(_LOGS_FAILED.search(line) for line in complaints)
    first = fault.is_old and any(lacked) and "ERROR" not in complaints[lacked.index(True)]
    return any(lacked) and (lacked[-1] or failed or first)


def _killed_by_kernel(end: End, heal: Json) -> bool:
    """Return whether the kernel killed a broker because memory ran out.

    Before the fault's heal, the kernel's kill count is unknown, and `heal` is empty.
    """
    if end.how != BY_KERNEL or not heal:
        return end.how == BY_KERNEL
    kills = heal.get("kills")
    counted = kills.get(end.node) if isinstance(kills, dict) else None
    return isinstance(counted, int) and counted > 0


def _shut_out(facts: RunFacts, mine: Sequence[_Fault], faults: Sequence[_Fault], end: End) -> bool:
    """Return whether a broker gave up its start because faults kept it from its controllers.

    Two faults count as one if the broker had no time to register between the faults. The faults
    must last for as long as Kafka waits, and until the broker gave up. If the last fault ended
    earlier, the broker must have had too little time to register afterwards.

    This time counts only if the broker's last log lines are recorded. Without these lines, the
    faults must overlap, and must last until the end of the broker was noticed.
    """
    is_old = facts.plan.kept_outside and all(each.is_old for each in faults)
    if end.outside or end.signalled or (end.said and not _gave_up(end, is_old=is_old)):
        return False
    gives_up_ns, span = _gives_up_ns(facts, end.node), _given_up_between(facts, end)
    starting = [
        each
        for each in mine
        if _starts(each, end) and each.asked_ns + gives_up_ns <= span[1]  # It started later.
    ]
    away = [each for each in faults if _keeps_away(each, end, facts)]
    grace_ns = SETTLED_NS if end.said else 0
    return any(
        max(from_ns + gives_up_ns - _REGISTERS_NS, span[0]) <= min(until_ns, span[1])
        for each in starting
        for from_ns, until_ns in _joined((other for other in away if other is not each), grace_ns)
    )


def _gives_up_ns(facts: RunFacts, node: str) -> int:
    """Return how long the settings let a starting broker wait for ZooKeeper or a controller."""
    settings = {**facts.plan.broker, **facts.plan.node.get(node, {})}
    return gives_up_ms(settings, kept_outside=facts.plan.kept_outside) * 1_000_000


def _given_up_between(facts: RunFacts, end: End) -> tuple[int, int]:
    """Return the earliest and the latest time at which a broker gave up its start.

    The times in the broker's log show how long the broker continued afterwards. If the run shifts
    clocks, these times are not used.
    """
    if not end.said:
        return end.seen_ns, end.seen_ns
    lived_ns = None if facts.plan.shifts_clocks else _lived_on_ns(end.said)
    if lived_ns is None:
        return end.seen_ns - _GOES_DOWN_NS, end.seen_ns
    main = facts.milestone("main-ended")  # Later, Logquake seldom checks for ended brokers.
    late_ns = _SEEN_LATE_NS + (max(0, end.seen_ns - main.at_ns) if main is not None else 0)
    return end.seen_ns - lived_ns - late_ns, end.seen_ns - lived_ns


def _lived_on_ns(said: Sequence[str]) -> int | None:
    """Return how long the log continued after the line about giving up, or None if unknown."""
    gave_up = next((at for at, line in enumerate(said) if _GIVING_UP.search(line)), None)
    if gave_up is None:
        return None
    # An exception's line has no time. A line with the time precedes it.
    begun, ended = _last_time(said[: gave_up + 1]), _last_time(said)
    if begun is None or ended is None or ended < begun:
        return None
    return int((ended - begun).total_seconds() * NS_PER_S)


def _last_time(lines: Sequence[str]) -> datetime | None:
    """Return the last time that the log lines contain. The time zone of the lines is unknown."""
    found = [time[1] for line in lines if (time := _TIME.match(line))]
    try:
        return datetime.strptime(found[-1], _FORMAT).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def _joined(faults: Iterable[_Fault], grace_ns: int) -> list[tuple[int, int]]:
    """Return the time spans in which a fault was in force or had just ended (`grace_ns`)."""
    spans: list[tuple[int, int]] = []
    for each in sorted(faults, key=lambda each: each.asked_ns):
        until_ns = each.healed_ns + grace_ns if each.healed_ns >= 0 else NEVER
        if spans and each.asked_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], until_ns))
        else:
            spans.append((each.asked_ns, until_ns))
    return spans


def _starts(fault: _Fault, end: End) -> bool:
    """Return whether the fault had ended a broker that was started again but not yet registered.

    A lack of handles or memory, or a disk fault, may end a broker process. The fault's heal then
    starts the next incarnation.
    """
    may_end = fault.did in STARVING or fault.family in {_BREAKING, LYING}
    later = may_end and (fault.lives_since(end) or 0) > 0
    return (fault.did in _STARTING or later) and not fault.was_over(end.seen_ns)


def _keeps_away(fault: _Fault, end: End, facts: RunFacts) -> bool:
    """Return whether a fault may cut a node off from the controllers, or slow the controllers."""
    slows = fault.family == _LATE or fault.did in _WANTS
    if slows and (end.node in fault.nodes or _hits_controllers(fault, facts)):
        return fault.was_felt(end.seen_ns)
    if fault.family == _STALLS and _stalls(fault.spec, end.node, facts):
        return fault.was_felt(end.seen_ns)
    return fault.did in _SHUTTING_OUT or fault.of_keeper


def _hits_controllers(fault: _Fault, facts: RunFacts) -> bool:
    """Return whether a fault targeted a node that may be the controller."""
    brokers = set() if facts.plan.brokers_vote else {f"n{at}" for at in facts.brokers}
    return bool(fault.nodes - brokers)


def _gave_up(end: End, *, is_old: bool) -> bool:
    """Return whether a broker's last log lines show that it gave up its start.

    In runs of older versions, it is enough that the lines name no other reason.
    """
    gave_up = any(_GIVING_UP.search(line) for line in end.said)
    if gave_up or not is_old:
        return gave_up
    complaints = [line for line in end.said if _COMPLAINT.search(line)]
    return bool(complaints) and all(_START_FAILED.search(line) for line in complaints)


def _stalls(spec: Json, node: str, facts: RunFacts) -> bool:
    """Return whether a fault stalls a link between a node and a possible controller of the node."""
    links = spec.get("links")
    ends = [each for each in links if isinstance(each, list)] if isinstance(links, list) else []
    brokers = {f"n{number}" for number in facts.brokers}
    others = {other for each in ends if node in each for other in each} - {node}
    return bool(others if facts.plan.brokers_vote else others - brokers)
