"""Every link between pages of the project has a target."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("checkers", "cluster", "harness", "nemesis", "results", "workloads")
FOLDERS = (*PACKAGES, "docs", "tests")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PLAN = re.compile(r"\bdocs/[\w/-]+\.toml\b")
MODULE = re.compile(r"`([\w/]+\.py)`")
MOST_WORDS_OF_TOUR, MOST_WORDS_OF_FOLDER = 1500, 600
TOUR = ROOT / "docs" / "architecture.md"
OF_FOLDERS = sorted(page for part in PACKAGES for page in (ROOT / part).rglob("README.md"))


def test_there_is_something_to_look_at() -> None:
    assert {"README.md", "CONTRIBUTING.md"} < {page.name for page in PAGES if page.parent == ROOT}
    assert len([link for page in PAGES for link in links(page)]) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_resolve(page: Path) -> None:
    assert not [link for link in links(page) if not resolves(page, link)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_plans_that_a_page_names_are_there(page: Path) -> None:
    named = PLAN.findall(page.read_text(encoding="utf-8"))
    assert not [plan for plan in named if not (ROOT / plan).is_file()]


@pytest.mark.parametrize("page", [TOUR, *OF_FOLDERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    named = MODULE.findall(page.read_text(encoding="utf-8"))
    assert not [
        name for name in named if not any((at / name).exists() for at in (page.parent, ROOT))
    ]


@pytest.mark.parametrize("page", [TOUR, *OF_FOLDERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tour_and_the_pages_of_folders_stay_short(page: Path) -> None:
    words = len(page.read_text(encoding="utf-8").split())
    assert words <= (MOST_WORDS_OF_TOUR if page == TOUR else MOST_WORDS_OF_FOLDER)


def test_anchors_are_those_of_a_reader_on_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Who's `who/`, and why\n```\n# no heading\n```\n## Two\n## Two\n"
        "[a](#whos-who-and-why) [b](#two-1) [c](page.md#two) [d](#two-2) [e](#no-heading)"
        " [f](none.md) `[g](none.md)` [h](https://example.org/none.md)\n",
        encoding="utf-8",
    )
    assert [link for link in links(page) if not resolves(page, link)] == [
        "#two-2", "#no-heading", "none.md"
    ]  # fmt: skip


def links(page: Path) -> list[str]:
    """Return the targets of a page's links within the project; links in code are left out."""
    text = re.sub(r"`[^`\n]+`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    return [link for link in LINK.findall(text) if "://" not in link]


def resolves(page: Path, link: str) -> bool:
    """Return whether a link's file exists, and has the heading that the link names."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings by GitHub's rule: repeated headings get a number."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found
