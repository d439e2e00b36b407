"""The site's security policy: the requests that the site accepts, and the rules for browsers.

The site serves one machine, and it is read-only. A page of another site must not read this site
through a visitor's browser. So a request must contain one of the site's host names. A foreign host
name that resolves to 127.0.0.1 is refused (DNS rebinding). Only GET and HEAD are accepted. Scripts
in a run's files cannot run in the site's origin.
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
"""Content security policy of a run's files: a separate origin, and no scripts."""
SCRIPTED_POLICY = (
    "sandbox allow-downloads allow-scripts; default-src 'none';"
    " style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""Content security policy of a run's time line, which is a page with a script. The page has a
separate origin and cannot send requests to the site."""


def guard(app: Flask, *, hosts: tuple[str, ...]) -> None:
    """Apply the security policy to an application.

    Args:
        app: The site.
        hosts: Host names, without ports, by which requests may address the site.
    """
    known = frozenset(each.lower() for each in hosts)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY_BYTES
    # Flask's own TRUSTED_HOSTS knows no IPv6 addresses.
    app.before_request(partial(_refuse, known))
    app.after_request(_headers)


def is_unspecified(address: str) -> bool:
    """Return whether an address means all addresses of the machine, as `0.0.0.0` does."""
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def is_local(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def hosts_of(address: str) -> tuple[str, ...]:
    """Return the host names by which requests may address a site that listens at an address."""
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
        with suppress(ValueError):  # Skip hardware addresses, and addresses with a zone.
            known.append(_bracketed(str(ipaddress.ip_address(each))))
    return tuple(dict.fromkeys(known))


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _refuse(known: Set[str]) -> None:
    named = _HOST.fullmatch(request.headers.get("Host", ""))
    if named is None or named["name"].lower() not in known:
        raise BadRequest("This site was requested under a host name that it does not accept.")
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
