"""A command on a node of a kept cluster: in its namespaces, in its folder."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.hosts.namespace import search_path
from harness.keep import WITH_AGENTS, Kept, Machine
from results.record.atomic import StoreError

IN_FOLDER = ("sh", "-c", 'cd "$0" && exec "$@"')
"""To enter a mount namespace is to lose the working folder: it is entered again inside."""


def machine_named(kept: Kept, name: str) -> Machine:
    """Return a machine of a kept cluster.

    Raises:
        StoreError: There is none of that name.
    """
    if name not in kept.machines:
        raise StoreError(f"there is no node {name}, only {', '.join(kept.machines)}")
    return kept.machines[name]


def run_on(kept: Kept, name: str, command: Sequence[str], *, programs: Mapping[str, str]) -> int:
    """Run a command on a node with our own standard input, output and error.

    Args:
        kept: The cluster.
        name: The node.
        command: Program and arguments.
        programs: Goes into its environment: `harness.keep.programs_of`.

    Returns:
        Its exit code; as a shell has it, 128 and the signal's number if one ended it.

    Raises:
        StoreError: There is no such node, or its namespaces cannot be entered.
    """
    machine = machine_named(kept, name)
    argv = [*_entrance(kept, machine), *IN_FOLDER, machine.folder, *command]
    # Ctrl-C reaches the command too, which may be a shell: what it does with it is its own affair.
    # A handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run(  # noqa: S603 - what the user asks for
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
    """Return what a command on a node finds in its environment."""
    machine = machine_named(kept, name)
    return {
        "NODE": name,
        "BROKER": machine.address,
        **kept.addresses,
        "PATH": search_path(),
    }


def _entrance(kept: Kept, machine: Machine) -> list[str]:
    """Return the start of a command line that enters a machine's namespaces, as far as needed."""
    if kept.hosts not in WITH_AGENTS:
        return []
    # One's own user namespace cannot be entered once more (man 2 setns); an ordinary user's
    # machines have another one than he has, in which he is root.
    own, theirs = Path("/proc/self/ns/user"), Path(f"/proc/{machine.pid}/ns/user")
    user = [] if own.readlink() == theirs.readlink() else ["--user", "--preserve-credentials"]
    return ["nsenter", f"--target={machine.pid}", *user, "--net", "--mount", "--"]
