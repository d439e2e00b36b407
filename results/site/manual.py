"""The documentation's site: files of a folder, served with the site's own limits.

Its pages are ours, and hold scripts in their text (the theme's), so they have a policy of their
own. No page may ask another machine for anything.
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
        hosts: Names that requests may call the site by, without ports.
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
