"""Run a command on a node of a kept cluster: in the node's namespaces and its folder."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.hosts.namespace import search_path
from harness.keep import WITH_AGENTS, Kept, Machine
from results.record.atomic import StoreError

IN_FOLDER = ("sh", "-c", 'cd "$0" && exec "$@"')
"""A shell command that changes to the node's folder, because `nsenter` does not do this."""


def machine_named(kept: Kept, name: str) -> Machine:
    """Return a kept cluster's machine by its name.

    Raises:
        StoreError: The cluster has no machine of that name.
    """
    if name not in kept.machines:
        raise StoreError(f"there is no node {name}; the nodes are {', '.join(kept.machines)}")
    return kept.machines[name]


def run_on(kept: Kept, name: str, command: Sequence[str], *, programs: Mapping[str, str]) -> int:
    """Run a command on a node, with the standard input, output and error of this process.

    Args:
        kept: The kept cluster.
        name: The node.
        command: Program and arguments.
        programs: Environment variables with the paths of Kafka's programs, from
            `harness.keep.programs_of`.

    Returns:
        The command's exit code. If a signal ended the command, 128 plus the signal's number, as in
        a shell.

    Raises:
        StoreError: There is no such node, or its namespaces cannot be entered.
    """
    machine = machine_named(kept, name)
    argv = [*_entrance(kept, machine), *IN_FOLDER, machine.folder, *command]
    # Ctrl-C also reaches the command, which may be a shell and decides itself what to do.
    # The command does not inherit a handler, but would inherit SIG_IGN.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run(  # noqa: S603 - the user's own command
            argv, env={**os.environ, **environment(kept, name), **programs}, check=False
        ).returncode
    except FileNotFoundError as missing:
        raise StoreError(
            f"the command {missing.filename} is missing; type: apt-get install util-linux"
        ) from missing
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def environment(kept: Kept, name: str) -> Mapping[str, str]:
    """Return the environment variables of a command on a node."""
    machine = machine_named(kept, name)
    return {
        "NODE": name,
        "BROKER": machine.address,
        **kept.addresses,
        "PATH": search_path(),
    }


def _entrance(kept: Kept, machine: Machine) -> list[str]:
    """Return the `nsenter` command for a machine's namespaces; an empty list without namespaces."""
    if kept.hosts not in WITH_AGENTS:
        return []
    # A process cannot enter its own user namespace again (man 2 setns). The machines of an
    # ordinary user have another user namespace, in which the user is root.
    own, theirs = Path("/proc/self/ns/user"), Path(f"/proc/{machine.pid}/ns/user")
    user = [] if own.readlink() == theirs.readlink() else ["--user", "--preserve-credentials"]
    return ["nsenter", f"--target={machine.pid}", *user, "--net", "--mount", "--"]
