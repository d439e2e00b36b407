"""Systems side by side on one page: a row a seed, a column a system."""

from html.parser import HTMLParser
from pathlib import Path

from results.page.side_by_side import Column, Comparison, Run, write_side_by_side
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.samples import find_sample
from results.verdict_json import write_verdict
from tests.harness.test_repro import verdict_of

SEEDS = (11, 12)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.links: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"td", "th"}:
            self.cells.append("")
            self._inside = True
        if tag == "a":
            self.links.append(dict(attrs)["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += f" {' '.join(data.split())}".rstrip()


def run_in(store: Path, name: str, valid: Validity, *kinds: str, page: bool = True) -> RunPaths:
    paths = RunPaths(store / "log" / name)
    paths.root.mkdir(parents=True)
    write_verdict(paths, verdict_of(valid, *kinds))
    if page:
        paths.report.write_text("<p>", encoding="utf-8")
    return paths


def test_a_page_has_a_row_a_seed_and_a_column_a_system(tmp_path: Path) -> None:
    lost = run_in(tmp_path / "runs", "a b-11", Validity.INVALID, "lost-write")
    kept = run_in(tmp_path / "runs", "c-11", Validity.VALID, page=False)
    ended = run_in(tmp_path / "runs", "d-12", Validity.INVALID, "unseen")
    comparison = Comparison(
        what="log/1",
        wanted="invalid with lost-write",
        seeds=SEEDS,
        columns=(
            Column(
                system="kafka:4.3.1+<x>",
                runs=(Run(paths=lost), Run(paths=ended, differs=("otherwise",), counts=False)),
            ),
            Column(system="kafka:4.3.1", runs=(Run(paths=kept, differs=("valid, not invalid",)),)),
        ),
    )
    (tmp_path / "pages").mkdir()
    page = write_side_by_side(comparison, tmp_path / "pages" / "both.html")
    text = page.read_text(encoding="utf-8")
    read = _Text()
    read.feed(text)
    said = [cell.strip() for cell in read.cells]
    head = ["kafka:4.3.1+<x>", "kafka:4.3.1"]
    assert said[:3] == ["", *head]
    rates = ["1 of 1 (21 % to 100 %)", "0 of 1 (0 % to 79 %)"]
    assert said[3:9] == ["had the same result", *rates, "lost-write", *rates]
    assert said[9:12] == ["seed", *head]
    first, bad, good, second, interrupted, none = said[12:]
    assert (first, second, none) == ("11 (1 of 2)", "12 (2 of 2)", "not played")
    assert bad.startswith("invalid · the same Invalid: ")
    assert "lost-write 1" in bad
    assert good.startswith("valid Valid: every promise was kept.")
    assert "interrupted, so it is not counted" in interrupted
    # Links begin in the page's folder, and lead only to pages that are there.
    assert read.links == ["./../runs/log/a%20b-11/report.html", "./../runs/log/d-12/report.html"]
    assert "<x>" not in text


def test_a_run_that_came_to_nothing_says_why(tmp_path: Path) -> None:
    sample = RunPaths(find_sample("sample:loss-acks-1"))
    comparison = Comparison(
        what="log/1",
        wanted="valid",
        seeds=(1,),
        columns=(
            Column(system="a", runs=(Run(paths=None, differs=("the disk is full",)),)),
            Column(system="b", runs=(Run(paths=sample),)),
        ),
    )
    text = write_side_by_side(comparison, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The disk is full." in text
    assert "no verdict" in text
    assert "The evidence" in text
