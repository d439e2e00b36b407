"""The periods in which a fault certainly kept a broker from answering."""

import json

import pyarrow as pa
import pytest

from checkers.absences import absences
from checkers.facts import Absence
from results.record.tables import TABLES
from tests.checkers.keyed import about
from tests.checkers.partition_rows import S
from tests.checkers.test_cleaned_markers import may

ENDED = {"node": "n1", "pid": 7, "start_ticks": 1, "state_before": "S", "state_after": None}


def fault(kind: str, **measured: float) -> pa.Table:
    """Return a fault of n1, confirmed at 25 s, and healed at 32 s after a heal of a second."""
    effect = {"kind": kind, "processes": [ENDED], **measured}
    row = {
        "fault_id": 1, "kind": kind, "targets": ["n1"], "requested_ns": 24 * S,
        "confirmed_ns": 25 * S, "healed_ns": 32 * S, "effect": json.dumps(effect),
        "heal_effect": json.dumps({"kind": "back", "took_s": 1.0}),
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=TABLES["faults"])


@pytest.mark.parametrize("kind", ["kill", "stop", "power-loss", "wipe"])
def test_an_ended_broker_is_away_until_its_heal_begins(kind: str) -> None:
    assert absences(fault(kind)) == (
        Absence(node="n1", from_ns=25 * S, until_ns=31 * S, gone=True),
    )
    assert may(on=about(absences=absences(fault(kind))), away={})


def test_a_broker_runs_again_before_its_flipped_bit_is_confirmed() -> None:
    """The process that the fault ended is gone, but the next one answers until the heal."""
    flipped = absences(fault("bit-flip", ran_s=0.3))
    assert flipped == ()
    assert not may(on=about(absences=flipped), away={}), "n1 was in sync, so it had the marker"
