"""Translates the last output of a failed Kafka process to one sentence with a remedy."""

import re

from cluster.protocol import ClusterError, FullDiskError, UserError

_FULL = r"No space left on device|Disk quota exceeded"
_MEANINGS = (
    (
        r"Socket server failed to bind to (?P<what>[^\n:]+:\d+)",
        "its port is in use ({what}); end what listens there, or run again",
    ),
    (
        r"Address already in use",
        "its port is in use ({what}); end what listens there, or run again",
    ),
    (
        _FULL,
        "its disk is full; make room, or use --store with a folder on another disk",
    ),
    (
        r"(?P<what>\S+ has been compiled by a more recent version of the Java[^\n]+)",
        "its Java is too old: {what}; name a newer one by --java",
    ),
    (
        r"OutOfMemoryError|insufficient memory for the Java Runtime|Could not reserve enough space",
        "it got too little memory; three nodes need about 1.5 GiB: end something, or use --nodes 1",
    ),
    (
        r"Unrecognized VM option (?P<what>[^\n]+)",
        "its Java does not know the option {what}; name another Java by --java",
    ),
    (
        r"(?:ConfigException|requirement failed|IllegalArgumentException): (?P<what>[^\n]+)",
        "it refuses a setting: {what}; see --set",
    ),
    (
        r"Permission denied|AccessDeniedException: (?P<what>[^\n]+)",
        "it may not write its folder; use --store with one that you may write",
    ),
)
LAST_LINES = 5


def sentence(what: str, text: str) -> ClusterError:
    """Return the error to raise for a Kafka program that ended.

    Args:
        what: The beginning of the message, such as "the broker of n1 ended".
        text: The program's last output.
    """
    for pattern, meaning in _MEANINGS:
        if match := re.search(pattern, text):
            groups = match.groupdict().values()
            named = next((group.strip() for group in groups if group), "see its log")
            error = FullDiskError if pattern == _FULL else UserError
            return error(f"{what}: {meaning.format(what=named.rstrip('.'))}")
    lines = [line.strip() for line in text.splitlines() if line.strip()][-LAST_LINES:]
    return ClusterError(f"{what}; its last words: {' | '.join(lines) or 'none'}")
