"""The site's pages of one run: the summary, and the live view during the run."""

import shlex
from contextlib import suppress

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from results.export.contents import contents_of
from results.index import RunQuery, RunRow
from results.index.reading import is_plain, stored_names
from results.page.facts import facts_of
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.verdict import Verdict
from results.site.browsing import shelf
from results.site.pages import page
from results.site.stored import has_bundle
from results.site.watching import sight_of
from results.verdict_json import read_verdict
from results.wording.headline import counting, headline, ranked_anomalies
from results.wording.naming import said

running = Blueprint("runs", __name__)
_BESIDE = 6


@running.get("/run/<name>/<folder>/")
def run(name: str, folder: str) -> Response:
    """Return the page of a run: a summary, with links to all pages and files."""
    row = shelf().row(name, folder)
    paths, index = shelf().paths(row), shelf().index()
    verdict, names = _verdict(paths), stored_names(paths)
    head = headline(verdict, alive=row.state == "running")
    alike = index.runs(RunQuery(setting=row.setting, limit=_BESIDE)) if row.setting else ()
    return page(
        "run.html",
        row=row,
        head=head,
        facts=facts_of(head.witness),
        verdict=verdict,
        in_words=lambda text: names.html(said(text)),
        alone=names.alone,
        anomalies=ranked_anomalies(verdict) if verdict else [],
        counting=counting,
        seen=index.seen(row.signature) if row.signature else None,
        alike=[each for each in alike if each.run_id != row.run_id],
        command=shlex.quote(f"{shelf().root.name}/{row.run_id}"),
        bundle_bytes=_bundle_bytes(row, paths),
        has_timeline=row.verdict != "" or _has(row, "timeline.html"),
    )


@running.get("/live/<name>/<folder>")
def live(name: str, folder: str) -> Response:
    """Return the live view of a run. If the run is finished, the view shows the milestones."""
    row = shelf().row(name, folder)
    alive = row.state == "running"
    sight = sight_of(shelf().paths(row), shelf().tallies, alive=alive)
    part = request.args.get("part") == "1"
    return page("sight.html" if part else "live.html", row=row, sight=sight, alive=alive)


def _verdict(paths: RunPaths) -> Verdict | None:
    if not is_plain(paths.verdict):
        return None
    with suppress(StoreError, RecursionError):
        return read_verdict(paths.verdict)
    return None


def _bundle_bytes(row: RunRow, paths: RunPaths) -> int | None:
    """Return the unpacked size of a run's bundle, or None if it has no bundle."""
    if not has_bundle(row, paths):
        return None
    with suppress(StoreError, OSError):
        return contents_of(paths, with_nodes=False).size_bytes
    return None


def _has(row: RunRow, relative: str) -> bool:
    with suppress(NotFound):
        return bool(shelf().file(row, relative))
    return False
