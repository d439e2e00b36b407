"""Find the prose of the project: blocks of docs and docstrings, messages, and their sentences."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logquake_pytest import PACKAGES

ROOT = Path(__file__).parent.parent
LEAST_WORDS_OF_MESSAGE = 5
_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NO_PROSE = re.compile(r" *(#|\||!\[|<)|.*::$|    ")
_ITEM = re.compile(r"^ *([-*]|\d+\.) +")
_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Attributes|Examples?):$")
_FIELD = re.compile(r"    \S")
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_URL = re.compile(r"<?https?://\S+")
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z`0-9])")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, an item of a list, or a message.

    Attributes:
        path: The block's file, relative to the root of the project.
        line: The line at which the block begins, or at which its docstring or string begins.
        text: The text, on one line.
    """

    path: Path
    line: int
    text: str

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return the Markdown pages for users and developers."""
    folders = (ROOT / each for each in (*PACKAGES, "docs"))
    return sorted([*ROOT.glob("*.md"), *(page for each in folders for page in each.rglob("*.md"))])


def modules() -> list[Path]:
    """Return the modules of the product and of the benchmarks."""
    folders = (ROOT / each for each in (*PACKAGES, "benchmarks"))
    return sorted(
        [ROOT / "logquake_pytest.py", *(each for at in folders for each in at.rglob("*.py"))]
    )


def blocks_of_page(page: Path) -> Iterator[Block]:
    """Yield the paragraphs and list items of a Markdown page, without code, tables and headings."""
    text = _blanked(_COMMENT, without_code(page.read_text(encoding="utf-8")))
    yield from (Block(page, line, some) for line, some in _blocks(text.splitlines()))


def blocks_of_docstrings(module: Path) -> Iterator[Block]:
    """Yield paragraphs and fields of the docstrings of a module."""
    for node in _docstrings(ast.parse(module.read_text(encoding="utf-8"))):
        text = _blanked(_FENCED, inspect.cleandoc(str(node.value)))
        lines = ["" if _SECTION.match(line) else line for line in text.splitlines()]
        yield from (Block(module, node.lineno, some) for _, some in _blocks(lines, fields=True))


def messages(module: Path) -> Iterator[Block]:
    """Yield the strings of a module that have some words. `{}` replaces each inserted value."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    no_messages = {id(each) for each in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            no_messages.update(map(id, node.values))
    for node in ast.walk(tree):
        if id(node) in no_messages or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        text = _string(node)
        if len(text.split()) >= LEAST_WORDS_OF_MESSAGE:
            yield Block(module, node.lineno, " ".join(text.split()))


def sentences(text: str) -> list[str]:
    """Return the sentences of a block."""
    return [each for each in _END.split(_LINK.sub(r"\1", text)) if each]


def words(text: str) -> list[str]:
    """Return the words of a text. A piece of code, or a web address, counts as one word."""
    plain = _URL.sub("address", _CODE.sub("code", text))
    return [each for each in plain.split() if any(map(str.isalnum, each))]


def without_code(text: str) -> str:
    """Return a page in which empty lines replace the code blocks."""
    return _blanked(_FENCED, text)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield each string that is a statement of its own."""
    bodies = (getattr(node, "body", None) for node in ast.walk(tree))
    statements = (each for body in bodies if isinstance(body, list) for each in body)
    values = (each.value for each in statements if isinstance(each, ast.Expr))
    yield from (
        each for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _string(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values
    )


def _blocks(lines: list[str], *, fields: bool = False) -> Iterator[tuple[int, str]]:
    some: list[str] = []
    start = 0
    for number, line in enumerate([*lines, ""], 1):
        begins = bool(_ITEM.match(line)) or (fields and bool(_FIELD.match(line)))
        prose = bool(line.strip()) and (begins or bool(some) or not _NO_PROSE.match(line))
        if prose and line.lstrip().startswith(("|", "#", "![", "<")):
            prose = False
        if some and (begins or not prose):
            yield start, " ".join(some)
            some = []
        if prose:
            start = start if some else number
            some.append(_ITEM.sub("", line).strip())
