"""docs/faults.md is true: its table has every kind, with its family and what hosts must do."""

from pathlib import Path

from nemesis.claims import Aspect
from nemesis.registry import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
COLUMNS = 8


def _rows() -> dict[str, list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:3] == "| `"]
    assert all(len(row) == COLUMNS and all(row) for row in rows)
    return {row[0].strip("`"): row for row in rows}


def test_the_table_has_every_kind_with_its_family_and_needs() -> None:
    rows = _rows()
    assert list(rows) == list(KINDS)
    for name, kind in KINDS.items():
        assert rows[name][1] == f"`{kind.family}`", name
        hosts, by_hand, _ = rows[name][6].partition("; by hand")
        assert hosts == (", ".join(sorted(kind.needs)) or "any"), name
        assert bool(by_hand) == kind.by_hand, name


def test_the_rules_name_the_aspects_and_what_waits_for_full_replicas() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for aspect in set(Aspect) - {Aspect.CLUSTER}:
        assert f"`{aspect}`" in text, aspect
    (rule,) = [line for line in text.splitlines() if line.startswith("6. ")]
    for name, kind in KINDS.items():
        assert (f"`{name}`" in rule) == kind.when_whole, name
