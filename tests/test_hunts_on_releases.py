"""The series of hunts on releases with known bugs: its steps, how it resumes, its tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import hunts
from benchmarks.hunt_series import LINE, STEPS, Line, Step
from benchmarks.hunt_tables import table
from benchmarks.hunts import catch_up, is_due, main, play, search_again
from benchmarks.mechanisms import MECHANISMS, RULES
from benchmarks.night_results import append, load_lines
from harness.suites.journal import Ended, Journal
from harness.suites.nights import suite_folder
from results.record.night import Why
from results.record.plan import plan_from
from results.record.terms import Validity
from tests.suites.made_hunts import Run, lines, run_of
from tests.test_mechanisms import STRAY, broken_by

STEP = next(each for each in STEPS if each.system == "kafka:3.6.1")
TICKET = STEP.ticket
NIGHT = "20261128T010000Z"
BROKEN = Run(valid=Validity.INVALID, broken=("isr-not-restored",))


def again(why: Why, *, broken: bool) -> Run:
    return replace(BROKEN if broken else Run(), why=why, repeats=run_of(1), seed=2)


def control() -> Run:
    return replace(again(Why.CONTROL, broken=False), plan={"system": "kafka:3.7.1"})


def told(
    folder: Path,
    runs: list[Run],
    shown: Mapping[str, tuple[str, ...]] | None = None,
    seen: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    **more: object,
) -> str:
    Journal(folder / "part.jsonl").write(*lines(runs, NIGHT))
    seen = seen or {
        ticket: dict.fromkeys(runs, MECHANISMS[ticket].breaks[:1])
        for ticket, runs in (shown or {}).items()
    }
    values = {"name": STEP.name, "journal": "part.jsonl", "commit": "c", "took_s": 1,
              "load": (1, 1), "shown": seen, "rules": RULES, **more}  # fmt: skip
    return table([Line.model_validate(values)], folder)


@pytest.mark.parametrize(
    "step", [each for each in STEPS if each.control], ids=lambda step: str(step.name)
)
def test_a_control_keeps_its_metadata_in_the_same_way(step: Step) -> None:
    one, other = (plan_from({"system": each}).mode for each in (step.system, step.control))
    assert one is other


def test_a_find_has_its_ticket_only_if_a_run_shows_the_mechanism(tmp_path: Path) -> None:
    runs = [BROKEN, again(Why.SAME_SEED, broken=True), again(Why.FRESH_SEED, broken=False),
            control()]  # fmt: skip
    text = told(tmp_path, runs, shown={TICKET: (run_of(1), run_of(2))})
    assert f"| [{TICKET}](" in text
    assert (
        "| kafka:3.6.1 | 1 of 2 | kafka:3.7.1: 0 of 1 | `isr-not-restored` | present |"
        f" `{STEP.command}` |" in text
    )
    assert "| none known | kafka:3.6.1 | 1 of 2 |" in told(tmp_path / "other", runs)


def test_a_failure_without_the_mechanism_is_not_counted_as_the_ticket(tmp_path: Path) -> None:
    runs = [BROKEN, again(Why.SAME_SEED, broken=True), again(Why.FRESH_SEED, broken=False)]
    text = told(tmp_path, runs, shown={TICKET: (run_of(1),)})
    assert "| kafka:3.6.1 | 0 of 2 (1 failed without it) |" in text


def test_another_ticket_than_the_expected_one_counts_and_that_one_was_in_vain(
    tmp_path: Path,
) -> None:
    text = told(tmp_path, [replace(BROKEN, broken=("slow-election",))],
                shown={"KAFKA-15468": (run_of(1),)})  # fmt: skip
    found, _, vain = text.partition("did not find")
    assert "| [KAFKA-15468](" in found
    assert f"| [{TICKET}](" not in found
    assert f"| [{TICKET}](" in vain


def test_what_was_not_found_is_told_with_how_long_it_was_tried(tmp_path: Path) -> None:
    _, _, vain = told(tmp_path, [Run(), Run()]).partition("did not find")
    assert f"| {STEP.system} | 2 min | 2 | `{STEP.command}` |" in vain


def test_every_expected_ticket_has_a_mechanism() -> None:
    assert {each.ticket for each in STEPS if each.ticket} <= set(MECHANISMS)


def test_a_hunt_without_a_known_bug_names_each_of_its_systems() -> None:
    (step,) = (each for each in STEPS if not each.ticket)
    assert step.options.count("--system") == len(step.system.split()) > 1
    assert "--control" not in step.options


def test_a_ticket_counts_only_on_releases_with_the_bug(tmp_path: Path) -> None:
    text = told(tmp_path, [BROKEN], shown={"KAFKA-6879": (run_of(1),)})
    assert "| none known (looks like [KAFKA-6879](" in text
    assert MECHANISMS["KAFKA-14616"].is_in("kafka:3.6.2")
    assert not MECHANISMS["KAFKA-14616"].is_in("kafka:3.7.0")
    assert not MECHANISMS["KAFKA-5600"].is_in("kafka:4.4.0")
    assert not MECHANISMS["KAFKA-5600"].is_in("redpanda:1")


def test_two_tickets_of_one_failure_have_a_row_each(tmp_path: Path) -> None:
    both = replace(BROKEN, broken=("isr-not-restored", "slow-election"))
    reran = replace(again(Why.SAME_SEED, broken=True), broken=("slow-election",))
    text = told(tmp_path, [both, reran],
                shown={TICKET: (run_of(1),), "KAFKA-15468": (run_of(1), run_of(2))})  # fmt: skip
    rows = [each for each in text.splitlines() if "| kafka:3.6.1 |" in each]
    assert [each.split("(")[0] for each in rows] == [f"| [{TICKET}]", "| [KAFKA-15468]"]
    assert "| 0 of 1 (1 failed without it) | none | `isr-not-restored` |" in rows[0]
    assert "| 1 of 1 | none | `slow-election` |" in rows[1]


def test_a_ticket_has_one_row_for_all_failures_of_a_release(tmp_path: Path) -> None:
    slow = replace(BROKEN, broken=("slow-election",))
    cut = replace(BROKEN, broken=("unavailable",), seed=5)
    reran = again(Why.SAME_SEED, broken=True)
    runs = [slow, cut, replace(reran, broken=slow.broken),
            replace(reran, broken=cut.broken, repeats=run_of(2))]  # fmt: skip
    assert told(tmp_path, runs).count("| none known |") == 2
    seen = {"KAFKA-15468": {run_of(1): slow.broken, run_of(2): cut.broken, run_of(4): cut.broken}}
    text = told(tmp_path / "merged", runs, seen=seen)
    assert "none known" not in text
    assert "| 1 of 2 (1 failed without it) | none | `slow-election`, `unavailable` |" in text


def test_a_failure_that_only_a_rerun_explains_stays_in_the_table(tmp_path: Path) -> None:
    alone = replace(BROKEN, broken=("unavailable",))
    reran = again(Why.SAME_SEED, broken=True)
    text = told(tmp_path, [alone, reran], shown={TICKET: (run_of(2),)})
    found, _, beside = text.partition("because of another failure")
    assert "| none known | kafka:3.6.1 | 0 of 1 | none | `unavailable` |" in found
    assert f"[{TICKET}](" not in found
    assert "| kafka:3.6.1 | 1 of 2 | `isr-not-restored` | present |" in beside


def test_a_promise_that_no_ticket_broke_has_a_row_of_its_own(tmp_path: Path) -> None:
    more = replace(BROKEN, broken=("isr-not-restored", "lost-write"))
    text = told(tmp_path, [more], shown={TICKET: (run_of(1),)})
    assert f"| [{TICKET}](" in text
    assert "| none known | kafka:3.6.1 | 0 of 0 | none | `lost-write` |" in text


def test_a_row_of_earlier_rules_says_so_and_a_withdrawn_ticket_has_none(tmp_path: Path) -> None:
    shown = {TICKET: (run_of(1),)}
    assert "| `isr-not-restored` | earlier |" in told(tmp_path, [BROKEN], shown=shown, rules=1)
    text = told(tmp_path / "less", [BROKEN], shown=shown, withdrawn={TICKET: "It is not shown."})
    assert "| none known | kafka:3.6.1 |" in text
    assert "| kafka:3.6.1 | It is not shown. |" in text


def test_a_part_of_earlier_rules_counts_only_until_there_is_one_of_the_present(
    tmp_path: Path,
) -> None:
    Journal(tmp_path / "old.jsonl").write(*lines([BROKEN, BROKEN], NIGHT))
    Journal(tmp_path / "new.jsonl").write(*lines([BROKEN], NIGHT))
    common = {"name": STEP.name, "commit": "c", "took_s": 1, "load": (1, 1), "shown": {}}
    old, new = (
        Line.model_validate({**common, "journal": f"{name}.jsonl", "rules": rules})
        for name, rules in (("old", 1), ("new", RULES))
    )
    assert table([old, new], tmp_path) == table([new], tmp_path) != table([old], tmp_path)


# The series


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store; the lines and the journals go beside it."""
    monkeypatch.setattr(hunts, "RESULTS", tmp_path / "finds.jsonl")
    monkeypatch.setattr(hunts, "JOURNALS", tmp_path / "journals")
    monkeypatch.setattr(hunts, "PAGE", tmp_path / "finds.md")
    return tmp_path / "store"


def part_of(store: Path, night: str = NIGHT, *, ended: bool = True) -> None:
    folder = suite_folder(store, STEP.name) / night
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl")
    journal.write(*lines([BROKEN], night), *([Ended(at=2_000)] if ended else []))


def recorded(store: Path) -> list[Line]:
    return load_lines(store.parent / "finds.jsonl", LINE)


def test_a_part_is_played_anew_and_gets_a_line(
    series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def ran(command: list[str], *_args: object, **_limits: object) -> None:
        commands.append(command)
        assert (series / f"{STEP.name}.commit").read_text("utf-8").startswith("abc+ ")
        part_of(series)

    monkeypatch.setattr(hunts, "run", ran)
    monkeypatch.setattr(hunts, "code", lambda _paths: ("abc", "changes"))
    line = play(STEP, series)
    assert line is not None
    assert [line] == recorded(series)
    assert (line.commit, line.rules, line.journal) == ("abc+", RULES, f"{STEP.name}-{NIGHT}.jsonl")
    assert line.load[0] >= 0
    assert commands[0][-1] == "--new"
    assert (series.parent / "journals" / line.journal).exists()


def test_a_part_that_did_not_end_is_resumed_with_its_commit(
    series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part_of(series, ended=False)
    (series / f"{STEP.name}.commit").write_text("first 0.5")
    commands = []
    monkeypatch.setattr(hunts, "run", lambda command, *_args, **_limits: commands.append(command))
    assert play(STEP, series) is None
    assert commands[0][-1] == "--resume"
    assert (series / f"{STEP.name}.commit").read_text("utf-8") == "first 0.5"
    assert not recorded(series)


def test_a_part_that_ended_before_its_line_was_written_gets_it_at_the_next_start(
    series: Path,
) -> None:
    part_of(series)
    (series / f"{STEP.name}.commit").write_text("first 0.5")
    assert main(["--only", STEP.name, "--store", str(series)]) == 0
    (line,) = recorded(series)
    assert (line.commit, line.load[0]) == ("first", 0.5)
    assert catch_up(STEP, series) == []
    assert recorded(series) == [line]


def test_an_old_part_without_a_line_has_no_known_commit(series: Path) -> None:
    part_of(series)
    part_of(series, "20261129T010000Z")
    (series / f"{STEP.name}.commit").write_text("second")
    assert [each.commit for each in catch_up(STEP, series)] == ["unknown", "second"]


def test_a_hunt_is_due_until_its_parts_took_long_enough(series: Path) -> None:
    assert is_due(STEP)
    line = Line(name=STEP.name, journal="j", commit="c", took_s=9, load=(1, 1), shown={})
    append(series.parent / "finds.jsonl", line)
    assert not is_due(STEP)
    assert is_due(replace(STEP, least_s=10))
    assert not is_due(replace(STEP, least_s=9))


def test_kept_runs_are_searched_again_and_gone_ones_keep_their_line(
    series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part_of(series)
    catch_up(STEP, series)
    old = recorded(series)[0].model_copy(
        update={"rules": 1, "shown": {"KAFKA-6879": {run_of(1): ("unavailable",)}},
                "withdrawn": {"KAFKA-6879": "It is not shown."}}
    )  # fmt: skip
    (series.parent / "finds.jsonl").write_text("")
    append(series.parent / "finds.jsonl", old)
    search_again(series)
    assert recorded(series) == [old]
    assert "1 of 1 failed runs are gone" in capsys.readouterr().err
    STRAY.write(broken_by("isr-not-restored", series / run_of(1), **STRAY.example))
    search_again(series)
    (line,) = recorded(series)
    assert (line.rules, line.withdrawn) == (RULES, {})
    assert line.shown == {TICKET: {run_of(1): ("isr-not-restored",)}}
