"""Holds the standard input of a container, so that the container ends when its holder does.

    python line.py SOCKET CONTAINER

The agent of a node starts it, and it dies with the agent, which dies with the harness. Whoever
attached to a container that was made with `StdinOnce` closes its input by going away; the program
in it, a `cat`, ends, and with it the process namespace that all containers of the node share. So a
harness that is killed leaves no broker running.

Needs the standard library only, and nothing of ours: like the agent it is run by its path.
"""

import socket
import sys

READ_BYTES = 1 << 16
HIJACKED = ("101", "200")
"""Statuses of an answer after which the line is the container's (Engine API, ContainerAttach)."""
ATTACHED = "holds the input of"


def hold(path: str, container: str) -> None:
    """Attach to the input of a container, and stay until it has ended.

    Says `ATTACHED` and the container's id, or what the daemon answered instead.

    Args:
        path: Of the daemon's socket.
        container: Its id.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        # Engine API v1.24 and later, ContainerAttach: from here on the line is the container's.
        request = (
            f"POST /v1.24/containers/{container}/attach?stream=1&stdin=1&stdout=1 HTTP/1.1",
            "Host: docker",
            "Connection: Upgrade",
            "Upgrade: tcp",
            "Content-Length: 0",
        )
        line.sendall("".join(f"{each}\r\n" for each in (*request, "")).encode())
        answer = line.recv(READ_BYTES)
        status = answer.partition(b"\r\n")[0].decode(errors="replace")
        if status.partition(" ")[2][:3] not in HIJACKED:
            sys.exit(f"the input of {container} cannot be held: {status or 'no answer'}")
        print(ATTACHED, container, flush=True)  # noqa: T201 - for its log
        while line.recv(READ_BYTES):
            pass


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2])
