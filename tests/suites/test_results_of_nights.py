"""What a night leaves: JUnit XML, a summary, a message, and which runs stay."""

import http.server
import io
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.exit_codes import BY_VALIDITY, INVALID, UNKNOWN, VALID
from harness.suites.causes import causes_of
from harness.suites.conductor import Conductor
from harness.suites.journal import (
    CutShort,
    Dropped,
    Journal,
    LeftOut,
    Line,
    Planned,
    Played,
    Unplayed,
    load_journal,
)
from harness.suites.junit import junit_xml
from harness.suites.night import NightState, folded
from harness.suites.nights import SuiteLock, is_led, nights_of
from harness.suites.playing import START_LIMIT_S, Order, Play
from harness.suites.reports import exit_code, states_until, write_results
from harness.suites.retention import GIB, StoredRun, retire, spared_runs, to_drop
from harness.suites.slots import GIB as GIB_OF_MEMORY
from harness.suites.slots import Part, Slots, auto_slots, place_of
from harness.suites.slots import slots as slots_here
from harness.suites.source import Entries
from harness.suites.status import status_of
from harness.suites.suite import Keep, Repeat, Suite
from harness.suites.summary import beyond_main, summary_markdown
from harness.suites.webhook import VARIABLE, message, post
from results.export.contents import MANIFEST
from results.nights import write_night
from results.record.atomic import StoreError
from results.record.milestones import Milestone, append_milestone
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import plan_from
from results.record.terms import Validity
from results.store import Store, lock_run
from tests.suites.made_nights import LOST, Run, failed, lines, run_of, stored_night

MONDAY, TUESDAY, WEDNESDAY = "20261123T010000Z", "20261124T010000Z", "20261125T010000Z"
HOSTILE = 'a<script>alert("x")</script>&\x1b[31m\x00\x07]]>\u202e`|*_\ud83d'


def night(*runs: Run) -> NightState:
    return folded(lines(MONDAY, runs))


def left_out() -> NightState:
    planned: list[Line] = [
        Planned(item=9, entry="late", seed=1, at=1_000),
        Planned(item=10, entry="no docker", seed=1, at=1_000),
    ]
    over: list[Line] = [
        LeftOut(item=9, at=1_001),
        Unplayed(item=10, sentence="no daemon", at=1_001),
    ]
    return folded([*planned, *over], night(Run(entry="a"), failed("b"), failed(HOSTILE)))


def test_junit_is_valid_for_ci_systems() -> None:
    schema = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))
    repeat = failed("b", why=Why.SAME_SEED, repeats=run_of(MONDAY, 1))
    for state in (night(), night(Run(entry="a")), left_out(), night(failed("b"), repeat)):
        text = junit_xml(state, causes_of([state])).decode()
        schema.validate(text)
        for broken in (
            text.replace('tests="', 'test="'),
            text.replace("testcase", "case"),
            text.replace('timestamp="1970', 'timestamp="on 1970'),
            text.replace("<testsuite ", "<testsuite bogus='1' "),
        ):
            assert broken == text or not schema.is_valid(broken), "the schema is strict"


def test_junit_tells_failures_errors_and_what_was_left_out() -> None:
    state = left_out()
    root = ET.fromstring(junit_xml(state, causes_of([state])))  # noqa: S314 - our own
    suite = root.find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "2", "errors": "1", "skipped": "1",
    }  # fmt: skip
    found = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert found["a"] == ["system-out"]
    assert found["late"] == ["skipped"]
    assert found["no docker"] == ["error"]
    assert found["b"] == ["failure", "system-out"]
    failure = suite.find("testcase[@name='b']/failure")
    assert failure is not None
    assert failure.get("type") == LOST
    assert "log-0-1: offset 17 is gone\nnew tonight" in (failure.text or "")


@given(st.text(max_size=80))
def test_any_text_makes_xml_that_can_be_read(text: str) -> None:
    state = night(failed(text), Run(entry=f"{text}2"))
    assert len(ET.fromstring(junit_xml(state, causes_of([state])))) == 1  # noqa: S314 - our own


def test_a_summary_tells_what_is_new_first_and_nothing_in_it_is_markup() -> None:
    state = left_out()
    text = summary_markdown(state, causes_of([state]))
    assert text.startswith(f"# made, night {MONDAY}\n\n**1 valid, 2 invalid, 1 unknown, 1 left out")
    assert text.index("## New tonight") < text.index("## Without a") < text.index("## Entries")
    assert "## Seen before" not in text
    assert "<script" not in text
    assert "\x1b" not in text
    assert "no daemon" in text


def test_three_nights_of_one_cause_are_one_line() -> None:
    nights = [folded(lines(name, [Run(entry="a"), failed("b")], at=n * 90_000))
              for n, name in enumerate((MONDAY, TUESDAY, WEDNESDAY))]  # fmt: skip
    (first,), (second,), (third,) = (causes_of(nights[:n]) for n in (1, 2, 3))
    assert [each.new for each in (first, second, third)] == [True, False, False]
    assert third.nights == (MONDAY, TUESDAY, WEDNESDAY)
    assert len(third.runs) == 3
    text = summary_markdown(nights[2], [third])
    assert "## New tonight\n\nNothing." in text
    assert f"3 runs in 3 nights, first {MONDAY}, last {WEDNESDAY}" in text
    later = folded(lines("20261126T010000Z", [Run(entry="a")], at=4 * 90_000))
    (gone,) = causes_of([*nights, later])
    assert not gone.new
    assert not gone.tonight
    assert "## Not seen tonight" in summary_markdown(later, [gone])


def test_a_new_cause_is_told_before_a_known_one() -> None:
    other = Run(entry="z", valid=Validity.INVALID, signature="ffffffffffff")
    nights = [folded(lines(MONDAY, [failed("b")])), folded(lines(TUESDAY, [failed("b"), other]))]
    assert [(each.key, each.new) for each in causes_of(nights)] == [
        ("ffffffffffff", True), (LOST, False),
    ]  # fmt: skip


def test_a_summary_lists_reruns_without_the_failure_too() -> None:
    first = run_of(MONDAY, 1)
    state = night(
        failed("log"), failed("log", why=Why.SAME_SEED, repeats=first),
        Run(entry="log", why=Why.SAME_SEED, repeats=first), Run(entry="other"),
    )  # fmt: skip
    section, _, _ = summary_markdown(state, causes_of([state])).partition("## Entries")
    assert [section.count(f"`{run_of(MONDAY, item)}`") for item in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert f"run `{run_of(MONDAY, 3)}`: valid" in section


def test_a_flaky_failure_has_a_rate_with_an_interval() -> None:
    first = run_of(MONDAY, 1)
    again = [failed("b", why=Why.FRESH_SEED, repeats=first),
             *[Run(entry="b", why=Why.FRESH_SEED, repeats=first)] * 3]  # fmt: skip
    (cause,) = causes_of([night(failed("b"), *again)])
    assert cause.repeats.fresh_seeds.words == "1 of 4 (5 % to 70 %)"
    assert cause.repeats.same_seed.words == "not repeated"


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([Run(entry="a")], VALID),
        ([Run(entry="a"), Run(entry="b", valid=Validity.UNKNOWN)], UNKNOWN),
        ([Run(entry="a", valid=Validity.UNKNOWN), failed("b")], INVALID),
        ([], UNKNOWN),
    ],
)
def test_the_exit_code_is_the_worst_verdicts(runs: list[Run], code: int) -> None:
    assert exit_code(night(*runs)) == code


def test_a_night_that_is_not_over_is_unknown_at_best() -> None:
    state = folded([*lines(MONDAY, [Run(entry="a")]), Planned(item=5, entry="b", seed=1)])
    assert exit_code(state) == UNKNOWN == BY_VALIDITY[Validity.UNKNOWN]


def test_time_beyond_main_phases() -> None:
    state = night(Run(entry="a"), Run(entry="b"))
    assert beyond_main(state) == pytest.approx(1 - 16 / 60), "of a journal without their starts"
    assert beyond_main(NightState()) is None
    begun, *rest = lines(MONDAY, [Run(entry=name) for name in "abc"])
    at = {1: (1_010, 20), 2: (1_020, 20), 3: (1_025, 5)}  # From 10 s to 40 s of 80 s.
    told = [
        line.model_copy(update={"main_at": at[line.item][0], "main_s": at[line.item][1]})
        if isinstance(line, Played)
        else line
        for line in rest
    ]
    side_by_side = folded([begun, *told])
    assert beyond_main(side_by_side) == pytest.approx(1 - 30 / 80)
    assert "45 s in all, 0.56 at once on average" in summary_markdown(side_by_side, [])


def test_status_shows_a_night_and_obeys_nobody(tmp_path: Path) -> None:
    folder = stored_night(tmp_path, MONDAY, [Run(entry="a"), failed("[bold]b[/nothing]\x1b[31m")])
    console = Console(width=160, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115 - /dev/null
    console.print(status_of(tmp_path, folder, now_s=2_000))
    shown = console.export_text()
    console.print(status_of(tmp_path, folder, now_s=90_000))
    later = console.export_text()
    console.file.close()
    assert "made, night 20261123T010000Z: 1 valid  1 invalid  over" in shown
    assert "new tonight" in shown
    assert "new in that night" in later
    assert "tonight" not in later
    assert "[bold]b[/nothing]\\x1b[31m" in shown


def test_what_is_allowed_is_not_called_or_coloured_as_what_is_valid(tmp_path: Path) -> None:
    runs = [Run(entry="a"), Run(entry="b", allowed=True)]
    state = night(*runs)
    assert [each.tone for each in state.items.values()] == ["valid", "allowed"]
    assert state.worst is Validity.VALID, "what is allowed fails no night"
    told = Run(entry="c", valid=Validity.INVALID, allowed=False, as_expected=True)
    assert night(told).items[1].tone == "valid"
    otherwise = Run(entry="d", allowed=True, as_expected=False)
    assert night(otherwise).items[1].tone == "unknown"

    folder = stored_night(tmp_path, MONDAY, runs)
    console = Console(width=160, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(status_of(tmp_path, folder, now_s=2_000))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    valid, allowed = "\x1b[1;32m", "\x1b[1;36m"
    assert f"{valid}1 valid  " in shown
    assert f"{allowed}1 allowed  " in shown
    assert f"{allowed}allowed" in shown.partition("last verdicts")[2]

    text = summary_markdown(state, [])
    assert "**1 valid, 1 allowed**" in text
    assert "| b | allowed |" in text
    words = message(state, [])
    assert words["text"] == f"made, night {MONDAY}: 1 valid, 1 allowed"
    (case,) = ET.fromstring(junit_xml(state, [])).iterfind(".//testcase[@name='b']")  # noqa: S314 - our own
    assert [each.tag for each in case] == ["system-out"], "it passes, and says what it is"
    assert "that were found are allowed" in (case[0].text or "")


def test_only_one_process_leads_a_suite(tmp_path: Path) -> None:
    lock = SuiteLock(tmp_path, "made")
    assert is_led(tmp_path, "made")
    with pytest.raises(StoreError, match=rf"already running .*process {os.getpid()}"):
        SuiteLock(tmp_path, "made")
    with pytest.MonkeyPatch.context() as patch:
        # Somebody only asked, just now, whether the suite is led.
        patch.setattr("harness.suites.nights.LOCK_WAIT_S", 60.0)
        threading.Timer(0.3, lock.release).start()
        SuiteLock(tmp_path, "made").release()
    assert not is_led(tmp_path, "made")
    SuiteLock(tmp_path, "made").release()


@pytest.mark.parametrize(
    ("cores", "gib", "nodes", "slots"),
    [(2, 24, 3, (2, 2)), (1, 24, 3, (1, 1)), (64, 24, 3, (7, 0)), (5, 24, 3, (5, 2)),
     (8, 2, 3, (1, 0)), (64, 24, 9, (2, 0))],
)  # fmt: skip
def test_runs_at_once_are_bound_by_cores_and_memory(
    cores: int, gib: int, nodes: int, slots: tuple[int, int]
) -> None:
    memory = gib * GIB_OF_MEMORY
    found = auto_slots(cores=cores, memory_bytes=memory, nodes=nodes)
    assert (found.runs, found.ending) == slots


INTERRUPTED_TWICE = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from harness.suites.conductor import Conductor
from harness.suites.slots import Slots
from harness.suites.source import Entries
from harness.suites.suite import Repeat, Suite
from tests.suites.made_nights import stored_night

store = Path(sys.argv[1])
folder = stored_night(store, sys.argv[2], [])

def interrupted(step):
    steps, ended = 0, []
    conductor = Conductor(
        suite=Suite(name="made"), source=Entries({}, Repeat(), store), store=store, folder=folder,
        slots=Slots(runs=1), deadline=0,
    )
    conductor._plays[0] = SimpleNamespace(interrupt=lambda: ended.append(step))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: conductor.finish())

    def each_step(frame, what, _):
        nonlocal steps
        steps += what == "line"
        if steps == step and what == "line":
            signal.raise_signal(signal.SIGTERM)
        return each_step

    sys.settrace(each_step)
    signal.raise_signal(signal.SIGINT)
    sys.settrace(None)
    assert len(ended) == (steps >= step), f"step {step} of {steps}: {ended}"
    return steps

step = 1
while step <= interrupted(step):
    step += 1
print(step)
"""
"""A second signal comes at each line that the answer to the first is made of: runs end, once."""


def test_a_night_may_be_interrupted_while_it_is(tmp_path: Path) -> None:
    words = [sys.executable, "-c", INTERRUPTED_TWICE, str(tmp_path), MONDAY]
    told = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert int(told.stdout) > 2, "no step was interrupted"


def test_the_next_run_begins_while_another_one_ends_unless_the_suite_gives_a_number(
    tmp_path: Path,
) -> None:
    folder = stored_night(tmp_path, MONDAY, [])
    conductor = Conductor(
        suite=Suite(name="made"), source=Entries({}, Repeat(), tmp_path), store=tmp_path,
        folder=folder, slots=Slots(runs=2, ending=1), deadline=0,
    )  # fmt: skip
    runs = [RunPaths(tmp_path / run_of(MONDAY, number)) for number in range(3)]
    plays = {number: under_way(number, paths, tmp_path) for number, paths in enumerate(runs)}
    conductor._plays |= {0: plays[0]}
    assert not conductor._has_room(), "they do not start at the same time"
    reaches(runs[0], "main")
    assert conductor._has_room()
    conductor._plays |= {1: plays[1]}
    reaches(runs[1], "main")
    reaches(runs[0], "recovered")
    assert not conductor._has_room(), "its clients are still at work"
    reaches(runs[0], "final-reads")
    assert conductor._has_room()
    conductor._plays |= {2: plays[2]}
    reaches(runs[2], "main")
    assert not conductor._has_room()
    reaches(runs[1], "final-reads")
    assert not conductor._has_room(), "only one more is let in"
    conductor.slots = slots_here(3, [])
    assert not conductor._has_room(), "a number is never exceeded"


def test_a_start_that_hangs_keeps_others_waiting_no_longer_than_a_minute(tmp_path: Path) -> None:
    play = under_way(1, RunPaths(tmp_path / run_of(MONDAY, 1)), tmp_path)
    play._run_id = ""  # Kafka is being fetched, perhaps: it has no folder yet.
    assert play.part() is Part.STARTING
    play.begun_s -= START_LIMIT_S
    assert play.part() is Part.AT_WORK
    assert Slots(runs=2).free([play.part()])
    assert not Slots(runs=4).free([Part.STARTING, Part.STARTING])
    assert Slots(runs=4).free([Part.STARTING])


def reaches(paths: RunPaths, milestone: str) -> None:
    append_milestone(paths.milestones, Milestone(name=milestone, at_ns=1))


def under_way(number: int, paths: RunPaths, store: Path) -> Play:
    make_run(store, paths.run_id, "made", at=1.0)
    night = Night(suite="made", night=MONDAY, entry="a")
    order = Order(item=number, plan=plan_from({}), night=night, limit_s=600)
    play = Play(order, store, store / "log", queue.SimpleQueue())
    play._run_id = paths.run_id
    return play


def test_only_cores_that_may_be_used_count() -> None:
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        assert slots_here("auto", [plan_from({})]).runs == 1
    finally:
        os.sched_setaffinity(0, mine)


def test_only_runs_on_the_same_ssh_hosts_exclude_each_other() -> None:
    places = {hosts: place_of(plan_from({"hosts": hosts}))
              for hosts in ("namespace", "docker", "process", "ssh:lab.toml")}  # fmt: skip
    assert places == {"namespace": "", "docker": "", "process": "", "ssh:lab.toml": "ssh:lab.toml"}


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; answers as its path says."""

    said: list[bytes]
    told = threading.Event()

    def do_POST(self) -> None:
        self.said.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(int(self.path.rsplit("/", 1)[1]))
        if self.path.startswith("/away"):
            self.send_header("Location", "/secret/200")
        self.end_headers()
        while self.path.startswith("/endless") and not self.told.wait(0.05):
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
        """Say nothing."""


@pytest.fixture(name="hook")
def serving() -> Iterator[tuple[str, list[bytes]]]:
    Hook.said = []
    Hook.told.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Hook.said
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_webhook_is_told_what_is_new(
    hook: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, said = hook
    monkeypatch.setenv(VARIABLE, f"{address}/secret/200")
    state = left_out()
    assert post(state, causes_of([state])) == "the webhook was called"
    (text,) = said
    words = json.loads(text)
    assert words["worst"] == "invalid"
    assert words["counts"]["unknown"] == 1
    assert [each["signature"] for each in words["new"]] == [LOST]
    assert words["known"] == []


@pytest.mark.parametrize("path", ["secret/500", "secret/403", "away/307"])
def test_a_webhook_that_refuses_is_told_without_its_address(
    hook: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv(VARIABLE, f"{hook[0]}/{path}")
    said = post(night(Run(entry="a")), [])
    assert said == f"the webhook refused the message: status {path[-3:]}"
    assert len(hook[1]) == 1, "redirects are not followed"


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/secret", "secret", "http://[secret"])
def test_a_webhook_that_cannot_be_reached_keeps_its_secret(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv(VARIABLE, address)
    said = post(night(Run(entry="a")), [])
    assert said.startswith("the webhook could not be called: ")
    assert "secret" not in said


def test_a_webhook_whose_answer_never_ends_is_left(
    hook: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{hook[0]}/endless/200")
    try:
        assert post(night(Run(entry="a")), []) == "the webhook was called"
    finally:
        Hook.told.set()


def test_without_an_address_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert post(night(Run(entry="a")), []) == ""


stored_runs = st.lists(
    st.builds(
        StoredRun,
        run_id=st.integers(0, 10_000).map(str),
        at=st.floats(0, 1e7),
        size_bytes=st.integers(0, 4 * GIB),
    ),
    max_size=12,
    unique_by=lambda run: run.run_id,
)


@given(stored_runs, st.floats(0.01, 200), st.floats(0.1, 30), st.data())
def test_retention_keeps_to_its_bounds_and_spares_whom_it_must(
    runs: list[StoredRun], days: float, gib: float, data: st.DataObject
) -> None:
    spared = data.draw(st.sets(st.sampled_from([run.run_id for run in runs]))) if runs else set()
    gone = to_drop(runs, Keep(days=days, gib=gib), spared=spared, now_s=1e7)
    assert not spared.intersection(gone)
    stay = [run for run in runs if run.run_id not in gone]
    free = [run for run in stay if run.run_id not in spared]
    assert all(1e7 - run.at <= days * 86_400 for run in free)
    assert not free or sum(run.size_bytes for run in stay) <= gib * GIB
    assert to_drop(runs, Keep(), spared=set(), now_s=1e7) == []


def make_run(store: Path, run_id: str, suite: str, *, at: float) -> None:
    paths = RunPaths(store / run_id)
    paths.root.mkdir(parents=True)
    paths.plan.write_text("", encoding="utf-8")
    write_night(paths.night, Night(suite=suite, night=MONDAY, entry="b"))
    os.utime(paths.night, (at, at))


def test_the_first_and_last_run_of_a_signature_stay(tmp_path: Path) -> None:
    nights = (MONDAY, TUESDAY, WEDNESDAY, "20261126T010000Z")
    for name in nights[:3]:
        stored_night(tmp_path, name, [failed("b"), Run(entry="a"), failed("c")])
    stored_night(tmp_path, nights[3], [Run(entry="a")])
    for name in nights[:3]:
        for item in (1, 2, 3):
            make_run(tmp_path, run_of(name, item), "made", at=1.0)
    make_run(tmp_path, run_of(nights[3], 1), "made", at=1.0)
    make_run(tmp_path, f"log/{MONDAY}-77", "another", at=1.0)
    ordinary = RunPaths(tmp_path / "log" / f"{MONDAY}-88")
    ordinary.root.mkdir()
    suite = Suite(name="made", keep=Keep(days=1))
    gone = retire(tmp_path, suite, now_s=1e9)
    there = {f"log/{path.name}" for path in (tmp_path / "log").iterdir()}
    stayed = {run_of(MONDAY, 1), run_of(WEDNESDAY, 3), run_of(nights[3], 1)}
    assert there == stayed | {f"log/{MONDAY}-77", f"log/{MONDAY}-88"}
    assert len(gone) == 7
    assert retire(tmp_path, suite, now_s=1e9) == []
    assert spared_runs(tmp_path, "made") == stayed


@pytest.mark.needs("root")
def test_runs_of_other_users_are_never_dropped(tmp_path: Path) -> None:
    stored_night(tmp_path, MONDAY, [Run(entry="a"), Run(entry="b")])
    stored_night(tmp_path, TUESDAY, [Run(entry="a")])
    for item in (1, 2):
        make_run(tmp_path, run_of(MONDAY, item), "made", at=1.0)
    theirs, retired = tmp_path / run_of(MONDAY, 1), tmp_path / "other" / ".retired"
    (retired / "dear").mkdir(parents=True)
    for path in (theirs, retired):
        os.chown(path, 65534, 65534)
    assert retire(tmp_path, Suite(name="made", keep=Keep(days=1)), now_s=1e9) == [run_of(MONDAY, 2)]
    assert (theirs / "plan.toml").exists()
    assert (retired / "dear").exists()


def test_a_run_that_is_dropped_goes_at_once_and_what_a_kill_left_of_one_goes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_night(tmp_path, MONDAY, [Run(entry="a"), Run(entry="b"), Run(entry="c")])
    stored_night(tmp_path, TUESDAY, [Run(entry="a")])
    for item in (1, 2, 3):
        make_run(tmp_path, run_of(MONDAY, item), "made", at=1.0)
    runs = Store(tmp_path)
    seen: list[int] = []

    def killed(*_folder: Path, **_how: object) -> None:
        seen.append(len(runs.runs()))
        raise KeyboardInterrupt

    suite = Suite(name="made", keep=Keep(days=1))
    with monkeypatch.context() as patch, lock_run(RunPaths(tmp_path / run_of(MONDAY, 3))):
        # Alive, as it seems, only after it was looked at.
        patch.setattr("harness.suites.retention.is_alive", lambda _paths: False)
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            retire(tmp_path, suite, now_s=1e9)
    assert seen == [1], "the others are no runs any more, before a file of them is touched"
    assert [each.run_id for each in runs.runs()] == [run_of(MONDAY, 3)], "somebody held it"
    assert retire(tmp_path, suite, now_s=1e9) == [run_of(MONDAY, 3)]
    assert list((tmp_path / "log").iterdir()) == []


def test_retention_drops_nothing_outside_the_store_and_nothing_that_the_night_did_not_play(
    tmp_path: Path,
) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    stored_night(store, MONDAY, [failed("b"), Run(entry="a"), Run(entry="c")])
    stored_night(store, TUESDAY, [Run(entry="a")])
    for item in (1, 2, 3):
        make_run(store, run_of(MONDAY, item), "made", at=1.0)
    imported = RunPaths(store / run_of(MONDAY, 3))
    (imported.root / MANIFEST).write_text("{}", encoding="utf-8")
    make_run(store, f"log/{MONDAY}-66", "made", at=1.0)
    make_run(other, f"log/{MONDAY}-2", "made", at=1.0)
    (store / "alias").symlink_to("log")
    (store / "backup").symlink_to(other / "log")
    (store / "log" / f"{TUESDAY}-1").symlink_to(other / "log" / f"{MONDAY}-2")
    assert retire(store, Suite(name="made", keep=Keep(days=1)), now_s=1e9) == [run_of(MONDAY, 2)]
    stayed = {f"{MONDAY}-1", f"{MONDAY}-3", f"{MONDAY}-66", f"{TUESDAY}-1"}
    assert {path.name for path in (store / "log").iterdir()} == stayed
    assert RunPaths(other / "log" / f"{MONDAY}-2").night.exists()


def test_earlier_nights_are_read_once_unless_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (MONDAY, TUESDAY):
        stored_night(tmp_path, name, [failed("b")])
    read: list[str] = []

    def load(path: Path) -> list[Line]:
        read.append(path.parent.name)
        return load_journal(path)

    monkeypatch.setattr("harness.suites.nights.load_journal", load)
    tuesday = nights_of(tmp_path, "made")[-1]
    first, again = (states_until(tmp_path, "made", tuesday) for _ in range(2))
    assert first == again
    assert read == [MONDAY, TUESDAY, TUESDAY]
    Journal(nights_of(tmp_path, "made")[0].journal).write(Dropped(run_ids=("log/x",)))
    assert states_until(tmp_path, "made", tuesday)[0].dropped == ("log/x",)


def test_what_a_dead_run_left_behind_is_told_everywhere() -> None:
    cut = CutShort(item=1, run_id="log/dead", left=("docker does not answer <b>",), at=1_001)
    begun, planned, *rest = lines(MONDAY, [Run(entry="a")])
    state = folded([begun, planned, cut, *rest])
    assert state.items[1].left == ("log/dead: docker does not answer <b>",)
    told = "not undone: log/dead: docker does not answer &lt;b&gt;; see: logquake heal"
    assert told in summary_markdown(state, [])
    assert told.encode() in junit_xml(state, [])


def test_results_are_written_beside_the_journal(tmp_path: Path) -> None:
    stored_night(tmp_path, MONDAY, [failed("b")])
    stored_night(tmp_path, TUESDAY, [failed("b")])
    monday, tuesday = nights_of(tmp_path, "made")
    write_results(tmp_path, "made", monday)
    write_results(tmp_path, "made", tuesday)
    assert "new tonight" in monday.junit.read_text()
    assert "new tonight" not in tuesday.junit.read_text()
    assert f"first seen in the night {MONDAY}" in tuesday.junit.read_text()
