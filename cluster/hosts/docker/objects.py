"""Name, list and remove a run's Docker objects. Labels alone show which objects are a run's."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from cluster.hosts.docker.daemon import connected
from results.record.clock import wait_until
from results.record.paths import RunPaths

RUN_LABEL = "logquake.run"
STORE_LABEL = "logquake.store"
NODE_LABEL = "logquake.node"
GONE_TIMEOUT_S = 30.0
AT_ONCE = 8
BEING_REMOVED = 409
"""The HTTP status if another client is removing the container (Engine API, ContainerDelete)."""


def labels_of(root: Path) -> dict[str, str]:
    """Return the labels that every Docker object of a run has.

    Args:
        root: The run's folder.
    """
    folder = root.resolve()  # Resolved, so that every path to the folder gives the same labels.
    return {RUN_LABEL: RunPaths(folder).run_id, STORE_LABEL: str(folder.parent.parent)}


def prefix_of(root: Path) -> str:
    """Return the common prefix of the names of a run's objects. Prefixes differ between stores."""
    folder = root.resolve()
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", folder.name)
    return f"logquake-{readable}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]}"


def container_of(root: Path, node: str) -> str:
    """Return the name of the container that keeps a node's namespaces alive during the run."""
    return f"{prefix_of(root)}-{node}"


def heal_docker(root: Path) -> list[str]:
    """Remove all containers and networks of a dead run, and no other objects. Idempotent.

    The containers' files are kept, because these files are in the run's folder.

    Args:
        root: The run's folder.

    Returns:
        A sentence for each removed object.

    Raises:
        UserError: The daemon does not answer.
        ClusterError: The daemon refuses.
    """
    with connected() as client:
        return remove_objects(client, root)


def remove_objects(client: docker.DockerClient, root: Path) -> list[str]:
    """Remove every container and network of a run, and wait until none is left."""
    said: list[str] = []
    while found := containers_of(client, root):
        # This also removes the anonymous volumes that an image declares, and kills paused
        # containers.
        ways = [partial(container.remove, force=True, v=True) for container in found]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            gone = list(pool.map(removed, ways))
        said += [
            f"removed the container {container.name}"
            for container, done in zip(found, gone, strict=True)
            if done
        ]
        _wait_gone([container.id for container in found], client)
    said += [
        f"removed the network {network.name}"
        for network in networks_of(client, root)
        if removed(network.remove)
    ]
    return said


def containers_of(client: docker.DockerClient, root: Path) -> list[Any]:
    """Return a run's containers, including stopped containers."""
    listed = client.containers.list(
        all=True, filters={"label": _filters(root)}, ignore_removed=True
    )
    return list(listed)


def networks_of(client: docker.DockerClient, root: Path) -> list[Any]:
    """Return a run's Docker networks."""
    return list(client.networks.list(filters={"label": _filters(root)}))


def traces_of(root: Path) -> Mapping[str, str]:
    """Return the run's objects that exist on the daemon now, for the audit of traces."""
    with connected() as client:
        found = {f"container {each.name}": each.status for each in containers_of(client, root)}
        return found | {f"network {each.name}": "" for each in networks_of(client, root)}


def _filters(root: Path) -> list[str]:
    return [f"{label}={value}" for label, value in labels_of(root).items()]


def removed(remove: Callable[[], object]) -> bool:
    """Remove a Docker object; return False if it is already removed or being removed."""
    try:
        remove()
    except NotFound:
        return False
    except APIError as refused:
        if refused.status_code != BEING_REMOVED:
            raise
        return False
    return True


def _wait_gone(ids: list[str], client: docker.DockerClient) -> None:
    def none_is_left() -> bool:
        for each in list(ids):
            with suppress(NotFound):
                client.api.inspect_container(each)
                return False
            ids.remove(each)
        return True

    wait_until(none_is_left, timeout_s=GONE_TIMEOUT_S, what="the end of the run's containers")
