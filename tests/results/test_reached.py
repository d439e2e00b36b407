"""What runs of a store reached: for programs, in the index, in the terminal, on page and site."""

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from rich.console import Console

from results.index import Index, open_index
from results.index.steps import named, numbered
from results.page import recurrence
from results.reached import Reached, reached, transitions_of
from results.record.paths import RunPaths
from results.record.transitions import ASKED, ERRORS, TRANSITIONS, area_of
from results.report import render_report
from results.show import show_run
from results.site import make_site
from results.store import LATEST, Store
from results.tables import STATISTICS, RunTables, statistics_path
from tests.results.conftest import write_rows
from tests.results.planted import plant

EARLY, LATE = "20261122T010000Z", "20261122T020000Z"
KILLED, UNCLEAN, SHRANK = "election/leader-killed", "election/unclean", "isr/shrank-3-to-2"


def reaching(
    store: Path,
    stamp: str,
    names: tuple[str, ...],
    pairs: tuple[tuple[str, str], ...] = (),
    *,
    because: tuple[str, ...] = (),
) -> RunPaths:
    """Plant a run that reached some transitions, the first of them twice, in two partitions."""
    paths = plant(store, stamp, because=because)
    rows = [
        {"topic": "log-0", "partition": partition, "transition": name, "count": 1 + partition,
         "first_ns": None if name == UNCLEAN else (30 - partition) * 10**9}
        for name in names
        for partition in (0, 1)
    ]  # fmt: skip
    following = [{"topic": "log-0", "partition": 0, "before": before, "after": after, "count": 1}
                 for before, after in pairs]  # fmt: skip
    for name, told in (("transitions", rows), ("successions", following)):
        path = statistics_path(paths, name)
        path.parent.mkdir(exist_ok=True)
        write_rows(path, STATISTICS[name], told, paths.run_id)
    (store / LATEST).touch()
    return paths


@pytest.fixture
def two(tmp_path: Path) -> tuple[RunPaths, RunPaths]:
    early = reaching(tmp_path, EARLY, (KILLED, SHRANK), ((KILLED, SHRANK),))
    late = reaching(tmp_path, LATE, (KILLED, UNCLEAN), ((KILLED, SHRANK), (UNCLEAN, KILLED)))
    return early, late


def test_the_catalogue_has_a_sentence_for_each_name() -> None:
    assert len(set(TRANSITIONS.values())) == len(TRANSITIONS)
    for name, said in TRANSITIONS.items():
        assert "/" in name
        assert " " not in name
        assert said[0].isupper()
        assert said.endswith(".")
        assert len(said.split()) <= 30
    assert {*ASKED} == {*ERRORS}
    assert all(f"refused/{asked}-other" in TRANSITIONS for asked in ASKED)


def test_a_program_learns_what_a_run_reached(two: tuple[RunPaths, RunPaths]) -> None:
    _, late = two
    assert reached(late) == Reached(
        transitions=frozenset({KILLED, UNCLEAN}),
        successions=frozenset({(KILLED, SHRANK), (UNCLEAN, KILLED)}),
    )
    told = [(each.name, each.count, each.first_ns) for each in transitions_of(RunTables(late))]
    assert told == [(KILLED, 3, 29 * 10**9), (UNCLEAN, 3, None)]


def test_names_of_another_catalogue_are_left_out(tmp_path: Path) -> None:
    paths = reaching(tmp_path, EARLY, (KILLED, "magic/happened"), ((KILLED, "magic/happened"),))
    assert reached(paths) == Reached(transitions=frozenset({KILLED}))


@pytest.mark.parametrize("how", ["missing", "damaged", "link"])
def test_a_run_without_these_tables_reached_nothing(how: str, tmp_path: Path) -> None:
    paths = reaching(tmp_path, EARLY, (KILLED,))
    for name in ("transitions", "successions"):
        path = statistics_path(paths, name)
        if how == "link":
            path.rename(path.with_suffix(".else"))
            path.symlink_to(path.with_suffix(".else"))
        elif how == "damaged":
            path.write_bytes(b"PAR1 no such thing PAR1")
        else:
            path.unlink()
    assert reached(paths) == Reached()
    with open_index(Store(tmp_path)) as index:
        index.refresh()
        assert index.run(paths.run_id) is not None
        assert not any(each.times for each in index.reaches())


def test_the_numbers_of_the_index_mean_what_was_reached() -> None:
    first, *_, last = TRANSITIONS
    told = Reached(
        transitions=frozenset({first, last}),
        successions=frozenset({(first, first), (first, last), (last, first), (last, last)}),
    )
    assert named(numbered(told)) == told
    assert len({*numbered(told)}) == 6


def test_the_index_says_which_run_was_first(two: tuple[RunPaths, RunPaths], tmp_path: Path) -> None:
    early, late = two
    with open_index(Store(tmp_path)) as index:
        index.refresh()
        assert index.first_reached(early.run_id) == reached(early)
        assert index.first_reached(late.run_id) == Reached(
            transitions=frozenset({UNCLEAN}), successions=frozenset({(UNCLEAN, KILLED)})
        )
        assert index.first_reached("no/such") == Reached()
        known = {each.name: each for each in index.reaches()}
    assert [*known] == [*TRANSITIONS]
    times = {name: each.times for name, each in known.items() if each.times}
    assert times == {KILLED: 2, SHRANK: 1, UNCLEAN: 1}
    assert {name: each.first.run_id for name, each in known.items() if each.first} == {
        KILLED: early.run_id, SHRANK: early.run_id, UNCLEAN: late.run_id
    }  # fmt: skip


def test_a_run_that_is_gone_or_judged_again_leaves_nothing_behind(
    two: tuple[RunPaths, RunPaths], tmp_path: Path
) -> None:
    early, late = two
    with open_index(Store(tmp_path)) as index:
        index.refresh()
        early.root.rename(tmp_path / "elsewhere")
        index.refresh()
        assert index.first_reached(late.run_id) == reached(late)
        write_rows(statistics_path(late, "transitions"), STATISTICS["transitions"],
                   [{"transition": SHRANK, "count": 1}], late.run_id)  # fmt: skip
        late.verdict.touch()
        index.refresh()
        assert {each.name for each in index.reaches() if each.times} == {SHRANK}


def shown(paths: RunPaths) -> str:
    console = Console(width=400, file=io.StringIO(), force_terminal=False)
    show_run(paths, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_says_what_was_new_and_what_never_came(
    two: tuple[RunPaths, RunPaths],
) -> None:
    early, late = two
    never = len(TRANSITIONS) - 3
    text = shown(late)
    assert (
        f"what was reached\nThe run reached 2 of the {len(TRANSITIONS)} transitions of the"
        " catalogue, and 2 pairs of successive transitions.\nNew in this store:"
        f" election/unclean; and 1 pair.\nNever reached in this store: {never} transitions of the"
        " catalogue."
    ) in text
    assert f"New in this store: {KILLED}, {SHRANK}; and 1 pair." in shown(early)


@pytest.mark.parametrize("tell", [shown, render_report])
def test_the_index_is_opened_once_and_the_store_is_listed_once(
    tell: Callable[[RunPaths], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both what was new and how often it failed like that stand in it."""
    opened, listed = list[Store](), list[Store]()
    listing = Store.runs

    def counted(store: Store) -> AbstractContextManager[Index]:
        opened.append(store)
        return open_index(store)

    def looked(store: Store) -> list[RunPaths]:
        listed.append(store)
        return listing(store)

    monkeypatch.setattr(recurrence, "open_index", counted)
    monkeypatch.setattr(Store, "runs", looked)
    said = tell(reaching(tmp_path, EARLY, (KILLED,), because=("the run failed: no room",)))
    assert "New in this store" in said
    assert "no other run of this store had this failure" in said
    assert len(opened) == len(listed) == 1


def test_at_most_ten_new_names_are_listed(tmp_path: Path) -> None:
    text = shown(reaching(tmp_path, EARLY, tuple(TRANSITIONS)[:14]))
    assert f"{[*TRANSITIONS][9]} and 4 more; and 0 pairs." in text
    assert [*TRANSITIONS][10] not in text


def test_nothing_new_is_said_so(tmp_path: Path) -> None:
    reaching(tmp_path, EARLY, (KILLED,))
    assert (
        "None of these transitions is new: earlier runs of this store reached all of them."
        in shown(reaching(tmp_path, LATE, (KILLED,)))
    )


def test_a_run_that_was_judged_before_says_nothing_of_it(tmp_path: Path) -> None:
    assert "what was reached" not in shown(plant(tmp_path, EARLY))


def test_the_page_lists_all_with_times(two: tuple[RunPaths, RunPaths]) -> None:
    _, late = two
    page = render_report(late)
    section = page[page.index('id="reached"') : page.index('id="environment"')]
    assert f"{KILLED}</td><td>{TRANSITIONS[KILLED]}</td>" in section
    assert '<td class="n">3</td><td class="n">29.0</td>' in section
    unclean = section[section.index(UNCLEAN + " <span") :]
    assert unclean.startswith(f'{UNCLEAN} <span class="badge ok">first in this store</span>')
    assert '<td class="n">\N{EN DASH}</td>' in unclean


def test_the_site_lists_the_catalogue_and_what_no_run_reached(
    two: tuple[RunPaths, RunPaths], tmp_path: Path
) -> None:
    early, _ = two
    answer = make_site(Store(tmp_path)).test_client().get("/reached")
    assert answer.status_code == 200
    reached_part, never_part = answer.get_data(as_text=True).split('id="never"')
    assert f"reached 3 of the {len(TRANSITIONS)} transitions" in reached_part
    row = reached_part[reached_part.index(f'"mono">{KILLED}<') :]
    row = row[: row.index("</tr>")]
    assert TRANSITIONS[KILLED] in row
    assert '<td class="n">2</td>' in row
    assert f'href="/run/{early.run_id}/"' in row
    names = [each for each in TRANSITIONS if f'"mono">{each}<' in never_part]
    assert names == [each for each in TRANSITIONS if each not in {KILLED, UNCLEAN, SHRANK}]
    front = make_site(Store(tmp_path)).test_client().get("/").get_data(as_text=True)
    assert '<a href="/reached">Reached</a>' in front


def test_areas_are_the_first_words() -> None:
    assert area_of(KILLED) == "election"
