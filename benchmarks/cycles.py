"""Measures the cost of the transaction-cycle checks, compared with networkx and scipy.

The benchmark builds a seeded history of transactions in memory. Sixteen transactions run at a time,
with two to four micro-operations each, on eight partitions. The transactions interleave as on real
brokers. Two later transactions read each record. In one place, two transactions read each other's
sends, which is an anomaly. The benchmark times the dependencies of each partition, and then all six
checks across partitions. networkx gets the smaller sizes only, because it needs minutes and
gigabytes for the largest. Ratios and growth are computed from CPU seconds, because wall-clock
seconds are meaningful on an idle machine only.

    python -m benchmarks.cycles [--transactions 10000 100000 1000000]
"""

import argparse
import gc
import resource
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from checkers.cycles import CHECKERS
from checkers.dependencies import DEPENDENCIES_DERIVATION, PARTICIPANTS_DERIVATION
from checkers.facts import RunFacts
from checkers.group import Group, group_of
from results.record.clock import stopwatch_s
from results.record.plan import Plan
from results.record.tables import TABLES

Ints = npt.NDArray[np.int64]
_PARTITIONS, _PROCESSES, _READERS = 8, 16, 2
_STEP_NS, _LASTS = 1_000_000, 14
"""A transaction begins every step and lasts at most 14 steps, so that each process has only one."""
_FACTS = RunFacts(
    run_id="benchmark/run",
    recorded_id="benchmark/run",
    plan=Plan(workload="txn", topics=1, partitions=_PARTITIONS),
)
_TOPIC = _FACTS.plan.topic_names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Columns of sends (one for each value) and of reads. Ops are numbered by their start."""

    begun: Ints
    ended: Ints
    writer: Ints
    partition: Ints
    offset: Ints
    reader: Ints
    read: Ints
    """The value that each read returned."""


def history(transactions: int, seed: int) -> History:
    """Return a history that is correct, except that two transactions read each other's sends."""
    random = np.random.default_rng(seed)
    begun = np.arange(transactions, dtype=np.int64) * _STEP_NS
    ended = begun + random.integers(_STEP_NS, _LASTS * _STEP_NS, transactions)
    sends = random.integers(1, 4, transactions)
    writer = np.repeat(np.arange(transactions), sends)
    written = random.integers(begun[writer], ended[writer])
    partition = random.integers(0, _PARTITIONS, len(writer))
    order = np.lexsort((written, partition))
    firsts = np.searchsorted(partition[order], np.arange(_PARTITIONS))
    offset = np.empty(len(writer), dtype=np.int64)
    offset[order] = np.arange(len(writer)) - firsts[partition[order]]
    read = np.tile(np.arange(len(writer)), _READERS)
    reader = ended[writer[read]] // _STEP_NS + random.integers(1, 50, len(read))
    kept = reader < transactions
    one = transactions // 2
    each_other = np.searchsorted(writer, [one, one + 1])
    return History(
        begun=begun,
        ended=ended,
        writer=writer,
        partition=partition,
        offset=offset,
        reader=np.append(reader[kept], [one + 1, one]),
        read=np.append(read[kept], each_other),
    )


def groups(made: History) -> list[Group]:
    """Return the history grouped by partition, in the form that the engines pass to the checks."""
    found = []
    for number in range(_PARTITIONS):
        sent = np.flatnonzero(made.partition == number)
        got = np.flatnonzero(made.partition[made.read] == number)
        got = got[np.lexsort((made.offset[made.read[got]], made.reader[got]))]
        sends = _rows("sends", made, ops=made.writer[sent], value=sent, offset=made.offset[sent])
        of_reads = made.read[got]
        polls = _rows(
            "polls", made, ops=made.reader[got], value=of_reads, offset=made.offset[of_reads]
        )
        place = {"topic": _TOPIC, "topic_id": "id", "partition": number}
        found.append(group_of(_FACTS, {"sends": sends, "polls": polls}, **place))  # type: ignore[arg-type]  # A place.
    return found


def _rows(name: str, made: History, *, ops: Ints, value: Ints, offset: Ints) -> pa.Table:
    words = {"outcome": "ok", "acks": "all", "phase": "main", "isolation": "read_committed"}
    numbers = {
        "op_id": ops, "value": value, "offset": offset, "txn_id": ops,
        "process": ops % _PROCESSES, "invoke_ns": made.begun[ops], "complete_ns": made.ended[ops],
        "mop": np.zeros_like(ops), "pos": np.arange(len(ops)), "acked": np.ones_like(ops),
    }  # fmt: skip
    columns = {}
    for field in TABLES[name]:
        if field.name in numbers:
            columns[field.name] = pa.array(numbers[field.name]).cast(field.type)
        elif field.name in words:
            word = pa.DictionaryArray.from_arrays(
                np.zeros(len(ops), dtype=np.int32), [words[field.name]]
            )
            columns[field.name] = word
        else:
            columns[field.name] = pa.nulls(len(ops), field.type)
    return pa.table(columns)


def measure(transactions: int, *, beside_networkx: bool) -> float:
    """Print the cost of one size, and return the CPU seconds of the pipeline's functions."""
    parts = groups(history(transactions, seed=transactions))
    gc.collect()
    begun, cpu_before_s = stopwatch_s(), _cpu_s()
    derived = {
        each.name: pa.concat_tables(each.derive(part) for part in parts).combine_chunks()
        for each in (DEPENDENCIES_DERIVATION, PARTICIPANTS_DERIVATION)
    }
    edges_s = stopwatch_s() - begun
    across = Group(facts=_FACTS, tables={}, derived=derived)
    found = {each.name: each.check(across) for each in CHECKERS}
    ours_s, cpu_s = stopwatch_s() - begun, _cpu_s() - cpu_before_s
    planted = [each for each in found["G1c"].anomalies if not each.excuses]
    if len(planted) != 1:
        raise SystemExit(f"two transactions read each other, and {len(planted)} circles were found")
    told = {name: len(each.anomalies) + sum(each.beyond.values()) for name, each in found.items()}
    edges = derived["dependencies"]
    scipy_s = _scipy_s(edges, transactions)
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    line = (
        f"{transactions} transactions, {edges.num_rows} dependencies: {ours_s:.1f} s"
        f" ({edges_s:.1f} s for the dependencies), {cpu_s:.1f} s of the CPU, peak {peak_gib:.2f}"
        f" GiB; one search of scipy's {scipy_s:.2f} s (ratio {cpu_s / scipy_s:.0f}); found {told}"
    )
    if beside_networkx:
        networkx_s = _networkx_s(edges)
        line += f"; networkx {networkx_s:.1f} s (ratio {cpu_s / networkx_s:.2f})"
    print(line, flush=True)
    return cpu_s


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _scipy_s(edges: pa.Table, nodes: int) -> float:
    source, target = (edges[name].to_numpy() for name in ("source", "target"))
    begun = _cpu_s()
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes)).tocsr()
    connected_components(graph, directed=True, connection="strong")
    return _cpu_s() - begun


def _networkx_s(edges: pa.Table) -> float:
    pairs = list(zip(edges["source"].to_pylist(), edges["target"].to_pylist(), strict=True))
    begun = _cpu_s()
    sum(1 for _ in nx.strongly_connected_components(nx.DiGraph(pairs)))
    return _cpu_s() - begun


def main() -> None:
    """Print a line for each size, and how the cost grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes = sorted(parser.parse_args().transactions)
    costs = [measure(size, beside_networkx=size <= max(100_000, sizes[0])) for size in sizes]
    for (size, cost), (larger, more) in zip(
        zip(sizes, costs, strict=True), list(zip(sizes, costs, strict=True))[1:], strict=False
    ):
        print(f"{larger / size:.0f} times the transactions cost {more / cost:.1f} times as much")


if __name__ == "__main__":
    main()
