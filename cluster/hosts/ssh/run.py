"""Give a run an id on its ssh hosts, and record these hosts before any of them is used."""

import hashlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.hosts.ssh.examine import SUDO, nft_of
from cluster.hosts.ssh.file import SshHost
from results.record.reading import read_bytes

FILE = "ssh.json"
"""The name of a file beside `RunPaths.processes`. This file exists while a host may have traces of
the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshRun:
    """A run's id and hosts, as programs on its ssh hosts know them.

    Attributes:
        run: The run's id on the hosts: 16 hexadecimal digits.
        hosts: The host of each node.
    """

    run: str
    hosts: dict[str, SshHost]

    @property
    def table(self) -> str:
        """The name of the run's nft table on each host."""
        return f"logquake_{self.run[:8]}"

    def folder(self, host: SshHost) -> str:
        """Return the path of the run's folder on a host."""
        return f"{host.folder.rstrip('/')}/{self.run}"

    def order(self, host: SshHost) -> dict[str, object]:
        """Return what the programs on a host need to know about the run."""
        return {
            "folder": self.folder(host),
            "id": self.run,
            "table": self.table,
            "nft": nft_of(host),
            "umount": [*(SUDO if host.sudo else ()), "umount"],
        }

    def note(self, file: Path) -> None:
        """Write the run's id and hosts to a file before any host is used."""
        hosts = {node: asdict(host) for node, host in self.hosts.items()}
        file.write_text(json.dumps({"run": self.run, "hosts": hosts}, indent=1), encoding="utf-8")


def id_of(root: Path) -> str:
    """Return an id that no other run has on any host.

    The id is a digest of this machine's name and the run's folder. So an audit can compute it
    before the run begins and after everything was removed.

    Args:
        root: The run's folder.
    """
    return hashlib.sha256(os.fsencode(f"{socket.gethostname()}:{root.resolve()}")).hexdigest()[:16]


class _Noted(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    run: str = Field(pattern=r"^[0-9a-f]{16}$")
    hosts: dict[str, SshHost]


def noted_run(file: Path) -> SshRun | None:
    """Return the recorded run; None if the record is missing or incomplete.

    If the record is missing or incomplete, the run has used no host.

    Args:
        file: The file with the record; see `FILE`.

    Raises:
        UnsafeFileError: The path is not a regular file.
    """
    try:
        noted = _Noted.model_validate_json(read_bytes(file))
    except (FileNotFoundError, ValidationError):
        return None
    return SshRun(run=noted.run, hosts=noted.hosts)
