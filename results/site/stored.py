"""Serve files of runs in such a way that scripts in them cannot run in the site's origin.

HTML pages get a separate origin without scripts. Text is always served as plain text. All other
files are downloads. A bundle is packed at the time when it is sent.
"""

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from flask import Blueprint, Response, send_file
from werkzeug.exceptions import NotFound, ServiceUnavailable

from results.export.bundle import bundle_name, write_bundle
from results.index import RunRow
from results.index.reading import is_plain, stamp_of
from results.record.atomic import StoreError
from results.record.hidden import file_without_secrets, hides
from results.record.paths import RunPaths
from results.record.reading import MAX_BYTES, open_folder
from results.site.browsing import shelf
from results.site.guard import SCRIPTED_POLICY, STORED_POLICY
from results.site.pages import page
from results.tables import DAMAGES
from results.wording.inert import inert

stored = Blueprint("stored", __name__)
REPORT, TIMELINE = "report.html", "timeline.html"
_PAGES = {".html": "text/html", ".svg": "image/svg+xml"}
_TEXTS = frozenset({
    ".txt", ".log", ".json", ".jsonl", ".toml", ".properties", ".md", ".csv", ".xml", ".1", ".out",
    ".err", ".yaml", ".yml", ".conf", ".cfg", ".sh", "",
})  # fmt: skip
_LISTED = 2000
_CHUNK = 1 << 16
_KEPT_PAGES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file of a run: its relative name and its size."""

    name: str
    size_bytes: int


@stored.get("/run/<name>/<folder>/<path:relative>")
def file(name: str, folder: str, relative: str) -> Response:
    """Return a file of a run."""
    row = shelf().row(name, folder)
    try:
        opened = shelf().open(row, relative)
    except NotFound:
        paths = shelf().paths(row)
        if relative not in _MAKERS or _leads_out(paths.root):
            raise
        return _made(row, paths, relative)
    path = PurePath(relative)
    with opened:
        if hides(path):
            return _confined(_shown(path, opened))
        found = os.fstat(opened.fileno())
        # Opened by its descriptor, because the name may refer to another file now.
        response = send_file(
            f"/dev/fd/{opened.fileno()}", download_name=path.name, mimetype=_type(path),
            as_attachment=_type(path) == _BINARY, max_age=0,
            etag=f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}",
        )  # fmt: skip
    return _confined(response, scripted=relative == TIMELINE)


@stored.get("/files/<name>/<folder>")
def files(name: str, folder: str) -> Response:
    """Return the page with the list of a run's files."""
    row = shelf().row(name, folder)
    listed = sorted(_files(shelf().paths(row).root, shelf().root), key=lambda each: each.name)
    return page("files.html", row=row, files=listed[:_LISTED], more=max(0, len(listed) - _LISTED))


@stored.get("/bundle/<name>/<folder>")
def bundle(name: str, folder: str) -> Response:
    """Pack and send the bundle of a run, with which another machine can judge the run."""
    row = shelf().row(name, folder)
    paths = shelf().paths(row)
    if not has_bundle(row, paths):
        raise NotFound(
            "This run has no tables yet, so it has no bundle: run `logquake check` first."
        )
    response = Response(_packed(paths), mimetype="application/gzip", direct_passthrough=True)
    response.headers.set("Content-Disposition", "attachment", filename=bundle_name(paths))
    return _confined(response)


def has_bundle(row: RunRow, paths: RunPaths) -> bool:
    """Return whether a run can be packed: it was judged and has its tables."""
    return row.state == "judged" and is_plain(paths.record / "ingest.json")


def _shown(path: PurePath, opened: BinaryIO) -> Response:
    """Return a settings file with passwords and keys hidden."""
    text = opened.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise NotFound("The file is larger than any file of a run.")
    return Response(file_without_secrets(path, text), mimetype=_type(path))


_BINARY = "application/octet-stream"


def _type(path: PurePath) -> str:
    suffix = path.suffix.lower()
    if suffix in _PAGES:
        return _PAGES[suffix]
    return "text/plain" if suffix in _TEXTS else _BINARY


def _confined(response: Response, *, scripted: bool = False) -> Response:
    response.headers["Content-Security-Policy"] = SCRIPTED_POLICY if scripted else STORED_POLICY
    return response


def _report(paths: RunPaths) -> str:
    from results.report import render_report  # noqa: PLC0415 - see `_MAKERS`

    return render_report(paths)


def _timeline(paths: RunPaths) -> str:
    from results.timelines.page import render_timeline  # noqa: PLC0415 - see `_MAKERS`

    return render_timeline(paths)


_MAKERS: dict[str, Callable[[RunPaths], str]] = {REPORT: _report, TIMELINE: _timeline}
"""The functions that make a missing page. They need libraries that take seconds to load, and in
most stores no page is missing. So these libraries are imported only when a page is missing."""


def _leads_out(root: Path) -> bool:
    """Return whether a run contains links or pipes, which code that makes pages would follow."""
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            try:
                mode = Path(folder, name).lstat().st_mode
            except OSError:
                continue  # A run in progress removes files.
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return True
    return False


_made_pages: OrderedDict[str, str] = OrderedDict()
_making = threading.Lock()


def _made(row: RunRow, paths: RunPaths, name: str) -> Response:
    """Return a run's page that is not on disk. The page is made in memory and cached."""
    key = f"{paths.root} {name} {stamp_of(paths)}"
    with _making:  # The plot library is not safe for threads.
        text = _made_pages.get(key)
        if text is None:
            try:
                text = _MAKERS[name](paths)
            except DAMAGES as damaged:
                why = f"The record of {row.run_id} cannot be shown: {damaged}"
                raise ServiceUnavailable(why) from damaged
            _made_pages[key] = text
            while len(_made_pages) > _KEPT_PAGES:
                _made_pages.popitem(last=False)
    return _confined(Response(text, mimetype="text/html"), scripted=name == TIMELINE)


def _files(root: Path, store: Path) -> Iterator[Listed]:
    try:
        opened = open_folder(root, root=store)
    except OSError as gone:
        raise NotFound("There is no such run.") from gone
    try:
        yield from _below(opened)
    finally:
        os.close(opened)


def _below(opened: int) -> Iterator[Listed]:
    for folder, folders, names, handle in os.fwalk(".", dir_fd=opened):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in names:
            relative = (PurePath(folder) / name).as_posix()
            # A URL cannot contain a name that is not UTF-8, and a link may lead anywhere.
            if name.startswith(".") or inert(relative) != relative:
                continue
            with suppress(OSError):  # A run in progress removes files.
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if not stat.S_ISLNK(found.st_mode):
                    yield Listed(name=relative, size_bytes=found.st_size)


def _packed(paths: RunPaths) -> Iterator[bytes]:
    """Yield a bundle's bytes. A thread packs the bundle, and stops if the reader disconnects."""
    reading, writing = os.pipe()

    def pack() -> None:
        try:
            with os.fdopen(writing, "wb") as target:
                write_bundle(paths, target)
        except (StoreError, OSError):
            pass  # The reader or a file is gone. The archive ends early, and readers notice it.

    packer = threading.Thread(target=pack, name="bundle", daemon=True)
    packer.start()
    with os.fdopen(reading, "rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk
    packer.join()
