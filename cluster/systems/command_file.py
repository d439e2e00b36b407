"""The file of `--system command:FILE.toml`: how to start a broker, and what the broker guarantees.

The texts in the file are templates: the node's port replaces `{port}`. Write a literal brace twice:
`{{`.
"""

import string
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cluster.protocol import Ability, UserError
from results.record.declared import Sight
from results.record.nodes import FIRST_CONTROLLER, MOST_CONTROLLERS
from results.record.own import tables_of
from results.record.plan import PlanError

NAMES: Mapping[str, str] = {
    "id": "the broker's id, such as 1",
    "node": "the broker's node, such as n1",
    "host": "the address at which other machines reach the broker",
    "port": "the port of Kafka's protocol",
    "inner_port": "a second port, for requests between brokers",
    "data": "an existing folder for the broker's records",
    "folder": "the folder of all files of the broker, and its working directory",
    "here": "the absolute path of this file's folder",
    "ids": "all ids, such as 1,2,3",
    "bootstrap": "all brokers, as HOST:PORT,HOST:PORT",
    "peers": "all other brokers, as ID@HOST:PORT",
    "inner_peers": "all other brokers with their second ports, as ID@HOST:PORT",
}
"""The names that templates may contain, each with its meaning."""
_HERE = "here"


class Lack(StrEnum):
    """The parts of Kafka's protocol that some brokers lack."""

    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    IDEMPOTENCE = "idempotence"


class CommandFile(BaseModel):
    """The content of the file.

    Attributes:
        what: The system's name for people, with its version.
        argv: The command that starts a broker. A program without a slash is searched in `PATH`. A
            relative path begins at the file's folder. The only template in the paths of programs is
            `{here}`. (These paths are the first items of `argv` and `prepare`, and all items of
            `software`.)
        prepare: A command that runs once for each node before its broker starts. The command runs
            on this machine, in the node's folder.
        environment: Additional environment variables of the brokers.
        files: The files to write for each node before its broker starts. The key of each text is
            the path of the file in the node's folder.
        software: The files to copy to machines that cannot read this machine's files. The paths are
            written as in `argv`.
        install: The command that installs the program if it is missing.
        first_id: The first broker's id. The other brokers have the next ids.
        brokers: The number of brokers. With None, the plan gives the number.
        one_process: Whether one process runs all brokers.
        survives_kill: Whether acknowledged records survive a SIGKILL and a restart. If False,
            Logquake kills and stops no broker, because a loss would prove nothing.
        sees: The supported observations, in addition to what the clients observe.
        cannot: For each missing ability, the reason why faults that need it are impossible.
        lacks: The parts of the protocol that the brokers lack.
        notes: Further sentences for each verdict.
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
                raise ValueError(
                    f"{name!r} is outside of the node's folder; use a path in that folder"
                )
        return files

    @field_validator("cannot")
    @classmethod
    def _known(cls, cannot: dict[str, str]) -> dict[str, str]:
        for name in cannot:
            if name not in {*Ability}:
                raise ValueError(f"{name!r} does not exist; use one of {', '.join(Ability)}")
        return cannot

    @model_validator(mode="after")
    def _templates(self) -> "CommandFile":
        for text in self._texts():
            for name in _named_in(text):
                if name not in NAMES:
                    raise ValueError(
                        f"{{{name}}} in {text!r} does not exist; use one of {', '.join(NAMES)};"
                        " write a literal brace twice"
                    )
        for text in (self.argv[0], *self.prepare[:1], *self.software):
            for name in _named_in(text):
                if name != _HERE:
                    raise ValueError(
                        f"{{{name}}} in {text!r}: the path of a program may use only {{{_HERE}}},"
                        " because the program is searched once for all nodes; write a literal"
                        " brace twice"
                    )
        last = self.first_id + (self.brokers or 9)
        if {*range(self.first_id, last)} & {*_CONTROLLERS}:
            raise ValueError(
                f"first_id {self.first_id}: the ids from {_CONTROLLERS[0]} to {_CONTROLLERS[-1]}"
                " are reserved for controllers; use other ids for the brokers"
            )
        return self

    def _texts(self) -> Iterator[str]:
        yield from (*self.argv, *self.prepare, *self.environment.values(), *self.files.values())


_CONTROLLERS = range(FIRST_CONTROLLER, FIRST_CONTROLLER + MOST_CONTROLLERS)


def load_command(path: Path) -> CommandFile:
    """Read the file of `--system command:FILE.toml`.

    Raises:
        UserError: The file cannot be read, another user may write it, or it has an invalid entry.
    """
    try:
        # The file starts programs as the user, so it must be the user's own.
        values = tables_of(path)
    except PlanError as refused:
        raise UserError(str(refused)) from refused
    if not values:
        raise UserError(
            f"--system command:{path}: the file does not exist or is empty; name a file such as"
            " docs/systems/kfake.toml"
        )
    try:
        return CommandFile.model_validate(values)
    except ValidationError as invalid:
        raise UserError(_sentence(path, invalid)) from invalid


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a template with its names replaced; `values` contains all of `NAMES`."""
    return string.Formatter().vformat(text, (), values)


def _named_in(text: str) -> Iterable[str]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as malformed:
        raise ValueError(f"{text!r}: {malformed}; write a literal brace twice") from malformed
    for _, name, form, conversion in parts:
        if name is not None:
            yield name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")


def _sentence(path: Path, invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        known = ", ".join(CommandFile.model_fields)
        return f"{path} has an unknown key {key!r}; use one of {known}"
    if first["type"] == "missing":
        return f"{path}: {key} is missing (see docs/systems)"
    message = first["msg"].removeprefix("Value error, ")
    return f"{path}: {key}: {message}" if key else f"{path}: {message}"
