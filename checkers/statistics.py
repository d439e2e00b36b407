"""Compute the statistics of a group for pages and trends; both engines give the same numbers.

`STATISTICS` lists the tables of `statistics/*.parquet`. A window is one second of the run. The name
of a window is its start in nanoseconds. Latency is the time from invocation to completion of ok
ops, in milliseconds. Lag is the time in milliseconds from a send's invocation to the end of the
first poll that returned the message. A lag counts in the second in which the send was invoked.
Final reads do not count for the lag, because they come after the run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from checkers.columns import (
    Ints,
    Mask,
    codes,
    equal,
    ints,
    pieces,
    present,
    schema_of,
    select,
    slices,
    stack,
    within,
)
from checkers.disk_losses import was_begun
from checkers.group import LEADER_SOURCES, Group
from checkers.transitions.tables import SCHEMAS
from results.record.clock import NS_PER_S
from results.record.terms import Outcome, Phase, Source

_NS_PER_MS = 1_000_000

_Columns = dict[str, pa.DataType]
_PLACE: _Columns = {"topic": pa.string(), "topic_id": pa.string(), "partition": pa.int32()}
_COUNTS: _Columns = {
    "f": pa.string(),
    "outcome": pa.string(),
    "count": pa.int64(),
    "messages": pa.int64(),
}
_QUANTILES: _Columns = dict.fromkeys(("p50_ms", "p95_ms", "p99_ms", "max_ms"), pa.float64())

STATISTICS: dict[str, pa.Schema] = {
    "rates": schema_of(window_ns=pa.int64(), **_COUNTS),
    "latency": schema_of(window_ns=pa.int64(), f=pa.string(), **_QUANTILES),
    "totals": schema_of(**_COUNTS, **_QUANTILES),
    "offered": schema_of(
        window_ns=pa.int64(), offered=pa.int64(), missed=pa.int64(), calm_offered=pa.int64(),
        calm_missed=pa.int64(),
    ),
    "availability": schema_of(
        **_PLACE, window_ns=pa.int64(), attempted=pa.int64(), ok=pa.int64()
    ),
    "lag": schema_of(**_PLACE, window_ns=pa.int64(), **_QUANTILES),
    "leaders": schema_of(
        **_PLACE, leader=pa.int32(), epoch=pa.int32(), from_ns=pa.int64(), to_ns=pa.int64()
    ),
    "faults": schema_of(
        fault_id=pa.int64(), kind=pa.string(), targets=pa.list_(pa.string()),
        requested_ns=pa.int64(), confirmed_ns=pa.int64(), healed_ns=pa.int64(),
    ),
    **SCHEMAS,
}  # fmt: skip
"""The tables of `statistics/*.parquet` and their columns. The columns `calm_...` count only windows
of the main phase that are more than a second before or after each fault. A fault without a heal
lasts until the end, even if it never began. `checkers.transitions` makes the tables of
`SCHEMAS`."""
_LONGEST_S = 3_600
"""The maximum duration of a send in seconds. Clients give up earlier."""
_BROKERS = 1 << 31
"""A number above all broker ids, used to combine an epoch and a broker id into one number."""


def run_statistics(group: Group) -> dict[str, pa.Table]:
    """Return the statistics of a whole run."""
    ops, faults = group.table("ops"), group.table("faults")
    return {
        "rates": _rates(ops),
        "latency": _latency(ops),
        "totals": _totals(ops),
        "offered": _offered(group.table("arrivals"), faults),
        "faults": faults.select(STATISTICS["faults"].names),
    }


def partition_statistics(group: Group) -> dict[str, pa.Table]:
    """Return the statistics of one partition."""
    return {"availability": availability(group), "lag": lag(group), "leaders": _leaders(group)}


def availability(group: Group) -> pa.Table:
    """Return, for each second, the number of open sends and the number of sends that ended ok.

    A send is open from the second of its invocation to the second before its end, and at least in
    its first second. A send that seems to last longer than possible has wrong times. Such a send,
    and a send without an end, count only in their first second.
    """
    sends = group.table("sends")
    begun, ended = ints(sends, "invoke_ns") // NS_PER_S, ints(sends, "complete_ns") // NS_PER_S
    ok = equal(sends, "outcome", Outcome.OK.value) & (ended >= begun)
    lasts = np.clip(ended - begun, 1, None)
    lasts[lasts > _LONGEST_S] = 1
    passed = np.arange(lasts.sum()) - np.repeat(np.cumsum(lasts) - lasts, lasts)
    seconds = np.concatenate([np.repeat(begun, lasts) + passed, ended[ok]])
    starts, at = np.unique(seconds, return_inverse=True)
    tried, done = at[: len(passed)], at[len(passed) :]
    return _rows(
        "availability",
        group,
        window_ns=starts * NS_PER_S,
        attempted=np.bincount(tried, minlength=len(starts)),
        ok=np.bincount(done, minlength=len(starts)),
    )


def lag(group: Group) -> pa.Table:
    """Return, for each second, quantiles of the time from a send to the message's first read."""
    sends, polls = group.table("sends"), group.table("polls")
    live = present(polls, "complete_ns") & present(polls, "value")
    live &= ~equal(polls, "phase", Phase.FINAL.value)
    values, ends = ints(polls, "value")[live], ints(polls, "complete_ns")[live]
    order = np.lexsort((ends, values))
    read, at = np.unique(values[order], return_index=True)
    sent, begun = ints(sends, "value"), ints(sends, "invoke_ns")
    place = np.minimum(np.searchsorted(read, sent), max(len(read) - 1, 0))
    known = present(sends, "value") & present(sends, "invoke_ns")
    found = known & (read[place] == sent) if len(read) else np.zeros(len(sent), dtype=np.bool_)
    spans = ends[order][at][place[found]] - begun[found]
    forward = spans >= 0  # Negative times are a bug of Logquake, not a lag.
    windows = _windows(begun[found][forward])
    rows = [
        {"window_ns": start, **_quantiles(part)}
        for start, part in _by_window(windows, spans[forward])
    ]
    names = ("window_ns", *_QUANTILES)
    return _rows("lag", group, **{name: [row[name] for row in rows] for name in names})


def _by_window(windows: Ints, spans: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each window with its durations, in order of time."""
    order = np.argsort(windows, kind="stable")
    starts, at = np.unique(windows[order], return_index=True)
    parts = np.split(spans[order], at[1:]) if len(starts) else []
    yield from zip(starts.tolist(), parts, strict=True)


def _rows(name: str, group: Group, **columns: Sequence[object] | Ints) -> pa.Table:
    length = len(next(iter(columns.values())))
    place: dict[str, Sequence[object]] = {
        "topic": [group.topic] * length,
        "topic_id": [group.topic_id] * length,
        "partition": [group.partition] * length,
    }
    return pa.table({**place, **columns}, schema=STATISTICS[name])


def _windows(times: Ints) -> Ints:
    return times // NS_PER_S * NS_PER_S


def _when(ops: pa.Table) -> Ints:
    """Return the time at which each op is counted: its end, or its start if it has no end."""
    return np.where(present(ops, "complete_ns"), ints(ops, "complete_ns"), ints(ops, "invoke_ns"))


def _rates(ops: pa.Table) -> pa.Table:
    names = ("invoke_ns", "complete_ns", "f", "outcome", "messages")
    keyed = (
        piece.append_column("window_ns", pa.array(_windows(_when(piece))))
        for piece in slices(ops, names)
    )
    return _summed(keyed, ["window_ns", "f", "outcome"], "rates")


def _summed(parts: Iterable[pa.Table], keys: list[str], name: str) -> pa.Table:
    """Return the number of ops and messages for each combination of keys, ordered by the keys.

    Args:
        parts: Parts of one table. All parts must have the same dictionary codes.
        keys: The key columns.
        name: The name of the statistic.
    """
    counted = [
        piece.group_by(keys, use_threads=False)
        .aggregate([("messages", "sum"), ([], "count_all")])
        .rename_columns([*keys, "messages", "count"])
        for piece in parts
    ]
    whole = pa.concat_tables(counted).group_by(keys, use_threads=False)
    sums = whole.aggregate([("messages", "sum"), ("count", "sum")])
    sums = sums.rename_columns([*keys, "messages", "count"])
    known = [field for field in STATISTICS[name] if field.name in sums.column_names]
    ordered = sums.select([field.name for field in known]).cast(pa.schema(known))
    return ordered.sort_by([(key, "ascending") for key in keys])


def _durations(ops: pa.Table) -> pa.Table:
    ok = equal(ops, "outcome", Outcome.OK.value)
    return select(ops, ok & present(ops, "complete_ns") & present(ops, "invoke_ns"))


_SPAN = ("f", "outcome", "invoke_ns", "complete_ns")


def _spans(ok: pa.Table) -> Iterator[tuple[str, Mask, Ints]]:
    """Yield, for each kind of op: its name ("" if unknown), a mask of rows, and durations."""
    spans = ints(ok, "complete_ns") - ints(ok, "invoke_ns")
    kinds, words = codes(ok, "f")
    for at in np.unique(kinds).tolist():
        yield [*words, ""][at], kinds == at, spans[kinds == at]


def _latency(ops: pa.Table) -> pa.Table:
    rows: list[dict[str, object]] = []
    for piece in pieces(ops, _SPAN, _windows(ints(ops, "complete_ns"))):
        ok = _durations(piece)
        windows = _windows(ints(ok, "complete_ns"))
        rows += [
            {"window_ns": start, "f": f, **_quantiles(part)}
            for f, mine, spans in _spans(ok)
            for start, part in _by_window(windows[mine], spans)
        ]
    table = pa.Table.from_pylist(rows, schema=STATISTICS["latency"])
    return table.sort_by([("window_ns", "ascending"), ("f", "ascending")])


def _quantiles(spans_ns: Ints) -> dict[str, float | None]:
    """Return nearest-rank quantiles. Such quantiles are observed values, so both engines agree."""
    names = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "max_ms": 1.0}
    if not len(spans_ns):
        return dict.fromkeys(names)
    ranked = np.sort(spans_ns)
    ranks = {name: int(np.ceil(share * len(ranked))) - 1 for name, share in names.items()}
    return {name: int(ranked[max(0, rank)]) / _NS_PER_MS for name, rank in ranks.items()}


def _totals(ops: pa.Table) -> pa.Table:
    sums = _summed(slices(ops, ("f", "outcome", "messages")), ["f", "outcome"], "totals")
    found: dict[object, list[Ints]] = {}
    for piece in slices(ops, _SPAN):
        for f, _, spans in _spans(_durations(piece)):
            found.setdefault(f, []).append(spans)
    rows = [{**row, **_quantiles(_of(found, row))} for row in sums.to_pylist()]
    return pa.Table.from_pylist(rows, schema=STATISTICS["totals"])


def _of(found: Mapping[object, Sequence[Ints]], row: Mapping[str, object]) -> Ints:
    ok = row["outcome"] == Outcome.OK.value
    return stack([np.zeros(0, dtype=np.int64), *(found.get(row["f"], ()) if ok else ())])


def _offered(arrivals: pa.Table, faults: pa.Table) -> pa.Table:
    at, offered, missed = (ints(arrivals, name) for name in ("window_ns", "offered", "missed"))
    calm = equal(arrivals, "phase", Phase.MAIN.value)
    faults = select(faults, was_begun(faults) & present(faults, "requested_ns"))
    begun, healed = ints(faults, "requested_ns"), ints(faults, "healed_ns")
    over = healed + NS_PER_S  # A column, because numpy warns when a single number overflows.
    for start, end, then in zip(begun, healed, over, strict=True):
        calm &= (at + NS_PER_S < start) | ((at > then) & (end >= 0))
    starts, window = np.unique(_windows(at), return_inverse=True)

    def total(counts: Ints) -> Ints:
        sums = np.zeros(len(starts), dtype=np.int64)
        np.add.at(sums, window, counts)
        return sums

    columns = [starts, total(offered), total(missed), total(offered * calm), total(missed * calm)]
    return pa.table([pa.array(column) for column in columns], schema=STATISTICS["offered"])


def _misled(rows: pa.Table) -> Mask:
    """Return a mask of the rows whose leader contradicts the authoritative sources."""
    pairs = ints(rows, "leader_epoch") * _BROKERS + ints(rows, "leader")
    led = (ints(rows, "leader") >= 0) & (ints(rows, "leader_epoch") >= 0)
    known = led & equal(rows, "source", *LEADER_SOURCES, Source.METADATA_LOG)
    epochs = np.unique(pairs[known] // _BROKERS)
    return led & within(pairs // _BROKERS, epochs) & ~within(pairs, pairs[known])


def _leaders(group: Group) -> pa.Table:
    """Return the time span of each observed leader. Ignore late reports of old epochs."""
    rows = group.table("leadership")
    told = select(rows, equal(rows, "source", *LEADER_SOURCES, Source.METADATA) & ~_misled(rows))
    epochs = ints(told, "leader_epoch")
    if (epochs >= 0).any():  # Rows without epochs (old brokers) count only if no row has one.
        told = select(told, epochs >= 0)
    columns = [ints(told, name).tolist() for name in ("observed_ns", "leader_epoch", "leader")]
    spans: list[list[int]] = []
    for time_ns, epoch, leader in sorted(zip(*columns, strict=True)):
        if spans and epoch < spans[-1][1]:
            continue
        if spans and (leader, epoch) == (spans[-1][0], spans[-1][1]):
            spans[-1][3] = time_ns
            continue
        if spans:
            spans[-1][3] = time_ns
        spans.append([leader, epoch, time_ns, time_ns])
    names = ("leader", "epoch", "from_ns", "to_ns")
    return _rows(
        "leaders", group, **{name: [span[at] for span in spans] for at, name in enumerate(names)}
    )
