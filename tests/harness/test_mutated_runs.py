"""Commands on run folders that somebody made hostile: a sentence or a result, and no harm."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cluster.hosts.signals import process_id, state_of
from harness.exit_codes import INTERNAL_ERROR
from tests.harness.commands import LOGQUAKE
from tests.harness.mutated_runs import COMMANDS, WAITS_S, Yard, made, make_yard, tried, words_of
from tests.results.test_strangers_files import BOMBS, another_codec

MUTANTS = int(os.environ.get("LOGQUAKE_MUTANTS", "10000"))
FIRST = int(os.environ.get("LOGQUAKE_FIRST_MUTANT", "1000"))
"""Of a night: how many, and the seed of the first."""
BY_COMMAND = int(os.environ.get("LOGQUAKE_MUTANTS_BY_COMMAND", "200"))
MAX_KIB = 1 << 20
SERVE = ("serve",)


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "100000"], start_new_session=True) as process:
        yield process
        process.kill()


def left_alone(stranger: "subprocess.Popen[bytes]") -> bool:
    return stranger.poll() is None and state_of(process_id(stranger.pid)) in {"S", "R", "D"}


@pytest.fixture
def yard(tmp_path: Path, stranger: "subprocess.Popen[bytes]") -> Iterator[Yard]:
    """Return a yard with all bombs; whom its runs name must be left alone."""
    yield make_yard(tmp_path, stranger.pid, bombs=BOMBS)
    assert left_alone(stranger)


def test_commands_on_hostile_runs_harm_nobody(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]"
) -> None:
    yard = make_yard(tmp_path, stranger.pid, bombs=[another_codec])
    assert [wrong for seed in range(20) for wrong in tried(seed, yard, commands=1)] == []
    assert left_alone(stranger)


@pytest.mark.night
@pytest.mark.timeout(0)
def test_thousands_of_hostile_runs_harm_nobody(yard: Yard) -> None:
    seeds = range(FIRST, FIRST + MUTANTS)
    assert [wrong for seed in seeds for wrong in tried(seed, yard, commands=1)] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MAX_KIB


@pytest.mark.night
@pytest.mark.timeout(0)
def test_hostile_runs_harm_nobody_by_the_commands_themselves(yard: Yard) -> None:
    wrong = [why for seed in range(BY_COMMAND) if (why := harm(seed, yard))]
    assert wrong == []


def harm(seed: int, yard: Yard) -> str:
    """Run one command on one mutant, as a user does; return what must not be."""
    rng = Random(seed)
    paths, done = made(rng, yard)
    command = rng.choice([each for each in COMMANDS if each != SERVE])
    before = yard.outside()
    try:
        ended = subprocess.run(
            [LOGQUAKE, *words_of(command, paths, yard)], capture_output=True, text=True,
            timeout=WAITS_S, check=False, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"seed {seed}: {command} hangs after {done}"
    if ended.returncode == INTERNAL_ERROR or "Traceback" in ended.stderr:
        return f"seed {seed}: {command} after {done}: {ended.stderr[-700:]}"
    return f"seed {seed}: {command} after {done} did harm" if yard.outside() != before else ""
