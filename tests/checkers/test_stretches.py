"""A history that is read in stretches is the one that is read from its start to its end."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.histories import edn
from checkers.engine import in_turn
from checkers.errors import HistoryError
from checkers.histories.reading import read_histories
from checkers.histories.regular import regular_history
from checkers.histories.tables import History
from results.record.tables import TABLES
from tests.checkers.made_histories import MadeHistory

CORPUS = Path(__file__).parents[1] / "histories" / "histories.jsonl.gz"
DATA = Path(__file__).parent / "data"
WHOLE = 1 << 40
Entry = dict[str, Any]
EACH = {"h.jsonl": 3, "h.edn": 6}
FIRST = {"h.jsonl": 0, "h.edn": 2}
"""Which histories of the corpus are read in which form: to read all costs half a minute."""
FORMS: dict[str, Callable[[Entry], str]] = {"h.jsonl": json.dumps, "h.edn": edn}


def told(path: Path, stretch_bytes: int) -> History | str:
    """The history, or what is wrong with it."""
    try:
        (history,) = read_histories(path, stretch_bytes=stretch_bytes)
    except HistoryError as wrong:
        return str(wrong)
    return history


def in_stretches(path: Path, stretch_bytes: int) -> History | None:
    return regular_history(path, "h", in_turn, stretch_bytes=stretch_bytes)


def same(one: History | None, other: History | str) -> bool:
    """Whether they are one, with the order of places, but for how words are stored."""
    if one is None or isinstance(other, str):
        return False
    alike = (one.name, one.places, one.names) == (other.name, other.places, other.names)
    return alike and all(
        one.tables[name].cast(schema).equals(table.cast(schema))
        for name, table in other.tables.items()
        for schema in (TABLES[name],)
    )


def written(folder: Path, entries: list[Entry], name: str) -> Path:
    path = folder / name
    path.write_text("".join(FORMS[name](each) + "\n" for each in entries))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_histories_of_the_corpus(tmp_path: Path, form: str) -> None:
    with gzip.open(CORPUS, "rt") as lines:
        histories = [json.loads(line)["ops"] for line in lines]
    for at, entries in enumerate(histories[FIRST[form] :: EACH[form]]):
        path = written(tmp_path, entries, form)
        found = in_stretches(path, path.stat().st_size // (at % 6 + 1))
        assert same(found, told(path, WHOLE)), entries[:1]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), parts=st.integers(1, 9), form=st.sampled_from(sorted(FORMS)))
def test_histories_with_assignments_and_ops_that_never_end(
    tmp_path_factory: pytest.TempPathFactory, seed: int, parts: int, form: str
) -> None:
    made = MadeHistory(seed, wrong=0.1, steps=120)
    entries = [each for each in made.entries if each["process"] != 1 or each["time"] < 60_000]
    path = written(tmp_path_factory.mktemp("h"), entries, form)
    whole = told(path, WHOLE)
    found = in_stretches(path, path.stat().st_size // parts)
    assert same(found, whole) or (found is None and isinstance(whole, str))


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False),
    st.sampled_from(["5", "word", ":send", "nil", "", "ok", "info", "poll", "txn", "nemesis"]),
    st.just([]), st.just([1, 2]), st.just({}), st.just({"5": [[1, 2]]}), st.just([["poll"]]),
    st.just([["send", "5", [1, 3]]]), st.just([["send", 5, 3], ["poll", {"nilly": [[0, 1]]}]]),
)  # fmt: skip


def places_in(value: object) -> list[tuple[Any, Any]]:
    """All (container, key) in a value, its own first."""
    pairs = list(value.items()) if isinstance(value, dict) else []
    pairs += list(enumerate(value)) if isinstance(value, list) else []
    inner = [each for _, part in pairs for each in places_in(part)]
    return [(value, key) for key, _ in pairs] + inner


@settings(max_examples=250, deadline=None)
@given(data=st.data(), seed=st.integers(0, 50), form=st.sampled_from(sorted(FORMS)))
def test_what_is_damaged_is_read_alike_or_refused_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int, form: str
) -> None:
    entries: list[Any] = json.loads(json.dumps(MadeHistory(seed, steps=40).entries))
    for _ in range(data.draw(st.integers(1, 2))):
        what = data.draw(st.sampled_from(["drop", "twice", "swap", "odd", "odd", "odd"]))
        at = data.draw(st.integers(0, len(entries) - 2))
        if what == "drop":
            del entries[at]
        elif what == "twice":
            entries.insert(at, entries[at])
        elif what == "swap":
            entries[at : at + 2] = entries[at : at + 2][::-1]
        else:
            places = places_in(entries[at])
            container, key = places[data.draw(st.integers(0, len(places) - 1))]
            container[key] = data.draw(ODD)
    path = written(tmp_path_factory.mktemp("h"), entries, form)
    whole = told(path, WHOLE)
    found = in_stretches(path, path.stat().st_size // data.draw(st.integers(1, 4)))
    assert found is None or same(found, whole)


@pytest.mark.parametrize(
    ("line", "regular"),
    [
        ("{:process 0, :type :invoke, :f :txn, :value [[:poll]]}", True),
        ("#jepsen.history.Op{:process 0, :type :invoke, :f :txn, :value nil}", True),
        ('{:process :nemesis, :type :info, :f :cut, :value {"n1" #{"n2"}}}', True),
        ('{:process :nemesis, :type :info, :f :cut, :value {"n1" true}}', True),
        ("{:process 0 :type :invoke :f :send :value [[:send :nilly 3]]} ; said aside", True),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 (1 3)]]}", True),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [007 +3N]]]}", True),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1e5 3]]]}", False),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1 1e5]]]}", False),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1 true]]]}", False),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1 99999999999999999999]]]}", False),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1 [2 3]]]]}", False),
        ("{:process 0 :type :invoke :f :send :value [[:send 0 [1 3]]]}\r", False),
        ("{:process 0 :type :invoke :f :assign :value {5 6}}", True),
    ],
)
def test_lines_of_edn_that_are_not_plain(
    tmp_path: Path,
    line: str,
    regular: bool,  # noqa: FBT001 - a case
) -> None:
    path = tmp_path / "h.edn"
    before = "{:process 7 :type :invoke :f :poll :value [[:poll {5 [[0 1]]}]]}"
    path.write_bytes(f"{before}\n{line}\n".encode())
    found = in_stretches(path, 1)
    assert (found is not None) == regular
    assert found is None or same(found, told(path, WHOLE))


@pytest.mark.parametrize("deep", [10, 600, 1010])
@pytest.mark.parametrize("inner", ["true", "1"])
@pytest.mark.parametrize("process", ['"nemesis"', "0"])
def test_what_nobody_looks_at_may_be_of_any_depth(
    tmp_path: Path, deep: int, inner: str, process: str
) -> None:
    path = tmp_path / "h.jsonl"
    said = "[" * deep + inner + "]" * deep
    path.write_text(f'{{"process": {process}, "type": "invoke", "f": "cut", "value": {said}}}\n')
    found, whole = in_stretches(path, path.stat().st_size), told(path, WHOLE)
    assert not isinstance(whole, str)
    assert found is None or same(found, whole)


def test_a_real_history_of_jepsen() -> None:
    path = DATA / "jepsen-history.edn"
    found = regular_history(path, "jepsen-history", in_turn, stretch_bytes=300)
    assert same(found, told(path, WHOLE))
