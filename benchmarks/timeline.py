"""Measures the cost of the timeline page of a large run: of writing the page, and of viewing it.

The local engine makes the tables of a seeded record (`benchmarks/seeded.py`) with faults. A
separate process writes the page. A headless Chromium opens the page. Real wheel and drag events
zoom and move the chart, as fast as a person can. The program prints these figures:

- the seconds and the memory of the writing process;
- the size of the page;
- the longest gap between two frames;
- the longest task on the browser's main thread;
- the CPU time of the longest task, which is its duration on an idle machine.

    python -m benchmarks.timeline [--ops 1000000] [--faults 1000] [--run RUN] [--shots DIR]

Gaps depend on the whole machine, so use an idle machine. The load at the start is printed.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from playwright.sync_api import Page, sync_playwright

from benchmarks.measured import measured
from benchmarks.seeded import MS, S, Shape, write_run
from checkers.run import judge_runs
from results.record.paths import RunPaths
from results.record.stream import STREAM_SUFFIX, StreamWriter
from results.record.tables import LIVE

_CHROMIUM = "/usr/bin/chromium"
_WRITE = "import sys; from pathlib import Path; from results.record.paths import RunPaths; from results.timelines.page import write_timeline; write_timeline(RunPaths(Path(sys.argv[1])))"  # noqa: E501 - one line of a command
_WATCH = """() => {
  window.gaps = []; window.tasks = [];
  let before = performance.now();
  const frame = (now) => { gaps.push(now - before); before = now; requestAnimationFrame(frame); };
  requestAnimationFrame((now) => { before = now; requestAnimationFrame(frame); });
  new PerformanceObserver((list) => list.getEntries().forEach((each) => tasks.push(each.duration)))
    .observe({type: "longtask"});
}"""
_FRAME_MS = 16
_KINDS = ("kill", "pause", "halves", "slow-link")


def write_faults(live: Path, shape: Shape, count: int) -> None:
    """Write faults in two lanes, one after the other, over the whole main phase."""
    random = Random(shape.seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        begun = (number // 2 * 2 + 1) * shape.ended_ns // (count + 2) + number % 2 * 300 * MS
        lasts = random.randrange(S // 2, max(S, shape.ended_ns // count))
        kind = _KINDS[number % len(_KINDS)]
        rows.append({
            "fault_id": number + 1, "kind": kind, "targets": [f"n{random.randrange(1, 4)}"],
            "spec": json.dumps({"kind": kind, "target": "one", "family": kind}),
            "requested_ns": begun, "confirmed_ns": begun + 120 * MS, "healed_ns": begun + lasts,
            "effect": json.dumps({"kind": kind, "processes": []}), "heal_effect": None,
        })  # fmt: skip
    (live / f"faults.nemesis{STREAM_SUFFIX}").unlink()  # The seeded run's stream is empty.
    stream = StreamWriter(live, "faults", "nemesis")
    stream.append_batch(pa.RecordBatch.from_pylist(rows, schema=LIVE["faults"]))
    stream.close()


def make_run(root: Path, *, ops: int, faults: int) -> RunPaths:
    """Write a record with the given numbers of ops and faults, and its tables and statistics."""
    shape = Shape(ops=ops)
    write_run(root, shape)
    write_faults(RunPaths(root).live, shape, faults)
    judge_runs([root], engine="local")
    return RunPaths(root)


@contextmanager
def opened(page_file: Path) -> Iterator[Page]:
    """Open a timeline in a browser, and wait until it is drawn."""
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.goto(page_file.resolve().as_uri())
            page.wait_for_selector("#chart[data-ready=yes]", timeout=60_000)
            yield page
        finally:
            browser.close()


def longest_task_ms(trace: bytes) -> float:
    """Return the CPU milliseconds of the longest task on a page's main thread, from a trace."""
    found = json.loads(trace)["traceEvents"]
    main = {
        (each["pid"], each["tid"])
        for each in found
        if each["name"] == "thread_name" and each["args"].get("name") == "CrRendererMain"
    }
    took = (each.get("tdur", 0) for each in found
            if each["name"].endswith("RunTask") and (each["pid"], each["tid"]) in main)  # fmt: skip
    return max(took, default=0) / 1000


def hand(page: Page, shots: Path | None) -> Iterator[str]:
    """Zoom and move the chart as a person does. Yield the name of each movement when it is done."""
    box = page.locator("#chart").bounding_box()
    assert box is not None
    left, right = box["x"] + 0.3 * box["width"], box["x"] + 0.8 * box["width"]
    height = box["y"] + 0.75 * box["height"]

    def wheel(times: int, by: int) -> None:
        for _ in range(times):
            page.mouse.wheel(0, by)
            page.wait_for_timeout(_FRAME_MS)

    def drag(times: int) -> None:
        for _ in range(times):
            page.mouse.move(right, height)
            page.mouse.down()
            for step in range(20):
                page.mouse.move(right - (right - left) * step / 20, height)
                page.wait_for_timeout(_FRAME_MS)
            page.mouse.up()

    for number in range(1, 5):
        page.mouse.move((left + right) / 2, height)
        drag(2)
        yield f"moved at zoom {number}"
        if shots:
            page.wait_for_timeout(400)
            page.screenshot(path=shots / f"zoom-{number}.png")
        wheel(7, -240)
        yield f"zoomed in to {number + 1}"
    wheel(35, 240)
    yield "zoomed out"
    page.focus("#chart")
    for key in "nnnnpp+++---0":
        page.keyboard.press(key)
        page.wait_for_timeout(_FRAME_MS)
    yield "keys"


def main() -> None:
    """Make or use a run, write its timeline, and measure the page in a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--run", type=Path, help="a stored run instead of a made one")
    parser.add_argument("--shots", type=Path, help="a folder for screenshots")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="logquake-timeline-") as folder:
        root = asked.run or Path(folder) / "log" / "20261121T104500Z-1"
        if not (root / "record" / "ops.parquet").exists():
            make_run(root, ops=asked.ops, faults=asked.faults)
            print("the record is there", flush=True)
        _look(RunPaths(root.resolve()), asked.shots)


def _look(paths: RunPaths, shots: Path | None) -> None:
    cost = measured([sys.executable, "-c", _WRITE, str(paths.root)])
    page_file = paths.root / "timeline.html"
    size = page_file.stat().st_size / 1e6
    print(f"written in {cost.wall_s:.1f} s ({cost.cpu_s:.1f} s of processors, {cost.peak_mib} MiB,"
          f" load {cost.load:.1f}): {size:.1f} MB", flush=True)  # fmt: skip
    worst = 0.0
    print(f"load {os.getloadavg()[0]:.1f}")
    with opened(page_file) as page:
        browser = page.context.browser
        assert browser is not None
        browser.start_tracing(page=page, categories=["toplevel"])
        page.evaluate(_WATCH)
        for part in hand(page, shots):
            gaps, tasks = page.evaluate("() => [gaps.splice(0), tasks.splice(0)]")
            state = page.evaluate("() => logquakeTimeline.state()")
            gap, task = max(gaps, default=0), max(tasks, default=0)
            worst = max(worst, gap)
            print(f"{part}: {len(gaps)} frames, longest gap {gap:.0f} ms, longest task"
                  f" {task:.0f} ms; {state['kind']}, {state['boxes']}", flush=True)  # fmt: skip
        busiest = longest_task_ms(browser.stop_tracing())
    print(f"longest gap of all: {worst:.0f} ms; most of a processor that a task took:"
          f" {busiest:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
