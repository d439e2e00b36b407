"""G0 and G1c: ops precede each other in a cycle, by dependencies, process order or real time.

Definition: a cycle of dependencies between ops (`checkers/dependencies.py`). A `G0` cycle has only
write-write dependencies. A `G1c` cycle has at least one write-read dependency. With the suffix
`-process`, the cycle may also use the order of ops in one process. With `-realtime`, the cycle may
also use the order by the clock: one op ended before another began. Under the contract, a
`-realtime` cycle may use the order of ops in one process, too.

Why it proves something: a transaction that reads another transaction's write must come after the
writer's commit. Two transactions cannot both come after each other. If one transaction ended before
another began, the first cannot come after the second. So one transaction read a value before that
value was committed.

What would not prove it: a cycle that needs a write-write edge proves nothing. Kafka promises no
order between the writes of concurrent transactions. The records of two transactions may have one
order in one partition and the opposite order in another partition. Such cycles are reported, but
always allowed. An op that did not end with `ok` counts as an op that never ends, so no op comes
after it in real time.

Each strongly connected component is reported at most once as `G0` and once as `G1c`, with the
suffix of the simplest kind that fits. The witness is the component's smallest cycle. In a component
of millions of ops, the search may miss that cycle and report a longer one. Under the contract, a
kind without write-write edges is simpler than a kind with such edges. Then, a kind without process
order and real-time order is simpler. `JEPSENS` has the order for Jepsen's judge.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, Mask, distinct, first_match, ints, stack, take
from checkers.dependencies import WR, WW, seeks_cycles
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, seconds, texts_in
from checkers.group import Group
from checkers.precedence import (
    Hop,
    Order,
    Precedence,
    components,
    entangled,
    smallest_circle,
    split,
)
from checkers.protocol import (
    MAX_DESCRIBED,
    Chapter,
    Checker,
    Excuse,
    Findings,
    Promise,
    Proved,
    Scope,
    Waits,
)
from results.record.terms import AnomalyClass, Judge
from results.record.verdict import Anomaly, Evidence, Words

_WORDS = {WW: "write-write", WR: "write-read"}
_SERVED = 3
"""The maximum number of reads in a cycle for which the report names the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the graph: one op precedes another.

    Attributes:
        kind: write-write, write-read, process or realtime.
        source, target: The ids of the two ops.
        place, value, offset: The value that the source wrote, and the partition and offset of that
            value. For an edge of process order or real-time order, they are empty and -1.
        next_offset: The offset of the target's next write; for a write-write edge only.
        process: The process, for an edge of process order; otherwise -1.
        ended_ns, began_ns: For an edge of process order or real-time order: when the source ended,
            and when the target began.
        early: Evidence that the target read before the source's commit; empty without evidence.
        server, server_epoch: The broker that served a read, and its leader epoch; -1 if unknown.
        rest: The offset of the next record of the source's transaction if the target did not get
            that record; otherwise -1.
    """

    kind: str
    source: int
    target: int
    place: str = ""
    value: int = -1
    offset: int = -1
    next_offset: int = -1
    process: int = -1
    ended_ns: int = -1
    began_ns: int = -1
    early: str = ""
    server: int = -1
    server_epoch: int = -1
    rest: int = -1

    @property
    def served(self) -> str:
        """A phrase for reports: the broker that served the target's read, and the offset."""
        who = f"the leader of {self.place}"
        if self.server >= 0:
            who = f"n{self.server}, leader of {self.place} in epoch {self.server_epoch},"
        rest = f" without offset {self.rest} of the same transaction" if self.rest >= 0 else ""
        return f"{who} returned offset {self.offset} to op {self.target}{rest}"

    @property
    def text(self) -> str:
        """A phrase for reports: the reason why the source precedes the target."""
        if self.kind == Order.PROCESS:
            return f"op {self.source} came before op {self.target} in process {self.process}"
        if self.kind == Order.REALTIME:
            ended, began = seconds(self.ended_ns), seconds(self.began_ns)
            return f"op {self.source} ended at {ended}, before op {self.target} began at {began}"
        wrote = f"op {self.source} wrote value {self.value} at offset {self.offset} of {self.place}"
        if self.kind == _WORDS[WR]:
            return f"{wrote}, which op {self.target} read"
        return f"{wrote}, and op {self.target} wrote the next value, at offset {self.next_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle of ops that precede each other.

    Attributes:
        name: The name of the anomaly.
        needs_ww: Whether the search used write-write edges. In a search of `CONTRACTS`, every such
            cycle in the component then has such an edge.
        ops: The number of ops in the component.
        edges: The edges of the smallest cycle; empty if the cycle is only counted.
    """

    name: str
    needs_ww: bool
    ops: int
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A description of the cycles to search for.

    Attributes:
        name: The anomaly's name.
        kinds: The kinds of dependencies that a cycle may have.
        through: The kind of dependency that a cycle must have.
        orders: The orders that a cycle may use besides dependencies.
        shadows: If one of these anomalies already contains an op of a component, the component is
            skipped.
    """

    name: str
    kinds: tuple[int, ...]
    through: int
    orders: tuple[Order, ...]
    shadows: tuple[str, ...]


_PLAIN: tuple[Order, ...] = ()
_ORDERS = (_PLAIN, (Order.PROCESS,), (Order.PROCESS, Order.REALTIME))
_REALTIME = (Order.REALTIME,)
NAMES = ("G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime")


def _family(family: str, through: int, *kinds: int) -> tuple[Search, ...]:
    names = tuple(name for name in NAMES if name.startswith(family))
    return tuple(
        Search(name=name, kinds=kinds, through=through, orders=orders, shadows=names)
        for name, orders in zip(names, _ORDERS, strict=True)
    )


CONTRACTS = (*_family("G1c", WR, WR), *_family("G1c", WR, WW, WR), *_family("G0", WW, WW))
"""The searches, in order. Forbidden cycles come first, so that no allowed cycle hides them."""
JEPSENS = (
    Search(name="G0", kinds=(WW,), through=WW, orders=_PLAIN, shadows=()),
    Search(name="G1c", kinds=(WW, WR), through=WR, orders=_PLAIN, shadows=("G0",)),
    Search(name="G0-realtime", kinds=(WW,), through=WW, orders=_REALTIME, shadows=("G0",)),
    Search(name="G1c-realtime", kinds=(WW, WR), through=WR, orders=_REALTIME, shadows=NAMES),
)
"""The searches for Jepsen's cycles.

Jepsen reports each component as its simplest kind. These searches use no process order.
"""


def cycles(
    dependencies: pa.Table, participants: pa.Table, searches: Sequence[Search] = CONTRACTS
) -> list[Cycle]:
    """Return the cycles among the ops of a run, in the order of the searches.

    Args:
        dependencies: Rows with the columns `DEPENDENCIES`, of all partitions.
        participants: Rows with the columns `PARTICIPANTS`, of all partitions.
        searches: The searches, in this order.
    """
    graph = _tangled(_graph(dependencies, participants))
    told = {name: np.zeros(len(graph.ops), dtype=np.bool_) for name in NAMES}
    described: Counter[str] = Counter()
    found: list[Cycle] = []
    for search in searches:
        for part in _fresh(graph, search, told):
            few = described[search.name] < MAX_DESCRIBED
            described[search.name] += 1
            through = part.kinds == search.through
            hops = smallest_circle(part, search.orders, through) if few else []
            found.append(
                Cycle(
                    name=search.name,
                    needs_ww=WW in search.kinds,
                    ops=len(part.ops),
                    edges=tuple(_edge(part, hop, dependencies) for hop in hops),
                )
            )
    return found


def _graph(dependencies: pa.Table, participants: pa.Table) -> Precedence:
    """Return the dependency graph of the ops.

    An op without dependencies is left out. The order stays the same without such an op: all ops
    before that op also precede all ops after it.
    """
    told, first = np.unique(ints(participants, "op_id"), return_index=True)
    ends = (ints(dependencies, "source"), ints(dependencies, "target"))
    ops = np.intersect1d(told, distinct(stack(ends)), assume_unique=True)
    people = take(participants, first[np.searchsorted(told, ops)])
    sources, targets = (first_match(end, ops) for end in ends)
    inside = (sources >= 0) & (targets >= 0)
    return Precedence(
        ops=ops,
        processes=ints(people, "process"),
        invoked=ints(people, "invoke_ns"),
        ended=ints(people, "complete_ns"),
        sources=sources[inside],
        targets=targets[inside],
        kinds=ints(dependencies, "kind")[inside],
        rows=np.flatnonzero(inside),
    )


def _tangled(graph: Precedence) -> Precedence:
    """Return the graph of only those ops that are in a cycle of some kind."""
    may = entangled(graph)
    both = may[graph.sources] & may[graph.targets]
    graph = graph.part(np.flatnonzero(may), np.flatnonzero(both))
    numbers = components(graph, _ORDERS[-1])
    inside = (numbers[graph.sources] == numbers[graph.targets]) & (numbers[graph.sources] >= 0)
    return graph.part(np.flatnonzero(numbers >= 0), np.flatnonzero(inside))


def _fresh(graph: Precedence, search: Search, told: Mapping[str, Mask]) -> Iterator[Precedence]:
    """Yield the components with a cycle of the search, unless an earlier search reported them.

    Each yielded component is marked as reported.
    """
    graph = graph.with_edges(np.isin(graph.kinds, search.kinds))
    numbers = components(graph, search.orders)
    ends = numbers[graph.sources], numbers[graph.targets]
    closing = (graph.kinds == search.through) & (ends[0] == ends[1]) & (ends[0] >= 0)
    shadowed = [numbers[told[name]] for name in search.shadows]
    wanted = np.setdiff1d(ends[0][closing], stack([*shadowed, np.zeros(0, dtype=np.int64)]))
    fresh = np.isin(numbers, wanted)
    told[search.name][fresh] = True
    yield from split(graph, np.where(fresh, numbers, NONE))


def _edge(graph: Precedence, hop: Hop, dependencies: pa.Table) -> Edge:
    source, target, order = hop
    one, other = int(graph.ops[source]), int(graph.ops[target])
    if order:
        return Edge(
            kind=order,
            source=one,
            target=other,
            process=int(graph.processes[source]) if order == Order.PROCESS else NONE,
            ended_ns=int(graph.ended[source]),
            began_ns=int(graph.invoked[target]),
        )
    mine = np.flatnonzero((graph.sources == source) & (graph.targets == target))
    # A write-read edge is better evidence than a write-write edge.
    told = mine[np.argmax(graph.kinds[mine])]
    row = dependencies.slice(int(graph.rows[told]), 1).to_pylist()[0]
    return Edge(
        source=one,
        target=other,
        kind=_WORDS[row["kind"]],
        place=row["place"],
        value=row["value"],
        offset=row["offset"],
        next_offset=NONE if row["next_offset"] is None else row["next_offset"],
        early=row["early"] or "",
        **{
            name: NONE if row[name] is None else row[name]
            for name in ("server", "server_epoch", "rest")
        },
    )


def _found(group: Group) -> list[Cycle]:
    searches = JEPSENS if group.facts.judge is Judge.JEPSEN else CONTRACTS
    return cycles(group.derived["dependencies"], group.derived["participants"], searches)


def _check(name: str, group: Group) -> Findings:
    through = WW if name.startswith("G0") else WR
    kinds = ints(group.derived["dependencies"], "kind")
    found = findings(
        int((kinds == through).sum()),
        [each for each in group.view(_found) if each.name == name],
        lambda cycle: _describe(group, cycle),
        lambda cycle: ((Excuse.ALWAYS.value,) if _excused(group.facts, cycle) else (), ()),
    )
    did = "wrote behind" if through == WW else "read"
    why = f"no op {did} what another op had written, so a cycle could not be detected"
    return could_not_show(found, why, given=bool(group.derived["participants"].num_rows))


def _excused(facts: RunFacts, cycle: Cycle) -> bool:
    """Return whether a cycle is allowed because a write-write edge may be part of it.

    For Jepsen's judge, every cycle is allowed if the run infers write-write edges.
    """
    return cycle.needs_ww and facts.ww_deps


def _describe(group: Group, cycle: Cycle) -> Anomaly:
    edges = cycle.edges
    evidence: Evidence = {
        "ops": [edge.source for edge in edges],
        "edges": [edge.kind for edge in edges],
        "places": [edge.place for edge in edges],
        "values": [edge.value for edge in edges],
        "offsets": [edge.offset for edge in edges],
        "ended_ns": [edge.ended_ns for edge in edges],
        "began_ns": [edge.began_ns for edge in edges],
        "needs_write_write": cycle.needs_ww,
        "ops_of_component": cycle.ops,
    }
    if early := [edge.early for edge in edges if edge.early]:
        evidence["early"] = early
    if {edge.kind for edge in edges} == {_WORDS[WR]}:
        evidence["served"] = [each.served for each in sorted(edges, key=lambda edge: edge.rest < 0)]
    more = f" (the smallest cycle among {cycle.ops} ops)" if cycle.ops > len(edges) else ""
    sentence = f"{'; '.join(edge.text for edge in edges)}{more}"
    return anomaly_at(group, cycle.name, sentence=sentence, evidence=evidence)


def _promised_order(facts: RunFacts) -> bool:
    return seeks_cycles(facts) and facts.ww_deps


def _why(_group: Group, found: Anomaly) -> str:
    edges, early = set(texts_in(found, "edges")), texts_in(found, "early")
    if early:
        return Proved(early[0])
    if edges == {_WORDS[WW]}:
        return (
            "Kafka appends the writes of concurrent transactions to each log in the order in"
            " which they arrive"
        )
    if _WORDS[WW] in edges:
        return (
            "a record of a later transaction is before a record of an earlier one: the"
            " transactions were concurrent, a log was truncated, or an answer had a wrong offset"
        )
    if edges - {_WORDS[WR]}:
        return (
            "a broker served a record of an op that comes after its reader in the order of a"
            " process or by the clock"
        )
    served = "; or ".join(texts_in(found, "served")[:_SERVED])
    return f"a record was served before its transaction was committed: {served}"


_BY = {"": "", "-process": " and the order of a process", "-realtime": " and the clock"}
_LOOKS_FOR = {
    "G0": "ops that precede each other in a cycle, by write-write dependencies",
    "G1c": "ops that precede each other in a cycle, by any dependencies, one of them write-read",
}
_WIDER = {
    "": ("-process", "-realtime"),
    "-process": ("-realtime",),
    "-realtime": (),
}


def _words(name: str) -> Words:
    kind, dash, order = name.partition("-")
    what = "writes" if kind == "G0" else "reads and writes"
    step = (
        "Each transaction wrote before the next one"
        if kind == "G0"
        else "Each transaction came before the next one"
    )
    suffix = f"{dash}{order}"
    return Words(
        one=f"cycle of transactions by {what}{_BY[suffix]}",
        many=f"cycles of transactions by {what}{_BY[suffix]}",
        means=f"{step}, and the last one before the first.",
        promise="Transactions can be put in an order that agrees with what all clients saw.",
        explains={
            f"{kind}{wider}": "the same cycle also exists when more orders are considered"
            for wider in _WIDER[suffix]
        },
    )


def _looks_for(name: str) -> str:
    kind, dash, order = name.partition("-")
    return f"{_LOOKS_FOR[kind]}{_BY[f'{dash}{order}']}"


CHECKERS = tuple(
    Checker(
        name=name,
        words=_words(name),
        why=_why,
        anomaly_class=AnomalyClass.SAFETY,
        tables=("dependencies", "participants"),
        check=partial(_check, name),
        scope=Scope.ACROSS,
        applies=_promised_order if name.startswith("G0") else seeks_cycles,
        promise=None if name.startswith("G0") else Promise.TRANSACTIONS,  # G0 is allowed.
        compares=f"{'write-write' if name.startswith('G0') else 'write-read'} dependencies",
        chapter=Chapter.TRANSACTIONS,
        looks_for=_looks_for(name),
        excuses=frozenset() if name.startswith("G0") else frozenset({Excuse.ALWAYS}),
        always_allowed=name.startswith("G0"),
        waits=Waits.CYCLES,
        of_histories=True,
    )
    for name in NAMES
)
"""One checker for each kind of cycle."""
