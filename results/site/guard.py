"""What the site lets in, and what it tells browsers to forbid.

The site is for one machine and only reads; still, a page elsewhere must not be able to read it
through a reader's browser. So requests name a host that is ours (a name that somebody lets point to
127.0.0.1 is none: DNS rebinding), nothing but GET and HEAD is answered, and whatever a run's files
hold is shown where no script of theirs may run.
"""

import ipaddress
import re
import socket
from collections.abc import Set
from contextlib import suppress
from functools import partial

import psutil
from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, MethodNotAllowed, RequestURITooLarge

MAX_BODY_BYTES = 4096
MAX_QUERY_CHARACTERS = 4096
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
STORED_POLICY = (
    "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline';"
    " img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of files of a run: an origin of its own, and no script at all."""
SCRIPTED_POLICY = (
    "sandbox allow-downloads allow-scripts; default-src 'none';"
    " style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""Of a run's time line, which is a drawing with its script in it: an origin of its own, from which
nothing of the site can be asked for."""


def guard(app: Flask, *, hosts: tuple[str, ...]) -> None:
    """Make an application obey this module.

    Args:
        app: The site.
        hosts: Names that requests may call it by, without ports.
    """
    known = frozenset(each.lower() for each in hosts)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY_BYTES
    # Flask's own TRUSTED_HOSTS knows no IPv6 addresses.
    app.before_request(partial(_refuse, known))
    app.after_request(_headers)


def is_unspecified(address: str) -> bool:
    """Tell whether who listens at an address listens at all addresses of the machine."""
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def is_local(address: str) -> bool:
    """Tell whether nobody reaches an address from another machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def hosts_of(address: str) -> tuple[str, ...]:
    """Return the names by which a site may be called that listens at an address."""
    try:
        listening = ipaddress.ip_address(address)
    except ValueError:
        return (*LOOPBACK, address)
    if listening.is_loopback:
        return LOOPBACK
    if not listening.is_unspecified:
        return (*LOOPBACK, _bracketed(address))
    ours = {each.address for links in psutil.net_if_addrs().values() for each in links}
    known = [*LOOPBACK, socket.gethostname(), socket.getfqdn()]
    for each in sorted(ours):
        with suppress(ValueError):  # Addresses of cards, and those with a zone.
            known.append(_bracketed(str(ipaddress.ip_address(each))))
    return tuple(dict.fromkeys(known))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _refuse(known: Set[str]) -> None:
    named = _HOST.fullmatch(request.headers.get("Host", ""))
    if named is None or named["name"].lower() not in known:
        raise BadRequest("This site is called by another name.")
    if request.method not in {"GET", "HEAD", "OPTIONS"}:
        raise MethodNotAllowed(valid_methods=["GET", "HEAD"])
    if len(request.query_string) > MAX_QUERY_CHARACTERS:
        raise RequestURITooLarge


def _headers(response: Response) -> Response:
    headers = response.headers
    headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    headers.setdefault("Cache-Control", "no-store")
    return response
