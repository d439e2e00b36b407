import dataclasses
from pathlib import Path

import pytest

from results.page.axis import MAX_COLUMNS, scene_axis, story_axis
from results.page.changes import Change, change_at, in_words
from results.page.drawing import LEFT, Drawing, drawing_of
from results.page.logs import NO_LOG, Log, log_of_rows, log_of_spans
from results.page.scenes import Place, ReplicaAt, Scene, scenes_of
from results.page.story import told
from results.record.steps import LogAtStep, NodeAtStep, QuorumAtStep, Span, Step
from results.record.terms import Rule
from results.record.values import pack_value
from results.tables import RunTables
from tests.results.stories import TOPIC, example_1, run_folder, step_of, write_story


def scenes(store: Path, rule: Rule) -> tuple[Scene, ...]:
    run = told(write_story(run_folder(store), rule))
    assert run is not None
    return run.scenes


def drawn(scenes: tuple[Scene, ...], at: int) -> Drawing:
    axis = story_axis(scenes, left=LEFT)
    assert axis is not None
    return drawing_of(scenes[at], before=scenes[at - 1] if at else None, axis=axis)


def log(*values: int | None, epoch: int | None = 0, first: int = 0) -> Log:
    rows = [
        {
            "offset": first + at, "leader_epoch": epoch, "control": False, "record_hash": at,
            "value": None if value is None else pack_value(1, value),
        }
        for at, value in enumerate(values)
    ]  # fmt: skip
    return log_of_rows(rows, end=None, start=first)


def test_a_truncated_record_is_a_ghost_where_it_lay(tmp_path: Path) -> None:
    drawing = drawn(scenes(tmp_path, Rule.HIGH_WATERMARK), 2)
    a, b = drawing.rows
    assert [(box.name, box.epoch, box.css) for box in b.boxes[:2]] == [
        ("message1", "epoch -", "e-none"),
        ("message2", "truncated", "ghost"),
    ]
    assert b.end.text == "log end 2 → 1"
    assert b.high_watermark is not None
    assert (b.high_watermark.text, b.high_watermark.hollow) == ("high watermark 1", False)
    # A is paused and answers nobody: its mark is what its file says.
    assert a.high_watermark is not None
    assert (a.high_watermark.text, a.high_watermark.hollow) == ("high watermark 2, on disk", True)
    assert (a.css, a.leader, b.leader) == ("paused", True, False)
    assert [badge.text for badge in a.badges] == ["now paused", "leader", "in the ISR"]
    assert [badge.text for badge in b.badges] == ["up again", "not in the ISR"]


def test_nothing_is_truncated_by_the_other_rule(tmp_path: Path) -> None:
    told_scenes = scenes(tmp_path, Rule.LEADER_EPOCH)
    for at in range(len(told_scenes)):
        drawing = drawn(told_scenes, at)
        assert not [box for row in drawing.rows for box in row.boxes if box.css == "ghost"]
        assert not [box for row in drawing.rows for box in row.boxes if box.was or box.differs]
    last = drawn(told_scenes, 5).rows
    assert [[(box.name, box.epoch) for box in row.boxes] for row in last] == [
        [("message1", "epoch 0"), ("message2", "epoch 0"), ("message3", "epoch 1")]
    ] * 2
    assert last[0].boxes[2].tag == "new"
    assert last[1].boxes[2].tag == ""


def test_two_records_at_one_offset_are_marked_on_both_replicas(tmp_path: Path) -> None:
    told_scenes = scenes(tmp_path, Rule.HIGH_WATERMARK)
    drawing = drawn(told_scenes, 4)
    assert [[box.differs for box in row.boxes] for row in drawing.rows] == [[False, True]] * 2
    assert [row.boxes[1].name for row in drawing.rows] == ["message2", "message3"]
    assert "at offset 1 A holds message2 and B holds message3" in in_words(
        told_scenes[3], told_scenes[4]
    )


def test_what_changed_is_said_once_for_all_whom_it_concerns(tmp_path: Path) -> None:
    told_scenes = scenes(tmp_path, Rule.HIGH_WATERMARK)
    assert in_words(None, told_scenes[0]) == ["message1 and message2: new on A and B"]
    assert in_words(told_scenes[0], told_scenes[1]) == ["B is down", "the ISR is now A"]
    assert in_words(told_scenes[1], told_scenes[2]) == [
        "A is paused: its process exists, but does nothing",
        "B is up again",
        "B truncated message2",
    ]
    assert in_words(told_scenes[2], told_scenes[3]) == [
        "A is down",
        "B now leads, in epoch 1",
        "the ISR is now B",
    ]


def test_a_record_that_took_another_ones_place_says_whose(tmp_path: Path) -> None:
    steps = example_1(Rule.HIGH_WATERMARK)
    paths = write_story(run_folder(tmp_path), Rule.HIGH_WATERMARK, [steps[1], steps[4]])
    run = told(paths)
    assert run is not None
    box = drawn(run.scenes, 1).rows[1].boxes[1]
    assert (box.name, box.tag, box.was) == ("message3", "new", "message2")


def test_a_batch_of_a_hundred_is_one_box() -> None:
    whole = log(*range(1, 101))
    assert len(whole.runs) == 1
    replica = _replica("n1", whole)
    scene = Scene(step=_step(1), replicas=(replica, _replica("n2", log(*range(1, 41)))))
    axis = scene_axis(scene, before=None, left=LEFT)
    assert [column.label for column in axis.columns] == ["0 … 39", "40 … 99"]
    row = drawing_of(scene, before=None, axis=axis).rows[0]
    assert [box.name for box in row.boxes] == ["message1 … 40", "message41 … 100"]


def test_other_values_of_the_same_count_differ() -> None:
    one, two = log(*range(1, 101)), log(*range(101, 201))
    scene = Scene(step=_step(1), replicas=(_replica("n1", one), _replica("n2", two)))
    assert scene.differing(0)
    assert scene.differing(99)
    assert not scene.differing(100)


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (log(1, 2), log(1, 2), Change.SAME),
        (log(1), log(1, 2), Change.NEW),
        (log(1, 2), log(1), Change.GONE),
        (log(1, 2), log(1, 3), Change.REPLACED),
        (log(1, 2, epoch=0), log(1, 2, epoch=1), Change.REPLACED),
        (log(1, 2), log(3, 4, first=2), Change.SAME),  # Deleted from the front.
        (NO_LOG, NO_LOG, Change.SAME),
        (log(None, None), log(None, None), Change.SAME),
    ],
)
def test_what_became_of_offset_1(before: Log, now: Log, change: Change) -> None:
    assert change_at(before, now, 1) is change


def test_a_metadata_log_of_hundreds_is_never_wider_than_the_page(tmp_path: Path) -> None:
    spans = tuple(
        Span(first=at * 7, last=at * 7 + 6, epoch=at, name=f"topic other-{at}") for at in range(60)
    )
    step = _step(1).model_copy(
        update={
            "logs": (
                LogAtStep(node="n101", spans=spans, end=420, high_watermark=414),
                LogAtStep(node="n102", spans=spans[:-1], end=413),
            ),
            "quorum": (
                QuorumAtStep(node="n101", source="file", role="leader", epoch=59),
                QuorumAtStep(node="n102", source="file", role="Follower", epoch=59),
            ),
            "nodes": (
                NodeAtStep(node="n101", state="up", incarnation=1),
                NodeAtStep(node="n102", state="up", incarnation=1, deaf_to=("n101",)),
            ),
        }
    )
    tables = RunTables(run_folder(tmp_path))
    (scene,) = scenes_of(tables, [step], place=Place(topic=TOPIC), roles={})
    axis = scene_axis(scene, before=None, left=LEFT)
    assert len(axis.columns) <= MAX_COLUMNS
    assert axis.columns[-1].last == 419
    drawing = drawing_of(scene, before=None, axis=axis)
    assert drawing.width < 1040
    assert [row.leader for row in drawing.rows] == [True, False]
    assert [badge.text for badge in drawing.rows[1].badges] == [
        "follower, epoch 59",
        "cannot hear n101",
    ]
    assert drawing.rows[0].boxes[0].epoch == "epochs 0 … 54"


def test_a_controller_that_does_not_know_its_high_watermark_has_no_mark(tmp_path: Path) -> None:
    log = LogAtStep(node="n101", spans=(Span(first=0, last=9, epoch=2),), end=10, high_watermark=-1)
    steps = [
        _step(number).model_copy(
            update={
                "logs": (log.model_copy(update={"high_watermark": mark}),),
                "quorum": (QuorumAtStep(node="n101", source="file", role="leader", epoch=2),),
                "nodes": (NodeAtStep(node="n101", state=state, incarnation=1),),
            }
        )
        for number, mark, state in ((1, -1, "up"), (2, 10, "paused"))
    ]
    first, second = scenes_of(
        RunTables(run_folder(tmp_path)), steps, place=Place(topic=TOPIC), roles={}
    )
    axis = scene_axis(first, before=None, left=LEFT)
    assert axis.columns[0].first == 0
    (row,) = drawing_of(first, before=None, axis=axis).rows
    assert row.high_watermark is None
    assert not any("high watermark" in each for each in in_words(first, second))
    (row,) = drawing_of(second, before=first, axis=axis).rows
    assert [badge.text for badge in row.badges] == ["now paused", "was leader", "epoch 2"]


def test_with_nobody_left_to_ask_the_isr_is_not_said_to_be_empty(tmp_path: Path) -> None:
    first, second, third = (
        step_of(number, each) for number, each in enumerate(example_1(Rule.LEADER_EPOCH)[:3], 1)
    )
    dark = second.model_copy(update={"leader": None, "isr": (), "beliefs": ()})
    tables = RunTables(run_folder(tmp_path))
    alone = third.model_copy(update={"isr": ()})
    made = scenes_of(tables, [first, dark, alone], place=Place(topic=TOPIC), roles={})
    made = [Scene(step=each.step, replicas=(_replica("n1", NO_LOG),)) for each in made]
    assert not any("ISR" in each for each in in_words(made[0], made[1]))
    assert not any("ISR" in each for each in in_words(made[1], made[2]))
    assert "the ISR is now empty" in in_words(made[0], made[2])


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((True, None), []),
        ((None, True), ["in the ISR"]),
        ((None, False), ["not in the ISR"]),
        ((True, False), ["left the ISR"]),
        ((False, True), ["back in the ISR"]),
    ],
)
def test_who_is_in_sync_is_news_only_if_it_was_known_before(
    known: tuple[bool | None, bool | None], said: list[str]
) -> None:
    scenes = [
        Scene(
            step=_step(number), replicas=(dataclasses.replace(_replica("n1", NO_LOG), in_isr=at),)
        )
        for number, at in enumerate(known, 1)
    ]
    axis = scene_axis(scenes[1], before=scenes[0], left=LEFT)
    (row,) = drawing_of(scenes[1], before=scenes[0], axis=axis).rows
    assert [badge.text for badge in row.badges] == said


def test_nobody_hears_a_broker_again_that_is_down() -> None:
    def scene(number: int, state: str, deaf_to: tuple[str, ...]) -> Scene:
        nodes = (
            NodeAtStep(node="n1", state=state, incarnation=1),
            NodeAtStep(node="n2", state="up", incarnation=1),
        )
        b = ReplicaAt(node="n2", called="B", state="up", deaf_to=deaf_to)
        a = ReplicaAt(node="n1", called="A", state=state)
        step = _step(number).model_copy(update={"nodes": nodes})
        return Scene(step=step, replicas=(a, b))

    cut = scene(1, "up", ("A",))
    assert in_words(cut, scene(2, "down", ())) == ["A is down"]
    assert in_words(cut, scene(2, "up", ())) == ["B receives packets from A again"]


def test_where_two_logs_part_is_never_hidden_in_a_joined_column() -> None:
    names = [f"topic t-{at}" for at in range(9)]
    older = _told("n101", 1, names[:8])
    newer = _told("n102", 2, names[8:] + names[:6])
    scene = Scene(step=_step(1), replicas=(_replica("n101", older), _replica("n102", newer)))
    axis = scene_axis(scene, before=None, left=LEFT)
    assert axis.columns[0].label == "0 … 9"
    assert axis.columns[1].first == 10
    rows = drawing_of(scene, before=None, axis=axis).rows
    assert [box.differs for box in rows[0].boxes] == [False, True, True, True, True, False]
    assert rows[0].boxes[1].name == "topic t-0 …"
    assert [row.boxes[5].css.split()[0] for row in rows] == ["e1", "slot"]


def _told(node: str, epoch: int, names: list[str]) -> Log:
    common = Span(first=0, last=9, epoch=1)
    own = [
        Span(first=10 + at, last=10 + at, epoch=epoch, name=name) for at, name in enumerate(names)
    ]
    return log_of_spans(LogAtStep(node=node, spans=(common, *own), end=10 + len(names)))


def test_who_is_down_keeps_its_log_when_nobody_looked(tmp_path: Path) -> None:
    steps = example_1(Rule.LEADER_EPOCH)
    paths = write_story(run_folder(tmp_path), Rule.LEADER_EPOCH, steps[:1])
    blind = step_of(2, steps[1])
    made = scenes_of(
        RunTables(paths), [step_of(1, steps[0]), blind], place=Place(topic=TOPIC), roles={}
    )
    b = made[1].replica("n2")
    assert b is not None
    assert (b.state, b.log.end, b.high_watermark, b.on_disk) == ("down", 2, 1, True)


def _step(number: int) -> Step:
    return Step(number=number, name=f"step-{number:02}", tells="x", begun_ns=0, ended_ns=1)


def _replica(node: str, held: Log) -> ReplicaAt:
    return ReplicaAt(node=node, called=node, state="up", log=held, high_watermark=held.end)
