"""Which faults explain that a process of the cluster ended, or stood still.

`broker_ended` says what each of them explains, and why.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from checkers.changes import FOUND_LATE_NS, HANDLES, MEMORY, PROCESSOR, deeds, takes_keeper
from checkers.columns import ints, select, texts
from checkers.disk_losses import LYING, Json, heal_begun_ns, json_object, took_nothing, was_begun
from checkers.facts import RunFacts
from checkers.group import Group
from results.record.clock import NS_PER_S
from results.record.terms import NO_HANDLE, UNMEASURED

_TAKING = ("wipe", "bit-flip", "power-loss")
_HINDERING = ("disk-full", "read-only")
_BREAKING = "disk-errors"
"""The family of faults that break what a broker asks of its disk."""
_SHORT = "short"
"""Of the effect of such a fault: how a write is broken that says how much of it was stored."""
_LATE = "slow-disks"
"""The family of faults that hold up whatever is asked of a real disk."""
_GOES_DOWN_NS = 30 * NS_PER_S
"""A broker that could not write, or gave up its start, may take so long until its end is seen."""
_STARTING = ("kill", "stop", "rolling-restart")
"""Faults that are over when the broker they ended has started and registered."""
_SHUTTING_OUT = (
    *_STARTING, *_TAKING, "pause", "isolate", "halves", "one-way-in", "one-way-out", "ring",
    "bridge", "flapping",
)  # fmt: skip
"""Faults that may keep a broker from its controllers: they are gone, or out of its reach."""
_WANTS = frozenset({HANDLES, PROCESSOR, MEMORY})
"""Those that do so if they hit who may be a controller: it answers late, or nobody new."""
_STALLS = "stall"
"""The family of those that do so by their links: each question and its answer may take a stall, and
a start has many of them."""
_GIVES_UP_NS = 30 * NS_PER_S
"""A broker that starts waits so long for ZooKeeper, and twice as long for a controller."""
_GIVING_UP = re.compile(
    r"unable to register with the controller quorum|Timed out while waiting for"
    r"|fatal error while waiting for the controller to acknowledge|ZooKeeperClientTimeoutException"
    r"|ZkTimeoutException"
)
"""What Kafka logs then: BrokerLifecycleManager, FutureUtils.waitWithLogging, ZooKeeperClient, and
ZkClient up to 1.0."""
_START_FAILED = re.compile(r"Fatal error during KafkaServer startup|Exiting Kafka")
"""What a broker with ZooKeeper logs of any start that fails; records of old have no more of one
that gives up."""
_COMPLAINT = re.compile(rf"^(?!at ).*(?:FATAL|ERROR|Exception|Error:|{NO_HANDLE})")
"""A line that tells of an error; no line of the stack below it."""
_LOGS_FAILED = re.compile("all log dirs .*have failed")
"""What LogManager logs before it halts."""
STARVING = frozenset({HANDLES, MEMORY})
"""Faults that may end a broker, in one way each."""
BY_KERNEL = f"was ended by {signal.SIGKILL.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ended, or stood still.

    Attributes:
        node: Whose.
        incarnation: Which of its starts, as the record has it.
        seen_ns: When it was found out.
        how: For people: `with exit code 1`.
        outside: Whether somebody else may have done that.
        signalled: Whether a signal did it for certain.
        disk_failed: Whether the harness's own file system below its data had failed before.
        told: Whether it had been told to stop.
        said: Its last words of errors.
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
    """A fault that may have done something to its targets, as its row tells.

    Attributes:
        kind: As its row has it.
        did: What it did to servers (`changes.deeds`).
        family: As the plan names it.
        nodes: Its targets.
        of_keeper: Whether it takes ZooKeeper.
        asked_ns, confirmed_ns, healed_ns: Its times; -1: it never came to that.
        healing_ns: When its heal began; -1: nobody knows.
        spec, effect, heal: What its row tells of it.
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
        """Tell whether it was aimed at the node of an end, before that."""
        return end.node in self.nodes and self.asked_ns <= end.seen_ns

    def was_over(self, at_ns: int) -> bool:
        """Tell whether it was healed before a time."""
        return 0 <= self.healed_ns < at_ns

    def was_felt(self, at_ns: int) -> bool:
        """Tell whether it was confirmed by a time."""
        return 0 <= self.confirmed_ns <= at_ns

    @property
    def is_old(self) -> bool:
        """Whether its row was written before rows told which lives a fault hit."""
        return "incarnations" not in self.spec

    def lives_since(self, end: End) -> int | None:
        """Return how many starts after the life that it hit the one came that ended.

        None: nobody knows which it hit. Records of old have that in the effect.
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
    """Tell whether a fault of the run was why a process ended, for all that is known.

    Where the harness's own file system had failed below it, none was.
    """
    if end.disk_failed:
        return False
    faults = group.view(_faults)
    mine = [each for each in faults if each.hit(end)]
    return (
        (not (end.outside and end.signalled) and any(_of_disk(each, end) for each in mine))
        or any(_starved(each, end) for each in mine)
        or _shut_out(group.facts, mine, faults, end)
    )


def _of_disk(fault: _Fault, end: End) -> bool:
    """Tell whether a fault of the node's disk was why, for all that is known.

    Who lost flushes was stopped, and the next life starts on what is left; the one after that has
    fetched what it lacked.
    """
    if fault.kind in _TAKING:
        return True
    if fault.family == LYING:
        return not took_nothing(fault.spec, fault.effect) and fault.lives_since(end) in {None, 0, 1}
    if fault.kind in _HINDERING:
        return not fault.was_over(end.seen_ns - _GOES_DOWN_NS)
    breaks = fault.family == _BREAKING and _gives_reason(fault, end.node)
    return breaks and _was_on_it(fault, end)


def _was_on_it(fault: _Fault, end: End) -> bool:
    """Tell whether a broker ran on a disk while that broke requests.

    The heal mends the disk, kills a broker that still lives, and starts the next one: that has a
    sound disk, whatever lies on it.
    """
    since = fault.lives_since(end)
    if since is not None:
        return since == 0
    mended_ns = fault.healing_ns if fault.healing_ns >= 0 else fault.healed_ns
    return not 0 <= mended_ns < end.seen_ns - FOUND_LATE_NS


def _gives_reason(fault: _Fault, node: str) -> bool:
    """Tell whether a disk that breaks requests gave a broker a reason to end.

    A write that stores its first half and says so does not: write(2) may, and who asked goes on
    behind that. Nor does one that no request of the broker's met: up to the heal. Rows of old tell
    that only up to the confirmation, of who was gone by then; and one whose effect was looked for
    and not found gives no reason then.
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
    """Tell whether a fault that left its node too little of a resource was why.

    The next life has the limits of before. Want of handles need not have been confirmed if the
    broker says itself that it lacked one: it may have halted between two looks.
    """
    if fault.lives_since(end) != 0 or fault.was_over(end.seen_ns - _GOES_DOWN_NS):
        return False
    felt, heal = fault.confirmed_ns >= 0, {} if fault.healed_ns < 0 else fault.heal
    if fault.did == HANDLES and not end.signalled:
        return _lacked_handles(fault, end, heal) if heal or end.said else felt
    return fault.did == MEMORY and felt and _killed_by_kernel(end, heal)


def _lacked_handles(fault: _Fault, end: End, heal: Json) -> bool:
    """Tell whether a broker's last words say that it ended for want of a handle.

    The last complaint must be that; or one must be that all of its log folders have failed,
    whatever other threads say until it halts. Who accepts connections lacks handles, too, and goes
    on. Records of old have the want first, whatever came before it. Where none were noted at its
    end, those words count that its heal noted. As long as the fault is not healed they are not
    known: empty.
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
    """Tell whether the kernel killed a broker for memory.

    Its count is not known as long as the fault is not healed: empty.
    """
    if end.how != BY_KERNEL or not heal:
        return end.how == BY_KERNEL
    kills = heal.get("kills")
    counted = kills.get(end.node) if isinstance(kills, dict) else None
    return isinstance(counted, int) and counted > 0


def _shut_out(facts: RunFacts, mine: Sequence[_Fault], faults: Sequence[_Fault], end: End) -> bool:
    """Tell whether a broker gave up its start, while a fault kept controllers from it for long."""
    is_old = facts.plan.kept_outside and all(each.is_old for each in faults)
    if end.outside or end.signalled or (end.said and not _gave_up(end, is_old=is_old)):
        return False
    starting = [each for each in mine if _starts(each, end)]
    away = [each for each in faults if _keeps_away(each, end, facts)]
    return any(each is not other for each in starting for other in away)


def _starts(fault: _Fault, end: End) -> bool:
    """Tell whether a broker was started after a fault had ended it, and was not yet registered.

    Want of handles or memory may end the life that it hits, and so may its disk, and the heal
    starts another one.
    """
    may_end = fault.did in STARVING or fault.family in {_BREAKING, LYING}
    later = may_end and (fault.lives_since(end) or 0) > 0
    return (fault.did in _STARTING or later) and not fault.was_over(end.seen_ns)


def _keeps_away(fault: _Fault, end: End, facts: RunFacts) -> bool:
    """Tell whether a fault kept a node from its controllers for so long that Kafka gives up."""
    gave_up_ns = end.seen_ns - (_GOES_DOWN_NS if end.said else 0)  # Its words prove that it did.
    if fault.was_over(gave_up_ns) or fault.asked_ns > end.seen_ns - _GIVES_UP_NS:
        return False
    slows = fault.family == _LATE or fault.did in _WANTS
    if slows and (end.node in fault.nodes or _hits_controllers(fault, facts)):
        return fault.was_felt(end.seen_ns)
    if fault.family == _STALLS and _stalls(fault.spec, end.node, facts):
        return fault.was_felt(end.seen_ns)
    return fault.did in _SHUTTING_OUT or fault.of_keeper


def _hits_controllers(fault: _Fault, facts: RunFacts) -> bool:
    """Tell whether a fault was aimed at a node that may be the controller."""
    brokers = set() if facts.plan.brokers_vote else {f"n{at}" for at in facts.brokers}
    return bool(fault.nodes - brokers)


def _gave_up(end: End, *, is_old: bool) -> bool:
    """Tell whether a broker's last words are those of giving up; of old ones: or name no reason."""
    gave_up = any(_GIVING_UP.search(line) for line in end.said)
    if gave_up or not is_old:
        return gave_up
    complaints = [line for line in end.said if _COMPLAINT.search(line)]
    return bool(complaints) and all(_START_FAILED.search(line) for line in complaints)


def _stalls(spec: Json, node: str, facts: RunFacts) -> bool:
    """Tell whether a fault has links of a node stall that lead to who may be its controller."""
    links = spec.get("links")
    ends = [each for each in links if isinstance(each, list)] if isinstance(links, list) else []
    brokers = {f"n{number}" for number in facts.brokers}
    others = {other for each in ends if node in each for other in each} - {node}
    return bool(others if facts.plan.brokers_vote else others - brokers)
