"""What the file of `--system command:FILE.toml` says: how any broker is started, what it promises.

Texts in it are templates: `{port}` stands for the node's port. A brace is written twice: `{{`.
"""

import string
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cluster.nodes import FIRST_CONTROLLER, MOST_CONTROLLERS
from cluster.protocol import Ability, UserError
from results.record.declared import Sight
from results.record.own import tables_of
from results.record.plan import PlanError

NAMES: Mapping[str, str] = {
    "id": "the broker's id, as 1",
    "node": "its node, as n1",
    "host": "the address at which others reach it",
    "port": "the port of Kafka's protocol",
    "inner_port": "a second port, for what brokers say to each other",
    "data": "a folder for its records, which is there",
    "folder": "the folder of all its files, where it runs",
    "here": "the folder of this file, absolute",
    "ids": "all ids, as 1,2,3",
    "bootstrap": "all brokers, as HOST:PORT,HOST:PORT",
    "peers": "all other brokers, as ID@HOST:PORT",
    "inner_peers": "the same with their second ports",
}
"""What templates may name."""
_HERE = "here"


class Lack(StrEnum):
    """What of Kafka's protocol some brokers do not have."""

    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    IDEMPOTENCE = "idempotence"


class CommandFile(BaseModel):
    """The file.

    Attributes:
        what: The system for people, with its version.
        argv: How a broker is started. A program without a slash is looked up in `PATH`; a relative
            path begins at the file's folder. Its path, as that of `prepare` and those of
            `software`, may name `{here}` alone.
        prepare: What is run once for each node before, in its folder on this machine.
        environment: Of the brokers, beside ours.
        files: Are written for each node before: text by path in its folder.
        software: What has to be brought to machines that do not share ours, as `argv` names it.
        install: What to type if the program is not there.
        first_id: The first broker's id; the others follow it.
        brokers: How many there are; None: as many as the plan says.
        one_process: Whether one process plays all brokers.
        survives_kill: Whether what it acknowledged is there after a SIGKILL and a start. If it is
            not, no broker is killed or stopped: that would prove nothing.
        sees: What can be seen of it beside what clients see.
        cannot: Why some faults make no sense, by the name of what they need.
        lacks: What of the protocol it does not have.
        notes: What else a verdict shall say, in sentences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str = Field(min_length=1, max_length=200)
    argv: tuple[str, ...] = Field(min_length=1)
    prepare: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    software: tuple[str, ...] = ()
    install: str = Field(default="", max_length=500)
    first_id: int = Field(default=1, ge=0, le=1_000_000)
    brokers: int | None = Field(default=None, ge=1, le=9)
    one_process: bool = False
    survives_kill: bool = False
    sees: frozenset[Sight] = frozenset()
    cannot: dict[str, str] = Field(default_factory=dict)
    lacks: frozenset[Lack] = frozenset()
    notes: tuple[str, ...] = ()

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            path = Path(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"{name!r} lies outside of a node's folder; name a path in it")
        return files

    @field_validator("cannot")
    @classmethod
    def _known(cls, cannot: dict[str, str]) -> dict[str, str]:
        for name in cannot:
            if name not in {*Ability}:
                raise ValueError(f"{name!r} is none of {', '.join(Ability)}")
        return cannot

    @model_validator(mode="after")
    def _templates(self) -> "CommandFile":
        for text in self._texts():
            for name in _named_in(text):
                if name not in NAMES:
                    raise ValueError(
                        f"{{{name}}} in {text!r} is none of {', '.join(NAMES)}; a brace is"
                        " written twice"
                    )
        for text in (self.argv[0], *self.prepare[:1], *self.software):
            for name in _named_in(text):
                if name != _HERE:
                    raise ValueError(
                        f"{{{name}}} in {text!r}: of a program's path only {{{_HERE}}} may be a"
                        " name, because it is looked for once for all nodes; a brace is written"
                        " twice"
                    )
        last = self.first_id + (self.brokers or 9)
        if {*range(self.first_id, last)} & {*_CONTROLLERS}:
            raise ValueError(
                f"first_id {self.first_id}: the ids from {_CONTROLLERS[0]} to {_CONTROLLERS[-1]}"
                " are Logquake's own for controllers; give its brokers others"
            )
        return self

    def _texts(self) -> Iterator[str]:
        yield from (*self.argv, *self.prepare, *self.environment.values(), *self.files.values())


_CONTROLLERS = range(FIRST_CONTROLLER, FIRST_CONTROLLER + MOST_CONTROLLERS)


def load_command(path: Path) -> CommandFile:
    """Read a file.

    Raises:
        UserError: It cannot be read, somebody else owns or may write it, or it says something that
            nobody understands.
    """
    try:
        values = tables_of(path)  # It starts programs as the user, so it is the user's own.
    except PlanError as refused:
        raise UserError(str(refused)) from refused
    if not values:
        raise UserError(
            f"--system command:{path}: it is not there, or empty; name a file as"
            " docs/systems/kfake.toml"
        )
    try:
        return CommandFile.model_validate(values)
    except ValidationError as invalid:
        raise UserError(_sentence(path, invalid)) from invalid


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a template with its names replaced; `values` has all of `NAMES`."""
    return string.Formatter().vformat(text, (), values)


def _named_in(text: str) -> Iterable[str]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as malformed:
        raise ValueError(f"{text!r}: {malformed}; a brace is written twice") from malformed
    for _, name, form, conversion in parts:
        if name is not None:
            yield name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")


def _sentence(path: Path, invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        known = ", ".join(CommandFile.model_fields)
        return f"{path} has a key {key!r} that Logquake does not know; it knows {known}"
    if first["type"] == "missing":
        return f"{path}: {key} is missing (see docs/systems)"
    message = first["msg"].removeprefix("Value error, ")
    return f"{path}: {key}: {message}" if key else f"{path}: {message}"
