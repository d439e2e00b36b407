"""Hide passwords and keys in a run's settings before they are shown, served or packed.

A plan written by this version contains no secrets (`results.record.tuning`). An older or
handwritten plan may contain secrets. The page, bundle and site of such a run show the name of the
setting, and the value `(hidden)`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath

import tomli_w

from results.record.reading import parse_json, parse_toml

HIDDEN = "(hidden)"
_SECRET = re.compile(
    r"password|passphrase|secret|jaas|credential|sasl\.username|oauthbearer\.config"
    r"|(^|[._])(key|pem|chain|certificates)($|[._])",
    re.IGNORECASE,
)
"""Settings that librdkafka and Kafka mark as passwords, or whose names look like passwords.
"""
_PROPERTY = re.compile(r"^[ \t\f]*((?:[^\\\s=:]|\\.)+)[ \t\f]*[=:]?", re.MULTILINE)


def is_secret(name: str) -> bool:
    """Return whether a setting's value must be hidden; the name of the setting decides."""
    return _SECRET.search(name) is not None


def without_secrets(values: Mapping[str, object]) -> dict[str, object]:
    """Return a plan's values, with the secrets hidden at every depth."""
    return {name: HIDDEN if is_secret(name) else _shown(value) for name, value in values.items()}


def _shown(value: object) -> object:
    if isinstance(value, Mapping):
        return without_secrets(value)
    return [_shown(each) for each in value] if isinstance(value, list) else value


def plan_without_secrets(text: str) -> str:
    """Return a plan's TOML text with secrets hidden; a text without secrets stays unchanged."""
    if not _SECRET.search(text):
        return text
    try:
        values = parse_toml(text)
        shown = without_secrets(values)
        return text if shown == values else tomli_w.dumps(shown)
    except (ValueError, RecursionError):
        return f"# {HIDDEN}: the text may contain a password and is not the TOML of a plan\n"


def properties_without_secrets(text: str) -> str:
    """Return the text of a properties file with secrets hidden, including multi-line values."""
    lines, hiding = list[str](), False
    for line in text.splitlines(keepends=True):
        goes_on = re.search(r"(?<!\\)(\\\\)*\\\s*$", line) is not None
        if hiding:
            hiding = goes_on
            continue
        named = _PROPERTY.match(line)
        if named is not None and is_secret(named[1]):
            lines.append(f"{named[1]}={HIDDEN}\n")
            hiding = goes_on
        else:
            lines.append(line)
    return "".join(lines)


def json_without_secrets(text: str) -> str:
    """Return JSON text with secrets hidden; a text without secrets stays unchanged."""
    if not _SECRET.search(text):
        return text
    try:
        return json.dumps(_shown(parse_json(text)), indent=1) + "\n"
    except (ValueError, RecursionError):
        return json.dumps(HIDDEN)


_WAYS = {
    ".toml": plan_without_secrets,
    ".properties": properties_without_secrets,
    ".json": json_without_secrets,
}
_SETTINGS = re.compile(r"plan\.toml|[a-z0-9.-]+\.properties|worker-\d+\.json")


def hides(path: PurePath) -> bool:
    """Return whether a run's file may contain secrets, so that `file_without_secrets` is needed."""
    return _SETTINGS.fullmatch(path.name) is not None


def file_without_secrets(path: PurePath, data: bytes) -> bytes:
    """Return the content of a run's file with secrets hidden."""
    text = data.decode("utf-8", errors="surrogateescape")
    shown = _WAYS[path.suffix](text)
    return data if shown == text else shown.encode("utf-8", errors="surrogateescape")
