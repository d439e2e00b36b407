import dataclasses
import html
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from rich.console import Console

from harness.cli.reporting import report
from results.drawings import write_drawings
from results.page.endings import Ending, fates, in_short
from results.page.scenes import Scene
from results.page.story import story_page, told
from results.page.twins import Parting, parting, twin_of
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.steps import LogAtStep, Span, append_step, load_steps
from results.record.story import Story, dump_story
from results.record.terms import Rule
from results.report import render_report, write_report
from results.show import show_run
from results.store import lock_run
from tests.results.stories import Replica, example_1, run_folder, step_of, write_story

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def both(tmp_path: Path) -> Mapping[Rule, RunPaths]:
    return {
        rule: write_story(run_folder(tmp_path, second), rule)
        for second, rule in enumerate((Rule.HIGH_WATERMARK, Rule.LEADER_EPOCH))
    }


def text_of(page: str) -> str:
    """Return what a reader sees, without the styles."""
    body = page.partition("<body>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_the_page_opens_with_what_the_story_shows_and_whether_it_did(tmp_path: Path) -> None:
    text = text_of(render_report(write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK)))
    order = [
        "Scenario leader-epoch-1 , rule high-watermark",
        "An acknowledged message is lost",
        "A follower's high watermark lags",
        "What this run shows: B threw message2 away.",
        "Invalid: 1 acknowledged write was lost.",
        "message2 , acknowledged at offset 1",
        "As expected : invalid with lost-write",
        "The story, step by step",
        "Step 1. message1 and message2 are written",
        "Step 6. A returns and follows B.",
        "The end of each message",
        "Promises",
    ]
    places = [text.find(each) for each in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_without_another_run_the_page_says_how_to_get_it(tmp_path: Path) -> None:
    text = text_of(render_report(write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK)))
    assert "logquake scenario run leader-epoch-1 --rule leader-epoch" in text
    assert "From here on" not in text


def test_a_story_that_is_compared_with_none_promises_no_page_with_both(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH)
    plan = paths.plan.read_text(encoding="utf-8")
    plan = plan.replace('rule = "leader-epoch"', 'late = "new-leader"')
    paths.plan.write_text(plan.replace("leader-epoch-1", "late-leader-and-isr"), encoding="utf-8")
    text = text_of(render_report(paths))
    assert "Both pages then show both runs" not in text
    assert "A related story has its own page: logquake scenario run" in text


@pytest.mark.parametrize(
    ("count", "name"),
    [(1, "message1"), (2, "message1 and message2"), (3, "message1 … message3")],
)
def test_messages_that_fared_alike_are_one_row(count: int, name: str) -> None:
    sent = frozenset(range(1, count + 1))
    held = {each: f"A at offset {each - 1}" for each in sent}
    ending = Ending(acknowledged=sent, unanswered=frozenset(), holders=held, read=None)
    assert [row.name for row in fates([ending])] == [name]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["message1", "message3"], ["message1", "message3"]),
        ([f"message{at}" for at in range(1, 5)], [f"message{at}" for at in range(1, 5)]),
        ([*(f"message{at}" for at in range(2, 9)), "12"], ["message2 … message8", "12"]),
        (
            [*(f"message{at}" for at in range(101, 251)), "message7"],
            ["message101 … message250", "message7"],
        ),
        (["5", "5", "5", "5", "5"], ["5", "5", "5", "5", "5"]),
        ([], []),
    ],
)
def test_many_messages_that_follow_one_another_are_named_by_their_ends(
    names: list[str], short: list[str]
) -> None:
    assert in_short(names) == short


def test_two_rules_stand_side_by_side_and_part_where_one_truncates(
    both: Mapping[Rule, RunPaths],
) -> None:
    for mine in both.values():
        page = story_page(mine, page=mine.report)
        assert page is not None
        assert [column.mine for column in page.columns] == [
            mine is both[Rule.HIGH_WATERMARK],
            mine is both[Rule.LEADER_EPOCH],
        ]
        assert page.parting is not None
        assert page.parting.number == 3
        assert page.parting.sentences == (
            "B truncated message2 and holds message1",
            "B holds message1 and message2",
        )
        # One axis for both: an offset is in the same place in each drawing.
        drawings = [view.drawing for pair in page.steps for view in pair if view]
        assert {each.offsets for each in drawings if each} == {drawings[0].offsets}  # type: ignore[union-attr]  # there is one
        assert page.read == ("message1 and message3", "message1, message2 and message3")
        became = {row.name: row.cells for row in page.fates}
        assert became["message2"] == (
            ("acknowledged but lost: held by A at offset 1, but no reader gets the message", True),
            ("acknowledged; held by A and B at offset 1", False),
        )
        assert page.lost_by_all == ()


def test_two_runs_part_where_another_one_leads_though_the_logs_are_alike(
    both: Mapping[Rule, RunPaths],
) -> None:
    first, second = (told(each) for each in both.values())
    assert first is not None
    assert second is not None

    def led(leader: int | None, *, failed: str = "") -> list[Scene]:
        scenes = list(second.scenes)
        step = scenes[1].step.model_copy(update={"leader": leader, "failed": failed})
        scenes[1] = dataclasses.replace(scenes[1], step=step)
        return scenes

    assert parting(first.scenes, led(None)) == Parting(
        number=2, sentences=("A leads", "no broker leads")
    )
    for alike in (led(1), led(None, failed="no leader came")):
        other = parting(first.scenes, alike)
        assert other is not None
        assert other.number == 3


def test_both_pages_are_written_and_link_to_each_other(both: Mapping[Rule, RunPaths]) -> None:
    old, new = both[Rule.HIGH_WATERMARK], both[Rule.LEADER_EPOCH]
    write_report(new)
    for mine, other in ((old, new), (new, old)):
        page = mine.report.read_text(encoding="utf-8")
        assert page.count('<svg class="scene"') == 12
        assert f'href="../{other.root.name}/report.html"' in page
        assert len(page) < 5_000_000
        assert "<script" not in page


def test_a_page_elsewhere_leaves_the_other_runs_page_alone(
    both: Mapping[Rule, RunPaths], tmp_path: Path
) -> None:
    write_report(both[Rule.LEADER_EPOCH], output=tmp_path / "x.html")
    assert not both[Rule.HIGH_WATERMARK].report.exists()


def test_a_page_elsewhere_links_to_the_other_runs_page_if_there_is_one(
    both: Mapping[Rule, RunPaths], tmp_path: Path
) -> None:
    other, page = both[Rule.HIGH_WATERMARK], tmp_path / "x.html"
    link = f'{other.root.name}/report.html">{other.run_id}</a>'
    write_report(both[Rule.LEADER_EPOCH], output=page)
    told = page.read_text(encoding="utf-8")
    assert link not in told
    assert other.run_id in told
    other.report.write_text("there", encoding="utf-8")
    write_report(both[Rule.LEADER_EPOCH], output=page)
    assert link in page.read_text(encoding="utf-8")


def test_the_newest_run_of_another_rule_is_the_other_one(
    both: Mapping[Rule, RunPaths], tmp_path: Path
) -> None:
    newer = write_story(run_folder(tmp_path, 9), Rule.LEADER_EPOCH)
    assert twin_of(both[Rule.HIGH_WATERMARK]) == newer
    assert twin_of(newer) == both[Rule.HIGH_WATERMARK]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('system = "kafka:2.8.2"', 'system = "kafka:3.9.1:zookeeper"'),
        ('rule = "leader-epoch"', 'rule = "leader-epoch"\nform = "clean"'),
        ('name = "leader-epoch-1"\ntopic', 'name = "leader-epoch-2"\ntopic'),
        ('rule = "leader-epoch"', 'rule = "high-watermark"'),
        ("[scenario]", "[scenario"),
    ],
)
def test_a_run_that_differs_otherwise_is_no_twin(
    both: Mapping[Rule, RunPaths], old: str, new: str
) -> None:
    plan = both[Rule.LEADER_EPOCH].plan
    text = plan.read_text(encoding="utf-8")
    assert old in text
    plan.write_text(text.replace(old, new), encoding="utf-8")
    assert twin_of(both[Rule.HIGH_WATERMARK]) is None


def test_a_story_that_broke_off_is_not_shown_beside_another(
    both: Mapping[Rule, RunPaths],
) -> None:
    steps = both[Rule.LEADER_EPOCH].steps
    told_steps = load_steps(steps)
    steps.unlink()
    for step in (*told_steps[:-1], told_steps[-1].model_copy(update={"failed": "no answer"})):
        append_step(steps, step)
    assert twin_of(both[Rule.HIGH_WATERMARK]) is None
    assert twin_of(both[Rule.LEADER_EPOCH]) == both[Rule.HIGH_WATERMARK]


def test_a_run_under_way_is_not_shown_beside_another(both: Mapping[Rule, RunPaths]) -> None:
    with lock_run(both[Rule.LEADER_EPOCH]):
        assert twin_of(both[Rule.HIGH_WATERMARK]) is None


def test_the_lines_of_the_checkpoint_files_stand_side_by_side(tmp_path: Path) -> None:
    run = told(write_story(run_folder(tmp_path), Rule.LEADER_EPOCH))
    assert run is not None
    epochs, marks = run.files[4]
    assert [row.name for row in (epochs, marks)] == [
        "leader-epoch-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert [[line.text for line in cell.lines] for cell in epochs.cells] == [
        ["0", "1", "0 0"],
        ["0", "2", "0 0", "1 2"],
    ]
    assert [(line.text, line.change.value) for line in epochs.cells[1].lines] == [
        ("0", ""),
        ("2", "new"),
        ("0 0", ""),
        ("1 2", "new"),
    ]
    assert [(line.text, line.change.value) for line in marks.cells[1].lines] == [
        ("peter-test01 0 3", "new"),
        ("peter-test01 0 1", "gone"),
    ]
    assert (epochs.differs, epochs.cells[0].changed, epochs.cells[1].changed) == (True, False, True)
    # The entry that both have is not marked; the number of entries is compared in its place only.
    assert [[line.text for line in cell.lines if line.unlike] for cell in epochs.cells] == [
        ["1"],
        ["2", "1 2"],
    ]
    assert [line.unlike for line in marks.cells[1].lines] == [True, False]


def test_a_file_that_is_not_there_is_said_to_be_absent(tmp_path: Path) -> None:
    run = told(write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK))
    assert run is not None
    epochs = run.files[0][0]
    assert [(cell.lines, cell.note) for cell in epochs.cells] == [((), "no file")] * 2
    assert not epochs.differs
    assert not any(
        line.unlike for row in run.files[0] for line in row.cells[0].lines if not row.differs
    )


def test_what_both_rules_lose_is_said_plainly(tmp_path: Path) -> None:
    def without_message2(rule: Rule) -> RunPaths:
        steps = example_1(rule)
        last = Replica(log=[(0, 1), (1, 3)], mark=2, epochs=((0, 0), (1, 1)))
        steps[-1] = steps[-1].__class__(
            tells="A returns and follows B.", replicas={"n1": last, "n2": last}, leader=2, epoch=1,
            isr=(1, 2),
        )  # fmt: skip
        return write_story(run_folder(tmp_path, len(rule)), rule, steps)

    without_message2(Rule.HIGH_WATERMARK)
    text = text_of(render_report(without_message2(Rule.LEADER_EPOCH)))
    assert "Lost with both rules: message2. An unclean election was allowed" in text


def test_a_story_that_broke_off_says_where(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH, example_1(Rule.LEADER_EPOCH)[:2])
    broken = step_of(3, example_1(Rule.LEADER_EPOCH)[2])
    append_step(
        paths.steps,
        broken.model_copy(update={"failed": "waited 40 s for: n3 leads; saw: leader n1"}),
    )
    text = text_of(render_report(paths))
    assert "The story ended here: Waited 40 s for: n3 leads; saw: leader n1." in text
    console = Console(record=True, width=100)
    show_run(paths, console)
    assert "the story ended at this step: waited 40 s for: n3 leads" in console.export_text()


def test_text_of_others_is_harmless_on_the_page_and_in_the_drawings(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH, example_1(Rule.LEADER_EPOCH)[:1])
    step = step_of(2, example_1(Rule.LEADER_EPOCH)[1])
    lines = [line.model_copy(update={"text": HOSTILE, "file": HOSTILE}) for line in step.lines]
    hostile = step.model_copy(
        update={"tells": HOSTILE, "why": HOSTILE, "did": (HOSTILE,), "lines": tuple(lines)}
    )
    append_step(paths.steps, hostile)
    story = Story(name=HOSTILE, title=HOSTILE, about=HOSTILE, moral=HOSTILE, roles={"n1": HOSTILE})
    dump_story(story, paths.story)
    page = render_report(paths)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    for file in write_drawings(paths, tmp_path / "svg"):
        ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314 - our own file
    console = Console(record=True, width=100)
    show_run(paths, console)
    assert "\x1b" not in console.export_text()


def test_what_was_asked_believed_and_waited_for_is_told(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH, example_1(Rule.LEADER_EPOCH)[:1])
    text = text_of(render_report(paths))
    assert "Each broker that answers (B) reports the same leader and epoch." in text
    assert "A where does epoch 0 end? ✗ refused FENCED_LEADER_EPOCH" in text
    assert "waited until the ISR is n1 (6.2 s; observed: ISR n1)" in text
    assert "B, server.log: Truncating to offset 1" in text

    late = step_of(2, example_1(Rule.LEADER_EPOCH)[0])
    wrong = late.beliefs[0].model_copy(update={"leader": 2, "isr": ()})
    append_step(paths.steps, late.model_copy(update={"beliefs": (wrong,)}))
    text = text_of(render_report(paths))
    assert "What each broker reports" in text
    assert "B B 0 \u2013" in text
    assert "thinks it leads" in text


def test_of_a_quorums_story_no_message_is_called_lost(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH)
    steps = load_steps(paths.steps)
    paths.steps.unlink()
    log = LogAtStep(node="n101", spans=(Span(first=0, last=9, epoch=1),), end=10)
    for step in steps:
        append_step(paths.steps, step.model_copy(update={"logs": (log,)}))
    page = story_page(paths, page=paths.report)
    assert page is not None
    assert page.fates == ()
    assert (
        "lost" not in text_of(render_report(paths)).partition("The story")[2].partition("What")[0]
    )
    assert "How to read quorum-state" in render_report(paths)


def test_what_readers_get_is_not_lost_though_nobody_looked_at_the_last_step(
    tmp_path: Path,
) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH)
    last = step_of(7, example_1(Rule.LEADER_EPOCH)[5])
    paths.steps.write_bytes(
        paths.steps.read_bytes().splitlines(keepends=True)[0]  # The first step, and a blind one.
    )
    append_step(paths.steps, last)
    page = story_page(paths, page=paths.report)
    assert page is not None
    assert [row.cells for row in page.fates if row.name == "message3"] == [
        (("acknowledged; readers get the message", False),)
    ]


def test_a_step_at_which_nobody_could_be_asked_says_so(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH)
    first, second, *_ = load_steps(paths.steps)
    paths.steps.unlink()
    append_step(paths.steps, first)
    dark = {"leader": None, "isr": (), "beliefs": ()}
    append_step(paths.steps, second.model_copy(update=dark))
    story = told(paths)
    assert story is not None
    assert [each.in_isr for each in story.scenes[0].replicas] == [True, True]
    assert [each.in_isr for each in story.scenes[1].replicas] == [None, None]
    text = text_of(render_report(paths))
    assert "No running broker could report the leader and the ISR." in text


def test_a_damaged_story_costs_its_words_only(tmp_path: Path) -> None:
    paths = write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK)
    paths.story.write_text("{", encoding="utf-8")
    page = render_report(paths)
    assert "scenario.json is damaged" in page
    assert page.count('<svg class="scene"') == 6


def test_the_steps_read_as_text_in_a_terminal(tmp_path: Path) -> None:
    console = Console(record=True, width=140)
    show_run(write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK), console)
    text = console.export_text()
    assert "3. A stops answering, and B returns." in text
    assert "  A n1   [message1 e-][message2 e-] hw 2 on disk end 2  paused, leader" in text
    assert "  B n2   [message1 e-] hw 1 end 1  not in the ISR\n" in text
    assert "B truncated message2." in text
    assert "a reader gets: message1, message3" in text
    assert "message2, acknowledged at offset 1" in text


def test_drawings_are_files_that_stand_alone(both: Mapping[Rule, RunPaths], tmp_path: Path) -> None:
    paths = both[Rule.HIGH_WATERMARK]
    folder = tmp_path / "svg"
    done = CliRunner().invoke(report, [str(paths.root), "--drawings", str(folder)])
    assert done.exception is None
    names = sorted(path.name for path in folder.iterdir())
    assert names[2] == "leader-epoch-1-high-watermark-step-03.svg"
    assert len(names) == 6
    root = ET.parse(folder / names[2]).getroot()  # noqa: S314 - our own file
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "truncated" in words
    assert "log end 2 → 1" in words
    assert not paths.report.exists()


def test_an_ordinary_run_has_no_drawings(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "20261121T104500Z-7")
    with pytest.raises(StoreError, match="has no drawings"):
        write_drawings(paths, tmp_path)
