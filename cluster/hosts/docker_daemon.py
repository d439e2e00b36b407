"""The line to the Docker daemon of this machine, and what its refusals mean."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError as NoConnectionError
from requests.exceptions import Timeout

from cluster.protocol import ClusterError, UserError

ANSWER_TIMEOUT_S = 60
"""On two cores that start JVMs, the daemon may take its time."""
DEFAULT_SOCKET = "/var/run/docker.sock"
_LOCAL = "unix://"


def socket_path() -> str:
    """Return the path of the daemon's socket.

    Raises:
        UserError: `DOCKER_HOST` names a daemon elsewhere: its containers' network namespaces and
            files are not this machine's.
    """
    address = os.environ.get("DOCKER_HOST") or _LOCAL + DEFAULT_SOCKET
    if not address.startswith(_LOCAL):
        raise UserError(
            f"DOCKER_HOST={address} is no daemon of this machine, which --hosts docker needs: unset"
            " it, or use --hosts ssh"
        )
    return address.removeprefix(_LOCAL)


def connect() -> docker.DockerClient:
    """Return a client of this machine's daemon, which answers.

    Raises:
        UserError: It does not run, or may not be talked to; one sentence with the remedy.
    """
    path = socket_path()
    try:
        client = docker.DockerClient(base_url=_LOCAL + path, timeout=ANSWER_TIMEOUT_S)
    except DockerException as refused:
        raise UserError(_why_silent(refused, path)) from refused
    return client


@contextmanager
def connected() -> Iterator[docker.DockerClient]:
    """Return a client for a while; what the daemon refuses is a `ClusterError`."""
    with closing(connect()) as client, explained():
        yield client


@contextmanager
def explained() -> Iterator[None]:
    """Turn what the daemon refuses into a `ClusterError` with its own words."""
    try:
        yield
    except APIError as refused:
        raise ClusterError(f"Docker refuses: {refused.explanation or refused}") from refused
    except (NoConnectionError, Timeout) as gone:
        raise ClusterError(f"the Docker daemon does not answer any more ({gone})") from gone


def _why_silent(refused: DockerException, path: str) -> str:
    causes = _causes(refused)
    if any(isinstance(cause, PermissionError) for cause in causes):
        return (
            f"you may not talk to the Docker daemon at {path}; type: sudo logquake ..., or use"
            " --hosts namespace"
        )
    if any(isinstance(cause, FileNotFoundError | ConnectionRefusedError) for cause in causes):
        return (
            f"the Docker daemon does not run (nobody listens at {path}); type: sudo systemctl start"
            " docker, or use --hosts namespace"
        )
    return f"the Docker daemon at {path} does not answer: {refused}"


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and all that it was raised from; urllib3 and requests keep theirs as args."""
    found: list[BaseException] = []
    left: list[object] = [error]
    while left:
        each = left.pop()
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            left += [each.__cause__, each.__context__, *each.args]
    return found
