"""EDN is read as the library `edn_format` reads it, only faster."""

from collections.abc import Sequence
from itertools import chain

import edn_format  # type: ignore[import-untyped]  # It has no stubs.
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.histories.edn import EdnError, Form, read_forms

WORDS = st.from_regex(r"[a-z][a-z0-9*+!_?<>=./-]{0,8}", fullmatch=True).filter(
    lambda word: word not in {"nil", "true", "false"} and "/" not in word and ".." not in word
)
STRINGS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=8)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


ATOMS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(0, 99).map(lambda number: f"{number}N"),
    st.sampled_from(["nil", "true", "false"]),
    WORDS.map(lambda word: f":{word}"),
    WORDS,
    STRINGS.map(quoted),
)
SPACES = st.sampled_from([" ", ", ", "  ", ",", " ; said aside\n", "\n"])


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return str(draw(ATOMS))
    inner = draw(st.lists(texts(depth=depth - 1), max_size=4))
    kind = draw(st.sampled_from(["[]", "()", "{}"]))
    if kind == "{}":
        keys = draw(
            st.lists(WORDS.map(lambda word: f":{word}"), min_size=len(inner), max_size=len(inner),
                     unique=True)
        )  # fmt: skip
        inner = list(chain.from_iterable(zip(keys, inner, strict=True)))
    return kind[0] + "".join(each + draw(SPACES) for each in inner) + kind[1]


def canonical(value: object) -> object:
    """What both readers' values become, with kinds of words told apart."""
    match value:
        case edn_format.Keyword():
            return f":{value.name}"
        case edn_format.Symbol():
            return str(value)
        case str():
            return quoted(value)
        case _:
            return of_many(value)


def of_many(value: object) -> object:
    if isinstance(value, Sequence):
        return tuple(canonical(each) for each in value)
    if hasattr(value, "items"):
        return {canonical(key): canonical(each) for key, each in value.items()}
    return value


def only(text: str) -> object:
    (form,) = read_forms(text.splitlines())
    return form.value


@settings(max_examples=150, deadline=None)
@given(text=texts())
def test_it_reads_what_the_library_reads(text: str) -> None:
    assert only(text) == canonical(edn_format.loads(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{:f :poll, :value [[:poll {5 [[0 12]]}]]}",
         {":f": ":poll", ":value": ((":poll", {5: ((0, 12),)}),)}),
        ("#jepsen.history.Op{:index 0}", {":index": 0}),
        ('#inst "2024-08-20"', '"2024-08-20"'),
        ("#{1 2}", (1, 2)),
        ("(1 -2 +3 4N)", (1, -2, 3, 4)),
        ("[1.5 1/2 1e3 5M]", ("1.5", "1/2", "1e3", "5M")),
        ("[\\a \\space \\{ :a]", ("\\a", "\\space", "\\{", ":a")),
        ('[:a "a" a "{;#"]', (":a", '"a"', "a", '"{;#"')),
        ('["a \\" b" "\\\\"]', ('"a \\" b"', '"\\\\"')),
        ("{:a ##NaN :b [##Inf ##-Inf]}", {":a": "##NaN", ":b": ("##Inf", "##-Inf")}),
        ("[1;2\n3]", (1, 3)),
        ("[]", ()),
        ("{}", {}),
        ("{[1 2] nil}", {(1, 2): None}),
    ],
)  # fmt: skip
def test_each_kind_of_value(text: str, value: object) -> None:
    assert only(text) == value


def test_forms_come_with_the_line_on_which_they_end() -> None:
    lines = ["{:a 1}", "", "; nothing", "{:b", " 2} {:c 3}"]
    forms = [Form(line=1, value={":a": 1}), Form(line=5, value={":b": 2}),
             Form(line=5, value={":c": 3})]  # fmt: skip
    assert list(read_forms(lines)) == forms


def test_the_elements_of_a_vector_come_one_by_one() -> None:
    lines = ["[{:a 1}", " {:b 2}]", "(3 4)"]
    assert [(form.line, form.value) for form in read_forms(lines, depth=1)] == [
        (1, {":a": 1}), (2, {":b": 2}), (3, 3), (3, 4),
    ]  # fmt: skip
    assert [form.value for form in read_forms(["[1 2] [3]"], depth=1)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["{:a 1", "{:b"], "line 2: the text ends before { is closed"),
        (["[1 2", "(3]"], "line 2: a ] closes ("),
        (["1]"], "line 1: a ] closes nothing"),
        (["{:a}"], "line 1: a map has a key without a value"),
        (["{{} 1}"], "line 1: a map has a map as a key"),
        (["", '["a]'], "line 2: a string does not end on its line"),
        (
            ["[1 # 2]"],
            "line 1: a string does not end on its line, or a # or \\ has nothing after it",
        ),
        (["[1 #_ 2]"], "line 1: #_ is not supported: remove it and the form after it"),
        (["1" * 5000], "line 1: Exceeds the limit"),
        (["[" * 1024, "["], "line 2: collections are nested deeper than 1024 levels"),
    ],
)
def test_what_is_not_edn_is_told_with_its_line(lines: list[str], why: str) -> None:
    with pytest.raises(EdnError) as told:
        list(read_forms(lines))
    assert str(told.value).startswith(why)
