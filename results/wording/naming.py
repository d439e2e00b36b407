"""What ops, values and messages are called on pages and in terminals.

An op is `p22#132` and a value `log-0-0:v785` (`results.record.short`). In a scripted run the value
with sequence k of the first partition is `message` and k: readers of a story know it by that name.
Checks write the record's own numbers into their sentences, and `verdict.json` keeps them; whatever
prints a sentence puts the names in, here, and a page has the numbers a click away.
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
"""Op ids and values have 64 bits."""
_STORY_WORD = re.compile(rf"({MESSAGE}|n)\d|zk\b")
_LONG = re.compile(
    rf"\b{MESSAGE}\d{{1,10}} \(value (?P<given>\d{{10,19}})\)"
    r"|\b[Oo]ps? (?P<op>\d{1,19}(?:, \d{1,19})+(?=\))|\d{1,19}\b)"
    r"|\b[Vv]alues? (?P<value>\d{10,19}(?:(?:, | and )\d{10,19})*)\b"
)
"""Numbers as checks write them: `op 7`, `(op 7, 9)`, `values 4295098761 and 4295098762`, and a
story's `message2 (value 4294967298)`."""
_NUMBER = re.compile(r"\d+")
_OP_KEYS, _VALUE_KEYS = ("op_id", "op_ids"), ("value", "values")
_OPS = "ops"
"""Evidence that is a list of op ids; a number of that name counts them."""
_INTERRUPTED = re.compile(r"(?:Interrupted at [\d.]+ s\. )?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A name that a page has.

    Attributes:
        name: `p22#132`.
        long: `op 1099511637417`, as in the record and in `verdict.json`.
        anchor: Where the page explains it.
    """

    name: str
    long: str
    anchor: str


def said(text: str) -> str:
    """Return words as a sentence; the name of a message or node is no word, and stays as it is."""
    whole = as_sentence(text)
    return f"{text[0]}{whole[1:]}" if _STORY_WORD.match(text) else whole


def interruption(sentence: str) -> str:
    """Return how a verdict's sentence says that the run was interrupted; empty if it was not."""
    found = _INTERRUPTED.match(sentence)
    return found[0] if found else ""


def without_verdict(sentence: str) -> str:
    """Return a verdict's sentence for a list that has the verdict in another column."""
    begins = interruption(sentence)
    rest = sentence.removeprefix(begins)
    told = rest.partition(": ")[2] or rest
    return f"{begins}{said(told)}" if begins else told


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
        tables: Of the run; its ops are read when the first one is named.
        plan: Of the run; None: it cannot be read, and values keep their numbers.
        scripted: Whether it is a story, whose messages have names.
        with_ops: Whether to read its ops; without them, ops keep their ids.
    """

    def __init__(
        self, tables: RunTables, plan: Plan | None, *, scripted: bool, with_ops: bool = True
    ) -> None:
        self._tables = tables
        self._with_ops = with_ops
        self.prefixes = value_prefixes(plan.topic_partitions if plan else (), scripted=scripted)
        """What stands before the sequence in a value's name, in the order of the plan."""
        self._ops: dict[int, str | None] = {}
        self._printed: dict[str, Printed] = {}

    def __call__(self, text: str) -> str:
        """Return a sentence with short names in place of the record's numbers."""
        return "".join(f"{before}{name}" for before, name, _ in self._parts(text))

    def html(self, text: str) -> Markup:
        """Return the same for a page, where each name shows its number when it is pointed at."""
        return self._marked(text, _abbreviation)

    def alone(self, text: str) -> Markup:
        """Return the same of a value's number that stands alone."""
        name = self._value(int(text)) if _is_number(text) else None
        return escape(inert(text)) if name is None else _abbreviation(name, f"value {text}")

    def linked(self, text: str) -> Markup:
        """Return the same for a page that also explains its names (`printed`) and leads there."""
        return self._marked(text, self._link)

    def titled(self, text: str) -> str:
        """Return the same for a title, which cannot be pointed at: with the numbers at its end."""
        parts = list(self._parts(text))
        numbers = ", ".join(dict.fromkeys(long for _, _, long in parts if long))
        return f"{self(text)}{f' [{numbers}]' if numbers else ''}"

    def cell(self, text: str, place: str) -> str:
        """Return what fills a narrow cell: `v785` of a value of the cell's own partition.

        Args:
            text: A value's number, or another text.
            place: The partition that the cell is about: `log-0-0`.
        """
        name = self._value(int(text)) if _is_number(text) else None
        own = f"{place}:"
        return text if name is None else name.removeprefix(own)

    def legend(self, text: str, place: str) -> str:
        """Return what `cell` made short, in words; empty: nothing.

        Args:
            text: As for `cell`.
            place: As for `cell`.
        """
        name, short = self._value(int(text)) if _is_number(text) else None, self.cell(text, place)
        return "" if name in (None, short) else f"{short}: value {name}"

    def linked_cell(self, text: str, place: str) -> Markup:
        """Return the same for a page, led to where it is explained."""
        name = self._value(int(text)) if _is_number(text) else None
        if name is None:
            return escape(inert(text))
        return self._link(name, f"value {text}", shown=self.cell(text, place))

    @property
    def printed(self) -> tuple[Printed, ...]:
        """The names to which `linked` and `cell` lead, in their order of appearance."""
        return tuple(self._printed.values())

    def evidence(self, key: str, value: object) -> object:
        """Return a piece of evidence with a name before each number of an op or value.

        Args:
            key: What it is: `op_id`, `polled_values`, ...
            value: An anomaly's, as `verdict.json` has it.
        """
        if isinstance(value, list):
            return [self._spelled(key if key != _OPS else "op_id", each) for each in value]
        return self._spelled(key, value)

    def op(self, op_id: int) -> str:
        """Return an op's name; its id where the record has no such op."""
        return self._op(op_id) or str(op_id)

    def op_id(self, process: int, ordinal: int) -> int | None:
        """Return the id of a process's op, counted from 1; None: there is none."""
        ids = self.ids_of(process)
        return int(ids[ordinal - 1]) if 0 < ordinal <= len(ids) else None

    def ids_of(self, process: int) -> Ints:
        """Return the ids of a process's ops, in their order."""
        ids, processes = self._columns
        mine: Ints = ids[processes == process]
        return mine

    def value(self, value: int) -> str:
        """Return a value's name; its number where no such value can have been sent."""
        return self._value(value) or str(value)

    def value_of(self, name: str) -> int | None:
        """Return the value of a name; None: it is none."""
        return value_named(name, self.prefixes)

    def values_alone(self, name: str) -> tuple[int, ...]:
        """Return what a name without its partition may mean, `v785`; none where it is no name."""
        own = [f"{each.rpartition(':')[0]}:{name}" for each in self.prefixes if ":" in each]
        found = (self.value_of(each) for each in own if name.startswith("v"))
        return tuple(each for each in found if each is not None)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints]:
        """The ids of all ops, in their order, and their processes."""
        if not self._with_ops:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ops = self._tables.record("ops", columns=("op_id", "process"))
        if any(column.null_count for column in ops.columns):
            ops = ops.drop_null()  # Of a damaged record.
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
        marked = Markup("")  # Its parts are escaped as they are added.
        for before, name, long in self._parts(shortened(text)):
            marked += escape(inert(before, keep="\n"))
            if name:
                marked += mark(name, long)
        return marked

    def _parts(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Yield (text before, name, what the record calls it); at the end with an empty name."""
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
                    start = match.start()  # A story's `message2` needs no `value` before it.
                yield text[at:start], name, f"{word} {number[0]}"
                at = end
        yield text[at:], "", ""


def _abbreviation(name: str, long: str) -> Markup:
    return Markup('<abbr title="{}">{}</abbr>').format(long, inert(name))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS
