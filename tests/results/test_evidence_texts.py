"""Each key of evidence that a check writes has a text, and each text has a key.

The keys are read from the source of `checkers/`. A key that is not written out fails the test,
because nothing shows whether it has a text.
"""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from results.engine import template_engine
from results.report import write_report
from results.wording.evidence import EVIDENCE
from tests.results.conftest import MakeRun

ROOT = Path(__file__).parents[2]
NEVER = {"earlier_told_to", "later_read_by"}
"""The types of `high_watermark_regression.Regression` exclude these keys."""


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module that may write evidence."""
    paths = sorted((ROOT / "checkers").rglob("*.py"))
    texts = {str(path): path.read_text(encoding="utf-8") for path in paths}
    return {path: ast.parse(text) for path, text in texts.items() if "evidence" in text.lower()}


def makes_evidence(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and "Evidence" in ast.unparse(node.returns or node)


def parts_of(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the parts of a module in which each dict is evidence."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="evidence", value=value):
                yield value
            case ast.Assign(targets=[ast.Name(id="evidence")], value=value):
                yield value
            case ast.AnnAssign(annotation=ast.Name(id="Evidence"), value=ast.expr() as value):
                yield value
            case ast.FunctionDef() if makes_evidence(node):
                yield node
            case _:
                pass


def keys_of(tree: ast.Module) -> Iterator[ast.expr | None]:
    """Yield the expression of each key; None stands for `**`."""
    dicts = {each for part in parts_of(tree) for each in ast.walk(part)}
    for node in dicts:
        if isinstance(node, ast.Dict):
            yield from node.keys
        elif isinstance(node, ast.DictComp):
            yield node.key
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from [node.slice] * (ast.unparse(node.value) == "evidence")


def words_of(tree: ast.Module) -> set[str]:
    """Return the words that become the first word of keys: `x.evidence("announced")`."""
    return {
        str(ast.literal_eval(node.args[0]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "evidence"
    }


def strange_sources(tree: ast.Module, makers: set[str]) -> Iterator[str]:
    """Yield each value that becomes evidence although it may have unknown keys."""
    values = [part for part in parts_of(tree) if isinstance(part, ast.expr)]
    for node in (each for part in parts_of(tree) for each in ast.walk(part)):
        if isinstance(node, ast.Dict):
            values += [value for key, value in zip(node.keys, node.values, strict=True) if not key]
    for value in values:
        match value:
            case ast.Dict() | ast.Name(id="evidence") | ast.Attribute(attr="evidence"):
                pass
            case ast.IfExp(body=ast.Dict(), orelse=ast.Dict()):
                pass
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in makers:
                pass
            case _:
                yield ast.unparse(value)


def changes(tree: ast.Module) -> Iterator[str]:
    """Yield each statement that changes evidence, because its keys would not be found."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.AugAssign(target=ast.Name(id="evidence"))
                | ast.Call(func=ast.Attribute(
                    value=ast.Name(id="evidence"), attr="update" | "setdefault"))
            ):  # fmt: skip
                yield ast.unparse(node)
            case _:
                pass


def written() -> set[str]:
    """Return all keys of evidence that the source of the checks has."""
    parsed, found = trees(), set[str]()
    every_word = set[str]().union(*map(words_of, parsed.values()))
    for path, tree in parsed.items():
        for key in keys_of(tree):
            match key:
                case None:
                    pass
                case ast.Constant(value=str(name)):
                    found.add(name)
                case ast.JoinedStr(
                    values=[
                        ast.FormattedValue(value=ast.Name(id="word")),
                        ast.Constant(value=str(end)),
                    ]
                ):
                    found |= {f"{word}{end}" for word in words_of(tree) or every_word}
                case _:
                    pytest.fail(f"{path}: the key {ast.unparse(key)} is not written out")
    return found - NEVER


def test_each_key_has_a_text_and_each_text_a_key() -> None:
    keys = written()
    assert keys - EVIDENCE.keys() == set(), "add the meaning to results/wording/evidence.py"
    assert EVIDENCE.keys() - keys == set(), "no check writes these keys"


def test_all_evidence_is_found_in_the_source() -> None:
    parsed = trees()
    nodes = (node for tree in parsed.values() for node in ast.walk(tree))
    makers = {node.name for node in nodes if isinstance(node, ast.FunctionDef)
              and makes_evidence(node)}  # fmt: skip
    strange = {
        path: found
        for path, tree in parsed.items()
        if (found := list(strange_sources(tree, makers)))
    }
    assert strange == {}
    assert [each for tree in parsed.values() for each in changes(tree)] == []
    for path in (ROOT / "results" / "samples").glob("*/verdict.json"):
        verdict = json.loads(path.read_text(encoding="utf-8"))
        examples = (each for name in verdict["anomalies"].values() for each in name["examples"])
        assert {key for each in examples for key in each["evidence"]} <= EVIDENCE.keys()


def test_texts_are_short_and_in_order() -> None:
    assert list(EVIDENCE) == sorted(EVIDENCE)
    wrong = [key for key, text in EVIDENCE.items() if not re.fullmatch(r"[A-Z].{10,200}\.", text)]
    assert wrong == []
    times = {key for key in EVIDENCE if key.endswith("_ns")}
    assert times == {key for key, text in EVIDENCE.items() if "nanoseconds" in text}


def test_the_page_of_a_run_has_each_meaning_as_a_tooltip(make_run: MakeRun) -> None:
    page = write_report(make_run()).read_text(encoding="utf-8")
    tables = re.findall(r"<summary>Evidence</summary>\s*<table.*?</table>", page, re.DOTALL)
    heads = [head for each in tables for head in re.findall(r'<th scope="row">(.*?)</th>', each)]
    told = [re.fullmatch(r'<abbr title="(.*?)">(\w+)</abbr>', head) for head in heads]
    assert len(told) >= len(("value", "offset", "op_id"))
    assert [(unescape(each[1]), each[2]) for each in told if each] == [
        (EVIDENCE[each[2]], each[2]) for each in told if each
    ]
    assert all(told)


def test_an_unknown_key_has_no_tooltip_and_is_escaped() -> None:
    shown = template_engine().from_string("{{ key | explained }}")
    assert shown.render(key="<b>") == "&lt;b&gt;"
    assert shown.render(key="node").startswith("<abbr title=")
