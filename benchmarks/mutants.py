"""Mutants of a module: copies of its source, each with one small change.

Most operators come from cosmic-ray. This module uses only operators with different effects. For
example, each comparison is replaced by its neighbours only, not by all others. This module adds
three operators of the same kind:

- One condition of several is left out (`a & b & c`, `a and b`, a comprehension's `if`).
- The condition of an `if` is always or never true.
- `in` becomes `not in`.

These places are not changed: type annotations, text, choices between texts, and `strict=` of zip,
which is an assertion.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import parso
from cosmic_ray.ast import (  # type: ignore[import-untyped]  # It has no stubs.
    Visitor,
    get_ast,
)
from cosmic_ray.operators.operator import Operator  # type: ignore[import-untyped]  # As above.
from cosmic_ray.operators.provider import (  # type: ignore[import-untyped]  # As above.
    OperatorProvider,
)

Node = Any
"""A node of parso's syntax tree. parso has no useful types."""
Span = tuple[tuple[int, int], tuple[int, int]]

_COMPARISONS = {
    "Lt": ("LtE", "GtE", "NotEq"), "LtE": ("Lt", "Gt", "Eq"), "Gt": ("GtE", "LtE", "NotEq"),
    "GtE": ("Gt", "Lt", "Eq"), "Eq": ("NotEq", "LtE", "GtE"), "NotEq": ("Eq", "Lt", "Gt"),
    "Is": ("IsNot",), "IsNot": ("Is",),
}  # fmt: skip
_BINARIES = {
    "Add": ("Sub",), "Sub": ("Add",), "Mul": ("FloorDiv",), "Div": ("Mul",), "FloorDiv": ("Mul",),
    "Mod": ("FloorDiv",), "LShift": ("RShift",), "RShift": ("LShift",), "BitOr": ("BitAnd",),
    "BitAnd": ("BitOr",), "BitXor": ("BitOr",),
}  # fmt: skip
_NAMES = (
    *(f"ReplaceComparisonOperator_{one}_{two}" for one, all_ in _COMPARISONS.items()
      for two in all_),
    *(f"ReplaceBinaryOperator_{one}_{two}" for one, all_ in _BINARIES.items() for two in all_),
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert",
    "ReplaceUnaryOperator_Delete_USub", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
_CHAINS = {"and_expr", "expr", "and_test", "or_test"}
_LEFT_ALONE = {"fstring", "decorator", "import_name", "import_from"}


class LeaveOneOut(Operator):  # type: ignore[misc]  # It has no types.
    """An operator that removes one operand of `&`, `|`, `and` or `or`."""

    def mutation_positions(self, node: Node) -> Iterator[Span]:
        """Yield a position for each operand."""
        if node.type in _CHAINS:
            for operand in node.children[::2]:
                yield operand.start_pos, operand.end_pos

    def mutate(self, node: Node, index: int) -> Node:
        """Return the chain without one of its operands."""
        parts = [each.get_code() for each in node.children]
        gone = 2 * index
        kept = parts[1 + 1 :] if not gone else parts[: gone - 1] + parts[gone + 1 :]
        return _code("".join(kept))

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return nothing: the tests contain the examples."""
        return ()


class Decide(Operator):  # type: ignore[misc]  # It has no types.
    """An operator that sets the condition of an `if` to True or False.

    The `if` may be a statement, a conditional expression, or part of a comprehension.
    """

    def mutation_positions(self, node: Node) -> Iterator[Span]:
        """Yield two positions for each condition."""
        for at in self._conditions(node):
            here = node.children[at]
            yield here.start_pos, here.end_pos
            yield here.start_pos, here.end_pos

    def mutate(self, node: Node, index: int) -> Node:
        """Return the node with its condition replaced by True or False."""
        at = list(self._conditions(node))[index // 2]
        node.children[at] = _code(" True" if index % 2 == 0 else " False")
        return node

    @staticmethod
    def _conditions(node: Node) -> Iterator[int]:
        if node.type == "if_stmt":
            for at, child in enumerate(node.children):
                if getattr(child, "value", None) in {"if", "elif"}:
                    yield at + 1
        elif node.type == "comp_if":
            yield 1
        elif node.type == "ternary" or (node.type == "test" and len(node.children) == 1 + 4):
            yield 2

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return nothing: the tests contain the examples."""
        return ()


class Membership(Operator):  # type: ignore[misc]  # It has no types.
    """An operator that replaces `in` by `not in`, and `not in` by `in`."""

    def mutation_positions(self, node: Node) -> Iterator[Span]:
        """Yield a position for each `in` or `not in` comparison."""
        for at in self._operators(node):
            yield node.children[at].start_pos, node.children[at].end_pos

    def mutate(self, node: Node, index: int) -> Node:
        """Return the comparison with the opposite operator."""
        at = list(self._operators(node))[index]
        code = " ".join(node.children[at].get_code().split())
        node.children[at] = _code(" not in" if code == "in" else " in")
        return node

    @staticmethod
    def _operators(node: Node) -> Iterator[int]:
        if node.type == "comparison":
            for at, child in enumerate(node.children):
                if at % 2 and " ".join(child.get_code().split()) in {"in", "not in"}:
                    yield at

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return nothing: the tests contain the examples."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """The source of a module with one small change.

    Attributes:
        operator: The kind of change.
        line, column: The position of the change.
        last_line: The last line of the changed code.
        before, after: The different lines, before and after the change.
        source: The source of the whole changed module.
    """

    operator: str
    line: int
    column: int
    last_line: int
    before: str
    after: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module, sorted by position. Equal mutants are returned only once."""
    found: dict[str, Mutant] = {}
    provider = OperatorProvider()
    for operator in (*(provider[name]() for name in _NAMES), LeaveOneOut(), Decide(), Membership()):
        spans = _Spans(operator)
        spans.walk(get_ast(source))
        for occurrence, (start, end) in enumerate(spans.found):
            if start == _NOWHERE:
                continue
            code = _Change(operator, occurrence).walk(get_ast(source)).get_code()
            if code not in found and code != source:
                found[code] = _mutant(type(operator).__name__, (start, end), source, code)
    return sorted(found.values(), key=lambda each: (each.line, each.column, each.operator))


_NOWHERE = (0, 0)


class _Spans(Visitor):  # type: ignore[misc]  # It has no types.
    """Finds the positions at which an operator can change a syntax tree, in `_Change`'s order."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.found: list[Span] = []

    def visit(self, node: Node) -> Node:
        alone = _left_alone(node)
        for span in self._operator.mutation_positions(node):
            self.found.append((_NOWHERE, _NOWHERE) if alone else span)
        return node


class _Change(Visitor):  # type: ignore[misc]  # It has no types.
    """Makes the n-th change that an operator can make."""

    def __init__(self, operator: Operator, occurrence: int) -> None:
        self._operator = operator
        self._left = occurrence

    def visit(self, node: Node) -> Node:
        for index, _ in enumerate(list(self._operator.mutation_positions(node))):
            if self._left == 0:
                node = self._operator.mutate(node, index)
            self._left -= 1
        return node


def _left_alone(node: Node) -> bool:
    """Return whether a node is in code that stays as it is: annotation, import, text, assertion."""
    inner, outer = node, node.parent
    while outer is not None:
        if _shelters(inner, outer):
            return True
        inner, outer = outer, outer.parent
    return False


def _shelters(inner: Node, outer: Node) -> bool:
    """Return whether code at this position in `outer` must not be changed."""
    if outer.type == "annassign":  # `: type = value`, or without a value.
        return "=" not in outer.children or inner is not outer.children[-1]
    return (
        inner.type in _LEFT_ALONE
        or outer.type in _LEFT_ALONE
        or (outer.type == "tfpdef" and inner is outer.children[-1])
        or (outer.type == "param" and inner.type == "tfpdef")
        or (outer.type == "argument" and outer.get_code().strip().startswith("strict="))
        or (outer.type == "funcdef" and _is_annotation(inner, outer))
        or (inner.type in {"test", "ternary"} and _chooses_text(inner))
    )


def _is_annotation(inner: Node, outer: Node) -> bool:
    at = outer.children.index(inner)
    return getattr(outer.children[at - 1], "value", None) == "->"


def _chooses_text(test: Node) -> bool:
    """Return whether an `x if y else z` chooses between texts."""
    kinds = {test.children[0].type, test.children[-1].type}
    return "if" in [getattr(child, "value", "") for child in test.children] and bool(
        kinds & {"string", "fstring", "strings"}
    )


def _mutant(operator: str, span: Span, source: str, code: str) -> Mutant:
    (line, column), (last, _) = span
    old, new = source.splitlines(), code.splitlines()
    return Mutant(
        operator=operator, line=line, column=column, last_line=last,
        before=_difference(old, new), after=_difference(new, old), source=code,
    )  # fmt: skip


def _difference(lines: Sequence[str], others: Sequence[str]) -> str:
    """Return the lines that differ from the lines at the same position in `others`."""
    first = next((at for at, pair in enumerate(zip(lines, others, strict=False))
                  if pair[0] != pair[1]), 0)  # fmt: skip
    last = next(at for at in range(1, len(lines) + 1)
                if at >= len(others) or lines[-at] != others[-at])  # fmt: skip
    return " ".join(line.strip() for line in lines[first : len(lines) - last + 1])


def _code(text: str) -> Node:
    return parso.parse(text)  # type: ignore[no-untyped-call]  # parso has no hints.
