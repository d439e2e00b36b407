"""Chooses forty sentences of the project at random, for readers to mark.

    python -m benchmarks.forty_sentences             # with seed 1
    python -m benchmarks.forty_sentences --seed 2

The program prints 10 sentences of the README, 12 of the other pages, 12 of docstrings, and 6
messages. A reader who has not seen the code marks each sentence that had to be read twice. The goal
is that no reader marks more than 2 of 40.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from random import Random

from tests.prose import (
    ROOT,
    Block,
    blocks_of_docstrings,
    blocks_of_page,
    messages,
    modules,
    pages,
    sentences,
)

README = ROOT / "README.md"


def drawn(seed: int) -> list[tuple[str, Block, str]]:
    """Return forty random sentences, each with its kind and its block."""
    rng = Random(seed)
    of_code = [each for each in modules() if "benchmarks" not in each.parts]
    sources: tuple[tuple[str, int, Iterable[Block]], ...] = (
        ("README", 10, blocks_of_page(README)),
        ("docs", 12, (each for page in pages() if page != README for each in blocks_of_page(page))),
        ("docstring", 12, (each for path in of_code for each in blocks_of_docstrings(path))),
        ("message", 6, (each for path in of_code for each in messages(path))),
    )
    found = list[tuple[str, Block, str]]()
    for kind, count, blocks in sources:
        every = [(kind, block, each) for block in blocks for each in sentences(block.text)]
        found += rng.sample(every, count)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the sentences."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forty_sentences",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, other sentences")
    seed = parser.parse_args(arguments).seed
    for number, (kind, block, sentence) in enumerate(drawn(seed), 1):
        print(f"{number}. ({kind}, {block.place}) {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
