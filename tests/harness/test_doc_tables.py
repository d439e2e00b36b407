"""The tables of docs/ that the code knows are those of today."""

import pytest

from harness.doc_tables import DOCS, TABLES, main, renewed


def test_no_table_is_old(capsys: pytest.CaptureFixture[str]) -> None:
    old = main(["--check"])
    assert (old, capsys.readouterr().out) == (0, ""), "run python -m harness.doc_tables"


def test_each_table_stands_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in TABLES if f"<!-- table {name}: " not in pages] == []


def test_an_old_table_is_written_anew_and_the_rest_of_the_page_stays() -> None:
    name = "checkers/groups"
    begin, end = f"<!-- table {name}: python -m harness.doc_tables -->\n", "<!-- end of table -->"
    page = f"# Page\n\n{begin}| old |\n{end}\n\nMore.\n"
    assert renewed(page) == f"# Page\n\n{begin}{TABLES[name]()}{end}\n\nMore.\n"
    assert renewed(renewed(page)) == renewed(page)


def test_a_table_that_there_is_not_is_an_error() -> None:
    page = "<!-- table no/such: python -m harness.doc_tables -->\n<!-- end of table -->"
    with pytest.raises(KeyError):
        renewed(page)
