"""Nights whose runs are stored ones: judged, filed and measured by the real judge."""

import http.server
import io
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from checkers.spark.local import LocalEngine
from cluster.hosts.heal import Healed
from harness.cli import exit_code as exit_code_of
from harness.exit_codes import BAD_ARGUMENTS, INVALID, UNKNOWN
from harness.suites.bench import HELD_LIMIT_S, Bench, Orders
from harness.suites.causes import causes_of
from harness.suites.journal import Begun, Ended, Journal, Line, Planned, Played, Started
from harness.suites.leading import Resumption, opened
from harness.suites.lines import PAGE
from harness.suites.night import Phase
from harness.suites.nights import NightFolder, nights_of, suite_folder
from harness.suites.reports import exit_code
from harness.suites.status import status_of
from harness.suites.suite import SuiteError
from harness.suites.webhook import VARIABLE
from logquake_pytest import PACKAGES
from results.nights import write_night
from results.record.clock import unix_s, wait_until
from results.record.milestones import load_milestones
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.samples import find_sample
from results.store import lock_run

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
SUITE = """
name = "made"
budget = "1h"
engine = "local"
[repeat]
same_seed = 0
fresh_seeds = 1
[[entries]]
name = "acks-1"
seeds = [1]
[[entries]]
name = "calm"
seeds = [1]
"""
NOWHERE = """
name = "nowhere"
engine = "local"
[axes]
hosts = ["ssh:/nowhere/hosts.toml"]
nemeses = ["kill", "none"]
"""
NIGHTS = ("20211123T010000Z", "20211124T010000Z", "20211125T010000Z")


def add_run(store: Path, sample: str, night: Night, number: int) -> str:
    """Copy a sample as a run that was just played, and not judged."""
    paths = RunPaths(store / "log" / f"{night.night}-{number}")
    shutil.copytree(find_sample(f"sample:{sample}"), paths.root)
    paths.verdict.unlink()
    paths.lock.touch()
    write_night(paths.night, night)
    return paths.run_id


def played_night(store: Path, night: str, repeat: str = "") -> NightFolder:
    """Write a night that was killed right after its runs were played.

    One run failed, and was repeated (`repeat`: the sample that came of it); or both were well.
    """
    folder = NightFolder(root=suite_folder(store, "made") / night)
    folder.root.mkdir(parents=True)
    folder.suite.write_text(SUITE, encoding="utf-8")
    at = unix_s()
    journal = Journal(folder.journal)
    journal.write(Begun(suite="made", night=night, budget_s=3600, at=at))
    broken = f"log/{night}-1"
    runs = [("valid", "acks-1#1", Why.PLANNED, ""), ("valid", "calm#1", Why.PLANNED, "")]
    if repeat:
        runs = [
            ("loss-acks-1", "acks-1#1", Why.PLANNED, ""),
            (repeat, "acks-1#1", Why.FRESH_SEED, broken),
        ]
    for number, (sample, entry, why, of) in enumerate(runs, 1):
        told = Night(suite="made", night=night, entry=entry, why=why, repeats=of)
        run_id = add_run(store, sample, told, number)
        lines: list[Line] = [
            Planned(item=number, entry=entry, seed=number, why=why, repeats=of, at=at),
            Started(item=number, run_id=run_id, at=at),
            Played(item=number, run_id=run_id, main_s=1, at=at + 2),
        ]
        journal.write(*lines)
    return folder


def resume(suite: Path, store: Path) -> int:
    """Go on with a night, to its end; return how often the judge was started."""
    with opened(suite, store, mode=Resumption.RESUME) as lead:
        lead.play()
        return lead.conductor._judge.starts


@pytest.fixture(name="suite")
def suite_file(tmp_path: Path) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(SUITE, encoding="utf-8")
    return path


@pytest.mark.night
def test_a_broken_build_over_three_nights_is_one_signature(tmp_path: Path, suite: Path) -> None:
    store = tmp_path / "store"
    for night, repeat in zip(NIGHTS, ("loss-acks-1", "valid", "valid"), strict=True):
        played_night(store, night, repeat)
        resume(suite, store)
    states = [folder.state() for folder in nights_of(store, "made")]
    assert all(state.ended for state in states)
    (cause,) = causes_of(states)
    assert (cause.nights, cause.new) == (NIGHTS, False)
    assert cause.runs[0] == f"log/{NIGHTS[0]}-1"
    assert len(cause.runs) == 4, "three nights, and once more in a repeat"
    assert cause.repeats.fresh_seeds.words == "1 of 3 (6 % to 79 %)"
    summary = nights_of(store, "made")[-1].summary.read_text(encoding="utf-8")
    assert "## New tonight\n\nNothing." in summary
    assert f"4 runs in 3 nights, first {NIGHTS[0]}, last {NIGHTS[2]}" in summary
    assert causes_of(states[:1])[0].new


@pytest.mark.night
@pytest.mark.spark
def test_a_run_that_has_its_verdict_is_not_judged_again(tmp_path: Path, suite: Path) -> None:
    """The leader was killed between the verdict and its line in the journal."""
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    folder.suite.write_text(SUITE.replace('"local"', '"spark"'), encoding="utf-8")
    judged = RunPaths(store / f"log/{NIGHTS[0]}-2")
    shutil.copy(find_sample("sample:valid") / "verdict.json", judged.verdict)
    before = judged.verdict.stat().st_mtime_ns
    resume(suite, store)
    assert judged.verdict.stat().st_mtime_ns == before
    assert judged.report.exists()
    assert json.loads((store / f"log/{NIGHTS[0]}-1/verdict.json").read_text())["engine"] == "spark"
    (state,) = [folder.state() for folder in nights_of(store, "made")]
    assert {item.phase for item in state.items.values()} == {Phase.JUDGED}


@pytest.mark.night
def test_a_night_that_is_killed_while_it_judges_goes_on(tmp_path: Path, suite: Path) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    argv = [LOGQUAKE, "suite", "run", "--resume", str(suite), "--store", str(store)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        wait_until(lambda: len(folder.state().spans) > 1, timeout_s=60, what="the night to go on")
        children = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    if not folder.state().ended:  # A busy machine may let it come to its end before it is killed.
        resume(suite, store)
    lines = [json.loads(line) for line in folder.journal.read_text().splitlines()]
    verdicts = [line["run_id"] for line in lines if line["event"] == "judged"]
    assert sorted(verdicts) == [f"log/{NIGHTS[0]}-{number}" for number in (1, 2)]
    assert not (folder.root / "scratch").exists()


def test_a_run_that_is_never_free_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = RunPaths(tmp_path / "log" / f"{NIGHTS[0]}-1")
    paths.root.mkdir(parents=True)
    bench = Bench(LocalEngine())
    with lock_run(paths):
        bench.judge([paths.root])
        assert capsys.readouterr().out == "", "it may be free yet"
        bench.held[paths.root] -= HELD_LIMIT_S
        bench.judge([paths.root])
    said = json.loads(capsys.readouterr().out)
    assert said["root"] == str(paths.root)
    assert f"is in use by process {os.getpid()}" in said["given_up"]
    assert bench.held == {}


def test_of_a_run_that_was_removed_no_page_is_left(tmp_path: Path) -> None:
    orders: Orders = queue.SimpleQueue()
    orders.put({"root": str(tmp_path / "log" / f"{NIGHTS[0]}-1"), PAGE: True})
    orders.put(None)
    Bench(LocalEngine()).serve(orders)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.night
def test_a_repeat_that_somebody_holds_is_judged_when_it_is_free_and_told_of_on_the_page(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0], "valid")
    (store / "latest").symlink_to(f"log/{NIGHTS[0]}-1")  # By which a store is known.
    page = RunPaths(store / f"log/{NIGHTS[0]}-1").report
    again = lock_run(RunPaths(store / f"log/{NIGHTS[0]}-2"))
    with ThreadPoolExecutor(1) as thread, again:
        night = thread.submit(resume, suite, store)
        wait_until(
            lambda: bool(folder.state().having(Phase.JUDGED)) or night.done(),
            timeout_s=120,
            what="the verdict of the run that nobody holds",
        )
        assert folder.state().items[2].phase is Phase.PLAYED
        assert "There is no repeat of this run yet." in page.read_text(encoding="utf-8")
        again.release()
        night.result()
    assert [item.outcome for item in folder.state().items.values()] == ["invalid", "valid"]
    assert "new seeds: 0 of 1 (0 % to 79 %)" in page.read_text(encoding="utf-8")


@pytest.mark.night
def test_a_new_night_winds_up_the_one_before(tmp_path: Path, suite: Path) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    Journal(folder.journal).write(Planned(item=9, entry="calm#1", seed=9))
    with opened(suite, store, mode=Resumption.NEW, only=lambda each: each.name == "calm#1") as lead:
        assert [item.entry for item in lead.conductor.state.planned] == ["calm#1"]
        assert lead.conductor.folder.night > NIGHTS[0]
    state = folder.state()
    assert state.ended
    assert state.items[9].phase is Phase.LEFT_OUT
    assert state.items[9].sentence == "the night was not resumed"
    assert len(state.having(Phase.JUDGED)) == 2


@pytest.mark.night
def test_a_night_that_is_interrupted_says_so_until_it_is_resumed(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0], "valid")
    again = Planned(
        item=9, entry="gone#1", seed=9, why=Why.FRESH_SEED, repeats=f"log/{NIGHTS[0]}-1"
    )
    Journal(folder.journal).write(again)
    with opened(suite, store, mode=Resumption.RESUME) as lead:
        lead.conductor.finish()
        lead.play()
    state = folder.state()
    assert (state.ended, state.stopped) == (False, "the night was interrupted")
    missing = "1 of 2 reruns with new seeds did not run: the night was interrupted"
    for file in (folder.summary, folder.junit):
        assert missing in file.read_text(encoding="utf-8")
    shown = Console(width=300, file=io.StringIO())
    shown.print(status_of(store, folder, now_s=unix_s()))
    assert isinstance(shown.file, io.StringIO)
    assert missing in shown.file.getvalue()
    assert "the night was interrupted; logquake suite run resumes it" in shown.file.getvalue()
    resume(suite, store)
    assert (folder.state().ended, folder.state().stopped) == (True, "")


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted."""

    said: list[bytes]

    def do_POST(self) -> None:
        self.said.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
        """Say nothing."""


@pytest.mark.night
def test_the_webhook_is_told_of_a_night_that_is_wound_up(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it found would be known already to the next night, so that nobody was ever told."""
    store = tmp_path / "store"
    played_night(store, NIGHTS[0], "loss-acks-1")
    Hook.said = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        with opened(suite, store, mode=Resumption.NEW) as lead:
            assert lead.wound_up.endswith(
                f"the unfinished night {NIGHTS[0]}: the webhook was called"
            )
        server.shutdown()
    (text,) = Hook.said
    words = json.loads(text)
    assert (words["night"], words["worst"], len(words["new"])) == (NIGHTS[0], "invalid", 1)


@pytest.mark.everything
@pytest.mark.parametrize(
    "text",
    [
        'name = "made"\nno_such_key = 1\n',
        pytest.param(SUITE, marks=pytest.mark.night),
        pytest.param(None, marks=pytest.mark.night),
    ],
)
def test_a_night_that_this_version_cannot_play_keeps_no_other_from_being_begun(
    tmp_path: Path, suite: Path, text: str | None
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    Journal(folder.journal).write(Planned(item=9, entry="gone#1", seed=9))
    if text is None:
        folder.suite.unlink()
    else:
        folder.suite.write_text(text, encoding="utf-8")
    if text != SUITE:
        with (
            pytest.raises(SuiteError, match=r"suite\.toml"),
            opened(suite, store, mode=Resumption.RESUME),
        ):
            pass
    with opened(suite, store, mode=Resumption.NEW) as lead:
        assert lead.conductor.folder.night > NIGHTS[0]
    state = folder.state()
    assert state.items[9].phase is Phase.LEFT_OUT
    assert len(state.having(Phase.JUDGED)) == 2


@pytest.mark.everything
def test_a_run_that_died_with_its_night_is_healed_and_noted_and_what_is_left_is_told(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    told = Night(suite="made", night=NIGHTS[0], entry="calm#1")
    started, unknown = (add_run(store, "valid", told, number) for number in (7, 8))
    Journal(folder.journal).write(
        Planned(item=7, entry="calm#1", seed=7),
        Started(item=7, run_id=started),
        # Killed between its folder and its line in the journal.
        Planned(item=8, entry="calm#1", seed=8),
    )
    imported, damaged = (add_run(store, "valid", told, number) for number in (5, 6))
    (store / imported / "bundle.json").write_text("{}", encoding="utf-8")
    (store / damaged / "night.json").write_text("{", encoding="utf-8")
    healed = Healed(done=("killed java",), failed=("docker does not answer",))
    monkeypatch.setattr("harness.suites.playing.heal_dead_run", lambda _paths: healed)
    with opened(suite, store, mode=Resumption.NEW):
        pass
    items = folder.state().items
    for number, run_id in ((7, started), (8, unknown)):
        assert (items[number].cut_short, items[number].phase) == ((run_id,), Phase.LEFT_OUT)
        assert items[number].left == (f"{run_id}: docker does not answer",)
        last = load_milestones(RunPaths(store / run_id).milestones)[-1]
        assert last.detail["kind"] == "cut-short"
        assert not RunPaths(store / run_id).verdict.exists()
    told_of = {run_id for item in items.values() for run_id in (item.run_id, *item.cut_short)}
    assert not told_of & {imported, damaged}


@pytest.mark.everything
def test_an_entry_that_is_no_more_is_unknown(tmp_path: Path, suite: Path) -> None:
    """The night goes on with another version of Logquake, which names its scenarios otherwise."""
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    Journal(folder.journal).write(Planned(item=9, entry="gone#1", seed=9))
    resume(suite, store)
    state = folder.state()
    assert state.ended
    assert (state.items[9].phase, state.items[9].outcome) == (Phase.UNPLAYED, "unknown")


def test_a_player_whose_night_died_notes_that_its_run_was_cut_short(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / f"{NIGHTS[0]}-1")
    paths.root.mkdir(parents=True)
    night = Night(suite="made", night=NIGHTS[0], entry="calm#1")
    code = (
        "import sys; from pathlib import Path; from harness.suites import player;"
        " from results.record.night import Night; from results.record.paths import RunPaths;"
        " player._begin(RunPaths(Path(sys.argv[1])), Night.model_validate_json(sys.argv[2]))"
    )
    argv = [sys.executable, "-c", code, str(paths.root), night.model_dump_json()]
    reader, writer = os.pipe()
    os.close(reader)  # Whoever led the night is dead, and so is its end of the pipe.
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=gone, stderr=subprocess.PIPE, timeout=240,
            check=False,
        )  # fmt: skip
    assert b"the night's leading process has ended" in done.stderr, done.stderr
    assert [each.detail["kind"] for each in load_milestones(paths.milestones)] == ["cut-short"]


def test_a_night_whose_plan_was_cut_was_never_begun(tmp_path: Path, suite: Path) -> None:
    store = tmp_path / "store"
    folder = NightFolder(root=suite_folder(store, "made") / NIGHTS[0])
    Journal(folder.journal).write(Planned(item=1, entry="calm#1", seed=1))
    with opened(suite, store) as lead:
        assert not lead.resumed
        assert len(lead.conductor.state.planned) == 2
    assert not folder.root.exists()


def test_a_night_that_was_killed_before_its_first_line_leaves_no_folder(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "store"
    killed, last = (NightFolder(root=suite_folder(store, "made") / each) for each in NIGHTS[:2])
    killed.root.mkdir(parents=True)
    killed.suite.write_text("name =", encoding="utf-8")
    Journal(last.journal).write(Begun(suite="made", night=last.night, budget_s=0), Ended())
    with opened(suite, store):
        assert not killed.root.exists()
        assert last.root.exists()


def test_a_folder_that_a_user_made_beside_the_nights_stays(tmp_path: Path, suite: Path) -> None:
    """For example, the page of merged parts."""
    store = tmp_path / "store"
    merged = suite_folder(store, "made") / "merged"
    merged.mkdir(parents=True)
    (merged / "hunt.md").write_text("of all parts", encoding="utf-8")
    with opened(suite, store):
        assert (merged / "hunt.md").exists()


@pytest.mark.night
def test_what_cannot_be_judged_is_unknown_and_keeps_nobody_waiting(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0])
    report = RunPaths(store / f"log/{NIGHTS[0]}-2").report
    report.mkdir()  # Nobody can write a page there.
    assert resume(suite, store) == 1, "the judge goes on with the others"
    state = folder.state()
    assert [item.phase for item in state.items.values()].count(Phase.JUDGED) == 1
    assert state.items[2].phase is Phase.UNPLAYED
    assert state.items[2].outcome == "unknown"
    assert "report.html" in state.items[2].sentence


@pytest.mark.night
def test_what_is_broken_stays_so_though_its_page_cannot_be_written(
    tmp_path: Path, suite: Path
) -> None:
    store = tmp_path / "store"
    folder = played_night(store, NIGHTS[0], "valid")
    RunPaths(store / f"log/{NIGHTS[0]}-1").report.mkdir()
    resume(suite, store)
    state = folder.state()
    assert [item.outcome for item in state.items.values()] == ["invalid", "valid"]
    assert state.items[1].judged
    assert "report.html" in state.items[1].judged.reason
    assert exit_code(state) == INVALID


def logquake(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [LOGQUAKE, "suite", *words, "--store", "store"],
        capture_output=True, text=True, timeout=240, check=False, cwd=folder,
    )  # fmt: skip


@pytest.fixture(name="nowhere")
def suite_on_no_hosts(tmp_path: Path) -> Path:
    path = tmp_path / "nowhere.toml"
    path.write_text(NOWHERE, encoding="utf-8")
    return path


@pytest.mark.night
def test_entries_that_cannot_be_played_are_unknown_with_the_reason(
    tmp_path: Path, nowhere: Path
) -> None:
    done = logquake("run", str(nowhere), folder=tmp_path)
    assert done.returncode == UNKNOWN, done.stderr
    assert done.stdout.count("unknown log/kafka:4.3.1/ssh:/nowhere/hosts.toml/") >= 2
    assert "hosts.toml" in done.stdout
    shown = logquake("status", str(nowhere), folder=tmp_path)
    assert shown.returncode == UNKNOWN
    assert "2 unknown  over" in shown.stdout
    (folder,) = nights_of(tmp_path / "store", "nowhere")
    assert '<error message="' in folder.junit.read_text(encoding="utf-8")


@pytest.mark.night
def test_a_night_whose_terminal_is_gone_comes_to_its_end(tmp_path: Path, nowhere: Path) -> None:
    """`/dev/full` refuses what is written, as a terminal does that was hung up."""
    argv = [LOGQUAKE, "suite", "run", str(nowhere), "--store", "store"]
    with Path("/dev/full").open("wb") as gone:
        subprocess.run(
            argv, stdout=gone, stderr=subprocess.DEVNULL, timeout=240, check=False, cwd=tmp_path
        )
    (folder,) = nights_of(tmp_path / "store", "nowhere")
    assert folder.state().ended


def test_a_dry_run_starts_nothing(
    tmp_path: Path, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["suite", "run", str(nowhere), "--store", f"{tmp_path}/store", "--dry-run"]
    assert exit_code_of(line) == 0
    assert "2 entries, " in capsys.readouterr().out
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nowhere.toml", "--resume"), "has no unfinished night of nowhere"),
        (("status", "nowhere.toml"), "has no night of the suite nowhere"),
        (("run", "missing.toml"), "missing.toml cannot be read: No such file"),
    ],
)
def test_a_mistake_on_the_command_line_is_told(
    nowhere: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    action, file, *options = words
    line = ["suite", action, str(nowhere.parent / file), *options]
    assert exit_code_of([*line, "--store", str(nowhere.parent / "store")]) == BAD_ARGUMENTS
    assert said in capsys.readouterr().err


def run_pytest(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=240, check=False, cwd=folder,
        env=os.environ | {"PYTEST_ADDOPTS": ""},
    )  # fmt: skip


@pytest.fixture(name="elsewhere")
def folder_of_others(tmp_path: Path, nowhere: Path) -> Path:
    """Return a project whose packages are called as ours."""
    folder = tmp_path / "theirs"
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("WHOSE = 'theirs'\n", encoding="utf-8")
    (folder / "nightly.toml").write_text(nowhere.read_text(), encoding="utf-8")
    (folder / "test_theirs.py").write_text("def test_one():\n    assert True\n", encoding="utf-8")
    return folder


def test_pytest_plays_a_suite_and_unknown_is_never_passed(elsewhere: Path) -> None:
    done = run_pytest("--logquake", "nightly.toml", "-v", folder=elsewhere)
    assert done.returncode == 1, done.stdout + done.stderr
    entry = "nightly.toml::log/kafka:4.3.1/ssh:/nowhere/hosts.toml"
    for family in ("kill", "none"):
        assert f"{entry}/{family}#1 FAILED" in done.stdout
    assert "2 failed in" in done.stdout
    assert "unknown\n" in done.stdout
    assert "the hosts file /nowhere/hosts.toml cannot be read" in done.stdout
    assert "Traceback" not in done.stdout
    assert "results: runs/.suites/nowhere/" in done.stdout


@pytest.mark.everything
def test_a_night_in_which_nothing_was_played_does_not_pass(elsewhere: Path) -> None:
    suite = elsewhere / "nightly.toml"
    suite.write_text(f'budget = "1s"\n{NOWHERE}', encoding="utf-8")
    done = run_pytest("--logquake", "nightly.toml", folder=elsewhere)
    assert "2 skipped in" in done.stdout, done.stdout
    assert "the night as a whole is unknown" in done.stdout
    assert done.returncode == 1


@pytest.mark.everything
def test_pytest_plays_the_entries_that_were_selected(elsewhere: Path) -> None:
    words = ("--logquake", "nightly.toml", "-k", "kill or test_one", "test_theirs.py")
    done = run_pytest(*words, folder=elsewhere)
    assert "1 failed, 1 passed, 1 deselected" in done.stdout, done.stdout
    (folder,) = nights_of(elsewhere / "runs", "nowhere")
    assert len(folder.state().planned) == 1


@pytest.mark.night
def test_pytest_tells_a_suite_that_is_none(elsewhere: Path) -> None:
    (elsewhere / "nightly.toml").write_text("name = 'x'\nbudgt = 1\n", encoding="utf-8")
    done = run_pytest("--logquake", "nightly.toml", folder=elsewhere)
    assert done.returncode == 2
    assert "did you mean 'budget'?" in done.stdout
    missing = run_pytest("--logquake", "none.toml", folder=elsewhere)
    assert missing.returncode == 4
    assert "--logquake: there is no file" in missing.stderr


def test_projects_of_others_keep_packages_that_are_called_as_ours(elsewhere: Path) -> None:
    (elsewhere / "test_theirs.py").write_text(
        f"import sys\n\nimport {', '.join(PACKAGES)}\n\n\ndef test_one():\n"
        f"    ours = [each for each in sys.modules if each.split('.')[0] in {PACKAGES}]\n"
        f"    assert sorted(ours) == {sorted(PACKAGES)}, 'nothing of Logquake is imported'\n"
        "    assert {sys.modules[name].WHOSE for name in ours} == {'theirs'}, ours\n",
        encoding="utf-8",
    )
    done = run_pytest("test_theirs.py", folder=elsewhere)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.night
def test_pytest_plays_no_suite_with_packages_of_others_for_ours(elsewhere: Path) -> None:
    (elsewhere / "conftest.py").write_text("import harness\n", encoding="utf-8")
    done = run_pytest("--logquake", "nightly.toml", folder=elsewhere)
    assert done.returncode == 4
    assert "has already imported a package harness that is not Logquake's" in done.stderr
