"""Write Java properties files for Kafka and ZooKeeper."""

from collections.abc import Mapping


def properties(settings: Mapping[str, str]) -> str:
    """Return the text of a properties file, with one setting per line."""
    return "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in settings.items())


def escaped(text: str) -> str:
    """Escape the characters that have a special meaning for `java.util.Properties`."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if text.startswith((" ", "#", "!")):
        text = "\\" + text
    text = text.replace("=", "\\=").replace(":", "\\:")
    return "".join(
        letter if letter.isascii() else "".join(f"\\u{unit:04x}" for unit in _utf16(letter))
        for letter in text
    )


def _utf16(letter: str) -> list[int]:
    raw = letter.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
