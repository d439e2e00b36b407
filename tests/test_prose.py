"""The limits of the project's prose: sentences, blocks, lines, openings and words."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.prose import (
    ROOT,
    Block,
    blocks_of_docstrings,
    blocks_of_page,
    messages,
    modules,
    pages,
    sentences,
    without_code,
    words,
)

MOST_WORDS_OF_SENTENCE, MOST_WORDS_OF_BLOCK, LONGEST_LINE = 30, 120, 100
MOST_WORDS_OF_PARAGRAPH = 140
"""The limit for a paragraph of a docstring."""
MOST_WORDS_OF_README, MOST_LINES_OF_CHANGELOG = 1000, 15
BANNED_OPENINGS = re.compile(
    r"(Of|Whoever|Nobody|Somebody|It is (?!not)\w+ (who|that)|What(?=[^?:]*\.$)) "
)
BANNED_WORDS = re.compile(r"\b(nobody|whoever|somebody|whosoever|mend(ed|s|ing)?)\b", re.IGNORECASE)
"""Words for persons that are wrongly used for things, and forms of a word that means *fix*."""
_FIELD = re.compile(r"^\w+: ")
_IN_QUOTES = re.compile(r"`[^`]*`|\"[^\"]*\"")


def flaws(block: Block, *, most_words_of_block: int | None = MOST_WORDS_OF_BLOCK) -> Iterator[str]:
    """Yield each flaw of a block, in a sentence."""
    if most_words_of_block and len(words(block.text)) > most_words_of_block:
        yield f"{block.place}: a block of {len(words(block.text))} words"
    for sentence in sentences(block.text):
        plain = _FIELD.sub("", _IN_QUOTES.sub("code", sentence))
        clauses = re.split(r"[;:] ", sentence)  # These are usually items of a list in a sentence.
        if (longest := max(len(words(each)) for each in clauses)) > MOST_WORDS_OF_SENTENCE:
            yield f"{block.place}: a sentence of {longest} words: {sentence}"
        if BANNED_OPENINGS.match(plain):
            yield f"{block.place}: opens with {plain.split()[0]}: {sentence}"
        if found := BANNED_WORDS.search(plain):
            yield f"{block.place}: has the word {found[0]}: {sentence}"


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("The broker appends the batch. " * 31, "a block of"),
        ("The broker " + "appends a batch and " * 8 + "ends.", "a sentence of"),
        ("Of all brokers one leads.", "opens with Of"),
        ("What the broker wrote.", "opens with What"),
        ("What did the broker write?", ""),
        ("The log is mended by nobody.", "has the word mended"),
        ("The broker appends `the nobody batch`.", ""),
    ],
)
def test_a_flaw_is_found(text: str, flaw: str) -> None:
    found = list(flaws(Block(ROOT / "page.md", 1, text)))
    assert all(flaw in each for each in found)
    assert bool(found) == bool(flaw)


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0] if path.parent != ROOT else path.name


def test_pages_have_short_lines_blocks_and_sentences() -> None:
    assert list(chain.from_iterable(map(flaws_of_page, pages()))) == []


def flaws_of_page(page: Path) -> Iterator[str]:
    lines = without_code(page.read_text(encoding="utf-8")).splitlines()
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE and not re.match(r"\s*(\||!\[)|.*https?://\S+$", line):
            yield f"{page.relative_to(ROOT)}:{number}: a line of {len(line)} characters"
    yield from chain.from_iterable(map(flaws, blocks_of_page(page)))


@pytest.mark.parametrize("package", sorted(set(map(package_of, modules()))))
def test_docstrings_and_messages_have_short_sentences(package: str) -> None:
    mine = [each for each in modules() if package_of(each) == package]
    assert list(chain.from_iterable(map(flaws_of_module, mine))) == []


def flaws_of_module(module: Path) -> Iterator[str]:
    for each in blocks_of_docstrings(module):
        yield from flaws(each, most_words_of_block=MOST_WORDS_OF_PARAGRAPH)
    said = messages(module) if module.parts[-2] != "benchmarks" else ()  # Others: SQL, plans.
    for each in said:
        yield from flaws(each, most_words_of_block=None)


def test_the_readme_and_the_changelog_stay_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < MOST_WORDS_OF_README
    release = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## 0.1.0")[1]
    assert len(release.strip().splitlines()) - 1 <= MOST_LINES_OF_CHANGELOG
