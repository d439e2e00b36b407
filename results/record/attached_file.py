"""The file of an attached cluster: its address, its security settings, and the allowed commands.

`docs/systems/attached.toml` is an example. The file contains commands that run as the user, so it
is read only if no other user may write it. It contains no secrets. A value `env:NAME` or
`file:PATH` refers to a secret. The key `clients` contains the name of a table in the user's own
settings (`results.record.own`).
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from results.record.hidden import is_secret
from results.record.own import own_file, own_settings, tables_of, value_of
from results.record.plan import Plan, PlanError
from results.record.systems import SystemKind

PREFIX = "logquake-"
"""Prefix of all topics, groups and transactional ids that Logquake creates on attached clusters."""
OF_A_RUN = re.compile(rf"{PREFIX}[0-9a-f]{{8}}-")
"""Prefix of a name that a run created. A name with `PREFIX` alone may belong to another user."""
UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
_ADDRESS = re.compile(r"[A-Za-z0-9._:-]+:\d{1,5}")
_SECURES = re.compile(
    rf"security\.protocol|{re.escape(UNSECURED)}|(ssl|sasl|enable\.ssl)\.[a-z0-9.]+"
)
_PUBLIC = re.compile(r"sasl\.username|ssl\.(ca|certificate)\.pem|.*\.location")


def _words(value: object) -> object:
    """Split a command into words if the command is one text."""
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _listed(value: object) -> object:
    if isinstance(value, str):
        return tuple(each.strip() for each in value.split(","))
    return value


Argv = Annotated[tuple[str, ...], BeforeValidator(_words), Field(min_length=1)]


class Commands(BaseModel):
    """Commands that the user allows for a node; None means not allowed.

    Each word of a command may contain placeholders. `{node}` and `{id}` are the node's name and
    broker id. `{own_host}` and `{own_port}` are the node's address. `{pid}` is the process that
    `status` printed last. `{host}` and `{port}` are the address of the other node, for `cut`,
    `join` and `reach`. `{prefix}` is the prefix of the run's topics.

    Attributes:
        kill: Kills the broker without warning (SIGKILL).
        start: Starts the broker, then exits.
        stop: Shuts the broker down in order (SIGTERM).
        pause, resume: `pause` sends SIGSTOP, and `resume` sends SIGCONT.
        cut, join: `cut` blocks all packets between the node and `{host}`, in both directions;
            `join` undoes this. `join` must also succeed if nothing was cut.
        files: Prints a tar archive of the folders `{prefix}*` in the broker's log directories.
        status: Prints `running PID`, `paused PID` or `gone`, or a line as from `ps -o stat=,pid=`.
        reach: Exits with 0 if the node can connect to `{host}` `{port}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kill: Argv | None = None
    start: Argv | None = None
    stop: Argv | None = None
    pause: Argv | None = None
    resume: Argv | None = None
    cut: Argv | None = None
    join: Argv | None = None
    files: Argv | None = None
    status: Argv | None = None
    reach: Argv | None = None


class Limits(BaseModel):
    """Time limits of commands, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command_s: float = Field(default=15, gt=0, le=600)
    start_s: float = Field(default=60, gt=0, le=600)
    """Limit of `start` and of `stop`."""
    files_s: float = Field(default=300, gt=0, le=3600)


class AttachedFile(BaseModel):
    """The contents of an attached cluster's file.

    Attributes:
        bootstrap: `host:port` of one or more brokers.
        test_cluster: Whether the owner permits faults on this cluster. If not, each command asks
            the user for a confirmation.
        version: Kafka version of the cluster, if it should be recorded.
        security: Security settings of clients, by librdkafka's names. The key `clients` contains
            the name of a table in the user's own settings.
        limits: Time limits of commands.
        nodes: Commands for all nodes.
        node: Commands for individual nodes, by broker id. These commands override `nodes`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
    test_cluster: bool = False
    version: str | None = Field(default=None, pattern=r"^\d[0-9A-Za-z.-]{0,60}$")
    security: dict[str, str] = Field(default_factory=dict)
    limits: Limits = Limits()
    nodes: Commands = Commands()
    node: dict[int, Commands] = Field(default_factory=dict)

    @field_validator("bootstrap")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [each for each in value if not _ADDRESS.fullmatch(each)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} does not have the form host:port")
        return value

    @field_validator("security")
    @classmethod
    def _only_secures(cls, value: dict[str, str]) -> dict[str, str]:
        for key, told in value.items():
            if key != "clients" and not _SECURES.fullmatch(key):
                raise ValueError(f"{key} is not a security setting; put it into [client]")
            refers = told.partition(":")[0] in {"env", "file"}
            if is_secret(key) and not _PUBLIC.fullmatch(key) and not refers:
                raise ValueError(
                    f"{key} must not be written in this file; write env:NAME or file:PATH"
                )
        return value

    def commands(self, broker_id: int) -> Commands:
        """Return the commands that are allowed for a broker."""
        own = self.node.get(broker_id, Commands()).model_dump(exclude_none=True)
        return self.nodes.model_copy(update=own)


def load_attached(path: Path) -> AttachedFile:
    """Read the file of an attached cluster.

    Raises:
        PlanError: The file is missing, other users may write it, or a value in it is invalid. The
            message is one sentence and contains no value of `[security]`.
    """
    values = tables_of(path)
    if not values:
        raise PlanError(
            f"{path} does not exist or is empty; docs/systems/attached.toml is an example"
        )
    try:
        return AttachedFile.model_validate(values)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        message = first["msg"].removeprefix("Value error, ")
        raise PlanError(f"{path}: {where}: {message[:1].lower()}{message[1:]}") from None


def security_of(file: AttachedFile, path: Path) -> dict[str, str]:
    """Return librdkafka's security settings; each reference to a secret is replaced by the secret.

    Raises:
        PlanError: A referenced secret is missing, the user's own table has a setting that is not
            for security, or clients would get no token. The message is one sentence and contains no
            value of a setting.
    """
    told = dict(file.security)
    named = told.pop("clients", None)
    own = own_settings(named) if named else {}
    if other := sorted(key for key in own if not _SECURES.fullmatch(key)):
        raise PlanError(
            f"{path}: {other[0]} of [{named}] in {own_file()} is not a security setting; name a"
            " table without it"
        )
    here = {key: _at_hand(path, key, value_of(path, key, each)) for key, each in told.items()}
    settings = {**own, **here}
    if _makes_tokens(settings) and settings.get(UNSECURED, "").lower() != "true":
        raise PlanError(
            f'{path}: OAUTHBEARER needs sasl.oauthbearer.method = "oidc", or, for unsigned'
            f' tokens, {UNSECURED} = "true"'
        )
    return settings


def _makes_tokens(settings: Mapping[str, str]) -> bool:
    """Return whether, with these settings, librdkafka itself would create unsigned OAuth tokens."""
    named = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms", "")
    return (
        settings.get("security.protocol", "").lower().startswith("sasl")
        and named.upper() == "OAUTHBEARER"
        and settings.get("sasl.oauthbearer.method", "default").lower() != "oidc"
    )


def _at_hand(path: Path, key: str, value: str) -> str:
    return str(path.parent / Path(value).expanduser()) if key.endswith(".location") else value


def security_of_clients(plan: Plan) -> Mapping[str, str]:
    """Return the security settings of a run's clients; empty unless the cluster is attached.

    Raises:
        PlanError: The cluster's file cannot be read.
    """
    if plan.named.kind is not SystemKind.ATTACHED:
        return {}
    path = Path(plan.named.path)
    return security_of(load_attached(path), path)
