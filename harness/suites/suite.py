"""`SUITE.toml`: which runs a night plays, and with which time budget."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from results.record.plan import ALL, NEMESIS_KINDS, PlanError
from results.record.plan_parts import CLIENT_KINDS, FORMS
from workloads.registry import WORKLOADS

NONE = "none"
"""A value of the axis `nemeses` that means: no faults."""
DEFAULT = "default"
"""A value of the axis `configurations` that means: the suite's plan without changes."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$"
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_PERIOD = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")

PlanValues = dict[str, Any]
"""Values of a plan, as in a plan file. The plan itself validates these values."""


class SuiteError(PlanError):
    """A suite that cannot be played. The message is one sentence that names the remedy."""


class Table(BaseModel):
    """The base class of a suite's tables. It reports an unknown key as an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Axes(Table):
    """The axes of the matrix; each value of an axis is combined with all values of other axes."""

    systems: tuple[str, ...] = ("kafka:4.3.1",)
    """Systems under test, in the form of a plan's `system`."""
    configurations: tuple[str, ...] = (DEFAULT,)
    """Names of tables `[configurations.NAME]`."""
    hosts: tuple[str, ...] = ("auto",)
    """Kinds of hosts, in the form of a plan's `hosts`."""
    workloads: tuple[str, ...] = ("log",)
    """An empty list means: only scenarios."""
    nemeses: tuple[str, ...] = ("partition+kill+pause",)
    """Families joined with `+`, or `none`, or `all`."""
    scenarios: tuple[str, ...] = ()
    """Patterns for names of scenarios: `leader-epoch-*`. Each scenario is played on each kind of
    hosts, with all its choices, on the systems on which it works."""
    seeds: int | tuple[int, ...] = 1
    """The number of new seeds each night, or a list of seeds."""

    @field_validator("seeds")
    @classmethod
    def _some(cls, seeds: int | tuple[int, ...]) -> int | tuple[int, ...]:
        return _some_seeds(seeds)


class HandEntry(Table):
    """An entry written by hand, with its own plan."""

    name: str = Field(pattern=r"^[^\s#:/][^\s#]{0,120}$")
    """The entry's name in reports."""
    plan: PlanValues = Field(default_factory=dict)
    """Keys of the entry's plan. They override the keys of the suite."""
    seeds: int | tuple[int, ...] = 1
    """The number of new seeds each night, or a list of seeds."""
    weight: float = Field(default=1, gt=0)
    """The entry's weight. The larger the weight, the sooner the entry is played."""

    @field_validator("seeds")
    @classmethod
    def _some(cls, seeds: int | tuple[int, ...]) -> int | tuple[int, ...]:
        return _some_seeds(seeds)


class Match(Table):
    """A selection of entries. An entry is selected if all given patterns (`*`, `?`) match."""

    entry: str = "*"
    """The entry's whole name."""
    system: str = "*"
    """A system."""
    configuration: str = "*"
    """A configuration."""
    hosts: str = "*"
    """A kind of hosts."""
    workload: str = "*"
    """A workload."""
    nemesis: str = "*"
    """Families of faults, as in `axes.nemeses`."""
    scenario: str = "*"
    """A scenario."""


class Weight(Match):
    """The weight of the selected entries; the default weight is 1."""

    weight: float = Field(gt=0)
    """The weight. The larger the weight, the sooner the entries are played."""


class Repeat(Table):
    """How often each failure is rerun, to measure how often it recurs."""

    same_seed: int = Field(default=2, ge=0, le=100)
    """Reruns with the seed of the failure."""
    fresh_seeds: int = Field(default=3, ge=0, le=100)
    """Reruns with new seeds."""
    share: float = Field(default=0.3, ge=0, le=1)
    """The share of the budget for reruns, while some entries are not yet played."""
    unknown: bool = False
    """Whether a run without a verdict counts as failed, too."""


class Keep(Table):
    """Which runs of this suite are kept. The first and last run of a signature are always kept."""

    days: float | None = Field(default=None, gt=0)
    """Runs older than this number of days are removed."""
    gib: float | None = Field(default=None, gt=0)
    """The size limit for all runs, in GiB. The oldest runs are removed first."""


class Hunt(Table):
    """The values from which a hunt chooses its runs; see `harness/suites/hunting`."""

    systems: tuple[str, ...] = Field(default=("kafka:4.3.1",), min_length=1)
    """Systems under test, in the form of a plan's `system`."""
    controls: dict[str, str] = Field(default_factory=dict)
    """For some of the systems: a control system, which does not have the bugs in question. Failures
    are also played on the control system."""
    workloads: tuple[str, ...] = Field(default=("log", "txn", "groups"), min_length=1)
    """The workloads to choose from at random."""
    families: tuple[str, ...] = Field(default=(ALL,), min_length=1)
    """The families of faults to choose from; `all` means all that can be played here."""
    most_families: int = Field(default=4, ge=1, le=40)
    """How many families of faults, at most, one run has."""
    clients: tuple[str, ...] = Field(default=("librdkafka",), min_length=1)
    """The kinds of clients to choose from at random, in the form of a plan's `client_kind`."""
    hosts: str = "auto"
    """The kind of hosts, in the form of a plan's `hosts`."""
    guided: bool = True
    """Whether earlier runs guide the choice; otherwise all values are equally likely."""
    escalate: bool = True
    """Whether the fault level rises while runs are valid."""
    repeats: int = Field(default=5, ge=0, le=100)
    """How often the first run of a failure is rerun on each of two systems: its own system and the
    control system."""
    main: float | None = Field(default=None, gt=0)
    """The total time of all main phases, in seconds, reruns not included: `4h`. Without it, the
    budget decides when the hunt ends."""
    until_failure: bool | str = False
    """Whether the hunt ends with the first failure. With the name of an anomaly, it ends with the
    first failure of that anomaly."""
    seed: int | None = Field(default=None, ge=0)
    """The seed of all random choices. Without it, the id of a part is the seed, so parts differ."""

    @field_validator("main", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> object:
        return seconds_of(value) if isinstance(value, str) else value

    @field_validator("families")
    @classmethod
    def _known(cls, families: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted({*families} - {*NEMESIS_KINDS, ALL}):
            raise ValueError(f"the fault family {unknown[0]!r} does not exist")
        return families

    @field_validator("clients")
    @classmethod
    def _kinds_of_clients(cls, clients: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [each for each in clients if not re.match(CLIENT_KINDS, each)]:
            raise ValueError(f"{unknown[0]!r}: {FORMS['client_kind']}")
        return clients

    @field_validator("workloads")
    @classmethod
    def _of_the_registry(cls, workloads: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted({*workloads} - {*WORKLOADS}):
            raise ValueError(f"{unknown[0]!r} does not exist; use one of {', '.join(WORKLOADS)}")
        return workloads

    @model_validator(mode="after")
    def _controls_of_systems(self) -> "Hunt":
        if strange := sorted(self.controls.keys() - {*self.systems}):
            raise ValueError(f"controls: {strange[0]} is not one of the systems")
        if same := [system for system, control in self.controls.items() if system == control]:
            raise ValueError(f"controls: {same[0]} cannot be its own control")
        return self


class Suite(Table):
    """A suite, as read from its file."""

    name: str = Field(pattern=_NAME)
    """The suite's folder in the store, below `.suites`."""
    budget: float = Field(default=1800, gt=0, le=7 * 86_400)
    """The time budget in seconds, or in a form such as `30m`, `8h` or `1h30m`."""
    parallel: int | Literal["auto"] = "auto"
    """The number of runs at once; auto: as many as cores and memory allow."""
    engine: Literal["auto", "spark", "local"] = "auto"
    """The engine that judges: Spark, or Python on this machine. auto: the same choice as for
    `logquake run`."""
    plan: PlanValues = Field(default_factory=dict)
    """Plan values for all entries."""
    configurations: dict[str, PlanValues] = Field(default_factory=dict)
    """Plan values under a name of your choice; `axes.configurations` lists such names."""
    hosts: dict[str, PlanValues] = Field(default_factory=dict)
    """Plan values for a kind of hosts, such as an `image` in `[hosts.docker]`."""
    axes: Axes | None = None
    entries: tuple[HandEntry, ...] = ()
    hunt: Hunt | None = None
    exclude: tuple[Match, ...] = ()
    weights: tuple[Weight, ...] = ()
    repeat: Repeat = Repeat()
    keep: Keep = Keep()

    @field_validator("budget", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> object:
        return seconds_of(value) if isinstance(value, str) else value

    @field_validator("parallel")
    @classmethod
    def _at_least_one(cls, value: int | str) -> int | str:
        if isinstance(value, int) and not 1 <= value <= 256:  # noqa: PLR2004 - a bound of sense
            raise ValueError('use a number from 1 to 256, or "auto"')
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Suite":
        if self.hunt and (self.axes or self.entries or self.exclude or self.weights):
            raise ValueError(
                "hunt: a hunt chooses its runs at random; remove axes, entries, weights and exclude"
            )
        for name in self.axes.configurations if self.axes else ():
            if name != DEFAULT and name not in self.configurations:
                near = _nearest(name, self.configurations)
                raise ValueError(f"axes.configurations: there is no [configurations.{name}]{near}")
        names = [each.name for each in self.entries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"entries: two of them have the name {twice!r}")
        return self


def seconds_of(text: str) -> float:
    """Return the seconds of a text like `30m`, `8h`, `1h30m` or `45s`.

    Raises:
        ValueError: The text has another form.
    """
    found = _PERIOD.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError("write a time such as 30m, 8h or 1h30m")
    numbers = zip(found.groups(), ("h", "m", "s"), strict=True)
    return float(sum(int(number or 0) * _UNITS_S[unit] for number, unit in numbers))


def load_suite(path: Path) -> Suite:
    """Read a suite's file.

    Raises:
        SuiteError: The file cannot be read, or is not a suite.
    """
    try:
        return parse_suite(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as unreadable:
        why = getattr(unreadable, "strerror", None) or "it is not UTF-8"
        raise SuiteError(f"the suite {path} cannot be read: {why}") from unreadable


def parse_suite(text: str, path: Path) -> Suite:
    """Return a suite from its file's text.

    Args:
        text: TOML.
        path: The file's path, for messages.

    Raises:
        SuiteError: One sentence with the key, the value and the remedy.
    """
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as malformed:
        raise SuiteError(f"the suite {path} is not valid TOML: {malformed}") from malformed
    return suite_from(values, f"the suite {path}")


def suite_from(values: Mapping[str, object], what: str) -> Suite:
    """Return a suite from the values in its file.

    Args:
        values: The values by key.
        what: The words that mean the suite in messages.

    Raises:
        SuiteError: One sentence with the key, the value and the remedy.
    """
    try:
        return Suite.model_validate(values)
    except ValidationError as invalid:
        raise SuiteError(f"{what}: {_sentence(invalid)}") from invalid


def dump_suite(suite: Suite) -> str:
    """Return a suite as TOML."""
    return tomli_w.dumps(suite.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _some_seeds(seeds: int | tuple[int, ...]) -> int | tuple[int, ...]:
    if isinstance(seeds, int) and not 1 <= seeds <= 10_000:  # noqa: PLR2004 - a bound of sense
        raise ValueError("use a number from 1 to 10000")
    if isinstance(seeds, tuple) and (not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds)):
        raise ValueError("name one or more seeds, each once, and none below 0")
    return seeds


def _sentence(invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if part not in {"int", "tuple[int, ...]"})
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        *table, name = map(str, first["loc"])
        return f"there is no key {key!r}{_nearest(name, _keys(table), before='.'.join(table))}"
    if first["type"] == "missing":
        return f"{key} is missing"
    if not key:
        return message
    if first["type"] == "value_error" and isinstance(first["input"], Mapping):
        return f"{key}.{message}"
    return f"{key} cannot be {first['input']!r}: {message[:1].lower()}{message[1:]}"


def _keys(table: list[str]) -> Iterator[str]:
    """Yield the keys of the table with this path in the suite: `["entries", "0"]`."""
    known: Mapping[str, type[Table]] = {
        "": Suite, "axes": Axes, "entries": HandEntry, "exclude": Match, "weights": Weight,
        "repeat": Repeat, "keep": Keep, "hunt": Hunt,
    }  # fmt: skip
    yield from known.get(table[0] if table else "", Suite).model_fields


def _nearest(name: str, known: Mapping[str, object] | Iterator[str], *, before: str = "") -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    dot = f"{before}." if before else ""
    if near:
        return f"; did you mean '{dot}{near[0]}'?"
    return f" (there are: {', '.join(names)})" if names else ""
