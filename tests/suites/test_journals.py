"""Journals: what they add up to, wherever a crash cut them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.suites.choosing import JUDGING_S, estimate_s, next_item
from harness.suites.journal import (
    CutShort,
    Dropped,
    Journal,
    Judged,
    LeftOut,
    Line,
    Planned,
    Resumed,
    Started,
    Stopped,
    Unplayed,
    load_journal,
)
from harness.suites.night import NightState, Phase, folded
from harness.suites.nights import NightFolder, nights_of, suite_folder
from harness.suites.repeats import owed, trials, uncounted
from harness.suites.suite import Repeat
from results.record.night import Why
from results.record.terms import Validity
from results.repeats import repeats_of
from tests.suites.made_nights import LOST, Run, failed, lines, played, run_of

NIGHT = "20261121T010000Z"
RUNS = [Run(entry="a"), failed("b"), Run(entry="c", valid=Validity.UNKNOWN)]


def test_a_journal_reads_back_what_was_written(tmp_path: Path) -> None:
    written = list(lines(NIGHT, RUNS))
    Journal(tmp_path / "deep" / "journal.jsonl").write(*written)
    assert load_journal(tmp_path / "deep" / "journal.jsonl") == written


def test_a_journal_that_is_cut_anywhere_loses_its_last_line_at_most(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    written = list(lines(NIGHT, RUNS))
    Journal(whole).write(*written)
    text = whole.read_bytes()
    for cut in range(0, len(text), 7):
        path = tmp_path / f"cut-{cut}.jsonl"
        path.write_bytes(text[:cut])
        before = load_journal(path)
        assert before == written[: len(before)]
        assert len(before) >= text[:cut].count(b"\n")
        Journal(path).write(Resumed())
        assert load_journal(path)[:-1] == before
        assert isinstance(load_journal(path)[-1], Resumed)


def test_a_journal_is_created_by_its_first_line(tmp_path: Path) -> None:
    folder = NightFolder(root=suite_folder(tmp_path, "made") / NIGHT)
    journal = Journal(folder.journal)
    journal.write()
    assert nights_of(tmp_path, "made") == []
    assert not folder.root.exists()
    journal.write(Resumed())
    assert nights_of(tmp_path, "made") == [folder]


def test_a_journal_takes_any_text(tmp_path: Path) -> None:
    torn = "no such folder: /runs/\udcff \ud83d"
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(Unplayed(item=1, sentence=torn), CutShort(item=2, run_id="log/x", left=(torn,)))
    first, second = load_journal(tmp_path / "journal.jsonl")
    assert isinstance(first, Unplayed)
    assert first.sentence == r"no such folder: /runs/\xff \ud83d"
    assert isinstance(second, CutShort)
    assert second.left == (first.sentence,)


@pytest.mark.parametrize("run_id", ["../x", "log/../x", "/etc/x", "log/..", "a/b/c", "x", "./x"])
def test_a_line_whose_run_lies_elsewhere_is_none_of_ours(run_id: str, tmp_path: Path) -> None:
    """A night that goes on heals the runs that its journal names, and retention removes some."""
    file = tmp_path / "journal.jsonl"
    Journal(file).write(Started(item=1, run_id="log/one"), Dropped(run_ids=("log/one",)))
    hostile = file.read_text().replace("log/one", run_id)
    file.write_text(hostile + file.read_text())
    assert [each.event for each in load_journal(file)] == ["started", "dropped"]


def test_a_night_adds_up() -> None:
    state = folded(lines(NIGHT, RUNS))
    assert [each.outcome for each in state.items.values()] == ["valid", "invalid", "unknown"]
    assert state.worst is Validity.INVALID
    assert state.ended
    assert state.active_s == 80
    assert [each.took_s for each in state.items.values()] == [15, 15, 15]


def test_nothing_played_is_unknown() -> None:
    assert NightState().worst is Validity.UNKNOWN


def test_what_is_not_played_is_unknown_and_never_valid() -> None:
    begun = list(lines(NIGHT, [Run(entry="a")]))[:2]
    state = folded([*begun, Unplayed(item=1, sentence="there is no Docker")])
    assert state.items[1].outcome is Validity.UNKNOWN
    assert state.worst is Validity.UNKNOWN


def test_no_run_has_two_verdicts() -> None:
    again = Judged(item=2, run_id=run_of(NIGHT, 2), valid=Validity.VALID)
    state = folded([*lines(NIGHT, RUNS), again])
    assert state.items[2].outcome is Validity.INVALID


def test_a_story_that_ended_as_it_is_told_is_as_good_as_valid() -> None:
    told = [
        Run(entry="as told", valid=Validity.INVALID, as_expected=True),
        Run(entry="too good", valid=Validity.VALID, as_expected=False),
        Run(entry="broken", valid=Validity.INVALID, as_expected=False),
    ]
    state = folded(lines(NIGHT, told))
    assert [each.outcome for each in state.items.values()] == ["valid", "unknown", "invalid"]


def test_a_run_that_died_with_its_night_is_played_anew() -> None:
    begun = list(lines(NIGHT, RUNS))[:4]
    cut: list[Line] = [
        Started(item=2, run_id="log/dead"),
        Resumed(),
        CutShort(item=2, run_id="log/dead"),
    ]
    state = folded([*begun, *cut])
    item = state.items[2]
    assert (item.phase, item.run_id, item.cut_short) == (Phase.WAITING, "", ("log/dead",))
    state = folded(played(2, RUNS[1], NIGHT, at=9_000), state)
    assert state.items[2].run_id == run_of(NIGHT, 2)
    assert state.items[2].cut_short == ("log/dead",)


def test_time_that_nobody_led_the_night_is_not_its_own() -> None:
    written = [*list(lines(NIGHT, RUNS))[:5], Resumed(at=100_000), Resumed(at=200_000)]
    assert folded(written).active_s < 600


def test_a_failed_run_is_owed_its_repeats_once() -> None:
    repeat = Repeat(same_seed=2, fresh_seeds=3)
    state = folded(lines(NIGHT, [Run(entry="a"), failed("b", seed=42), failed("c")]))
    more = owed(state, repeat)
    assert [each.why for each in more] == [Why.SAME_SEED] * 2 + [Why.FRESH_SEED] * 3
    assert {each.repeats for each in more} == {run_of(NIGHT, 2)}, "one signature, one measurement"
    assert [each.seed for each in more[:2]] == [42, 42]
    assert len({each.seed for each in more[2:]}) == 3
    assert [each.item for each in more] == [4, 5, 6, 7, 8]
    assert owed(folded(more, state), repeat) == []


@given(st.integers(0, 5))
def test_repeats_that_a_crash_kept_from_the_journal_are_owed_still(written: int) -> None:
    repeat = Repeat(same_seed=2, fresh_seeds=3)
    state = folded(lines(NIGHT, [failed("b")]))
    whole = owed(state, repeat)
    rest = owed(folded(whole[:written], state), repeat)
    assert [each.seed for each in rest] == [each.seed for each in whole[written:]]
    assert [each.item for each in rest] == [each.item for each in whole[written:]]


def test_what_a_repeat_finds_is_not_repeated_in_its_turn() -> None:
    first = run_of(NIGHT, 1)
    other = Run(
        entry="b", valid=Validity.INVALID, signature="other", why=Why.FRESH_SEED, repeats=first
    )
    state = folded(lines(NIGHT, [failed("b"), other]))
    assert owed(state, Repeat(same_seed=0, fresh_seeds=1)) == []


def test_a_run_without_a_verdict_is_repeated_only_if_the_suite_says_so() -> None:
    unknown = Run(entry="c", valid=Validity.UNKNOWN, signature="starved")
    state = folded(lines(NIGHT, [unknown]))
    assert owed(state, Repeat()) == []
    assert len(owed(state, Repeat(unknown=True))) == 5


@given(st.lists(st.sampled_from(Validity), max_size=12))
def test_the_rate_counts_what_came_to_a_verdict(outcomes: list[Validity]) -> None:
    first = run_of(NIGHT, 1)
    repeats = [
        Run(
            entry="b", valid=valid, why=Why.FRESH_SEED, repeats=first,
            signature={"invalid": LOST, "unknown": "starved", "valid": ""}[valid],
        )
        for valid in outcomes
    ]  # fmt: skip
    state = folded(lines(NIGHT, [failed("b"), *repeats]))
    counted = repeats_of(trials([state]), LOST)
    found = counted.fresh_seeds
    assert found.times == outcomes.count(Validity.INVALID)
    assert found.of == len(outcomes) - outcomes.count(Validity.UNKNOWN)
    low, high = found.interval
    assert low <= (found.times / found.of if found.of else 0.5) <= high
    assert counted.same_seed.of == 0


def test_a_run_that_the_store_dropped_counts_in_no_rate() -> None:
    first = run_of(NIGHT, 1)
    again = [Run(entry="b", why=Why.SAME_SEED, repeats=first)] * 2
    state = folded(lines(NIGHT, [failed("b"), *again]))
    for gone, of in ((), 2), ((run_of(NIGHT, 2),), 1), ((first,), 0):
        dropped = folded([Dropped(run_ids=gone)], state)
        assert repeats_of(trials([dropped]), LOST).same_seed.of == of


def test_each_repeat_that_does_not_count_has_its_reason() -> None:
    state = folded(lines(NIGHT, [failed("b")]))
    owed_lines = owed(state, Repeat(same_seed=3, fresh_seeds=3))
    first, second, third, *fresh = (each.item for each in owed_lines)
    short = "9 s of the budget were left, but the entry needs about 50 s"
    unknown = Run(entry="b", valid=Validity.UNKNOWN, signature="starved")
    state = folded(
        [
            *owed_lines,
            *played(first, Run(entry="b"), NIGHT, at=9_000),
            *played(second, unknown, NIGHT, at=9_000),
            Unplayed(item=third, sentence="no daemon"),
            *(LeftOut(item=each, sentence=short) for each in fresh[:2]),
        ],
        state,
    )
    told = [
        "1 of 3 reruns with the same seed got no verdict",
        "1 of 3 reruns with the same seed could not run: no daemon",
        f"2 of 3 reruns with new seeds did not run: {short}",
    ]
    last = "1 of 3 reruns with new seeds did not run: "
    assert uncounted(state, LOST) == [*told, f"{last}the night has not ended"]
    stopped = folded([Stopped(sentence="the night was interrupted")], state)
    assert uncounted(stopped, LOST) == [*told, f"{last}the night was interrupted"]
    resumed = folded([Resumed()], stopped)
    assert uncounted(resumed, LOST) == uncounted(state, LOST)
    assert uncounted(folded(lines(NIGHT, [failed("b")])), LOST) == [
        "the failure was not rerun: the suite's [repeat] requests no rerun of it"
    ]
    beside = failed("b", why=Why.FRESH_SEED, repeats="log/x")
    assert uncounted(folded(lines(NIGHT, [Run(entry="b"), beside])), LOST) == [
        "the failure was not rerun: only a rerun of another failure had it"
    ]


def test_a_run_takes_what_its_entry_took_tonight_or_in_the_store_or_what_others_took() -> None:
    begun, *_ = lines(NIGHT, [])
    first, measured, plain = (
        Planned(item=n, entry=entry, seed=n, lasts_s=lasts_s, takes_s=takes_s, measured=known)
        for n, (entry, lasts_s, takes_s, known) in enumerate(
            (("a", 10, 70, False), ("b", 10, 90, True), ("c", 30, 70, False)), 1
        )
    )
    again = first.model_copy(update={"item": 4, "why": Why.SAME_SEED})
    state = folded([begun, first, measured, plain, again])
    assert [estimate_s(state, each) for each in state.items.values()] == [70, 90, 70, 70]
    state = folded(played(1, Run(entry="a"), NIGHT, at=2_000), state)  # In 15 s.
    took = [estimate_s(state, state.items[number]) for number in (2, 3, 4)]
    assert took == [90, 30 + 5 + JUDGING_S, 15 + JUDGING_S]


def waiting(count: int, *, repeats: int = 0, lasts_s: float = 10) -> NightState:
    planned = [Planned(item=n, entry=f"e{n}", seed=n, lasts_s=lasts_s) for n in range(1, count + 1)]
    more = [
        Planned(
            item=count + n, entry="e1", seed=n, why=Why.FRESH_SEED, repeats="r", lasts_s=lasts_s
        )
        for n in range(1, repeats + 1)
    ]
    begun = next(iter(lines(NIGHT, [])))
    return folded([begun, *planned, *more])


def chosen(state: NightState, **more: object) -> int | None:
    given_ = {"share": 0.3, "left_s": 600.0, "places": {}, "taken": (), **more}
    item = next_item(state, **given_)  # type: ignore[arg-type]  # by name
    return item.number if item else None


def test_entries_go_in_their_order_and_repeats_before_them_within_their_share() -> None:
    assert chosen(waiting(3)) == 1
    assert chosen(waiting(3, repeats=2)) == 4
    assert chosen(waiting(3, repeats=2), share=0.0) == 1
    assert chosen(waiting(0, repeats=2), share=0.0) == 1, "nothing else is left to play"


def test_a_repeat_that_is_under_way_counts_towards_the_share() -> None:
    """One run takes 50 s as far as anybody knows, and 5 % of the budget are 30 s."""
    state = waiting(3, repeats=2)
    assert chosen(state, share=0.05) == 4
    under_way = folded([Started(item=4, run_id=run_of(NIGHT, 4), at=1_000.0)], state)
    assert chosen(under_way, share=0.05) == 1
    assert chosen(under_way, share=0.1) == 5


def test_what_does_not_fit_in_the_budget_is_not_begun() -> None:
    assert chosen(waiting(3), left_s=20.0) is None
    assert chosen(waiting(0)) is None


def test_two_runs_that_need_one_place_do_not_go_side_by_side() -> None:
    places = {1: "ssh:lab", 2: "ssh:lab", 3: ""}
    assert chosen(waiting(3), places=places, taken={"ssh:lab"}) == 3
    assert chosen(waiting(2), places=places, taken={"ssh:lab"}) is None
