"""Turn the entries of a history into ops: each op's process, begin and end.

If a history contradicts itself, an error names the line. For example, a process begins an op while
its last op is open, or after an op of unknown outcome. Or an op ends that did not begin. An op that
is still open at the end is closed with `info`. `Collector` stores the ops' effects as columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from checkers.columns import NONE
from checkers.errors import HistoryError
from checkers.histories.columns import Collector
from checkers.histories.tables import OUTCOMES, History, history_of
from results.record.terms import F, Outcome

_MAX_TIME_NS = 1 << 62
_MAX_PROCESS = 1 << 62
_OF_CLIENTS = (F.SEND, F.POLL, F.TXN)
_INVOKE = "invoke"
_OUTCOMES = {outcome.value: number for number, outcome in enumerate(OUTCOMES)}
_INFO = OUTCOMES.index(Outcome.INFO)
MISSHAPED = (TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError)
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The spelling of keys and words in a format of histories.

    Attributes:
        process, kind, f, value, time, index, rebalances, keys: The last is the key of an event in
            an op's log of rebalances. The others are the keys of an op.
        prefix: The text before each word that comes from a fixed set of words.
    """

    process: str
    kind: str
    f: str
    value: str
    time: str
    index: str
    rebalances: str
    keys: str
    prefix: str


JSON = Words(
    process="process", kind="type", f="f", value="value", time="time", index="index",
    rebalances="rebalance_log", keys="keys", prefix="",
)  # fmt: skip
EDN = Words(
    process=":process", kind=":type", f=":f", value=":value", time=":time", index=":index",
    rebalances=":rebalance-log", keys=":keys", prefix=":",
)  # fmt: skip


class _Invocation(NamedTuple):  # A tuple, because millions of dataclass objects are much slower.
    at: int
    f: str
    value: Any
    where: str


class Recording:
    """A builder that takes the entries of one history in order, and returns its tables."""

    def __init__(self, name: str, words: Words) -> None:
        self.name = name
        self._words = words
        self._open: dict[int, _Invocation] = {}
        self._ended: set[int] = set()
        self._did = Collector()

    def add(self, entry: Mapping[object, Any], where: str) -> None:
        """Add an invocation or a completion. A nemesis's entries are ignored.

        Raises:
            HistoryError: The entry is wrong, or does not fit the entries before it.
        """
        words = self._words
        process, kind = entry.get(words.process), entry.get(words.kind)
        if not isinstance(process, int):
            self._refuse_client(process, entry, where)
            return
        if not 0 <= process < _MAX_PROCESS:
            raise HistoryError(f"{where}: the process of an op must be a number, 0 or higher")
        word = kind.removeprefix(words.prefix) if isinstance(kind, str) else ""
        at = self._did.entry(self._time(entry, where), entry.get(words.index))
        if word == _INVOKE:
            self._begin(process, entry, at, where=where)
        elif word in _OUTCOMES:
            self._end(process, entry, (at, _OUTCOMES[word]), where=where)
        else:
            raise HistoryError(f"{where}: the type of an op must be invoke, ok, fail or info")

    def done(self) -> History:
        """Give the outcome `info` to the ops that are still open, and return the history.

        Raises:
            HistoryError: A value was sent twice to one key, an offset is not a number, or an open
                op has a value of a wrong shape.
        """
        for process, begun in list(self._open.items()):
            self._take(process, begun, begun.value, ended=(NONE, _INFO))
        return history_of(self.name, self._did.columns(), self._did.where)

    def _refuse_client(self, process: object, entry: Mapping[object, Any], where: str) -> None:
        if process is None:
            raise HistoryError(f"{where}: the op has no process")
        if entry.get(self._words.f) in [self._words.prefix + f for f in _OF_CLIENTS]:
            raise HistoryError(
                f"{where}: the process of a client's op must be a number, not {process}"
            )

    def _time(self, entry: Mapping[object, Any], where: str) -> int:
        time_ns = entry.get(self._words.time)
        if time_ns is None:
            return 0
        if not isinstance(time_ns, int) or abs(time_ns) >= _MAX_TIME_NS:
            raise HistoryError(f"{where}: the time of an op must be a number of nanoseconds")
        return time_ns

    def _begin(self, process: int, entry: Mapping[object, Any], at: int, *, where: str) -> None:
        if process in self._open:
            began = self._open[process].where
            raise HistoryError(
                f"{where}: process {process} begins an op before the end of its op of {began}"
            )
        if process in self._ended:
            raise HistoryError(
                f"{where}: process {process} continues after an op of unknown outcome (info)"
            )
        f = entry.get(self._words.f)
        if not isinstance(f, str):
            raise HistoryError(f"{where}: the op has no f")
        value = entry.get(self._words.value)
        self._open[process] = _Invocation(at, f.removeprefix(self._words.prefix), value, where)

    def _end(
        self,
        process: int,
        entry: Mapping[object, Any],
        ended: tuple[int, int],
        *,
        where: str,
    ) -> None:
        begun = self._open.pop(process, None)
        if begun is None:
            raise HistoryError(f"{where}: process {process} ends an op that it did not begin")
        if ended[1] == _INFO:
            self._ended.add(process)
        value = entry.get(self._words.value)
        value = begun.value if value is None else value
        begun = begun._replace(where=where)
        rebalances = entry.get(self._words.rebalances)
        self._take(process, begun, value, ended=ended, turned=self._turned(rebalances, where))

    def _turned(self, rebalances: object, where: str) -> list[object]:
        """Return the keys in a log of rebalances, or raise an error with the entry's position."""
        if not rebalances:
            return []
        try:
            return rebalanced_keys(rebalances, self._words)
        except MISSHAPED as wrong:
            raise HistoryError(
                f"{where}: the log of rebalances must have events with keys"
            ) from wrong

    def _take(
        self,
        process: int,
        begun: _Invocation,
        value: Any,  # noqa: ANN401 - whatever the file has
        *,
        ended: tuple[int, int],
        turned: list[object] | None = None,
    ) -> None:
        row = self._did.op(
            begun.at,
            process=process,
            f=begun.f,
            ended=ended[0],
            outcome=ended[1],
            where=begun.where,
        )
        try:
            self._did.did(row, process, begun.f, value)
            self._did.rebalanced(row, turned or ())
        except MISSHAPED as wrong:
            text = str(value)
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            raise HistoryError(
                f"{begun.where}: a {begun.f} cannot have the value {shown}"
            ) from wrong


def rebalanced_keys(rebalances: object, words: Words) -> list[object]:
    """Return the partitions' names that Jepsen's log of rebalances contains.

    The log is a list of events, or maps times to such lists.

    Raises:
        TypeError, KeyError, AttributeError, ...: The log has another shape (`MISSHAPED`).
    """
    if isinstance(rebalances, Mapping):
        rebalances = [event for events in rebalances.values() for event in events or ()]
    if not isinstance(rebalances, list | tuple):
        raise TypeError("a log of rebalances must be a list")
    return [key for event in rebalances for key in event[words.keys] or ()]
