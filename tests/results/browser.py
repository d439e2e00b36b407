"""A real browser that looks at our pages: Debian's chromium, driven by playwright.

One browser serves all tests of a session. Each `open` is a context of its own, as of a new reader:
nothing is cached, and what the page said on its console, asked of the network, or tried to pop up
is written down from the first byte on.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # No stubs.
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request, sync_playwright

WIDE, NARROW = 1200, 400
"""Widths to look at: a desk, and a telephone."""
PATIENCE_MS = 120_000
"""For any one wait: a busy machine draws a page in tens of seconds."""
_HEIGHT = 900
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@dataclass(slots=True, kw_only=True)
class Sight:
    """A page as a reader has it before them.

    Attributes:
        page: To click, read and screenshot.
        complaints: Errors and warnings of the console, exceptions of scripts, dialogs.
        requests: URLs that the page asked for, its own included; `data:` ones are none.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """Return what axe finds against WCAG 2.1 A and AA, a line an element."""
        # Of what it finds in order axe would otherwise describe each element.
        only = {"runOnly": {"type": "tag", "values": _TAGS}, "resultTypes": ["violations"]}
        found = Axe().run(self.page, options=only)
        return [
            f"{rule['id']}: {node['target']}: {node['failureSummary']}"
            for rule in found.response["violations"]
            for node in rule["nodes"]
        ]

    def scrolls_sideways(self) -> bool:
        """Tell whether the whole page is wider than its window."""
        root = "document.documentElement"
        return bool(self.page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"))

    def strangers(self, home: str) -> list[str]:
        """Return the requests that went elsewhere than to URLs that begin with `home`."""
        return [url for url in self.requests if not url.startswith(home)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Somebody with a browser."""

    browser: Browser

    @contextmanager
    def opened(
        self, where: str | Path, *, width: int = WIDE, dark: bool = False
    ) -> Iterator[Sight]:
        """Open a page in a window of its own, which is closed afterwards.

        Args:
            where: A URL, or a file.
            width: Of the window, in CSS pixels.
            dark: Whether the reader likes pages dark.
        """
        # Without the bypass the page's own policy would keep axe out; the policy itself is looked
        # at in the page's text, and what it forbids would show up in `requests`.
        context = self.browser.new_context(
            viewport={"width": width, "height": _HEIGHT},
            color_scheme="dark" if dark else "light",
            bypass_csp=True,
        )
        context.set_default_timeout(PATIENCE_MS)
        try:
            sight = _watched(context)
            sight.page.goto(where.absolute().as_uri() if isinstance(where, Path) else where)
            yield sight
        finally:
            context.close()


@contextmanager
def reader() -> Iterator[Reader]:
    """Start the browser, and end it."""
    executable = shutil.which("chromium")
    assert executable, "chromium is missing: `./setup test` installs it"
    # Root may not use chromium's sandbox; /dev/shm is small in containers.
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=flags)
        try:
            yield Reader(browser=browser)
        finally:
            browser.close()


def _watched(context: BrowserContext) -> Sight:
    sight = Sight(page=context.new_page())
    complaints = sight.complaints

    def asked(request: Request) -> None:
        if not request.url.startswith("data:"):
            sight.requests.append(request.url)

    sight.page.on("request", asked)
    sight.page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
    sight.page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None,
    )

    def popped_up(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    sight.page.on("dialog", popped_up)
    return sight
