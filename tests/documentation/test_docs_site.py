"""The documentation's site builds without a warning, and is whole."""

import queue
import re
import shutil
import subprocess
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import click
import pytest

from cluster.protocol import UserError
from harness import manual
from harness.cli import exit_code, serving
from harness.cli.exits import exit_codes
from harness.documentation import commands
from harness.documentation.generated import PAGES
from harness.documentation.includes import TABLES, filled
from harness.documentation.navigation import expanded
from harness.documentation.outside import with_links
from harness.examples import about, example_plans, example_suites
from harness.exit_codes import BISECT_BAD, BISECT_INTERRUPTED, BISECT_SKIP, INVALID, VALID
from harness.manual import build_site, built_site, fingerprint, outside_pages
from results.wording.glossary import GLOSSARY, TERMS
from tests.results.browser import NARROW, WIDE, Reader
from tests.results.serving import listening

ROOT = Path(__file__).parents[2]
LOOKED_AT = ("index.html", "reference/anomalies.html", "reference/plan.html")
SIMULATED = ("--system", "reference", "--hosts", "simulated")
_META = "document.querySelector('.md-search-result__meta').textContent"
_SEARCHES = f"!{_META}.includes('Initializing')"
"""True in a page that has loaded the index of its search."""
_MENU = re.compile(r'<a href="([^"#:]+\.html)" class="md-nav__link')
_STRANGE = re.compile(r'(?:src="|<link[^>]+href="|url\(|@import ")(?:https?:)?//')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    build_site(folder, strict=True)
    return folder


def test_each_page_is_in_the_menu_once(site: Path) -> None:
    """MkDocs has refused pages that are not in the menu: these are warnings."""
    linked = Counter(_MENU.findall((site / "404.html").read_text(encoding="utf-8")))
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert len(pages) > len(PAGES) + len(outside_pages())
    assert pages == {link.lstrip("/") for link in linked}
    assert not [link for link, times in linked.items() if times > 1]


def test_no_page_asks_another_machine(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert not [page for page in pages if _STRANGE.search(page.read_text(encoding="utf-8"))]


def test_each_table_is_shown_as_one(site: Path) -> None:
    """An empty line ends a table: the rows behind it become a paragraph."""
    pages = site.rglob("*.html")
    split = [page for page in pages if re.search(r"<p>\s*\|", page.read_text(encoding="utf-8"))]
    assert not split


def test_the_overview_has_each_command() -> None:
    overview = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    names = {name.partition(" ")[0] for name, _ in commands.all_commands()}
    assert not [name for name in names if f"`logquake {name}" not in overview]


def test_the_glossary_has_the_terms_of_reports() -> None:
    page = filled((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", page, re.MULTILINE)[1:])
    assert rows == TERMS
    assert GLOSSARY.items() <= TERMS.items()


def test_a_wheel_has_the_pages_that_git_tracks(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "docs/a.md", "docs/draft.md", "harness/__init__.py",
                 "harness/deep/README.md", "tests/README.md"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    project = '[project]\nname = "a"\nversion = "1"\n[tool.setuptools]\npackages = ["harness"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    shutil.copy(ROOT / "setup.py", tmp_path)
    for words in (["git", "init", "-q"], ["git", "add", "docs/a.md"],
                  [sys.executable, "setup.py", "-q", "build_py"]):  # fmt: skip
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    shipped = tmp_path / "build" / "lib" / "harness" / "shipped"
    found = {path.relative_to(shipped).as_posix() for path in shipped.rglob("*.*")}
    assert found == {"mkdocs.yml", "docs/a.md", "harness/deep/README.md", "tests/README.md"}


def test_each_generated_page_has_content(site: Path) -> None:
    for uri in PAGES:
        page = (site / uri).with_suffix(".html").read_text(encoding="utf-8")
        assert len(re.findall(r"<tr>|<pre", page)) > 10, uri


def test_each_table_stands_on_a_page_and_is_filled_in(site: Path) -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert not [name for name in TABLES if f"<!-- generated: {name} -->\n> " not in texts]
    assert not [page for page in site.rglob("*.html") if "<!-- generated" in page.read_text()]
    with pytest.raises(KeyError):
        filled("<!-- generated: no/such -->")


def test_a_link_that_leads_nowhere_and_a_page_outside_of_the_menu_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(
        f"{config.replace('  - logquake', '  #')}\nnav: [index.md]\n", encoding="utf-8"
    )
    front = tmp_path / "docs" / "index.md"
    front.parent.mkdir()
    monkeypatch.setattr(manual, "sources", lambda: tmp_path)
    for text, fine in (("# A\n", True), ("[b](b.md)\n", False), ("[c](#c)\n", False)):
        front.write_text(text, encoding="utf-8")
        if fine:
            build_site(tmp_path / "site", strict=True)
        else:
            with pytest.raises(UserError, match="warning"):
                build_site(tmp_path / "site", strict=True)
    front.write_text("# A\n", encoding="utf-8")
    front.with_name("d.md").write_text("# D\n", encoding="utf-8")
    with pytest.raises(UserError, match="warning"):
        build_site(tmp_path / "site", strict=True)


def test_the_menu_takes_the_rest_of_a_folder() -> None:
    menu = [{"How": ["how/b.md", "how/*"]}, "a.md"]
    pages = ["a.md", "how/a.md", "how/b.md", "how/c.md", "other/d.md"]
    assert expanded(menu, pages) == [{"How": ["how/b.md", "how/a.md", "how/c.md"]}, "a.md"]


def test_links_lead_to_pages_of_the_site_and_code_becomes_text() -> None:
    text = "[h](../harness/README.md#a) [f](faults.md) [c](../nemesis/kill.py) [x](gone.md) [y](#y)"
    pages = {"faults.md", "internals/harness.md", "runs/night.md"}
    assert with_links(text, page="api.md", origin="docs/api.md", pages=pages) == (
        "[h](internals/harness.md#a) [f](faults.md) c [x](gone.md) [y](#y)"
    )
    home = with_links("[f](../docs/faults.md)", page="internals/harness.md",
                      origin="harness/README.md", pages=pages)  # fmt: skip
    assert home == "[f](../faults.md)"
    assert with_links("```\n[c](a.py)\n```", page="a.md", origin="docs/a.md", pages=pages) == (
        "```\n[c](a.py)\n```"
    )


def test_the_program_its_arguments_and_ranges_are_described() -> None:
    page = commands.page()
    assert page.index("## `logquake`\n") < page.index("`--version`") < page.index("## `logquake ch")
    for name, command in commands.all_commands():
        section = page.partition(f"## `logquake {name}`\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `([^`]+)`", section.partition("| Option |")[0], re.MULTILINE)
        assert len(rows) == sum(isinstance(each, click.Argument) for each in command.params), name
    assert "| `--port` | 0 to 65535 | `8420` |" in page
    assert "<=" not in page
    assert not re.search(r"^    \w", page, re.MULTILINE), "a paragraph that is shown as code"


def test_exit_codes_are_those_of_the_command(tmp_path: Path) -> None:
    codes = {name: dict(exit_codes(command)) for name, command in commands.all_commands()}
    page = str(tmp_path / "page.html")
    for words in (["report", "sample:loss-acks-1", "--output", page], ["help", "verdicts"]):
        assert exit_code(words) == VALID
        assert INVALID not in codes[words[0]]
    assert {BISECT_BAD, BISECT_SKIP, BISECT_INTERRUPTED} <= codes["repro"].keys()
    with pytest.raises(AttributeError):
        exit_codes(click.Command("new", callback=lambda: None))


def test_examples_are_called_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {**example_plans(), **example_suites()}
    assert {"example:acks-1", "example:half-hour"} <= set(named)
    assert all(about(path) for path in named.values())
    assert exit_code(["init", "--list"]) == 0
    listed = capsys.readouterr().out
    assert not [name for name in named if f"  {name}\n" not in listed]
    assert exit_code(["run", "example:acks-1", "--dry-run", *SIMULATED]) == 0
    assert 'acks = "1"' in capsys.readouterr().out
    assert exit_code(["run", "example:none", "--dry-run"]) == 254
    assert "there is no example plan 'example:none'" in capsys.readouterr().err


def test_the_site_in_the_cache_is_of_these_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        folder.mkdir()

    monkeypatch.setattr(manual, "build_site", build)

    def folder() -> Path:
        with built_site(lambda _: None) as found:
            return found

    first = folder()
    assert folder() == first
    assert (first.name, len(built)) == (fingerprint(), 1)
    with built_site(lambda _: None):
        monkeypatch.setattr(manual, "fingerprint", lambda: "other")
        assert folder().name == "other"
        assert first.exists(), "it is being served"
    monkeypatch.setattr(manual, "fingerprint", lambda: "third")
    assert folder().name == "third"
    assert not first.exists()


def test_a_folder_with_foreign_files_is_not_built_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "build_site", lambda folder: (folder / "index.html").touch())
    (tmp_path / ".git").mkdir()
    assert exit_code(["docs", "--build", str(tmp_path)]) == 0
    foreign = tmp_path / "notes.txt"
    foreign.touch()
    assert exit_code(["docs", "--build", str(tmp_path)]) == 254
    assert f"{tmp_path} is not empty" in capsys.readouterr().err
    assert foreign.exists()


@pytest.mark.parametrize(("variable", "opened"), [("DISPLAY", [":url"]), ("NONE", [])])
def test_the_site_is_served_while_a_graphical_browser_opens(
    variable: str, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, ":0")
    served, seen = threading.Event(), queue.SimpleQueue[str]()

    def browse(url: str) -> None:
        seen.put(url)
        assert served.wait(10)

    def serve(_folder: Path, *, ready: Callable[[str], None], **_said: object) -> None:
        ready(":url")
        served.set()

    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(serving, "built_site", lambda _say: nullcontext(tmp_path))
    monkeypatch.setattr("results.site.serve_manual", serve)
    assert exit_code(["docs"]) == 0
    assert [seen.get(timeout=30) for _ in opened] == opened
    assert seen.empty()


@pytest.mark.everything
def test_the_command_serves_the_site_and_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Reader
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with listening(tmp_path / "log", "docs", "--port", "0", "--no-browser") as (url, _):
        with pytest.raises(HTTPError) as missing:
            urlopen(f"{url}/none.html")  # noqa: S310 - of this machine
        assert missing.value.code == 404
        with browser.opened(f"{url}/") as sight:
            # The page must have its index before. It notices what is typed by released keys.
            sight.page.wait_for_function(_SEARCHES)
            sight.page.locator("input.md-search__input").press_sequentially("unclean")
            sight.page.wait_for_selector("a.md-search-result__link")
            assert not sight.strangers(url)
            assert not sight.complaints


def complaints(browser: Reader, page: Path, *, width: int, dark: bool) -> list[object]:
    """Return what keeps somebody from reading a page."""
    with browser.opened(page, width=width, dark=dark) as sight:
        wide = ["scrolls sideways"] if sight.scrolls_sideways() else []
        return [*sight.violations(), *wide, *sight.strangers("file://")]


@pytest.mark.everything
@pytest.mark.parametrize(
    ("width", "dark"),
    [pytest.param(WIDE, False, marks=pytest.mark.night), (NARROW, True)],
)
@pytest.mark.parametrize("page", LOOKED_AT)
def test_everybody_can_read_a_page(
    site: Path, browser: Reader, page: str, width: int, *, dark: bool
) -> None:
    assert complaints(browser, site / page, width=width, dark=dark) == []


@pytest.mark.night
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_everybody_can_read_every_page(
    site: Path, browser: Reader, width: int, *, dark: bool
) -> None:
    pages = sorted(each for each in site.rglob("*.html") if each.name != "404.html")
    assert len(pages) > len(LOOKED_AT)
    found = {page: complaints(browser, page, width=width, dark=dark) for page in pages}
    assert {page.relative_to(site).as_posix(): why for page, why in found.items() if why} == {}
