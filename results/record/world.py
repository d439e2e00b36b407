"""Identify the boot and the PID namespace within which a process id identifies a process.

Containers that share a store have the same kernel, but their own process ids (man 7
pid_namespaces). So a process id from another boot or namespace must not be used here.
"""

from pathlib import Path

_PIDS = "/proc/{pid}/ns/pid"


def boot_id() -> str:
    """Return the id of this boot of the machine; "" if unknown."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def world() -> str:
    """Return the boot and PID namespace of this process as text: `<boot id>/pid:[<inode>]`."""
    return f"{boot_id()}/{_namespace('self')}"


def is_of_this_world(pid: int) -> bool:
    """Return whether a visible process belongs to the PID namespace of this process."""
    return _namespace(str(pid)) == _namespace("self")


def _namespace(pid: str) -> str:
    try:
        return str(Path(_PIDS.format(pid=pid)).readlink())
    except OSError:  # The process has ended or belongs to another user, or there is no /proc.
        return ""
