"""Serve the documentation, i.e. the files in a folder, within the same limits as the local site.

Logquake wrote these pages, and the theme of the pages contains inline scripts. So the pages have a
security policy of their own. No page may send requests to another machine.
"""

from pathlib import Path

from flask import Flask, Response, send_from_directory
from werkzeug.exceptions import HTTPException

from results.site.guard import LOOPBACK, guard

POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline';"
    " worker-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self';"
    " form-action 'none'; base-uri 'self'; frame-ancestors 'none'"
)
_FRONT, _MISSING = "index.html", "404.html"


def make_manual(folder: Path, *, hosts: tuple[str, ...] = LOOPBACK) -> Flask:
    """Return the documentation as a WSGI application.

    Args:
        folder: The built site.
        hosts: Host names, without ports, by which requests may address the site.
    """
    app = Flask("logquake-docs", static_folder=None, template_folder=None)
    guard(app, hosts=hosts)

    def page(path: str = _FRONT) -> Response:
        name = f"{path}{_FRONT}" if path.endswith("/") else path
        return _ours(send_from_directory(folder, name))

    def wrong(problem: HTTPException) -> Response | HTTPException:
        if problem.code != 404:  # noqa: PLR2004 - of HTTP
            return problem
        response = _ours(send_from_directory(folder, _MISSING))
        response.status_code = 404
        return response

    app.add_url_rule("/", "front", page)
    app.add_url_rule("/<path:path>", "page", page)
    app.register_error_handler(HTTPException, wrong)
    return app


def _ours(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    return response
