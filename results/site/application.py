"""The Flask application: routes, security policy, and error pages."""

from pathlib import Path

from flask import Flask, Response, send_from_directory
from werkzeug.exceptions import HTTPException, NotFound

from results.engine import TEMPLATES
from results.record.atomic import StoreError
from results.site.browsing import browsing
from results.site.guard import LOOPBACK, guard
from results.site.nightly import nightly
from results.site.pages import page
from results.site.running import running
from results.site.shelf import Shelf
from results.site.stored import stored
from results.store import Store

_ASSETS = {"site.css", "live.js"}
_KEPT_S = 300


def make_site(store: Store, *, hosts: tuple[str, ...] = LOOPBACK) -> Flask:
    """Return the site over a store, as a WSGI application.

    Args:
        store: The store to show; it need not exist yet.
        hosts: Host names, without ports, by which requests may address the site.
    """
    app = Flask("logquake", static_folder=None, template_folder=None)
    app.extensions["shelf"] = Shelf(store)
    guard(app, hosts=hosts)
    for blueprint in (browsing, nightly, running, stored):
        app.register_blueprint(blueprint)
    app.add_url_rule("/assets/<name>", "asset", _asset)
    app.add_url_rule("/favicon.ico", "icon", _no_icon)
    app.register_error_handler(HTTPException, _wrong)
    app.register_error_handler(StoreError, _unreadable)
    return app


def _asset(name: str) -> Response:
    if name not in _ASSETS:
        raise NotFound
    response: Response
    if name == "site.css":
        response = Response(_style(), mimetype="text/css")
    else:
        response = send_from_directory(TEMPLATES / "site", name, mimetype="text/javascript")
    response.headers["Cache-Control"] = f"max-age={_KEPT_S}"
    return response


def _no_icon() -> Response:
    """Respond to a browser's request for `/favicon.ico`: the site has no such file.

    The site's own pages contain the path of their icon. For files of runs, browsers request
    `/favicon.ico`.
    """
    return Response(status=204)


def _style() -> str:
    """Return the style sheet: the styles of runs' pages, and then the site's own rules."""
    parts = ("colours.css", "style.css", "site/site.css")
    return "".join(Path(TEMPLATES / name).read_text(encoding="utf-8") for name in parts)


def _wrong(problem: HTTPException) -> Response:
    response = page("wrong.html", code=problem.code or 500, what=problem.name,
                    why=problem.description or "")  # fmt: skip
    response.status_code = problem.code or 500
    for name, value in problem.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def _unreadable(trouble: StoreError) -> Response:
    response = page("wrong.html", code=503, what="The store cannot be read", why=str(trouble))
    response.status_code = 503
    return response
