"""Unavailability per partition, from the statistics of availability."""

from collections.abc import Callable, Sequence

import pytest

from results.page.outages import Outage, outages
from results.plots.outages import outages_plot
from results.record.paths import RunPaths
from results.report import render_report
from results.tables import STATISTICS, RunTables, statistics_path
from results.wording.faults import fault_lines
from tests.results.conftest import Row, write_rows

MakeRun = Callable[..., RunPaths]


def line(partition: int, first: int, attempts: str) -> list[Row]:
    """Return a second a character: `.` nobody tried, `o` some came out ok, `x` none did."""
    return [
        {"topic": "log-0", "partition": partition, "second": first + at,
         "attempted": 0 if sign == "." else 5, "ok": 3 if sign == "o" else 0}
        for at, sign in enumerate(attempts)
    ]  # fmt: skip


def with_lines(paths: RunPaths, *lines: Sequence[Row]) -> RunPaths:
    rows = [row for each in lines for row in each]
    path = statistics_path(paths, "availability")
    write_rows(path, STATISTICS["availability"], rows, paths.run_id)
    return paths


@pytest.mark.parametrize(
    ("attempts", "spans"),
    [
        ("oooo", ()),
        ("oxoxo", ()),  # A single second may be one that a send only began in.
        ("oxxo", ((11, 12),)),
        ("xx.xo", ((10, 13),)),  # Nobody tried in between: it was not seen to be over.
        ("xxoxxx", ((10, 11), (13, 15))),
        ("....", ()),
    ],
)
def test_stretches_without_a_success(
    make_run: MakeRun, attempts: str, spans: tuple[tuple[int, int], ...]
) -> None:
    found, _ = outages(RunTables(with_lines(make_run(), line(0, 10, attempts))), ())
    assert tuple(span for each in found for span in each.spans) == spans


def test_the_worst_partition_comes_first_and_seconds_outside_of_faults_are_counted(
    make_run: MakeRun,
) -> None:
    # Fault 1 is in force from 20 s to 26 s, and fault 2 from 30 s on.
    paths = with_lines(make_run(), line(0, 24, "xxxxxo"), line(1, 21, "xxo"), line(2, 5, "ooo"))
    tables = RunTables(paths)
    found, whole = outages(tables, fault_lines(tables))
    assert whole == 1
    assert [(each.place, each.longest, each.calm) for each in found] == [
        ("log-0-0", 5, 3), ("log-0-1", 2, 0)
    ]  # fmt: skip
    page = render_report(paths)
    assert "outside of faults (s)" in page
    assert 'id="outages-' in page


def test_the_plot_stays_small_whatever_happened() -> None:
    spans = tuple((number * 3, number * 3 + 1) for number in range(20_000))
    many = [
        Outage(place=f"t-{number}", seconds=9, longest=2, calm=9, spans=spans)
        for number in range(500)
    ]
    svg = outages_plot(many, faults=(), end_s=60_000.0)
    assert "t-23" in svg
    assert "t-24" not in svg
    assert len(svg) < 1_200_000
