"""Keep the standard input of a container open, so that the container ends with this program.

    python line.py SOCKET CONTAINER

A node's agent starts this program. The program dies with the agent, and the agent dies with the
harness. Logquake creates the container with `StdinOnce`: the container's input closes when this
program ends. The `cat` in the container then ends. The end of `cat` also ends the process namespace
that all containers of the node share. Thus no broker still runs after the harness was killed.

This program needs the standard library only. Like the agent's file, this file is run by its path.
"""

import socket
import sys

READ_BYTES = 1 << 16
HIJACKED = ("101", "200")
"""HTTP statuses of a successful attach.

After a response with such a status, the socket carries the container's input and output (Engine
API, ContainerAttach).
"""
ATTACHED = "holds the input of"


def hold(path: str, container: str) -> None:
    """Attach to a container's input, and stay until the container ends.

    Print `ATTACHED` and the container's id. If the daemon refuses, print the daemon's response.

    Args:
        path: The path of the daemon's socket.
        container: The container's id.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        # Engine API v1.24 and later, ContainerAttach: after the answer, the socket carries the
        # container's input and output.
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
            sys.exit(f"cannot hold the input of {container} open: {status or 'no answer'}")
        print(ATTACHED, container, flush=True)  # noqa: T201 - for its log
        while line.recv(READ_BYTES):
            pass


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2])
