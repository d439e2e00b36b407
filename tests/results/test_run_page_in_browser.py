"""The page of a run, in a real browser: readable, quiet, and nothing in it runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from results.record.paths import RunPaths
from results.report import write_report
from results.samples import sample_paths
from tests.results.browser import NARROW, WIDE, Reader
from tests.results.hostile import TOPIC, hostile

MakeRun = Callable[..., RunPaths]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_is_readable(
    make_run: MakeRun, browser: Reader, *, width: int, dark: bool
) -> None:
    page = write_report(make_run())
    with browser.opened(page, width=width, dark=dark) as sight:
        assert sight.complaints == []
        assert sight.requests == [page.absolute().as_uri()]
        assert not sight.scrolls_sideways()
        assert sight.violations() == []


@pytest.mark.parametrize("name", ["loss-acks-1", "leader-epoch-1-high-watermark"])
def test_real_losses_are_readable_on_a_telephone_in_the_dark(
    browser: Reader, tmp_path: Path, name: str
) -> None:
    sample = next(path for path in sample_paths() if path.name == name)
    page = write_report(RunPaths(sample), output=tmp_path / "page.html")
    with browser.opened(page, width=NARROW, dark=True) as sight:
        assert sight.complaints == []
        assert not sight.scrolls_sideways()
        assert sight.violations() == []
        assert sight.page.locator("#witness .k-acknowledged").count() >= 2
        assert sight.page.locator("#axis svg .end-line").count() >= 2


def test_hostile_text_neither_runs_nor_asks_nor_breaks_the_page(
    make_run: MakeRun, browser: Reader
) -> None:
    page = write_report(hostile(make_run(topic=TOPIC)))
    assert POLICY in page.read_text(encoding="utf-8")
    # The browser ignores the policy here: it is the escaping that has to hold.
    with browser.opened(page) as sight:
        assert sight.page.evaluate("window.ran") is None
        assert sight.complaints == []
        assert sight.requests == [page.absolute().as_uri()]
        assert sight.page.locator("script, img, iframe, object, embed, link, form").count() == 0
        assert sight.page.title().endswith(" Logquake")
        told = sight.page.locator("#lines").inner_text()
        assert "window.ran=1" in told
        assert r"\x1b[2J" in told
        assert r"\xff\xfe" in told
        assert "9,99" in told  # How much of the long line is left out.
        assert "after the long one" in told
        assert sight.violations() == []


def test_a_page_with_texts_of_ten_megabytes_stays_small(make_run: MakeRun) -> None:
    page = write_report(hostile(make_run(topic=TOPIC)))
    assert page.stat().st_size < 1_000_000


def test_marks_on_the_axis_lead_to_the_lines(make_run: MakeRun, browser: Reader) -> None:
    with browser.opened(write_report(hostile(make_run(topic=TOPIC)))) as sight:
        mark = sight.page.locator("#axis svg a").first
        mark.focus()
        sight.page.keyboard.press("Enter")
        sight.page.wait_for_function("location.hash !== ''")
        anchor = sight.page.evaluate("decodeURIComponent(location.hash)").removeprefix("#")
        assert anchor.startswith("line-n1-")
        assert sight.page.locator(f"li[id='{anchor}']").is_visible()


def test_the_number_of_a_name_is_a_click_away(make_run: MakeRun, browser: Reader) -> None:
    with browser.opened(write_report(make_run())) as sight:
        number = sight.page.locator("#names td", has_text="value 8589935713")
        assert not number.is_visible()
        name = sight.page.locator("#verdict a.name", has_text="log-0-1:v1121").first
        assert name.get_attribute("title") == "value 8589935713"
        name.click()
        number.wait_for(state="visible")
        assert sight.complaints == []
