"""Add times to the truncations that a check's sentence names.

Checks do not know when truncations happened. The events of the main anomaly contain some of these
times.
"""

import re

from results.page.witness import Kind, Told

# Older versions of the checks wrote: with all from 120 on.
_CUT = re.compile(
    r"\b(?P<node>n\d+) truncated (?:offset (?P<own>\d+)(?! at)"
    r"(?: (?:together )?with all (?:offsets )?from (?P<from>\d+) on)?"
    r"|all that it had from offset (?P<all>\d+) on(?! at))"
)


def dated(sentence: str, told: Told | None) -> str:
    """Return a sentence with a time after each truncation whose time is known and unique.

    Args:
        sentence: A sentence of a check.
        told: The events of the main anomaly, with their times. None if there are no events.
    """
    times: dict[tuple[str, int], list[str]] = {}
    for each in told.events if told else ():
        if each.kind is Kind.CUT and each.cut is not None:
            times.setdefault((each.who, each.cut), []).append(each.when)
    named = [_cut(each) for each in _CUT.finditer(sentence)]

    def timed(match: "re.Match[str]") -> str:
        key = _cut(match)
        (when, *more) = times.get(key, [""])
        if not when or more or named.count(key) > 1:
            return match[0]
        return f"{match[0]} {when if when.startswith('before') else f'at {when}'}"

    return _CUT.sub(timed, sentence)


def _cut(match: "re.Match[str]") -> tuple[str, int]:
    return match["node"], int(match["from"] or match["own"] or match["all"])
