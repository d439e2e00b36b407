"""One op or value of a run in the terminal: what became of it."""

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from results.atomic import StoreError
from results.page.naming import Names
from results.page.witness import seconds
from results.print_table import print_table, say
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.short import op_named, value_named
from results.tables import RunTables

MAX_ROWS = 40


def show_named(paths: RunPaths, what: str, console: Console) -> None:
    """Print an op, or a value, by its short name or by its number in the record.

    Args:
        paths: The run.
        what: `p22#132`, `log-0-0:v785`, or the number of either.
        console: Where to.

    Raises:
        StoreError: The run has no such op and no such value.
    """
    tables, plan = RunTables(paths), _plan(paths)
    names = Names(tables, plan, scripted=False)
    op_id, value = _meant(what, names, plan)
    if op_id is not None:
        ops = tables.record("ops", filters=pc.field("op_id") == op_id)
        if ops.num_rows:
            _print_op(tables, ops.slice(0, 1).to_pylist()[0], names, console)
            return
    if value is not None:
        sends = tables.record("sends", filters=pc.field("value") == value)
        polls = tables.record("polls", filters=pc.field("value") == value)
        if sends.num_rows or polls.num_rows:
            _print_value(tables, value, sends, polls, names=names, console=console)
            return
    raise StoreError(
        f"run {paths.run_id} has no op and no value {what!r}; an op is called like p22#132, a value"
        " like log-0-0:v785, and `logquake show` of the run names those of its story"
    )


def _plan(paths: RunPaths) -> Plan | None:
    try:
        return plan_from(load_plan(paths.plan))
    except (OSError, PlanError):
        return None


def _meant(what: str, names: Names, plan: Plan | None) -> tuple[int | None, int | None]:
    """Return the (op id, value) that may be meant."""
    if (found := op_named(what)) is not None:
        return names.op_id(*found), None
    if what.isdecimal() and int(what) < 1 << 63:
        return int(what), int(what)
    return None, value_named(what, plan.topic_partitions if plan else [])


def _print_op(tables: RunTables, op: dict[str, object], names: Names, console: Console) -> None:
    op_id = int(str(op["op_id"]))
    title = f"{names.op(op_id)} (op {op_id}), {op['f']} of process {op['process']}"
    say(console, title, style="bold")
    ended = f"{_when(op['complete_ns'])}: {op['outcome']}"
    error = f" ({op['error']})" if op["error"] else ""
    say(console, f"from {_when(op['invoke_ns'])} to {ended}{error}")
    mine = pc.field("op_id") == op_id
    sends = tables.record("sends", filters=mine).sort_by("mop")
    polls = tables.record("polls", filters=mine).sort_by(
        [("topic", "ascending"), ("offset", "ascending")]
    )
    for verb, rows in (("sent", sends), ("got", polls)):
        if rows.num_rows:
            say(console, f"{verb} {rows.num_rows} message{'s' if rows.num_rows > 1 else ''}:")
            print_table(
                console, ("value", "partition", "offset", "outcome"), _messages(rows, names)
            )
            _more(rows.num_rows, console)


def _messages(rows: pa.Table, names: Names) -> list[tuple[str | int, ...]]:
    return [
        (
            names(f"value {row['value']}").removeprefix("value "),
            f"{row['topic']}-{row['partition']}",
            "-" if row["offset"] is None or row["offset"] < 0 else row["offset"],
            row["outcome"],
        )
        for row in rows.slice(0, MAX_ROWS).to_pylist()
    ]


def _print_value(
    tables: RunTables,
    value: int,
    sends: pa.Table,
    polls: pa.Table,
    *,
    names: Names,
    console: Console,
) -> None:
    title = names(f"value {value}").removeprefix("value ")
    say(console, f"{title} (value {value})", style="bold")
    for row in sends.slice(0, MAX_ROWS).to_pylist():
        at = "" if row["offset"] is None or row["offset"] < 0 else f" at offset {row['offset']}"
        told = f"{_when(row['complete_ns'])}: {row['outcome']}{at}"
        sent = f"sent by {names.op(row['op_id'])} of process {row['process']}"
        say(console, f"{sent} from {_when(row['invoke_ns'])} to {told}")
    reads = polls.sort_by("complete_ns").slice(0, MAX_ROWS).to_pylist()
    if reads:
        times = "once" if polls.num_rows == 1 else f"{polls.num_rows} times"
        first = reads[0]
        told = f"first by {names.op(first['op_id'])} at {_when(first['complete_ns'])}"
        say(console, f"read {times}, {told}, at offset {first['offset']}")
    else:
        say(console, "never read")
    kept = tables.record("replica_records", filters=pc.field("value") == value)
    rows = [
        (row["snapshot"], row["node"], row["offset"], row["leader_epoch"])
        for row in kept.slice(0, MAX_ROWS).to_pylist()
    ]
    if rows:
        print_table(console, ("copy", "node", "offset", "leader epoch"), rows)
        _more(kept.num_rows, console)
    else:
        say(console, "in no log that was read")


def _more(count: int, console: Console) -> None:
    if count > MAX_ROWS:
        say(console, f"and {count - MAX_ROWS:,} more", style="dim")


def _when(time_ns: object) -> str:
    return seconds(time_ns) if isinstance(time_ns, int) and time_ns >= 0 else "an unknown time"
