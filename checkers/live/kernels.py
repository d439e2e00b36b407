"""Which checks can look at an unfinished record, and why the others wait for its end.

A check looks meanwhile only if the judge at the end must find the same again. It must, where the
anomaly rests on rows that stay in the record whatever comes later (`Proof.TOLD`); where a copy of
the replicas' files is made at once, which the judge at the end reads as well (`Proof.COPIED`); and
where what is gone from every replica cannot come back (`Proof.GONE`).

A check that is in neither table waits for the end, too.
"""

from enum import StrEnum

from checkers.protocol import Checker
from checkers.registry import CHECKERS


class Proof(StrEnum):
    """Why an anomaly of an unfinished record stands."""

    TOLD = "told"
    """It rests on acknowledgements, reads and answers: the logs serve for excuses only."""
    OBSERVED = "observed"
    """The same, and only on what observers were answered."""
    COPIED = "copied"
    """It rests on replicas' logs, of which a copy is kept."""
    GONE = "gone"
    """It rests on what no replica's log has, though each was read to its end afterwards."""


MEANWHILE: dict[str, Proof] = {
    "lost-write": Proof.GONE,
    "duplicate": Proof.TOLD,
    "inconsistent-offsets": Proof.TOLD,
    "G1a": Proof.TOLD,
    "precommitted-read": Proof.TOLD,
    "offset-order": Proof.TOLD,
    "log-divergence": Proof.COPIED,
    "log-start-moved": Proof.OBSERVED,
    "two-leaders-in-epoch": Proof.OBSERVED,
    "epoch-regression": Proof.OBSERVED,
    "high-watermark-regression": Proof.TOLD,
    "log-end-regression": Proof.OBSERVED,
    "broker-ended": Proof.OBSERVED,
    "corrupt-record": Proof.COPIED,
}
"""The checks that look meanwhile."""

_LIVENESS = "its budget counts from the last heal"
_BEFORE = "it compares with rows that have left the window"
_STOPPED = "it needs the files of stopped nodes"
_LATER = "an answer that excuses it may still come"

AT_THE_END: dict[str, str] = {
    "unseen": "only the final reads show what nobody was given",
    "phantom": "a late reader may be given what has left the window",
    "ack-mismatch": "the record may still be truncated where it stands, and then it is lost-write",
    "torn-transaction": "a transaction is shown in parts until its last marker is written",
    "poll-skip": _BEFORE,
    "nonmonotonic-poll": _BEFORE,
    "int-poll-skip": _BEFORE,
    "int-nonmonotonic-poll": _BEFORE,
    "commit-lost": _BEFORE,
    "commit-ahead": _BEFORE,
    "nonmonotonic-send": "offset-order finds the same by the clock",
    "int-nonmonotonic-send": "which of two copies stays, the last log tells",
    "int-send-skip": "it is always allowed",
    "under-replicated": "followers may lag until the brokers stop",
    "forbidden-election": _STOPPED,
    "acknowledged-below-min-isr": _LATER,
    "incomplete-leader": _STOPPED,
    "high-watermark-ahead": _BEFORE,
    "committed-truncation": "log-end-regression finds it as soon as a broker tells of it",
    "epoch-mismatch": "which log is the leader's, an answer may tell late",
    "uncommitted-read": _LATER,
    "metadata-divergence": _STOPPED,
    "double-vote": _STOPPED,
    "unavailable": _LIVENESS,
    "slow-election": _LIVENESS,
    "isr-not-restored": _LIVENESS,
    "hanging-transaction": _LIVENESS,
    "group-stuck": _LIVENESS,
    **dict.fromkeys(
        ("G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime"),
        "a cycle goes through all partitions and the whole run",
    ),
}
"""Those that wait, with the reason."""

WITH_PREMISES = "broker-hit-from-outside"
"""No violation; but it takes the trust of those of liveness, and so looks meanwhile, too."""


def kernels() -> tuple[Checker, ...]:
    """Return the checks that look meanwhile, in the registry's order."""
    names = {*MEANWHILE, WITH_PREMISES}
    return tuple(each for each in CHECKERS if each.name in names)
