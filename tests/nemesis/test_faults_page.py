"""docs/faults.md is true: its table has every kind, with its family and what it needs."""

from pathlib import Path

from cluster.protocol import OF_SYSTEMS
from harness.documentation.includes import filled
from nemesis.claims import Aspect
from nemesis.registry import KINDS

PAGE = filled((Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8"))
COLUMNS = 9


def _rows() -> dict[str, list[str]]:
    lines = PAGE.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:3] == "| `"]
    rows = [row for row in rows if len(row) > 2]  # The page's other table is of two columns.
    assert all(len(row) == COLUMNS and all(row) for row in rows)
    return {row[0].strip("`"): row for row in rows}


def test_the_table_has_every_kind_with_its_family_and_needs() -> None:
    rows = _rows()
    assert list(rows) == list(KINDS)
    for name, kind in KINDS.items():
        assert rows[name][1] == ", ".join(f"`{family}`" for family in kind.families), name
        hosts, by_hand, _ = rows[name][6].partition("; by hand")
        assert hosts == (", ".join(sorted(kind.needs - OF_SYSTEMS)) or "any"), name
        assert rows[name][7] == (", ".join(sorted(kind.needs & OF_SYSTEMS)) or "any"), name
        assert bool(by_hand) == kind.by_hand, name


def test_the_page_says_what_each_need_of_a_system_is() -> None:
    table = PAGE.partition("## What a fault needs of a system")[2].partition("\n## ")[0]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(OF_SYSTEMS)


def test_the_rules_name_the_aspects_and_what_waits_for_full_replicas() -> None:
    for aspect in set(Aspect) - {Aspect.CLUSTER}:
        assert f"`{aspect}`" in PAGE, aspect
    (rule,) = [line for line in PAGE.splitlines() if line.startswith("6. ")]
    for name, kind in KINDS.items():
        assert (f"`{name}`" in rule or f"`{kind.family}`" in rule) == kind.when_whole, name
