"""Interpret the output of a user's `status` command for a broker. Pure."""

from cluster.systems.attached.commands import CommandError, Said, failed

RUNNING, PAUSED, GONE = "S", "T", None
"""A broker's possible states. The letters are those of `/proc/PID/stat`. Faults wait for a
state."""
_WORDS = {
    "running": RUNNING, "active": RUNNING, "up": RUNNING,
    "paused": PAUSED, "stopped": PAUSED,
    "gone": GONE, "exited": GONE, "dead": GONE, "inactive": GONE, "failed": GONE, "created": GONE,
}  # fmt: skip
_LETTERS = {**dict.fromkeys("RSDI", RUNNING), **dict.fromkeys("Tt", PAUSED), "Z": GONE, "X": GONE}
NOBODY = 1
"""The exit code of `ps` and `pgrep` if no process matches. Both programs then print nothing."""


def state_said(broker_id: int, said: Said) -> tuple[str | None, int]:
    """Return a broker's state and pid; the pid is 0 if the broker has no process.

    Raises:
        CommandError: The output has none of the expected forms.
    """
    words = said.out.split()
    if not words and (said.code == 0 or (said.code == NOBODY and not said.err)):
        return GONE, 0
    if said.code:
        raise failed("status", broker_id, said)
    word, state = words[0], GONE
    if word in _WORDS:
        state = _WORDS[word]
    elif word[0] in _LETTERS and len(word) < len("paused"):
        state = _LETTERS[word[0]]
    else:
        raise _unclear(broker_id, said.out)
    if state is GONE:
        return GONE, 0
    if len(words) != 2 or not words[1].isdecimal() or int(words[1]) <= 1:  # noqa: PLR2004 - a word and a number
        raise _unclear(broker_id, said.out)
    return state, int(words[1])


def _unclear(broker_id: int, out: str) -> CommandError:
    return CommandError(
        f"the command `status` of broker {broker_id} printed {out[:80]!r}; it must print `running"
        " PID`, `paused PID` or `gone`"
    )
