"""Translates the last output of a failed Kafka process to one sentence with a remedy."""

import re

from cluster.protocol import ClusterError, FullDiskError, UserError

_FULL = r"No space left on device|Disk quota exceeded"
_MEANINGS = (
    (
        r"Socket server failed to bind to (?P<what>[^\n:]+:\d+)",
        "its port is in use ({what}); end the process that listens there, or run again",
    ),
    (
        r"Address already in use",
        "its port is in use ({what}); end the process that listens there, or run again",
    ),
    (
        _FULL,
        "its disk is full; free some space, or use --store with a folder on another disk",
    ),
    (
        r"(?P<what>\S+ has been compiled by a more recent version of the Java[^\n]+)",
        "its Java is too old: {what}; name a newer Java with --java",
    ),
    (
        r"OutOfMemoryError|insufficient memory for the Java Runtime|Could not reserve enough space",
        (
            "there is too little memory; three nodes need about 1.5 GiB: end other programs, or use"
            " --nodes 1"
        ),
    ),
    (
        r"Unrecognized VM option (?P<what>[^\n]+)",
        "its Java does not support the option {what}; name another Java with --java",
    ),
    (
        r"(?:ConfigException|requirement failed|IllegalArgumentException): (?P<what>[^\n]+)",
        "it rejects a setting: {what}; see --set",
    ),
    (
        r"Permission denied|AccessDeniedException: (?P<what>[^\n]+)",
        "it cannot write to its folder; use --store with a folder that you can write",
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
    return ClusterError(f"{what}; its last output: {' | '.join(lines) or 'none'}")
