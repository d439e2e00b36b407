"""Print the details of one op or one message (value) in a terminal."""

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from results.page.truncations import with_nodes
from results.print_table import print_table, say
from results.record.atomic import StoreError
from results.record.clock import seconds
from results.record.paths import RunPaths
from results.record.short import op_named
from results.tables import RunTables
from results.wording.glossary import GLOSSARY
from results.wording.naming import Names, names_of
from results.wording.plural import many

MAX_ROWS = 40
"""Maximum number of printed rows of messages or copies. The record has all rows."""
_NAMED = 8
"""Maximum number of listed values for an ambiguous short name."""


def show_named(paths: RunPaths, what: str, console: Console) -> None:
    """Print an op or a message, given by a short name or by the number in the record.

    If there are 256 partitions or more, one number may belong to both an op and a value. Then both
    are printed.

    Args:
        paths: The run.
        what: `p22#132`; `log-0-0:v785`; `v785` if only one partition has this value; `message2` of
            a scripted run; or the number of an op or value.
        console: The console to print on.

    Raises:
        StoreError: The run has no such op or value, or several.
    """
    tables, names = RunTables(paths), names_of(paths)
    op_id, value = _meant(what, names, tables)
    ops = _rows(tables, "ops", "op_id", op_id)
    sends, polls = (_rows(tables, name, "value", value) for name in ("sends", "polls"))
    if not ops.num_rows and not sends.num_rows and not polls.num_rows:
        raise StoreError(f"run {paths.run_id} has no {what!r}: {_why(what, names)}")
    if ops.num_rows:
        _print_op(tables, ops.slice(0, 1).to_pylist()[0], names, console)
    if value is None or not (sends.num_rows or polls.num_rows):
        return
    if ops.num_rows:
        say(console, f"{what} is also the number of a value:")
    say(console, f"{names.value(value)} (value {value})", style="bold")
    _print_sends(sends, names, console)
    _print_reads(polls, names, console)
    _print_copies(tables, value, console)
    _print_truncations(tables, sends, console)


def _meant(what: str, names: Names, tables: RunTables) -> tuple[int | None, int | None]:
    """Return the (op id, value) that a text may mean; a plain number may mean an op or a value."""
    if (found := op_named(what)) is not None:
        return names.op_id(*found), None
    if what.isascii() and what.isdecimal() and int(what[:20]) < 1 << 63:
        return int(what), int(what)
    return None, names.value_of(what) or _value_alone(what, names, tables)


def _value_alone(what: str, names: Names, tables: RunTables) -> int | None:
    """Return the value for a short name without a partition, such as `v785` in a drawing."""
    meant = set(names.values_alone(what))
    if not meant:
        return None
    among = pc.field("value").isin(sorted(meant))
    known: set[int] = set()
    for name in ("sends", "polls"):
        values = tables.record(name, filters=among)["value"].to_pylist()
        known |= {each for each in values if each is not None}
    if len(known) > 1:
        told = [names.value(each) for each in sorted(known)]
        more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
        raise StoreError(
            f"{what} is the name of {len(told)} values; add the partition to the name:"
            f" {', '.join(told[:_NAMED])}{more}"
        )
    return next(iter(known), min(meant))


def _why(what: str, names: Names) -> str:
    found = op_named(what)
    if found is not None:
        count = len(names.ids_of(found[0]))
        ops = "no ops" if not count else f"ops p{found[0]}#1 to p{found[0]}#{count}"
        return f"process {found[0]} has {ops}"
    if names.value_of(what) is not None or names.values_alone(what):
        return "no client sent or read this value"
    example = f"{names.prefixes[0]}2" if names.prefixes else "log-0-0:v785"
    return f"an op has a name like p22#132, and a value has a name like {example}"


def _rows(tables: RunTables, name: str, column: str, number: int | None) -> pa.Table:
    if number is None:
        return tables.record(name).slice(0, 0)
    return tables.record(name, filters=pc.field(column) == number)


def _print_op(tables: RunTables, op: dict[str, object], names: Names, console: Console) -> None:
    op_id, outcome = int(str(op["op_id"])), str(op["outcome"])
    title = f"{names.op(op_id)} (op {op_id}): {op['f']} of process {op['process']}, {op['phase']}"
    say(console, title, style="bold")
    error = f" ({op['error']})" if op["error"] else ""
    say(console, f"from {_when(op['invoke_ns'])} to {_when(op['complete_ns'])}: {outcome}{error}")
    if outcome in GLOSSARY:
        say(console, f"({outcome}: {GLOSSARY[outcome]})", style="dim")
    sends = _rows(tables, "sends", "op_id", op_id).sort_by("mop")
    polls = _rows(tables, "polls", "op_id", op_id).sort_by(
        [("mop", "ascending"), ("pos", "ascending")]
    )
    for verb, rows in (("sent", sends), ("read", polls)):
        if rows.num_rows:
            say(console, f"{verb} {many(rows.num_rows, 'value')}:")
            columns = ("value", "in the record", "partition", "offset", "outcome")
            print_table(console, columns, _messages(rows, names))
            _more(rows.num_rows, console)


def _messages(rows: pa.Table, names: Names) -> list[tuple[str, ...]]:
    return [
        (
            "none" if row["value"] is None else names.value(row["value"]),
            str(row["value"]),
            _place(row),
            _number(row["offset"]),
            row["outcome"] or "-",
        )
        for row in rows.slice(0, MAX_ROWS).to_pylist()
    ]


def _print_sends(sends: pa.Table, names: Names, console: Console) -> None:
    for row in sends.slice(0, MAX_ROWS).to_pylist():
        at = f"at offset {_number(row['offset'])} of {_place(row)}"
        ended = f"{_when(row['complete_ns'])}: {row['outcome']}, {at}"
        sent = f"sent by op {names.op(row['op_id'])} of process {row['process']}"
        say(console, f"{sent}, from {_when(row['invoke_ns'])} to {ended}")
        if row["outcome"] in GLOSSARY:
            say(console, f"({row['outcome']}: {GLOSSARY[row['outcome']]})", style="dim")
    if not sends.num_rows:
        say(console, "no client sent it")


def _print_reads(polls: pa.Table, names: Names, console: Console) -> None:
    if not polls.num_rows:
        say(console, "no client read it")
        return
    say(console, f"read {many(polls.num_rows, 'time')}:")
    rows = [
        (names.op(row["op_id"]), _when(row["complete_ns"]), _place(row), str(row["offset"]))
        for row in polls.sort_by("complete_ns").slice(0, MAX_ROWS).to_pylist()
    ]
    print_table(console, ("by op", "when", "partition", "offset"), rows)
    _more(polls.num_rows, console)


def _print_copies(tables: RunTables, value: int, console: Console) -> None:
    kept = _rows(tables, "replica_records", "value", value)
    if not kept.num_rows:
        say(console, "no replica's log has it")
        return
    say(console, "in the logs of replicas:")
    rows = [
        (
            row["snapshot"],
            row["node"],
            _place(row),
            str(row["offset"]),
            _number(row["leader_epoch"]),
        )
        for row in kept.slice(0, MAX_ROWS).to_pylist()
    ]
    print_table(console, ("copy", "node", "partition", "offset", "leader epoch"), rows)
    _more(kept.num_rows, console)


def _print_truncations(tables: RunTables, sends: pa.Table, console: Console) -> None:
    """Print which replicas truncated their log at or before a message's offset, and why."""
    rows = []
    for send in sends.filter(pc.field("offset") >= 0).slice(0, MAX_ROWS).to_pylist():
        here = (pc.field("topic") == send["topic"]) & (pc.field("partition") == send["partition"])
        end = pc.field("to_offset")  # Null: the end of the log.
        cut = (pc.field("from_offset") <= send["offset"]) & (end.is_null() | (end > send["offset"]))
        rows += [
            (row["node"], _place(row), str(row["from_offset"]), with_nodes(row["reason"] or ""))
            for row in tables.record("truncations", filters=here & cut).to_pylist()
        ]
    if rows:
        say(console, "replicas that at some time truncated their log at this offset or before it:")
        print_table(console, ("node", "partition", "from offset", "why"), rows[:MAX_ROWS])
        _more(len(rows), console)


def _place(row: dict[str, object]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _more(count: int, console: Console) -> None:
    if count > MAX_ROWS:
        say(console, f"and {count - MAX_ROWS:,} more", style="dim")


def _number(known: object) -> str:
    """Return an offset or epoch as text; `?` if the record has none or -1."""
    return str(known) if isinstance(known, int) and known >= 0 else "?"


def _when(time_ns: object) -> str:
    return seconds(time_ns) if isinstance(time_ns, int) and time_ns >= 0 else "an unknown time"
