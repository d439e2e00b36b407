"""Small tasks on an ssh host: examine the host, handle files, and connect to the host's warden.

The code needs the standard library only. The harness sends the text of this module to the host's
Python (see `cluster.hosts.ssh.warden`), or runs this file in the run's folder.
"""

import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

Order = dict[str, Any]
"""A JSON object: the request's name (`do`), and the values that the request needs."""

LINE = "line"
"""The name of the warden's socket in the run's folder."""
NO_WARDEN = 3
"""Exit code of `talk` if the warden has ended."""
READ_BYTES = 1 << 16
COMMAND_TIMEOUT_S = 20.0


def examine(order: Order) -> Order:
    """Report the programs, space and rights that this host has for a run; change nothing.

    Args:
        order: `folder`, `java`, `nft`, `rules` (to be tried) and `listen`.
    """
    base = Path(order["folder"])
    existing = next(each for each in (base, *base.parents) if _is_there(each))
    room = os.statvfs(existing)
    return {
        "python": list(sys.version_info[:3]),
        "user": os.environ.get("USER", str(os.geteuid())),
        # Without that flag Java leaves a folder in the host's /tmp.
        "java": _said([order["java"], "-XX:-UsePerfData", "-version"]),
        "nft": _refusal(order),
        "free": room.f_bavail * room.f_frsize,
        "writable": os.access(existing, os.W_OK | os.X_OK),
        "existing": str(existing),
        "address": _not_ours(order["listen"]),
        "harness": os.environ.get("SSH_CONNECTION", "").split(" ")[0],
    }


def try_program(order: Order) -> Order:
    """Try a program on this host; return why it does not work, or an empty string.

    After the trial, the host is as it was before.

    Args:
        order: `program`, the program's text; `flag`, an argument that makes the program run a
            trial; `addresses` of other hosts, if needed.
    """
    program = [sys.executable, "-I", "-S", "-c", order["program"], order["flag"]]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [*program, *order["addresses"]],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as failed:
        return {"refused": str(failed)}
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"refused": said[-1] if done.returncode else ""}


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # A folder above it may not be readable.
        return False


def _said(argv: "list[str]") -> "str | None":
    try:
        done = subprocess.run(  # noqa: S603 - what the user's file names
            argv, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr


def _refusal(order: Order) -> str:
    """Return the reason if nft rules cannot be made here, or an empty string.

    nft only checks the rules.
    """
    try:
        done = subprocess.run(  # noqa: S603 - what the harness asks for
            [*order["nft"], "-c", "-f", "-"],
            input=order["rules"],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as refused:
        return str(refused)
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return said[0] if done.returncode else ""


def _not_ours(address: str) -> str:
    """Return why this host cannot listen at an address, or an empty string."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError as refused:
            return str(refused.strerror)
    return ""


def files(order: Order) -> Order:
    """Return the files below `folder` whose path matches `pattern`, as in `Path.glob`."""
    folder = Path(order["folder"])
    found = [str(path.relative_to(folder)) for path in folder.glob(order["pattern"])
             if path.is_file()]  # fmt: skip
    return {"files": sorted(found)}


def remove(order: Order) -> Order:
    """Remove the file or folder `path` below `folder`. Idempotent."""
    target = Path(order["folder"]) / order["path"]
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    return {}


def unpack(folder: Path) -> None:
    """Extract a tar from standard input into a folder; report an error as a JSON object."""
    answer: Order = {}
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
            for member in archive:
                archive.extract(member, folder)
    except (OSError, tarfile.TarError) as failed:
        answer = {"error": str(failed), "errno": getattr(failed, "errno", None)}
    sys.stdout.write(json.dumps(answer) + "\n")


def pack(folder: Path, left_out: "list[str]") -> None:
    """Write a tar of a folder's files to standard output. Leave out files with certain suffixes."""
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in left_out and path.is_file() and not path.is_symlink():
                archive.add(path, str(path.relative_to(folder)))


def talk(folder: Path) -> int:
    """Copy standard input to the warden's socket, and the socket's data to standard output.

    Return the exit code.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.chdir(folder)
        line.connect(LINE)
    except OSError:
        return NO_WARDEN
    selector = selectors.DefaultSelector()
    for source, target in ((0, line.fileno()), (line.fileno(), 1)):
        selector.register(source, selectors.EVENT_READ, (source, target))
    while True:
        for key, _ in selector.select():
            source, target = key.data
            try:
                data = os.read(source, READ_BYTES)
                if not data:
                    return 0
                while data:
                    data = data[os.write(target, data) :]
            except OSError:
                return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["talk", place]:
            sys.exit(talk(Path(place)))
        case ["unpack", place]:
            unpack(Path(place))
        case ["pack", place, *endings]:
            pack(Path(place), endings)
        case _:
            sys.exit(f"unknown errand: {sys.argv[1:]}")
