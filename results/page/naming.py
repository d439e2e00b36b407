"""What ops, values and messages are called on pages and in terminals.

In a run with clients an op is `p22#132` and a value `log-0-0:v785` (`results.record.short`). In a
scripted run the record with sequence k of the first partition is called `message` and k; readers of
a story know it by that name, and checkers by its value. The record's own numbers are a click away,
and `verdict.json` keeps them.
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from markupsafe import Markup, escape

from results.page.headline import as_sentence
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.short import op_name, sequence_of, value_name
from results.record.values import SEQUENCE_BITS
from results.tables import RunTables

Ints = npt.NDArray[np.int64]
MAX_SEQUENCE = 1_000_000
"""A larger number that looks like a value is a time or an id."""
_NAME = re.compile(r"(message|n)\d|zk\b")
_MESSAGE = re.compile(r"([Vv]alue )?\b(\d{10})\b")
_LONG = re.compile(
    r"\b[Oo]ps? (?P<op>\d{1,19})\b|(?:\b[Vv]alues? |(?<=\d)(?:, | and ))(?P<value>\d{10,19})\b"
)
"""Numbers as checks write them: `op 7`, `value 4295098761`, `values 4295098761 and 4295098762`."""


def message_name(value: int | None) -> str | None:
    """Return the name of a value of a story's partition; None of any other number."""
    if value is None or value >> SEQUENCE_BITS != 1:
        return None
    sequence = sequence_of(value)
    return f"message{sequence}" if 0 < sequence <= MAX_SEQUENCE else None


def said(text: str) -> str:
    """Return words as a sentence; the name of a message or node is no word, and stays as it is."""
    whole = as_sentence(text)
    return f"{text[0]}{whole[1:]}" if _NAME.match(text) else whole


def with_messages(text: str) -> str:
    """Return a sentence with the names of messages before their values, where it has none yet."""

    def named(match: re.Match[str]) -> str:
        name = message_name(int(match[2]))
        if name is None or name in text:
            return match[0]
        return f"{name} ({match[1].lower()}{match[2]})" if match[1] else name

    return _MESSAGE.sub(named, text)


def names_of(paths: RunPaths) -> "Names":
    """Return the names of a stored run."""
    try:
        plan = plan_from(load_plan(paths.plan))
    except (OSError, PlanError):
        plan = None
    return Names(RunTables(paths), plan, scripted=paths.steps.exists())


class Names:
    """The names of a run's ops and values.

    Args:
        tables: Of the run; ops are looked up in its table when they are named.
        plan: Of the run; None: it cannot be read, and values keep their numbers.
        scripted: Whether it is a story, whose messages have names.
    """

    def __init__(self, tables: RunTables, plan: Plan | None, *, scripted: bool) -> None:
        self._tables = tables
        self._places = plan.topic_partitions if plan else []
        self._scripted = scripted
        self._ops: dict[int, str] = {}
        self._ids: dict[int, Ints] = {}

    def __call__(self, text: str) -> str:
        """Return a sentence with short names in place of the record's numbers."""
        if self._scripted:
            return with_messages(text)
        return "".join(f"{before}{name}" for before, name, _ in self._parts(text))

    def html(self, text: str) -> Markup:
        """Return the same for a page, where each name shows its number when it is pointed at."""
        if self._scripted:
            return escape(with_messages(text))
        shown = Markup("")  # Its parts are escaped as they are added.
        for before, name, number in self._parts(text):
            shown += escape(before)
            if name:
                shown += Markup('<abbr title="{}">{}</abbr>').format(number, name)
        return shown

    def cell(self, text: str) -> str:
        """Return what stands where a value fills a narrow cell: `v785` of the cell's partition."""
        if self._scripted:
            return with_messages(text)
        known = text.isdecimal() and value_name(int(text), self._places)
        return f"v{sequence_of(int(text))}" if known else text

    def op(self, op_id: int) -> str:
        """Return an op's name; its id where the record has no such op."""
        if op_id not in self._ops:
            found = self._tables.record("ops", filters=pc.field("op_id") == op_id)
            self._ops[op_id] = str(op_id)
            if found.num_rows and (process := found["process"][0].as_py()) is not None:
                earlier = self._ids_of(process)
                ordinal = int(np.searchsorted(earlier, op_id, side="right"))
                self._ops[op_id] = op_name(process, ordinal)
        return self._ops[op_id]

    def op_id(self, process: int, ordinal: int) -> int | None:
        """Return the id of a process's op, counted from 1; None: there is none."""
        ids = self._ids_of(process)
        return int(ids[ordinal - 1]) if 0 < ordinal <= len(ids) else None

    def _ids_of(self, process: int) -> Ints:
        if process not in self._ids:
            ops = self._tables.record("ops", filters=pc.field("process") == process)
            self._ids[process] = np.sort(ops["op_id"].to_numpy().astype(np.int64))
        return self._ids[process]

    def _parts(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Yield (text before, name, number); at the end with an empty name."""
        at = 0
        for match in _LONG.finditer(text):
            group = "op" if match["op"] else "value"
            number = match[group]
            name = self.op(int(number)) if group == "op" else self._value(int(number))
            if name is not None and name != number:
                yield text[at : match.start(group)], name, number
                at = match.end(group)
        yield text[at:], "", ""

    def _value(self, value: int) -> str | None:
        return value_name(value, self._places)
