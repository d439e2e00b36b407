"""Names of a scripted run's messages: `message2` for the value 4294967298.

The record with sequence k of the first partition is called `message` and k; readers of a story know
it by that name, and checkers by its value.
"""

import re

from results.page.headline import as_sentence
from results.record.values import SEQUENCE_BITS

MAX_SEQUENCE = 1_000_000
"""A larger number that looks like a value is a time or an id."""
_NAME = re.compile(r"(message|n)\d|zk\b")
_INTERRUPTED = re.compile(r"(?:Interrupted at [\d.]+ s\. )?")
_VALUE = re.compile(r"(value )?\b(\d{10})\b")


def message_name(value: int | None) -> str | None:
    """Return the name of a value of a story's partition; None of any other number."""
    if value is None or value >> SEQUENCE_BITS != 1:
        return None
    sequence = value & ((1 << SEQUENCE_BITS) - 1)
    return f"message{sequence}" if 0 < sequence <= MAX_SEQUENCE else None


def said(text: str) -> str:
    """Return words as a sentence; the name of a message or node is no word, and stays as it is."""
    whole = as_sentence(text)
    return f"{text[0]}{whole[1:]}" if _NAME.match(text) else whole


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


def with_names(text: str) -> str:
    """Return a sentence with the names of messages before their values, where it has none yet."""

    def named(match: re.Match[str]) -> str:
        name = message_name(int(match[2]))
        if name is None or name in text:
            return match[0]
        return f"{name} (value {match[2]})" if match[1] else name

    return _VALUE.sub(named, text)
