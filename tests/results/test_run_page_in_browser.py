"""The page of a run, in a real browser."""

from collections.abc import Callable

import pytest

from results.record.paths import RunPaths
from results.report import write_report
from tests.results.browser import NARROW, WIDE, Reader

MakeRun = Callable[..., RunPaths]


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
