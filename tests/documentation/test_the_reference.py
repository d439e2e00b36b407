"""The reference shows everything that there is, each with a text.

`gaps` lists what the reference lacks. Each kind of thing is also registered here without a text:
the reference shows it all the same, and `gaps` lists it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import click
import pyarrow as pa
import pytest

import logquake
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings
from checkers.registry import CHECKERS
from harness.cli import keys, running
from harness.cli import logquake as program
from harness.cli.exits import DONE, exits
from harness.cli.lazy import LazyGroup
from harness.cli.topics import module_of, says_of
from harness.documentation import (
    anomalies,
    commands,
    faults,
    plan_keys,
    programs,
    record,
    settings,
)
from harness.documentation.prose import parsed
from harness.suites.suite import Suite
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Fault, Site
from nemesis.registry import KINDS
from results.record import descriptions, tables
from results.record.plan import Plan
from results.record.terms import AnomalyClass

BARE = "bare"
SAYS = {BARE: InWords(does="", injected="", proven="", undone="", costs="")}
"""Where a fault's module has the texts of its kinds."""
LEAST_CHARACTERS = 40
Patch = pytest.MonkeyPatch


def gaps() -> set[str]:
    """Return what the reference does not show, or shows without a text."""
    return {
        *_faults(), *_anomalies(), *_evidence(), *_keys(), *_commands(), *_columns(), *_fields()
    }  # fmt: skip


def _faults() -> Iterator[str]:
    page = faults.page()
    for name, kind in KINDS.items():
        said = says_of(name)
        texts = [getattr(said, each.name) for each in fields(said)]
        about = faults.described(kind)
        if f"### `{name}`" not in page or not all(texts) or len(about) <= LEAST_CHARACTERS:
            yield f"fault {name}"


def _anomalies() -> Iterator[str]:
    page = anomalies.page()
    for checker in vars(anomalies)["CHECKERS"]:
        text = anomalies.definition(module_of(checker))
        defined = re.search(r"Why .* proves something", text) and "What would not prove it" in text
        if f"### `{checker.name}`" not in page or not defined or not checker.looks_for:
            yield f"anomaly {checker.name}"


def _evidence() -> Iterator[str]:
    page = settings.evidence_page()
    for key, text in vars(settings)["EVIDENCE"].items():
        if f"| `{key}` |" not in page or not text:
            yield f"evidence {key}"


def _keys() -> Iterator[str]:
    for top, page in ((vars(plan_keys)["Plan"], plan_keys.page()), (Suite, plan_keys.suite_page())):
        titles = {name.strip("[]") for name, _ in keys.models(top)}
        for title, model in keys.models(top):
            if title not in page:
                yield f"table {title}"
            for key, text in keys.texts(model).items():
                if not text and key not in {*titles, "schema_version"}:
                    yield f"key {key}"


def _commands() -> Iterator[str]:
    page = commands.page()
    for name, command in commands.all_commands():
        if f"## `logquake {name}`" not in page or not command.help:
            yield f"command {name}"
        for option in command.params:
            if isinstance(option, click.Option) and not option.help:
                yield f"option {option.opts[-1]}"


def _columns() -> Iterator[str]:
    page = record.page()
    for name, schema in {**tables.LIVE, **tables.TABLES}.items():
        if f"# `{name}`\n" not in page or not descriptions.TABLES.get(name):
            yield f"table {name}"
        for column in schema.names:
            if not record.text(name, column):
                yield f"column {column}"


def _fields() -> Iterator[str]:
    page = programs.page()
    for name, value in (*programs.public(), *programs.within()):
        if f"## `{name}`\n" not in page:
            yield f"name {name}"
        if isinstance(value, type) and is_dataclass(value):
            yield from (f"field {each}" for each, text in programs.field_texts(value).items()
                        if not text)  # fmt: skip


def test_the_reference_has_no_gap() -> None:
    assert gaps() == set()


def test_no_description_is_left_over() -> None:
    """A column that is renamed leaves none behind."""
    schemas = {**tables.LIVE, **tables.TABLES}
    columns = {column for schema in schemas.values() for column in schema.names}
    placed = {f"{name}.{column}" for name, schema in schemas.items() for column in schema.names}
    assert set(descriptions.TABLES) <= set(schemas)
    assert {*descriptions.COLUMNS, *descriptions.TERMS} <= columns | placed


def bare_fault(monkeypatch: Patch) -> str:
    def make(aim: Aim, site: Site) -> Fault:
        raise AssertionError((aim, site))

    monkeypatch.setitem(KINDS, BARE, replace(KINDS["kill"], make=make))
    return faults.page()


def bare_check(monkeypatch: Patch) -> str:
    def check(group: Group) -> Findings:
        raise AssertionError(group)

    bare = Checker(
        name=BARE, anomaly_class=AnomalyClass.SAFETY, tables=(), check=check, chapter=Chapter.ORDER
    )
    monkeypatch.setattr(anomalies, "CHECKERS", (*CHECKERS, bare))
    return anomalies.page()


def bare_evidence(monkeypatch: Patch) -> str:
    monkeypatch.setattr(settings, "EVIDENCE", {**vars(settings)["EVIDENCE"], BARE: ""})
    return settings.evidence_page()


class BarePlan(Plan):
    """A plan with a key that no text describes."""

    bare: int = 0


def bare_key(monkeypatch: Patch) -> str:
    monkeypatch.setattr(plan_keys, "Plan", BarePlan)
    return plan_keys.page()


def bare_command(monkeypatch: Patch) -> str:
    assert isinstance(program, LazyGroup)
    monkeypatch.setattr(program, "modules", {**program.modules, BARE: "running"})
    command = click.Command(BARE, callback=exits(DONE)(lambda: None))
    monkeypatch.setattr(running, BARE, command, raising=False)
    return commands.page()


def bare_option(monkeypatch: Patch) -> str:
    monkeypatch.setattr(running.run, "params", [*running.run.params, click.Option([f"--{BARE}"])])
    return commands.page()


def bare_column(monkeypatch: Patch) -> str:
    more = tables.TABLES["ops"].append(pa.field(BARE, pa.int8()))
    monkeypatch.setitem(tables.TABLES, "ops", more)
    return record.page()


def bare_table(monkeypatch: Patch) -> str:
    monkeypatch.setitem(tables.TABLES, BARE, tables.TABLES["ops"])
    return record.page()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A value of a program."""

    bare: int


def bare_field(monkeypatch: Patch) -> str:
    monkeypatch.setattr(logquake, "Bare", Bare, raising=False)
    monkeypatch.setattr(logquake, "__all__", [*logquake.__all__, "Bare"])
    return programs.page()


@pytest.mark.parametrize(
    ("register", "shown", "gap"),
    [
        (bare_fault, "### `bare`", "fault bare"),
        (bare_check, "### `bare`", "anomaly bare"),
        (bare_evidence, "| `bare` |", "evidence bare"),
        (bare_key, "| `bare` |", "key bare"),
        (bare_command, "## `logquake bare`", "command bare"),
        (bare_option, "| `--bare` |", "option --bare"),
        (bare_column, "| `bare` |", "column bare"),
        (bare_table, "## `bare`", "table bare"),
        (bare_field, "| `bare` |", "field bare"),
    ],
)
def test_what_is_new_shows_without_an_edit_and_is_a_gap_without_a_text(
    register: Callable[[Patch], str], shown: str, gap: str, monkeypatch: Patch
) -> None:
    assert shown in register(monkeypatch)
    assert gap in gaps()


def test_a_field_that_is_described_with_another_has_its_text() -> None:
    told = parsed("A.\n\nAttributes:\n    one, many: The words.\n    last: The end.\n")
    assert told.sections["Attributes"] == {"one, many": "The words.", "last": "The end."}
    page = programs.page()
    assert "| `judge` | `str` | Name of the judge. |" in page
    assert page.index("## `Verdict`") < page.index("## `Example`"), "the types of fields come last"


@pytest.mark.parametrize("page", [plan_keys.page, plan_keys.suite_page])
def test_keys_are_told_in_words_of_the_file_and_not_of_python(page: Callable[[], str]) -> None:
    prose = re.sub(r"`[^`]*`", "", page())
    assert re.findall(r"\b(?:None|True|False)\b|\('", prose) == []
