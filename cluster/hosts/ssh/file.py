"""Read `HOSTS.toml`, which lists the machines of ssh hosts and how to reach them."""

import tomllib
from dataclasses import dataclass
from getpass import getuser
from ipaddress import IPv4Address
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.protocol import UserError
from results.trust import read_own_text

KNOWN_HOSTS = "~/.ssh/known_hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """One machine.

    Attributes:
        name: The machine's name in messages.
        address: The address at which the machine's broker listens. The broker also connects from
            this address.
        ssh_address, port: The address and port of the machine's sshd.
        user: The user who logs in.
        key: The file of the private key; None: use the ssh agent and the keys in `~/.ssh`.
        known_hosts: The file that contains the machine's host key.
        folder: The folder on the machine that contains the folders of all runs; `~` is the user's
            home.
        java: The path of the program `java` on the machine.
        sudo: Whether nft runs through `sudo -n`.
        ttl_s: If the harness sends no message for this many seconds, the host undoes everything.
    """

    name: str
    address: str
    ssh_address: str
    port: int
    user: str
    key: str | None
    known_hosts: str
    folder: str
    java: str
    sudo: bool
    ttl_s: float


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Settings(_Strict):
    """The settings that you can write either for each host, or once for all hosts."""

    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = Field(default=None, min_length=1)
    key: str | None = Field(default=None, min_length=1)
    known_hosts: str | None = Field(default=None, min_length=1)
    folder: str | None = Field(default=None, pattern=r"^(~/|/)[^\n:,]+$")
    java: str | None = Field(default=None, min_length=1)
    sudo: bool | None = None


class _Host(_Settings):
    address: str
    ssh: str | None = Field(default=None, min_length=1)
    name: str | None = Field(default=None, min_length=1)


class _File(_Settings):
    ttl_s: float = Field(default=60, ge=3, le=3600)
    hosts: list[_Host] = Field(min_length=1)


def load_hosts(path: Path) -> tuple[SshHost, ...]:
    """Return the machines of a hosts file, in the order of the run's nodes.

    The file must belong to the user or to root.

    Raises:
        UserError: The file is wrong. The message is one sentence that names the key, the value and
            the remedy.
    """
    try:
        values = tomllib.loads(read_own_text(path))
    except (OSError, UnicodeDecodeError) as unreadable:
        why = getattr(unreadable, "strerror", None) or "it is not UTF-8"
        raise UserError(f"the hosts file {path} cannot be read: {why}") from unreadable
    except tomllib.TOMLDecodeError as malformed:
        raise UserError(f"the hosts file {path} is not valid TOML: {malformed}") from malformed
    try:
        file = _File.model_validate(values)
    except ValidationError as invalid:
        raise UserError(_sentence(path, invalid)) from invalid
    hosts = tuple(_host(file, each, path, number=at) for at, each in enumerate(file.hosts, 1))
    _refuse_twins(path, hosts)
    return hosts


def _host(file: _File, own: _Host, path: Path, *, number: int) -> SshHost:
    try:
        address = str(IPv4Address(own.address))
    except ValueError as wrong:
        raise UserError(
            f"{path}: the address of host {number} cannot be {own.address!r}: write the IPv4"
            " address at which the other hosts reach it"
        ) from wrong
    user = own.user or file.user or getuser()
    key = own.key or file.key
    sudo = own.sudo if own.sudo is not None else file.sudo
    return SshHost(
        name=own.name or f"n{number}",
        address=address,
        ssh_address=own.ssh or address,
        port=own.port or file.port or 22,
        user=user,
        key=_file(path, key) if key else None,
        known_hosts=_file(path, own.known_hosts or file.known_hosts or KNOWN_HOSTS),
        folder=own.folder or file.folder or "~/.logquake",
        java=own.java or file.java or "java",
        sudo=sudo if sudo is not None else user != "root",
        ttl_s=file.ttl_s,
    )


def _file(beside: Path, name: str) -> str:
    """Return the path of a file; a relative path starts at the folder of `HOSTS.toml`."""
    return str(beside.absolute().parent / Path(name).expanduser())


def _refuse_twins(path: Path, hosts: tuple[SshHost, ...]) -> None:
    for what, values in (
        ("address", [host.address for host in hosts]),
        ("name", [host.name for host in hosts]),
    ):
        twin = next((value for value in values if values.count(value) > 1), None)
        if twin is not None:
            raise UserError(
                f"{path}: two hosts have the {what} {twin}; give each host its own {what}"
            )


def _sentence(path: Path, invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False)[0]
    # Hosts are numbered from 1, as nodes are.
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{path} has an unknown key {key!r} (see docs/hosts.md)"
    if first["type"] == "missing":
        return f"{path}: {key} is missing (see docs/hosts.md)"
    message = first["msg"].removeprefix("Value error, ")
    return f"{path}: {key} cannot be {first['input']!r}: {message[:1].lower()}{message[1:]}"
