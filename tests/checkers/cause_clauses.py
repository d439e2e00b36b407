"""The clauses of which a lost record's cause is made: what the known truth understands.

`known_truth.wrong_in_cause` holds most of them to what happened. A clause that is not here is one
that nobody checks: `unknown_words` gives it back, so that a new one needs a new check.
"""

import re
from collections.abc import Iterator, Mapping

from checkers.causes import BEFELL

_NODE, _LEADER = r"n\d+", r"(?:n\d+|an unknown leader)"
_TOLD = r"(?:acknowledged|wrote) it(?: \(acks=\w+\))?"
_SHOWN = "the run's record does not show"
_FAULT = "|".join(sorted(set(BEFELL.values()), key=len, reverse=True))
_TOO = rf"{_NODE}(?: had it|'s log had reached its offset) too, "
_ELECTED = r" (?:was|had been) elected in epoch \d+"

CLAUSES: Mapping[str, "re.Pattern[str]"] = {
    name: re.compile(pattern)
    for name, pattern in {
        "no leader": rf"no leader was observed, so {_SHOWN} which broker {_TOLD}",
        "either": rf"^{_LEADER}(?: or {_LEADER})* {_TOLD}; {_SHOWN} which"
                  r" broker it was, so the reason for the loss is unknown",
        "lack": rf"^(?:the log of {_NODE} lacks|the logs of {_NODE}(?:, {_NODE})* and {_NODE} lack)"
                r" it",
        "unread": rf"; (?:the log of {_NODE}, the last leader,|the last leader's log) was not read"
                  r" to its end, and may have it",
        "none read": rf"^no log could be read to its end, so {_SHOWN} whether a log has it",
        "in force": r" \(when it was acknowledged, at [\d.]+ s"
                    r" (?:in force|begun and not yet confirmed): [^)]*\)",
        "disks": r", and faults removed it from each replica's log \([^)]*\)",
        "perhaps disks": r"; (?:an unconfirmed fault may have removed it|a fault may have removed"
                         rf" its only copies), but {_SHOWN} whether it did",
        "dropped": r" as the leader of epoch \d+, and another record of that epoch is at its"
                   r" offset: the leader dropped the message during that epoch, or never wrote it",
        "sequence": r"; its log has sequence \d+ of producer \d+ at offset \d+ and then sequence"
                    r" \d+ at offset \d+, so it had accepted the missing sequence in between",
        "only": rf"^only {_NODE} had it: ",
        "alone": rf"{_NODE} led alone in epoch \d+, {_TOLD}",
        "led": rf"{_NODE} led in epoch \d+(?: or \d+)*, (?:and )?{_TOLD}",
        "told": rf"^{_NODE} {_TOLD}",
        "though": rf" though {_NODE}(?:, {_NODE})*(?: and {_NODE})? (?:was|were) in the ISR and did"
                  " not have it",
        "while": " while it (?:was cut off|could not receive from the others|could not send to the"
                 " others)",
        "within": rf", (?:{_FAULT}) within [\d.]+ s(?: of the send)?",
        "asked": rf", (?:{_FAULT}) (?:by|in) a fault that was requested (?:before|during) the send",
        "gave": rf", {_NODE}, leader of epoch \d+, still returned it to op \d+",
        "only after": rf"{_NODE} truncated it only after {_NODE} was elected in epoch \d+",
        "unclean": rf"{_NODE}, from outside of the in-sync replicas,{_ELECTED}",
        "elr": rf"{_NODE}, an eligible leader replica \(KIP-966\),{_ELECTED}",
        "outside": rf"{_NODE}, which was not in the ISR before,{_ELECTED}",
        "in the ISR": rf"{_NODE}, in the ISR,{_ELECTED}",
        "last reported": rf"{_NODE}, which was not in the last reported ISR,{_ELECTED}",
        "had held": rf"{_NODE}, which had held it,{_ELECTED}",
        "had truncated": rf"{_NODE}, which had truncated its log at offset \d+(?: or \d+)*,"
                         rf"{_ELECTED}",
        "elected": rf"{_NODE}{_ELECTED}",
        "again": rf"(?:and |{_NODE} )led again in epoch \d+",
        "rivals": rf"{_NODE}(?:, {_NODE})* and {_NODE} are reported as leaders of epoch \d+",
        "without": " without it",
        "log fell": r"; whether it had the record is not known: its log end offset was \d+ at"
                    r" [\d.]+ s, then \d+ at [\d.]+ s",
        "not known": "; whether it had the record is not known",
        "maybe": rf"that election may have come before {_NODE} (?:{_FAULT})",
        "over": "that fault was over before the next election; the reason for that election is"
                " unknown",
        "not in sync": rf"{_TOO}but was not in the ISR before that election",
        "down": rf"{_TOO}but was down at that election",
        "as well": rf"{_TOO}and it was in the ISR as well: either could be elected",
        "too": rf"{_TOO}and {_SHOWN} why {_NODE} led instead",
        "which epoch": rf"{_SHOWN} in which epoch, so the election that lost it is unknown",
        "no later": r"no later leader (?:was observed|is known to lack it), so the reason for the"
                    r" loss is unknown",
    }.items()
}  # fmt: skip
"""By name, in the order in which they are looked for."""


def clauses_of(cause: str) -> Iterator[str]:
    """Yield the names of a cause's clauses."""
    for name, pattern in CLAUSES.items():
        cause, found = pattern.subn("", cause)
        yield from [name] * found


def unknown_words(cause: str) -> str:
    """Return what of a cause no clause explains; empty: nothing."""
    for pattern in CLAUSES.values():
        cause = pattern.sub("", cause)
    return "" if re.fullmatch(r"(?:[\s,;]|and )*", cause) else cause.strip()
