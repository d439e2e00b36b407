"""What truly happened to a partition, and what a story about it says that is not so.

Whoever plays a run knows the truth: a model (`acknowledged_model.py`), or the simulator of the
reference cluster. `wrong_in_story`, `wrong_in_cause` and `lines_missing` hold what Logquake says to
it, and return each wrong statement as a sentence.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.causes import BEFELL
from results.page.broker_logs import BrokerLogs
from results.page.investigation import Investigation
from results.page.witness import Event, Kind, Told
from results.record.clock import NS_PER_S
from results.record.verdict import Example
from tests.checkers.cause_clauses import unknown_words

LATE_NS = 2 * NS_PER_S
"""An observer's answer may be so much older than its time."""
_STAMP_S = 0.02
_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A replica's log lost its end.

    Attributes:
        dropped: The values that were there.
        line: What the broker's log says of it; empty: nothing.
    """

    node: str
    at_ns: int
    from_offset: int
    dropped: frozenset[int]
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A leader epoch.

    Attributes:
        broker: Who led; -1: none did.
        at_ns: When it was elected.
        values: What it had.
        unclean: Whether the controller called the election unclean.
        isr: The ISR before the election; None: not known.
    """

    broker: int
    at_ns: int
    values: frozenset[int]
    unclean: bool = False
    isr: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A fault, as it was done.

    Attributes:
        kind: Its family.
        nodes: Whom it hit.
        asked_ns: When it was asked for.
        begun_ns, ended_ns: When it hit, and when it was over.
    """

    kind: str
    nodes: frozenset[str]
    asked_ns: int
    begun_ns: int
    ended_ns: int


@dataclass(slots=True, kw_only=True)
class Truth:
    """What happened to a partition.

    Attributes:
        acknowledged: By value: who acknowledged it, in which epoch, at which offset.
        sent_ns: By value: when its client began to send it.
        appended_ns: By value: when a leader appended it first.
        in_sync: By value: the ISR of the leader that acknowledged it, just then.
        held: By value: every node that ever had it.
        begun: By leader epoch.
        cuts: What truncations took, by time.
        disk: What disks lost, by time.
        ends: By node: (time, log end) of each change, by time.
        final: By node: (epoch, value) by offset in the end; value None: a control record.
        acted: The faults that hit brokers.
        forgotten: Values that a leader dropped when it had acknowledged them. Only a record that
            it wrote in their place can show that.
    """

    acknowledged: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    sent_ns: dict[int, int] = field(default_factory=dict)
    appended_ns: dict[int, int] = field(default_factory=dict)
    in_sync: dict[int, frozenset[int]] = field(default_factory=dict)
    held: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    begun: dict[int, Begun] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    disk: list[Cut] = field(default_factory=list)
    ends: defaultdict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    final: dict[str, Mapping[int, tuple[int, int | None]]] = field(default_factory=dict)
    acted: list[Deed] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)

    def end_at(self, node: str, at_ns: int) -> int:
        """Return where a node's log ended at a time."""
        told = self.ends[node]
        at = bisect_right(told, (at_ns, _NEVER_NS)) - 1
        return told[at][1] if at >= 0 else 0

    def ended_at(self, node: str, end: int, *, from_ns: int, until_ns: int) -> bool:
        """Tell whether a node's log ended somewhere at some time between two."""
        told = self.ends[node]
        first = max(bisect_right(told, (from_ns, _NEVER_NS)) - 1, 0)
        return any(at == end for at_ns, at in told[first:] if at_ns <= until_ns)

    def lost(self, node: str, *, from_ns: int, until_ns: int) -> list[Cut]:
        """Return what a node's log lost between two times."""
        every = [*self.cuts, *self.disk]
        return [each for each in every if each.node == node and from_ns <= each.at_ns <= until_ns]


# The story's events

_ACKED = re.compile(r"acknowledged value (\d+) at offset (\d+) ")
_SENT = re.compile(r"sent value (\d+) ")
_BROKER = re.compile(r"\bn(\d+)")
_HELD = re.compile(r"had (?:a record|value (\d+)) at \d+: its observed log end offset was (\d+)")
_LACK = re.compile(r"^the logs? of .*? lacks? it")
_LED_UNSEEN = re.compile(r"an unknown leader of epoch (\d+)")
_IN_FORCE = re.compile(r"\(when it was acknowledged, at ([\d.]+) s (.*?)\)")
_CUT = re.compile(r"truncated its log at offset (\d+)")
_BETWEEN = re.compile(
    r"its log end offset was (\d+) at ([\d.]+) s, then (\d+) at (?:this time|([\d.]+) s)"
)
_LEADS = re.compile(r"leads in leader epoch (\d+)")
_READ = re.compile(r"read value (\d+) at offset (\d+)")
_HOLDS = re.compile(r"holds? (?:value (\d+)|(a control record))(?: of leader epoch (\d+))? at offs")


def wrong_in_story(told: Told, example: Example, truth: Truth) -> Iterator[str]:
    """Yield what a witness's story says that is not so, or that comes before its cause."""
    times = [each.at_s for each in told.events if each.at_s is not None]
    if times != sorted(times):
        yield f"the events are not in order of time: {times}"
    for event in told.events:
        yield from (f"{event.when} {event.who} {event.what}: {why}"
                    for why in _wrong_event(event, example, truth))  # fmt: skip
    yield from _before_their_cause(told.events, example, truth)


def _wrong_event(event: Event, example: Example, truth: Truth) -> Iterator[str]:
    at_ns = round((event.at_s or 0) * NS_PER_S)
    if event.kind is Kind.CUT:
        yield from _wrong_cut(event, at_ns, truth)
    elif match := _ACKED.search(event.what):
        yield from _wrong_answer(event, at_ns, match, truth)
    elif match := _HELD.search(event.what):
        end, node = int(match[2]), event.who
        had = not match[1] or node in truth.held[int(match[1])]
        if not had or not truth.ended_at(node, end, from_ns=at_ns - LATE_NS, until_ns=at_ns):
            yield f"its log ended at {truth.ends[node]}, and had the value: {had}"
    elif match := _LEADS.search(event.what):
        begun = truth.begun[int(match[1])]
        who = f"n{begun.broker}" if begun.broker >= 0 else "no broker"
        if who != event.who or at_ns < begun.at_ns:
            yield f"broker {begun.broker} did from {begun.at_ns / NS_PER_S:.3f} s on"
    elif match := _READ.search(event.what):
        if not truth.held[int(match[1])] or at_ns < truth.appended_ns[int(match[1])]:
            yield "it was in no log"
    elif match := _HOLDS.search(event.what):
        told = (int(match[3] or -1), None if match[2] else int(match[1]))
        held = {node: truth.final[node].get(example.offset) for node in event.who.split(", ")}
        yield from (f"{node} holds {each}" for node, each in held.items() if each != told)


def _wrong_answer(event: Event, at_ns: int, match: "re.Match[str]", truth: Truth) -> Iterator[str]:
    value, offset = int(match[1]), int(match[2])
    broker, epoch, where = truth.acknowledged[value]
    named = {int(each) for each in _BROKER.findall(event.who)}
    named |= {broker} if f"{epoch}" in _LED_UNSEEN.findall(event.who) else set()
    if (named and broker not in named) or offset != where:
        yield f"broker {broker} did, at offset {where}"
    if at_ns < truth.appended_ns[value]:
        yield "no broker had it yet"


def _wrong_cut(event: Event, at_ns: int, truth: Truth) -> Iterator[str]:
    low, high = -1, _NEVER_NS
    if match := _BETWEEN.search(event.what):
        low = round(float(match[2]) * NS_PER_S) - LATE_NS
        high = round(float(match[4]) * NS_PER_S) if match[4] else at_ns
        high += NS_PER_S // 1000  # The sentence has milliseconds.
    if event.at_s is not None and "own log" in event.what:
        low = max(low, at_ns - round(_STAMP_S * NS_PER_S))
        high = min(high, at_ns + round(_STAMP_S * NS_PER_S))
    lost = truth.lost(event.who, from_ns=low, until_ns=high)
    told = _CUT.search(event.what)
    if not any(told is None or each.from_offset == int(told[1]) for each in lost):
        cuts = [(each.at_ns / NS_PER_S, each.from_offset) for each in truth.cuts
                if each.node == event.who]  # fmt: skip
        yield f"it lost what it had at (s, offset) {cuts}"


def _before_their_cause(events: Sequence[Event], example: Example, truth: Truth) -> Iterator[str]:
    """Yield truncations, and replicas, that stand before the send of what they dropped or held."""
    value = example.evidence.get("value")
    sent = [at for at, each in enumerate(events)
            if (match := _SENT.search(each.what)) and int(match[1]) == value]  # fmt: skip
    first = next((at for at, each in enumerate(events) if each.kind is Kind.SENT), 0)
    for at, event in enumerate(events):
        if event.kind is Kind.HELD and event.at_s is not None and at < first:
            yield f"{event.who} {event.what}: nothing that is told of was sent yet"
        match = _CUT.search(event.what) if event.kind is Kind.CUT else None
        if match is None or not sent:
            continue
        those = [each for each in truth.cuts
                 if (each.node, each.from_offset) == (event.who, int(match[1]))]  # fmt: skip
        if those and at < sent[0] and all(value in each.dropped for each in those):
            yield f"{event.what} of {event.who} stands before the send of what it dropped"


# The cause

_EITHER = re.compile(r"((?:n\d+|an unknown leader)(?: or (?:n\d+|an unknown leader))+) acknowl")
_ONE = re.compile(r"^(n\d+) acknowledged ")
_ONLY = re.compile(r"only (n\d+) had ")
_LED = re.compile(r"(n\d+) led( alone)? in epoch ([\d or]+), acknowledged")
_ELECTED = re.compile(
    r"(?:, |and )(?:(?P<node>n\d+)(?:, which (?P<which>[^,]*),|(?P<outside>, from outside of the"
    r" in-sync replicas),|(?P<elr>, an eligible leader replica) \(KIP-966\),"
    r"|(?P<insync>, in the ISR),)?"
    r" (?P<verb>was|had been) elected|led again) in epoch (?P<epoch>\d+)(?P<without> without it)?"
)
_TRUNCATED = re.compile(r"had truncated its log at offset (\d+(?: or \d+)*)")
_GAVE = re.compile(r"(n\d+), leader of epoch (\d+), still returned it to op")
_BEFELL = re.compile(
    rf"(?P<words>{'|'.join(set(BEFELL.values()))})"
    r"(?: within (?P<within>[\d.]+) s(?P<of_send> of the send)?"
    r"| (?:by|in) a fault that was requested (?P<asked>before|during) the send)"
)
_WHILE = re.compile(r"\(acks=\w+\) while it")
_NODE = re.compile(r"n\d+")
_THOUGH = re.compile(r"though ((?:n\d+|, | and )+) (?:was|were) in the ISR and did not have it")
_DROPPED = re.compile(r"as the leader of epoch (\d+), and another record of that epoch")
_MAYBE = "that election may have come before"
_OVER = "that fault was over before the next election"
_HAD = re.compile(
    r"(n\d+)( had it|'s log had reached its offset) too"
    r"(, but was not in the ISR|, but was down|, and it was in the ISR as well)?"
)
_ONLY_AFTER = re.compile(r"(n\d+) truncated it only after (n\d+) was elected in epoch (\d+)")
_DOWN = frozenset({"kill", "stop", "pause", "power-loss", "wipe"})


def candidates(cause: str) -> int:
    """Return how many brokers a cause names as those that may have acknowledged; 0: none."""
    if match := _EITHER.search(cause):
        return len(set(match[1].split(" or ")))
    return 1 if _LED.search(cause) or _ONE.search(cause) else 0


def _wrong_in_doubt(cause: str, value: int, truth: Truth) -> Iterator[str]:
    """Yield what is not so of a loss whose logs were not all read to their ends."""
    if force := _IN_FORCE.search(cause):
        at_ns = round(float(force[1]) * NS_PER_S)
        for node in _NODE.findall(force[2]):
            hit = [each for each in truth.acted if node in each.nodes]
            if not any(each.asked_ns <= at_ns + LATE_NS and at_ns <= each.ended_ns for each in hit):
                yield f"no fault was in force on {node}"
    if lack := _LACK.search(cause):
        for node in _NODE.findall(lack[0]):
            if value in {held for _, held in truth.final[node].values()}:
                yield f"the log of {node} has it"


def wrong_in_cause(cause: str, value: int, acked_ns: int, truth: Truth) -> Iterator[str]:
    """Yield what the cause of a loss says that is not so.

    Args:
        cause: The sentence.
        value: What was lost.
        acked_ns: When its client got the answer.
        truth: Of the partition.
    """
    if unknown := unknown_words(cause):
        yield f"nothing here understands {unknown!r}"
    yield from _wrong_names(cause, value, truth)
    yield from _wrong_in_doubt(cause, value, truth)
    for node in _NODE.findall(" ".join(_THOUGH.findall(cause))):
        if int(node[1:]) not in truth.in_sync[value] or node in truth.held[value]:
            yield f"{node} was not in the ISR {sorted(truth.in_sync[value])}, or had it"
    for node, gave in _GAVE.findall(cause):
        if node not in truth.held[value] or truth.begun[int(gave)].broker != int(node[1:]):
            yield f"{node} did not give it to anybody in epoch {gave}"
    if match := _ELECTED.search(cause):
        yield from _wrong_election(match, value, acked_ns, truth)
        begun = truth.begun[int(match["epoch"])]
        yield from _wrong_fault(cause, value, acked_ns, truth, begun=begun)
        yield from _wrong_others(cause, value, begun, truth)
    if "removed it from each replica's log" in cause:
        offset = truth.acknowledged[value][2]
        hit = {each.node for each in truth.disk if each.from_offset <= offset}
        if spared := truth.held[value] - hit:
            yield f"no disk fault cut the logs of {sorted(spared)} off below it"


def _wrong_names(cause: str, value: int, truth: Truth) -> Iterator[str]:
    """Yield what the cause says of who acknowledged, who had it, and who dropped it at once."""
    broker, epoch, _ = truth.acknowledged[value]
    if (match := _EITHER.search(cause)) and "unknown" not in match[1]:
        named = match[1].split(" or ")
        if f"n{broker}" not in named:
            yield f"n{broker} acknowledged it, not {named}"
    if (match := _ONE.search(cause)) and match[1] != f"n{broker}":
        yield f"n{broker} acknowledged it"
    if (match := _ONLY.search(cause)) and truth.held[value] != {match[1]}:
        yield f"only {match[1]}: {sorted(truth.held[value])} had it"
    if match := _LED.search(cause):
        if match[1] != f"n{broker}" or str(epoch) not in match[3].split(" or "):
            yield f"n{broker} acknowledged it in epoch {epoch}"
        if match[2] and truth.in_sync[value] != {broker}:
            yield f"n{broker} was not alone in the ISR"
    match = _DROPPED.search(cause)
    if match and (value not in truth.forgotten or int(match[1]) != epoch):
        yield f"n{broker} did not drop it in epoch {match[1]}"


def _wrong_election(
    match: "re.Match[str]", value: int, acked_ns: int, truth: Truth
) -> Iterator[str]:
    broker, epoch, _ = truth.acknowledged[value]
    node, then = match["node"] or f"n{broker}", int(match["epoch"])
    begun = truth.begun[then]
    if f"n{begun.broker}" != node or then <= epoch:
        yield f"n{begun.broker} was elected in epoch {then}, after {epoch}"
    if match["without"] and value in begun.values:
        yield f"{node} had it when it was elected in epoch {then}"
    if match["outside"] and not begun.unclean:
        yield f"{node} was in the ISR when it was elected"
    isr = begun.isr
    if match["elr"] and (begun.unclean or (isr is not None and begun.broker in isr)):
        yield f"{node} was in the ISR, or the election unclean"
    if match["which"] == "was not in the ISR before" and isr is not None and begun.broker in isr:
        yield f"{node} was in the ISR when it was elected"
    if match["insync"] and (begun.unclean or (isr is not None and begun.broker not in isr)):
        yield f"{node} was not in the ISR when it was elected"
    if match["verb"] == "had been" and begun.at_ns > acked_ns:
        yield f"{node} was elected later"
    if cut := _TRUNCATED.search(match["which"] or ""):
        mine = [each for each in truth.cuts if each.node == node and value in each.dropped]
        last = int(cut[1].split(" or ")[-1])
        if not any(each.from_offset <= last and each.at_ns <= begun.at_ns for each in mine):
            yield f"{node} did not truncate it before epoch {then}"


def _wrong_fault(
    cause: str, value: int, acked_ns: int, truth: Truth, *, begun: Begun
) -> Iterator[str]:
    node = f"n{truth.acknowledged[value][0]}"
    mine = [each for each in truth.acted if node in each.nodes]
    if match := _BEFELL.search(cause):
        sent_ns = truth.sent_ns[value]
        if match["asked"] == "before":
            first_ns, last_ns, hit_ns = 0, sent_ns, _NEVER_NS
        elif match["asked"]:
            first_ns, last_ns, hit_ns = sent_ns, acked_ns, _NEVER_NS
        else:
            since_ns = sent_ns if match["of_send"] else acked_ns
            hit_ns = since_ns + round(float(match["within"]) * NS_PER_S)
            first_ns, last_ns = acked_ns, hit_ns
        hits = [each for each in mine if BEFELL.get(each.kind) == match["words"]
                and first_ns <= each.asked_ns <= last_ns and each.begun_ns <= hit_ns
                and each.ended_ns >= acked_ns]  # fmt: skip
        if not hits:
            yield f"{node} {match[0]}: no such fault"
        elif _MAYBE not in cause and not any(each.begun_ns <= begun.at_ns for each in hits):
            yield f"{node} {match[0]}: the election came before"
        elif _OVER in cause and not any(each.ended_ns <= begun.at_ns for each in hits):
            yield f"{node} {match[0]}: it was not over before the election"
    if _WHILE.search(cause) and not any(
        each.begun_ns <= acked_ns <= each.ended_ns for each in mine
    ):
        yield f"{node} was not cut off then"


def _wrong_others(cause: str, value: int, begun: Begun, truth: Truth) -> Iterator[str]:
    _, _, offset = truth.acknowledged[value]
    for node, how, why in _HAD.findall(cause):
        ends = [end for at_ns, end in truth.ends[node] if at_ns <= begun.at_ns]
        if ("had it" in how and node not in truth.held[value]) or max(ends, default=0) <= offset:
            yield f"{node} never had it before epoch {begun}"
        isr = begun.isr
        if isr is not None and "not in the ISR" in why and int(node[1:]) in isr:
            yield f"{node} was in the ISR {sorted(isr)}"
        if isr is not None and "as well" in why and not {begun.broker, int(node[1:])} <= isr:
            yield f"{node} or n{begun.broker} was not in the ISR {sorted(isr)}"
        if "down" in why and not any(
            node in each.nodes and each.kind in _DOWN
            and each.begun_ns <= begun.at_ns <= each.ended_ns
            for each in truth.acted
        ):  # fmt: skip
            yield f"{node} was not down at the election"
    for node, leader, epoch in _ONLY_AFTER.findall(cause):
        then = truth.begun[int(epoch)]
        cuts = [each for each in truth.cuts if each.node == node and value in each.dropped]
        late = any(each.at_ns >= then.at_ns for each in cuts) or value in truth.forgotten
        if f"n{then.broker}" != leader or not late:
            yield f"{node} truncated it at {[each.at_ns / NS_PER_S for each in cuts]} s"


# The lines of the logs


def lines_missing(logs: BrokerLogs | None, value: int, offset: int, truth: Truth) -> Iterator[str]:
    """Yield lines that prove what took a value and are not shown, or do not come first.

    Lines on a copy at a higher offset, of another try of the send, belong to no story of this one.
    """
    lines = logs.lines if logs else ()
    proving = [each.proves for each in lines]
    if proving != sorted(proving, reverse=True):
        yield "lines that prove stand behind others"
    shown = {(each.node, each.text[26:]) for each in lines if each.proves}
    for cut in truth.cuts:
        took = value in cut.dropped and cut.from_offset <= offset
        if cut.line and took and (cut.node, f"INFO {cut.line}") not in shown:
            yield f"not shown: {cut.node} at {cut.at_ns / NS_PER_S:.3f} s: {cut.line}"


def wrong_story(
    looked: Investigation, example: Example, truth: Truth, counts: Counter[str]
) -> Iterator[str]:
    """Yield what page and terminal tell of an example that is not so, and count what they tell.

    Args:
        looked: What they tell.
        example: Of what.
        truth: Of its partition.
        counts: Stories, their events by kind, candidates that causes name, lines that prove.
    """
    if looked.told is None:
        counts["without a story"] += 1
        return
    counts["stories"] += 1
    counts.update(f"event {each.kind}" for each in looked.told.events)
    yield from wrong_in_story(looked.told, example, truth)
    value, acked_ns = (example.evidence.get(key) for key in ("value", "acknowledged_ns"))
    if looked.head.anomaly != "lost-write" or not isinstance(value, int):
        return
    if isinstance(acked_ns, int) and example.evidence.get("missing_from_leaders_log"):
        counts[f"{candidates(example.cause)} named"] += 1
        yield from wrong_in_cause(example.cause, value, acked_ns, truth)
    proving = [each for each in truth.cuts if each.line and value in each.dropped]
    counts["lines proving"] += len(proving)
    yield from lines_missing(looked.logs, value, example.offset, truth)
