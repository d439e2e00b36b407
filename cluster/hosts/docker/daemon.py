"""Connect to this machine's Docker daemon, and explain the daemon's refusals."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError as NoConnectionError
from requests.exceptions import Timeout

from cluster.protocol import ClusterError, UserError

ANSWER_TIMEOUT_S = 60
"""The timeout for a response of the daemon. While JVMs start on two cores, the daemon may be
slow."""
DEFAULT_SOCKET = "/var/run/docker.sock"
_LOCAL = "unix://"


def socket_path() -> str:
    """Return the path of the daemon's socket.

    Raises:
        UserError: `DOCKER_HOST` names a daemon on another machine. This machine could not access
            the network namespaces and files of that daemon's containers.
    """
    address = os.environ.get("DOCKER_HOST") or _LOCAL + DEFAULT_SOCKET
    if not address.startswith(_LOCAL):
        raise UserError(
            f"DOCKER_HOST={address} is on another machine, but --hosts docker needs a daemon on"
            " this machine: unset DOCKER_HOST, or use --hosts ssh"
        )
    return address.removeprefix(_LOCAL)


def connect() -> docker.DockerClient:
    """Return a client of this machine's Docker daemon.

    Raises:
        UserError: The daemon does not run, or this user may not use it. The message is one sentence
            with the remedy.
    """
    path = socket_path()
    _knock(path)
    try:
        return docker.DockerClient(base_url=_LOCAL + path, timeout=ANSWER_TIMEOUT_S)
    except DockerException as refused:
        raise UserError(
            f"the process that listens at {path} is not a Docker daemon: {refused}"
        ) from refused


def _knock(path: str) -> None:
    """If no daemon listens, raise an error with the reason. The client itself gives no reason."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(path)
    except PermissionError as refused:
        raise UserError(
            f"you have no access to the Docker daemon at {path}; type: sudo logquake ..., or use"
            " --hosts namespace"
        ) from refused
    except OSError as refused:
        raise UserError(
            f"the Docker daemon does not run (no process listens at {path}); type: sudo systemctl"
            " start docker, or use --hosts namespace"
        ) from refused


@contextmanager
def connected() -> Iterator[docker.DockerClient]:
    """Yield a client of the Docker daemon; raise the daemon's refusals as `ClusterError`."""
    with closing(connect()) as client, explained():
        yield client


@contextmanager
def explained() -> Iterator[None]:
    """Raise a refusal of the daemon as `ClusterError` with the daemon's own text."""
    try:
        yield
    except APIError as refused:
        raise ClusterError(f"Docker refuses: {refused.explanation or refused}") from refused
    except (NoConnectionError, Timeout) as gone:
        raise ClusterError(f"the Docker daemon no longer answers ({gone})") from gone
