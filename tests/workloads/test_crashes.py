"""Which ends of a worker's process are crashes, and what its last words are."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.crashes import crash_of


@pytest.mark.parametrize("name", ["SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"])
def test_a_process_that_a_wrong_access_or_an_assertion_ends_has_crashed(
    name: str, tmp_path: Path
) -> None:
    number = getattr(signal, name).value
    source = f"import os; os.kill(os.getpid(), {number})"
    code = subprocess.run([sys.executable, "-c", source], check=False).returncode
    log = tmp_path / "worker-3.log"
    log.write_text("%3|1.2|FAIL|worker-3#producer-1| no\n\n*** queue.c:1: assert: it ***\n")
    crash = crash_of(3, code, log)
    assert crash is not None
    assert (crash.worker, crash.signal) == (3, name)
    assert crash.said == "*** queue.c:1: assert: it ***"


@pytest.mark.parametrize("code", [None, 0, 1, 6, 134, -signal.SIGKILL, -signal.SIGTERM])
def test_any_other_end_is_none(code: int | None, tmp_path: Path) -> None:
    assert crash_of(0, code, tmp_path / "never written") is None


def test_the_last_five_words_are_kept_whatever_bytes_they_have(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(b"line %d \xff" % number for number in range(9)))
    crash = crash_of(0, -signal.SIGSEGV, log)
    assert crash is not None
    assert crash.said.splitlines() == [f"line {number} \ufffd" for number in range(4, 9)]
    log.write_bytes(b"")
    silent = crash_of(0, -signal.SIGSEGV, log)
    assert silent is not None
    assert silent.said == ""
