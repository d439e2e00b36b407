"""The names of ops, values and messages on pages and in terminals.

The name of an op is like `p22#132`, and the name of a value is like `log-0-0:v785`
(`results.record.short`). In a scripted run, the value with the sequence number 1 in the first
partition is named `message1`, as in the scenario. Checks write the record's own numbers into their
sentences, and `verdict.json` keeps these numbers. This module inserts the names when a sentence is
printed. On a page, the tooltip of a name shows the number.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.short import MESSAGE, op_name, value_name, value_named, value_prefixes
from results.record.verdict import as_sentence
from results.tables import RunTables
from results.wording.inert import inert, shortened

Ints = npt.NDArray[np.int64]
_MOST, _DIGITS = 1 << 63, 19
"""Limits of op ids and values, which have 64 bits."""
_STORY_WORD = re.compile(rf"({MESSAGE}|n)\d|zk\b")
_LONG = re.compile(
    rf"\b{MESSAGE}\d{{1,10}} \(value (?P<given>\d{{10,19}})\)"
    r"|\b[Oo]ps? (?P<op>\d{1,19}(?:, \d{1,19})+(?=\))|\d{1,19}\b)"
    r"|\b[Vv]alues? (?P<value>\d{10,19}(?:(?:, | and )\d{10,19})*)\b"
)
"""Matches numbers in checks' sentences: `op 7`, `(op 7, 9)`, `values 4295098761 and 4295098762`,
and in a scripted run `message2 (value 4294967298)`."""
_NUMBER = re.compile(r"\d+")
_OP_KEYS, _VALUE_KEYS = ("op_id", "op_ids"), ("value", "values")
_OPS = "ops"
"""A key of evidence. If the evidence is a list, it contains op ids; if it is a number, it is a
count of ops."""
_INTERRUPTED = re.compile(r"(?:Interrupted at [\d.]+ s\. )?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A name that occurs on a page.

    Attributes:
        name: `p22#132`.
        long: `op 1099511637417`, as in the record and in `verdict.json`.
        anchor: The anchor at which the page explains the name.
    """

    name: str
    long: str
    anchor: str


def said(text: str) -> str:
    """Return a text as a sentence. The name of a message or node at the start stays unchanged."""
    whole = as_sentence(text)
    return f"{text[0]}{whole[1:]}" if _STORY_WORD.match(text) else whole


def interruption(sentence: str) -> str:
    """Return the first words of a verdict's sentence if they report an interruption, or ""."""
    found = _INTERRUPTED.match(sentence)
    return found[0] if found else ""


def without_verdict(sentence: str) -> str:
    """Return a verdict's sentence without the verdict, for a list that has a verdict column."""
    begins = interruption(sentence)
    rest = sentence.removeprefix(begins)
    told = rest.partition(": ")[2] or rest
    return f"{begins}{said(told)}" if begins else told


def names_of(paths: RunPaths) -> "Names":
    """Return the names of a stored run's ops and values."""
    try:
        plan = plan_from(load_plan(paths.plan))
    except (OSError, PlanError):
        plan = None
    return Names(RunTables(paths), plan, scripted=paths.steps.exists())


class Names:
    """The names of a run's ops and values.

    Args:
        tables: The run's tables. The ops are read as soon as one op needs a name.
        plan: The run's plan; None if it cannot be read. Values then keep their numbers.
        scripted: Whether the run is a scripted run, which has named messages.
        with_ops: Whether ops get names. If not, sentences keep the ids of ops.
    """

    def __init__(
        self, tables: RunTables, plan: Plan | None, *, scripted: bool, with_ops: bool = True
    ) -> None:
        self._tables = tables
        self._with_ops = with_ops
        self.prefixes = value_prefixes(plan.topic_partitions if plan else (), scripted=scripted)
        """Prefixes of values' names, in the order of the plan's partitions."""
        self._ops: dict[int, str | None] = {}
        self._printed: dict[str, Printed] = {}

    def __call__(self, text: str) -> str:
        """Return a sentence with short names instead of the record's numbers."""
        return "".join(f"{before}{name}" for before, name, _ in self._parts(text))

    def html(self, text: str) -> Markup:
        """Return a sentence with short names as HTML; the tooltip of each name shows the number."""
        return self._marked(text, _abbreviation)

    def alone(self, text: str) -> Markup:
        """Return the short name of a value's number as HTML; other text is only escaped."""
        name = self._value(int(text)) if _is_number(text) else None
        return escape(inert(text)) if name is None else _abbreviation(name, f"value {text}")

    def linked(self, text: str) -> Markup:
        """Return a sentence as HTML; each short name is a link to an explanation (`printed`)."""
        return self._marked(text, self._link)

    def titled(self, text: str) -> str:
        """Return a sentence for a tooltip; it has short names, and the numbers are at the end."""
        parts = list(self._parts(text))
        numbers = ", ".join(dict.fromkeys(long for _, _, long in parts if long))
        return f"{self(text)}{f' [{numbers}]' if numbers else ''}"

    def cell(self, text: str, place: str) -> str:
        """Return the text of a narrow cell; a value of the cell's partition is shortened to `v785`.

        Args:
            text: A value's number, or another text.
            place: The cell's partition: `log-0-0`.
        """
        name = self._value(int(text)) if _is_number(text) else None
        own = f"{place}:"
        return text if name is None else name.removeprefix(own)

    def legend(self, text: str, place: str) -> str:
        """Return the explanation of a name that `cell` shortens; "" if `cell` does not shorten it.

        Args:
            text: As for `cell`.
            place: As for `cell`.
        """
        name, short = self._value(int(text)) if _is_number(text) else None, self.cell(text, place)
        return "" if name in (None, short) else f"{short}: value {name}"

    def linked_cell(self, text: str, place: str) -> Markup:
        """Return the text of a narrow cell as HTML; it is a link to the explanation of the name."""
        name = self._value(int(text)) if _is_number(text) else None
        if name is None:
            return escape(inert(text))
        return self._link(name, f"value {text}", shown=self.cell(text, place))

    @property
    def printed(self) -> tuple[Printed, ...]:
        """The names that `linked` and `linked_cell` link to, in their order of appearance."""
        return tuple(self._printed.values())

    def evidence(self, key: str, value: object) -> object:
        """Return evidence in which the short name stands before the number of each op or value.

        Args:
            key: Key of the evidence: `op_id`, `polled_values`, ...
            value: Value of the evidence, as in `verdict.json`.
        """
        if isinstance(value, list):
            return [self._spelled(key if key != _OPS else "op_id", each) for each in value]
        return self._spelled(key, value)

    def op(self, op_id: int) -> str:
        """Return an op's short name, or its id if the record has no such op."""
        return self._op(op_id) or str(op_id)

    def op_id(self, process: int, ordinal: int) -> int | None:
        """Return the id of a process's op by its number, from 1; None if there is no such op."""
        ids = self.ids_of(process)
        return int(ids[ordinal - 1]) if 0 < ordinal <= len(ids) else None

    def ids_of(self, process: int) -> Ints:
        """Return the ids of a process's ops, in order."""
        ids, processes = self._columns
        mine: Ints = ids[processes == process]
        return mine

    def value(self, value: int) -> str:
        """Return a value's short name, or its number if the run cannot have sent the value."""
        return self._value(value) or str(value)

    def value_of(self, name: str) -> int | None:
        """Return the value with this short name, or None if the text is not such a name."""
        return value_named(name, self.prefixes)

    def values_alone(self, name: str) -> tuple[int, ...]:
        """Return all values for a name without a partition, such as `v785`."""
        own = [f"{each.rpartition(':')[0]}:{name}" for each in self.prefixes if ":" in each]
        found = (self.value_of(each) for each in own if name.startswith("v"))
        return tuple(each for each in found if each is not None)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints]:
        """The ids of all ops in order, and their processes."""
        if not self._with_ops:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ops = self._tables.record("ops", columns=("op_id", "process"))
        if any(column.null_count for column in ops.columns):
            ops = ops.drop_null()  # The run's record is damaged.
        ids, processes = ops["op_id"].to_numpy(), ops["process"].to_numpy()
        if np.any(ids[1:] < ids[:-1]):
            order = np.argsort(ids, kind="stable")
            ids, processes = ids[order], processes[order]
        return ids, processes

    def _op(self, op_id: int) -> str | None:
        if op_id not in self._ops:
            ids, processes = self._columns
            at = int(np.searchsorted(ids, op_id)) if op_id < _MOST else len(ids)
            known = at < len(ids) and ids[at] == op_id
            self._ops[op_id] = self._nth(at, int(processes[at])) if known else None
        return self._ops[op_id]

    def _nth(self, at: int, process: int) -> str:
        earlier = self._columns[1][:at]
        return op_name(process, int(np.count_nonzero(earlier == process)) + 1)

    def _value(self, value: int) -> str | None:
        return value_name(value, self.prefixes)

    def _spelled(self, key: str, value: object) -> object:
        if isinstance(value, str):
            return self.titled(value)
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        name = None
        if key.endswith(_OP_KEYS):
            name = self._op(value)
        elif key.endswith(_VALUE_KEYS):
            name = self._value(value)
        return value if name is None else f"{name} ({value})"

    def _link(self, name: str, long: str, *, shown: str = "") -> Markup:
        fresh = Printed(name=name, long=long, anchor=f"name-{len(self._printed) + 1}")
        known = self._printed.setdefault(name, fresh)
        link = Markup('<a class="name" href="#{}" title="{}">{}</a>')
        return link.format(known.anchor, long, inert(shown or name))

    def _marked(self, text: str, mark: Callable[[str, str], Markup]) -> Markup:
        marked = Markup("")  # All text is escaped when it is added.
        for before, name, long in self._parts(shortened(text)):
            marked += escape(inert(before, keep="\n"))
            if name:
                marked += mark(name, long)
        return marked

    def _parts(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Yield (preceding text, name, record's term) for each number; the last name is empty."""
        at = 0
        for match in _LONG.finditer(text):
            group = str(match.lastgroup)
            for number in _NUMBER.finditer(text, *match.span(group)):
                word = "op" if group == "op" else "value"
                name = (self._op if group == "op" else self._value)(int(number[0]))
                if name is None:
                    continue
                start, end = match.span() if group == "given" else number.span()
                if word == "value" and ":" not in name and at <= match.start():
                    start = match.start()  # A scenario's `message2` needs no `value` before it.
                yield text[at:start], name, f"{word} {number[0]}"
                at = end
        yield text[at:], "", ""


def _abbreviation(name: str, long: str) -> Markup:
    return Markup('<abbr title="{}">{}</abbr>').format(long, inert(name))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS
