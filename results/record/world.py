"""Where a process's number means that process: a boot of a machine, and a namespace of processes.

Containers that share a store have the same kernel, and numbers of their own (man 7
pid_namespaces): a number of another world says nothing in this one.
"""

from pathlib import Path

_PIDS = "/proc/{pid}/ns/pid"


def boot_id() -> str:
    """Return what tells this boot of the machine from others; empty where it is not known."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def world() -> str:
    """Return this process's world, without blanks: `<boot id>/pid:[<inode>]`."""
    return f"{boot_id()}/{_namespace('self')}"


def is_of_this_world(pid: int) -> bool:
    """Tell whether a process that this one sees has its number in the same namespace."""
    return _namespace(str(pid)) == _namespace("self")


def _namespace(pid: str) -> str:
    try:
        return str(Path(_PIDS.format(pid=pid)).readlink())
    except OSError:  # It has ended, or is another user's; or there is no /proc.
        return ""
