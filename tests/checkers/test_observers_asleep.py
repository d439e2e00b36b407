"""Nobody can see who leads while nobody asks, nor who takes what nobody sends."""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers import slow_election, unavailable, uncommitted_read
from checkers.calm import SILENT_NS, silences
from checkers.layout import write_table
from checkers.stored import load_facts
from checkers.uncommitted_read import SEEN_WITHIN_NS
from results.record.milestones import Milestone
from results.record.paths import RunPaths
from results.record.tables import TABLES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, S, ack, facts, found, group, leads, read
from tests.checkers.unsealed import unsealed

CHECKER = uncommitted_read.CHECKER
AWAKE = S + 2 * SEEN_WITHIN_NS
"""The observers' first question since the poll."""


def announced(broker: int, epoch: int, mark: int, *, at: int) -> Row:
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


SAMPLE = Path(__file__).parents[2] / "results" / "samples" / "valid"
POLL: Row = {**read(B, 1, phase="main"), "complete_ns": S}
CUT_OFF = announced(1, 0, 1, at=AWAKE + 1)


@pytest.mark.parametrize("seen", [AWAKE + S, AWAKE + SEEN_WITHIN_NS])
def test_a_newer_epoch_is_seen_only_when_the_observers_are_awake_again(seen: int) -> None:
    """n2 had led, and served the reader, for long when n1, which is cut off, answered first."""
    newer = announced(2, 1, 2, at=seen)
    result = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, newer]))
    assert (result.rows, result.anomalies) == (1, ())


def test_what_even_the_newer_leader_has_not_committed_was_read_too_early() -> None:
    newer = announced(2, 1, 1, at=AWAKE + S)
    (anomaly,) = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, newer])).anomalies
    assert anomaly.evidence["announced_by"] == 2


def test_an_epoch_that_begins_much_later_cannot_have_served_it() -> None:
    later = announced(2, 1, 2, at=AWAKE + SEEN_WITHIN_NS + 1)
    (anomaly,) = found(CHECKER, group(polls=[POLL], leadership=[CUT_OFF, later])).anomalies
    assert anomaly.evidence["announced_by"] == 1


def test_silence_is_when_neither_clients_nor_observers_recorded_anything() -> None:
    ops, answers = (np.array(times) * S for times in ([1, 90, 101, 99, 103, -1], [120, 108, 112]))
    assert silences([ops, answers], 95 * S) == ((112 * S, 120 * S),)
    assert silences([ops + SILENT_NS, answers], None) == ()
    assert silences([], 95 * S) == ()
    assert silences([np.array([S, S + SILENT_NS])], S) == ()
    assert silences([np.array([S, S + SILENT_NS + 1])], S) == ((S, S + SILENT_NS + 1),)


@given(st.lists(st.lists(st.integers(-1, 60)), max_size=4), st.integers(0, 30))
def test_silence_does_not_depend_on_how_the_times_are_divided(
    parts: list[list[int]], from_s: int
) -> None:
    times = [np.array(part, dtype=np.int64) * S for part in parts]
    heard = sorted({from_s, *(each for part in parts for each in part if each > from_s)})
    gaps = tuple((a * S, b * S) for a, b in pairwise(heard) if (b - a) * S > SILENT_NS)
    assert silences(times, from_s * S) == gaps


def test_ops_and_answers_of_a_stored_run_are_heard(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "run")
    paths = RunPaths(tmp_path / "run")
    assert load_facts(paths.root).silences == ()
    facts = load_facts(paths.root)
    calm_ns = facts.calm_from_ns or 0
    main = facts.milestone("main")
    assert main is not None
    begun, ended, seen = (calm_ns + at * S for at in (20, 40, 60))
    silent = {
        "ops": {"invoke_ns": begun, "complete_ns": ended},
        "leadership": {"observed_ns": seen},
    }
    for name, times in silent.items():
        row = pa.Table.from_pylist([{"run_id": "run", **times}], schema=TABLES[name])
        write_table(paths.table(name), name, [row])
    unsealed(paths.record)
    heard = (main.at_ns, begun, ended, seen)
    assert load_facts(paths.root).silences == tuple(pairwise(heard))


CALM = 100 * S


@pytest.mark.parametrize(
    ("silent", "trusted"),
    [
        ((), True),
        (((CALM, CALM + 39 * S),), False),
        (((CALM, CALM + 7 * S), (CALM + 50 * S, CALM + 99 * S)), True),
        (((CALM - 9 * S, CALM + 7 * S), (CALM + 38 * S, CALM + 99 * S)), False),
    ],
)
def test_a_machine_that_stood_still_is_no_outage(
    silent: tuple[tuple[int, int], ...], *, trusted: bool
) -> None:
    """A send was under way for 39 seconds, of which 30 prove that it was in vain."""
    end = Milestone(name="collected", at_ns=999 * S)
    about = facts(calm_from_ns=CALM, silences=silent, milestones=(end,))
    on = group(about, sends=[{**ack(A, 0, at=CALM + 39 * S + 1), "invoke_ns": CALM}])
    (anomaly,) = found(unavailable.CHECKER, on).anomalies
    assert anomaly.broken_premises == (() if trusted else ("awake",))


@pytest.mark.parametrize(
    ("silent", "trusted"),
    [
        ((), True),
        (((CALM, CALM + 20 * S),), False),
        (((CALM - 9 * S, CALM + 5 * S - 1), (CALM + 20 * S, CALM + 99 * S)), True),
        (((CALM + 2 * S, CALM + 7 * S),), False),
    ],
)
def test_nor_an_election_that_took_long(
    silent: tuple[tuple[int, int], ...], *, trusted: bool
) -> None:
    """Nobody led for 20 seconds; the budget is 15."""
    about = facts(calm_from_ns=CALM, silences=silent)
    on = group(about, leadership=[leads(1, 0, at=CALM), leads(2, 1, at=CALM + 20 * S + 1)])
    (anomaly,) = found(slow_election.CHECKER, on).anomalies
    assert anomaly.broken_premises == (() if trusted else ("awake",))
