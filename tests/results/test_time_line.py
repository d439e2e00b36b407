"""The whole time line: what is packed comes out again, and a real browser zooms into it."""

import base64
import html
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page

from results.record.atomic import StoreError
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.values import pack_value
from results.timelines.blocks import BLOCK_OPS, COLUMNS, DIFFERENCES, OPEN, Block, blocks
from results.timelines.levels import levels
from results.timelines.operations import KINDS, OUTCOMES, PHASES, load_operations
from results.timelines.page import render_timeline, write_timeline
from results.wording.glossary import GLOSSARY
from results.wording.naming import names_of
from tests.results.browser import NARROW, PATIENCE_MS, WIDE, Reader
from tests.results.conftest import MakeRun
from tests.results.hostile import TOPIC, hostile

OPS, THREADS = 60_000, 8
STEP_NS = 1_000_000
ERROR = "<script>window.ran=1</script>\x1b[2J timed out"
CHANGED = "(was) => document.getElementById('sight').textContent !== was"
DRAWN = (
    "() => new Promise((done) =>"
    " requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(done), 0)))"
)
"""Returns in the second frame from now. The page draws between two frames."""
LAST_NS = OPS * STEP_NS + 5_000_000_000


def write_operations(paths: RunPaths, *, ops: int = OPS) -> None:
    """Write ops of eight threads, one each millisecond; each hundredth fails, one never ends."""
    number = np.arange(ops)
    invoked = number * STEP_NS + number % 7 * 1_000
    ended = invoked + (THREADS - 1) * STEP_NS
    unknown = number == ops // 2
    table = {
        "run_id": [paths.run_id] * ops,
        "op_id": number + (1 << 40),
        # A process of unknown outcome is followed by another one in its thread.
        "process": number % THREADS + np.where(number > ops // 2, 16, 0),
        "worker": np.zeros(ops, np.int32),
        "f": np.where(number % 2 == 0, "send", "poll"),
        "phase": ["main"] * ops,
        "invoke_ns": invoked,
        "complete_ns": pa.array(ended, mask=unknown),
        "outcome": np.where(unknown, "info", np.where(number % 100 == 98, "fail", "ok")),
        "error": [ERROR if each else None for each in unknown.tolist()],
        "messages": np.full(ops, 2),
    }
    pq.write_table(pa.table(table, schema=TABLES["ops"]), paths.table("ops"))
    op, mop = np.repeat(number[::2], 2), np.tile([0, 1], len(number[::2]))
    given = {
        "op_id": op + (1 << 40), "mop": mop, "partition": op % 3, "offset": op + mop,
        "topic": ["log-0"] * len(op), "value": pack_value(2, 0) + 10 * op + mop,
    }  # fmt: skip
    schema = TABLES["sends"]
    columns = [
        pa.array(given[each.name], each.type)
        if each.name in given
        else pa.nulls(len(op), each.type)
        for each in schema
    ]
    sends = pa.table(columns, schema=schema)
    pq.write_table(sends, paths.table("sends"), row_group_size=7_000)


@pytest.fixture
def busy(make_run: MakeRun) -> RunPaths:
    paths = make_run()
    write_operations(paths)
    return paths


def unpacked(block: Block) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Read a block as the page's script does."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(block.data)), np.uint8)
    shaped = planes.reshape(len(COLUMNS), 4, block.count).transpose(0, 2, 1)
    numbers = np.ascontiguousarray(shaped).view("<u4").reshape(len(COLUMNS), block.count)
    columns = {name: numbers[at].astype(np.int64) for at, name in enumerate(COLUMNS)}
    for name in DIFFERENCES:
        columns[name] = np.cumsum(columns[name]) & 0xFFFFFFFF
    return columns


def whole(columns: dict[str, Any], name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    high, low = (columns[f"{name}{half}"].astype(np.uint64) for half in ("High", "Low"))
    return np.asarray(high << np.uint64(32) | low).astype(np.int64)


def test_every_operation_comes_out_of_the_blocks_as_it_went_in(busy: RunPaths) -> None:
    operations = load_operations(busy, concurrency=16)
    packed = list(blocks(operations))
    assert [block.count for block in packed] == [BLOCK_OPS] * 3 + [OPS % BLOCK_OPS]
    told: dict[int, tuple[int, ...]] = {}
    for block in packed:
        columns = unpacked(block)
        lanes = np.repeat(np.arange(len(block.rows)), block.rows)
        rows = zip(whole(columns, "id"), columns["start"] + block.start_us, columns["took"],
                   columns["kind"], columns["place"], whole(columns, "value"),
                   whole(columns, "offset"), columns["process"], lanes, strict=True)  # fmt: skip
        told |= {int(row[0]): tuple(map(int, row[1:])) for row in rows}
    assert len(told) == OPS
    send, poll, main = KINDS.index("send"), KINDS.index("poll"), PHASES.index("main") << 5
    ok, info = (OUTCOMES.index(word) << 3 for word in ("ok", "info"))
    took = (THREADS - 1) * STEP_NS // 1000
    some = 40_002
    value = pack_value(2, 10 * some)
    place = operations.places.index(f"log-0-{some % 3}")
    assert told[some + (1 << 40)] == (
        (some * STEP_NS + some % 7 * 1000) // 1000, took, send + ok + main, place, value, some,
        some % THREADS + 16, some % THREADS,
    )  # fmt: skip
    assert told[(1 << 40) + 3][2:6] == (poll + ok + main, 0xFFFFFFFF, -1, -1)
    assert told[OPS // 2 + (1 << 40)][1:3] == (OPEN, send + info + main)


def test_levels_count_every_operation_in_its_span(busy: RunPaths) -> None:
    operations = load_operations(busy, concurrency=16)
    found = levels(operations, LAST_NS)
    assert len(found) >= 1
    for level in found:
        assert level.counts.sum(axis=(0, 1)).tolist() == [OPS - OPS // 100 - 1, OPS // 100, 1]
        assert level.counts.sum(axis=(1, 2)).tolist() == [OPS // THREADS] * THREADS
        at = OPS // 2 * STEP_NS * level.spans // LAST_NS
        assert level.counts[OPS // 2 % THREADS, at, OUTCOMES.index("info")] == 1


def test_the_calmest_moments_are_left_out_of_what_is_too_much(
    busy: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.timelines.blocks.MOST_OPS", BLOCK_OPS)
    packed = list(blocks(load_operations(busy, concurrency=16)))
    # The block with the op of unknown outcome has one more that went wrong than the others.
    assert [bool(block.data) for block in packed] == [False, True, False, False]
    page = render_timeline(busy)
    assert (
        f"{OPS - BLOCK_OPS:,} operations, from blocks with the fewest failures, are only counted"
        in page
    )


def test_lanes_are_threads_and_final_reads_have_their_own(make_run: MakeRun) -> None:
    paths = make_run()
    write_operations(paths, ops=64)
    table = pq.read_table(paths.table("ops")).to_pylist()
    table += [{**table[0], "op_id": 5, "process": 1_000_003, "worker": 1023, "phase": "final"}]
    pq.write_table(pa.Table.from_pylist(table, schema=TABLES["ops"]), paths.table("ops"))
    operations = load_operations(paths, concurrency=16)
    assert operations.lanes == (*(f"thread {each}" for each in range(8)), "final read 3")
    for lane in range(8):
        mine = operations.process[operations.lane == lane]
        assert set(mine.tolist()) == {lane, lane + 16}


def test_a_run_without_operations_has_a_page_and_a_damaged_one_a_sentence(
    make_run: MakeRun,
) -> None:
    paths = make_run()
    assert "0 operations, 4 faults" in render_timeline(paths)
    paths.table("ops").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(StoreError, match=r"ops\.parquet cannot be read"):
        render_timeline(paths)


def state(page: Page) -> dict[str, Any]:
    return dict(page.evaluate("() => logquakeTimeline.state()"))


def in_sight(page: Page) -> str:
    return page.locator("#sight").inner_text()


def dragged(page: Page, x: float, y: float) -> str:
    """Drag the chart to the left; return the text that tells what is in sight then.

    Bokeh takes it for a press, not a drag, if the pointer rests for 0.3 s first.
    That happens on a busy machine.
    """
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=5)
    page.mouse.up()
    page.evaluate(DRAWN)
    return in_sight(page)


@contextmanager
def seen(
    browser: Reader, where: str | Path, *, width: int = WIDE, dark: bool = False
) -> Iterator[Any]:
    with browser.opened(where, width=width, dark=dark) as sight:
        sight.page.wait_for_selector("#chart[data-ready=yes]")
        yield sight


def test_wheel_drag_and_keys_lead_from_counts_to_single_operations_and_back(
    busy: RunPaths, browser: Reader
) -> None:
    written = write_timeline(busy)
    assert written == busy.root / "timeline.html"
    with seen(browser, written) as sight:
        page: Page = sight.page
        assert state(page)["kind"] == "level"
        assert "60,000 operations" in page.locator("#sight").inner_text()
        box = page.locator("#chart").bounding_box()
        assert box is not None
        middle, height = box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.75
        page.mouse.move(middle, height)
        for kind in ("near", "boxes"):
            before = in_sight(page)
            for _ in range(10):
                page.mouse.wheel(0, -120)
            page.wait_for_function(CHANGED, arg=before)
            # The rest of the way at once: how far a wheel zooms is the browser's own.
            to_s = 14 if kind == "near" else 11
            page.wait_for_function(
                f"() => {{ logquakeTimeline.look(10, {to_s});"
                f" return logquakeTimeline.state().kind === '{kind}'; }}"
            )
        before = in_sight(page)
        assert 0 < state(page)["boxes"] <= 2500
        wait_until(lambda: dragged(page, middle, height) != before, timeout_s=60, what="a drag")
        page.keyboard.press("0")
        page.wait_for_function("() => logquakeTimeline.state().kind === 'level'")
        assert "60,000 operations" in page.locator("#sight").inner_text()
        page.get_by_role("button", name="next fault").click()
        assert page.locator("#details").inner_text().startswith("fault ")
        assert sight.complaints == []
        assert sight.requests == [written.absolute().as_uri()]


def test_pointing_at_an_operation_tells_all_of_it(busy: RunPaths, browser: Reader) -> None:
    """The op of unknown outcome is in the middle of what the link shows, and never ended."""
    op = OPS // 2
    begun_s = op * STEP_NS / 1e9 + op % 7 * 1e-6
    link = f"{write_timeline(busy).as_uri()}#t={begun_s - 0.003:.6f},{begun_s + 0.009:.6f}"
    with seen(browser, link) as sight:
        page: Page = sight.page
        page.wait_for_function("() => logquakeTimeline.state().kind === 'boxes'")
        more = "the first of 2 messages"
        told = pointed_at(page, f"op p{op % THREADS}#{op // THREADS + 1},")
        value = pack_value(2, 10 * op)
        assert told.splitlines() == [
            "send  info",
            f"op p{op % THREADS}#{op // THREADS + 1}, thread {op % THREADS}, main",
            f"from {begun_s:.6f} s; never ended",
            f"log-0-{op % 3}: value log-0-1:v{10 * op} at offset {op}, {more}",
            r"<script>window.ran=1</script>\x1b[2J timed out",
            f"info: {GLOSSARY['info']}",
            f"in the record: op {op + (1 << 40)}, value {value}",
        ]  # fmt: skip
        names = names_of(busy)
        assert names.op(op + (1 << 40)) == f"p{op % THREADS}#{op // THREADS + 1}"
        assert names.value(value) == f"log-0-1:v{10 * op}"
        assert sight.page.evaluate("window.ran") is None
        assert sight.complaints == []


def pointed_at(page: Page, wanted: str) -> str:
    """Move over the chart's lanes until something is told of what is wanted; click it."""
    box = page.locator("#chart").bounding_box()
    assert box is not None
    x = box["x"] + 92 + (box["width"] - 104) * 0.4
    for y in range(int(box["y"] + box["height"]) - 50, int(box["y"]), -8):
        page.mouse.move(x, y)
        page.evaluate(DRAWN)
        tip = page.locator("#tip")
        if tip.is_visible() and wanted in tip.inner_text():
            page.mouse.click(x, y)
            page.wait_for_function("(what) => document.getElementById('details').textContent"
                                   ".includes(what)", arg=wanted)  # fmt: skip
            return page.locator("#details").inner_text()
    raise AssertionError(f"nothing on the chart tells of {wanted!r}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_time_line_is_readable_on_a_telephone(
    busy: RunPaths, browser: Reader, *, dark: bool
) -> None:
    with seen(browser, write_timeline(busy), width=NARROW, dark=dark) as sight:
        assert not sight.scrolls_sideways()
        assert sight.violations() == []
        assert sight.complaints == []


def test_hostile_text_stays_text_on_the_time_line(make_run: MakeRun, browser: Reader) -> None:
    paths = hostile(make_run(topic=TOPIC))
    write_operations(paths, ops=64)
    written = write_timeline(paths)
    with seen(browser, written) as sight:
        assert sight.page.evaluate("window.ran") is None
        assert sight.complaints == []
        assert sight.requests == [written.absolute().as_uri()]
        assert sight.page.locator("img, iframe, object, embed, link, form").count() == 0


def test_only_the_scripts_that_were_put_there_run(busy: RunPaths, browser: Reader) -> None:
    """The policy of the page, which the other tests go round, names its scripts by their hashes."""
    written = write_timeline(busy)
    text = written.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert "unsafe-eval" not in policy[1]
    assert re.search(r"script-src 'sha256-\S+' 'sha256-\S+';", html.unescape(policy[1]))
    written.write_text(text.replace("</main>", "<script>window.ran=1</script></main>"))
    context = browser.browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.goto(written.absolute().as_uri())
        page.wait_for_selector("#chart[data-ready=yes]")
        assert page.evaluate("window.ran") is None
    finally:
        context.close()


def test_names_and_numbers_of_the_page_cannot_end_their_script(make_run: MakeRun) -> None:
    page = render_timeline(hostile(make_run(topic=TOPIC)))
    values = re.search(r'<script type="application/json" id="values">(.*?)</script>', page)
    assert values
    assert json.loads(values[1])["chart"]
    assert page.count("<script") == page.count("</script>")
