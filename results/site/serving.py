"""The web server of the site: waitress, with limits."""

import errno
from collections.abc import Callable
from pathlib import Path

from flask import Flask
from waitress.server import create_server

from results.record.atomic import StoreError
from results.site.application import make_site
from results.site.guard import MAX_BODY_BYTES, hosts_of, is_unspecified
from results.site.manual import make_manual
from results.store import Store

MAX_HEADER_BYTES = 16_384
THREADS = 8
_IDLE_S = 20
"""A connection is closed if no complete request has come after so many seconds."""
_LOOK_S = 5
_CONNECTIONS = 800
"""Maximum number of connections. It is lower than 1,024, the number of files that a process may
open."""


def serve(store: Store, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the site until the process is asked to stop.

    Args:
        store: The store to show.
        host: The address to listen at.
        port: The port; 0 for any free port.
        ready: A function that is called with the site's URL when the server accepts requests.

    Raises:
        StoreError: The server cannot listen at this address.
    """
    _listen(make_site(store, hosts=hosts_of(host)), host=host, port=port, ready=ready)


def serve_manual(folder: Path, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the built documentation until the process is asked to stop.

    Args:
        folder: The built site.
        host: The address to listen at.
        port: The port; 0 for any free port.
        ready: A function that is called with the site's URL when the server accepts requests.

    Raises:
        StoreError: The server cannot listen at this address.
    """
    _listen(make_manual(folder, hosts=hosts_of(host)), host=host, port=port, ready=ready)


def _listen(app: Flask, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    try:
        server = create_server(
            app,
            host=host,
            port=port,
            threads=THREADS,
            ident=None,
            max_request_body_size=MAX_BODY_BYTES,
            max_request_header_size=MAX_HEADER_BYTES,
            channel_timeout=_IDLE_S,
            cleanup_interval=_LOOK_S,
            connection_limit=_CONNECTIONS,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=True,
        )
    except OSError as refused:
        raise StoreError(_refusal(refused, host, port)) from refused
    # A name may have several addresses; then there is a socket for each.
    several: list[tuple[str, int]] = getattr(server, "effective_listen", [])
    taken = several[0][1] if several else int(getattr(server, "effective_port", port))
    ready(_url(host, taken))
    try:
        server.run()
    finally:
        server.close()


def _url(host: str, port: int) -> str:
    if is_unspecified(host):  # The site accepts these names. `::` listens at IPv6 only.
        host = "::1" if ":" in host else "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


def _refusal(refused: OSError, host: str, port: int) -> str:
    match refused.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} of {host} is in use: use another port with --port (0: any free port)"
            )
        case errno.EACCES:
            return f"port {port} needs root: use a port above 1023 with --port"
        case _:
            return f"cannot listen at {host}:{port}: {refused.strerror or refused}"
