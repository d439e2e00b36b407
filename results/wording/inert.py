"""Text of others, made harmless to look at.

Names of topics, errors of brokers and lines of logs may hold anything. HTML's own signs are escaped
by the template engine; here, characters that no reader should meet are shown as escapes: control
characters (a terminal would obey them), invisible and direction-changing ones (Trojan Source,
CVE-2021-42574), and halves of surrogate pairs (bytes that were no UTF-8).
"""

import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BYTE_FROM, _BYTE_TO = 0xDC80, 0xDCFF
_SURROGATE_OFFSET = 0xDC00


MAX_SHOWN = 4_000
"""Characters of one text that are shown; a broker's error may have ten million."""


def shortened(text: str, most: int = MAX_SHOWN) -> str:
    """Return a text, its end cut off with a count if it is longer than so many characters."""
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]} … ({rest:,} more characters)"


def inert(text: object, *, keep: str = "") -> str:
    """Return a text with its unprintable characters as escapes, as Python writes them.

    Args:
        text: Anything; its `str` is shown.
        keep: Characters that stay, such as a newline.
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
