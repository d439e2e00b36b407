"""Make text from outside safe to display.

Names of topics, errors of brokers and lines of logs may contain any characters. The template engine
escapes HTML. This module escapes other dangerous characters: control characters (a terminal would
obey them), invisible and direction-changing characters (Trojan Source, CVE-2021-42574), and halves
of surrogate pairs (bytes that were not UTF-8).
"""

import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BYTE_FROM, _BYTE_TO = 0xDC80, 0xDCFF
_SURROGATE_OFFSET = 0xDC00


MAX_SHOWN = 4_000
"""Maximum number of characters that are shown of a text. A broker's error may have ten million."""


_WORDS = len(" … (10 more characters)")


def shortened(text: str, most: int = MAX_SHOWN) -> str:
    """Cut a text to a maximum length, and append the number of missing characters.

    A text stays whole if the appended words would be as long as the missing characters.
    """
    rest = len(text) - most
    return text if rest <= _WORDS else f"{text[:most]} … ({rest:,} more characters)"


def inert(text: object, *, keep: str = "") -> str:
    """Return a text with unprintable characters as Python escapes.

    Args:
        text: Any object; its `str` is shown.
        keep: Characters that are not escaped, such as a newline.
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(each if each in keep else _shown(each) for each in whole)


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    code = ord(character)
    if _BYTE_FROM <= code <= _BYTE_TO:
        return f"\\x{code - _SURROGATE_OFFSET:02x}"  # Python's surrogateescape.
    return ascii(character)[1:-1]
