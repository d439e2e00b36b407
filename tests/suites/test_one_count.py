"""Repeats are counted once: terminal, site, summary and JUnit XML say the same of one store."""

import html
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from harness.suites.bench import concluded
from harness.suites.causes import causes_of
from harness.suites.journal import (
    Begun,
    Ended,
    Journal,
    Judged,
    LeftOut,
    Line,
    Planned,
    Played,
    Started,
)
from harness.suites.nights import NightFolder, suite_folder
from harness.suites.reports import states_until, write_results
from harness.suites.retention import retire
from harness.suites.status import status_of
from harness.suites.suite import Keep, Suite
from results.index import open_index
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.report import write_report
from results.show import show_run
from results.site.application import make_site
from results.store import LATEST, Store
from tests.results.planted import anomaly, plant

MONDAY, TUESDAY = "20261123T010000Z", "20261124T010000Z"
LOST, UNSEEN, QUIET = ("lost-write",), ("unseen",), ("quiet",)
SAME, FRESH = Why.SAME_SEED, Why.FRESH_SEED
REPEATS: Sequence[tuple[Why, Sequence[str]]] = (
    (SAME, LOST), (SAME, ()), (SAME, QUIET),  # No verdict: it does not count.
    (FRESH, LOST), (FRESH, UNSEEN), (FRESH, ()), (FRESH, ()),
)  # fmt: skip
WORDS = "same seed: 1 of 2 (9 % to 91 %); new seeds: 1 of 4 (5 % to 70 %)"
BOTH = "same seed: 2 of 4 (15 % to 85 %); new seeds: 2 of 8 (7 % to 59 %)"
SHORT = "9 s of the budget were left, but the entry needs about 50 s"


def play(store: Path, night: str, *, at: float) -> tuple[NightFolder, RunPaths]:
    """Plant a night: one run failed, and its repeats were judged as `REPEATS` says."""
    folder = NightFolder(root=suite_folder(store, "made") / night)
    folder.root.mkdir(parents=True)
    first = planted(store, night, 0, Night(suite="made", night=night, entry="e"), found=LOST)
    runs = [(first, Why.PLANNED, "")]
    for number, (why, found) in enumerate(REPEATS, 1):
        told = Night(suite="made", night=night, entry="e", why=why, repeats=first.run_id)
        runs.append((planted(store, night, number, told, found=found), why, first.run_id))
    lines: list[Line] = [Begun(suite="made", night=night, budget_s=600, at=at)]
    for number, (paths, why, of) in enumerate(runs, 1):
        lines += judged(number, paths, why, of, at=at + number)
    lines += [
        Planned(item=90, entry="e", seed=1, why=FRESH, repeats=first.run_id, at=at),
        LeftOut(item=90, sentence=SHORT, at=at + 99),
        Ended(at=at + 99),
    ]
    Journal(folder.journal).write(*lines)
    return folder, first


def planted(store: Path, night: str, number: int, told: Night, *, found: Sequence[str]) -> RunPaths:
    same = told.why is not FRESH
    return plant(
        store,
        f"{night[:9]}01{number:02}00Z",
        plan={"seed": 7 if same else number, "acks": "1"},
        anomalies={each: anomaly() for each in found if each != "quiet"},
        because=["no broker answered"] if "quiet" in found else (),
        night=told,
    )


def judged(item: int, paths: RunPaths, why: Why, of: str, *, at: float) -> Iterator[Line]:
    """Yield what the journal says of a run, by what the judge of nights says."""
    run_id = paths.run_id
    yield Planned(item=item, entry="e", seed=item, why=why, repeats=of, lasts_s=10, at=at)
    yield Started(item=item, run_id=run_id, at=at)
    yield Played(item=item, run_id=run_id, main_s=1, at=at)
    words = {"item": item, "run_id": run_id, "at": at, **concluded(paths)}
    yield Judged.model_validate(words)


@pytest.fixture(name="store")
def an_empty_store(tmp_path: Path) -> Path:
    store = tmp_path / "runs"
    store.mkdir()
    (store / LATEST).symlink_to("log")
    return store


def read(text: str) -> str:
    """Return what a reader reads, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def printed(what: object) -> str:
    console = Console(width=400, file=io.StringIO())
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def everywhere(store: Path, folder: NightFolder, first: RunPaths) -> dict[str, str]:
    """Return what each place says of the failure on the last night."""
    write_results(store, "made", folder)
    write_report(first)
    shown = Console(width=400, file=io.StringIO())
    show_run(first, shown)
    assert isinstance(shown.file, io.StringIO)
    junit = ET.parse(folder.junit).find(".//testcase[@name='e']/failure")  # noqa: S314 - our own
    assert junit is not None
    client = make_site(Store(store)).test_client()

    def site(url: str) -> str:
        answer = client.get(url)
        assert answer.status_code == 200, url
        return read(answer.get_data(as_text=True))

    with open_index(Store(store)) as index:
        index.refresh()
        row = index.run(first.run_id)
    assert row is not None
    return {
        "summary": folder.summary.read_text(encoding="utf-8"),
        "junit": str(junit.text),
        "status": printed(status_of(store, folder, now_s=2_000)),
        "show": " ".join(shown.file.getvalue().split()),
        "page": read(first.report.read_text(encoding="utf-8")),
        "front": site("/"),
        "night": site(f"/night/made/{folder.night}"),
        "failures": site("/failures"),
        "failure": site(f"/failure/{row.signature}"),
        "run": site(f"/run/{first.root.parent.name}/{first.root.name}/"),
    }


def assert_all_say(said: dict[str, str], words: str) -> None:
    same, fresh = (each.partition(": ")[2] for each in words.split("; "))
    tables = {
        "status": f"{same} {fresh}",
        "failures": f"{same} {fresh}",
        "failure": f"repeats, same seed {same} repeats, new seeds {fresh}",
        "run": f"repeats, same seed {same} repeats, new seeds {fresh}",
    }
    for place, text in said.items():
        assert tables.get(place, words) in text, place


def test_every_place_says_the_same_of_a_night_and_of_two(store: Path) -> None:
    monday, first = play(store, MONDAY, at=1_000)
    assert_all_say(everywhere(store, monday, first), WORDS)
    tuesday, first = play(store, TUESDAY, at=90_000)
    said = everywhere(store, tuesday, first)
    assert_all_say(said, BOTH)
    for place in ("summary", "junit", "status"):
        assert "1 of 3 reruns with the same seed got no verdict" in said[place]
        assert f"1 of 5 reruns with new seeds did not run: {SHORT}" in said[place]
    settings = "acks=1"
    assert settings in said["failure"]
    assert settings in said["show"]
    # Six of sixteen runs have it. The first does not count, and two came to no verdict.
    assert "5 of 13 (18 % to 64 %)" in said["failure"]
    assert "5 of 13 (18 % to 64 %) had this failure" in said["show"]


def test_a_night_says_what_was_known_then(store: Path) -> None:
    play(store, MONDAY, at=1_000)
    play(store, TUESDAY, at=90_000)
    client = make_site(Store(store)).test_client()
    page = read(client.get(f"/night/made/{MONDAY}").get_data(as_text=True))
    assert f"repeats: {WORDS}" in page
    assert "1 invalid and 7 repeats" in page, "entries are counted, as the terminal does"


def test_retention_leaves_no_failure_without_its_other_repeats(store: Path) -> None:
    monday, first = play(store, MONDAY, at=1_000)
    tuesday, _ = play(store, TUESDAY, at=90_000)
    last, _ = play(store, "20261125T010000Z", at=180_000)
    gone = retire(store, Suite(name="made", keep=Keep(days=1)), now_s=1e12)
    (cause, *_) = causes_of(states_until(store, "made", last))
    assert {run_id.split("/")[1][:8] for run_id in gone} == {tuesday.night[:8]}
    assert (store / first.run_id).is_dir()
    assert monday.night < tuesday.night
    with open_index(Store(store)) as index:
        index.refresh()
        assert index.repeats(cause.key).words == BOTH
