"""`logquake serve`, `docs` and `reindex`: show a store's pages or the manual; rebuild the index."""

import contextlib
import os
import threading
import webbrowser
from pathlib import Path

import click

from cluster.protocol import UserError
from harness.cli.exits import DONE, INTERRUPTED, exits
from harness.cli.options import STORE
from harness.exit_codes import UNKNOWN, VALID
from harness.manual import build_site, built_site
from results.index import open_index
from results.store import Store
from results.wording.plural import many

_PORT = 8420
_PORT_OF_DOCS = 8421
_BROWSERS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Without these variables, `webbrowser` opens a text browser in the same terminal."""


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT, show_default=True,
    help="The port to listen on; 0: any free one.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help=("The address to listen on. The site has no passwords: anyone who can reach the address"
        " can read all runs."),
)  # fmt: skip
@STORE
@exits((VALID, "Ctrl-C ended it."))
def serve(*, port: int, host: str, store: Path) -> int:
    """Serve the pages of a store to a browser, until Ctrl-C."""
    from results import site  # noqa: PLC0415 - Flask is for this command only

    empty = not Store(store).runs()
    if empty and not store.exists():
        raise UserError(f"there is no folder {store} to serve; logquake run creates it")

    def ready(url: str) -> None:
        click.echo(f"serving {store} at {url} (Ctrl-C ends it)")
        if not site.is_local(host):
            click.echo(
                f"anyone who can reach {host} can read all runs, because the site has no passwords;"
                " --host 127.0.0.1 keeps it to this machine",
                err=True,
            )
        if empty:
            click.echo(f"{store} has no runs yet; start one with: logquake run")

    with contextlib.suppress(KeyboardInterrupt):
        site.serve(Store(store), host=host, port=port, ready=ready)
    return 0


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT_OF_DOCS, show_default=True,
    help="The port to listen on; 0: any free one.",
)  # fmt: skip
@click.option(
    "--no-browser", is_flag=True, help=("Only serve the documentation; do not open a browser.")
)
@click.option(
    "--build", "folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
    help="Write the pages into an empty folder instead; open its index.html, or publish it.",
)  # fmt: skip
@exits(
    (VALID, "Ctrl-C ended it, or `--build` wrote the pages."),
    (UNKNOWN, "Ctrl-C came while the pages were built."),
)
def docs(*, port: int, no_browser: bool, folder: Path | None) -> int:
    """Read the documentation in a browser; Ctrl-C ends it.

    The documentation needs no network. Its pages are built once for each version, which takes some
    seconds.
    """
    if folder is not None:
        if folder.is_dir() and any(not each.name.startswith(".") for each in folder.iterdir()):
            raise UserError(f"{folder} is not empty; name a new folder, or empty it")
        build_site(folder)
        click.echo(f"wrote the documentation; open {folder / 'index.html'}")
        return 0
    from results import site  # noqa: PLC0415 - Flask is for these commands only

    def ready(url: str) -> None:
        click.echo(f"serving the documentation at {url} (Ctrl-C ends it)")
        if not no_browser:
            _show(url)

    with (
        built_site(lambda said: click.echo(said, err=True)) as pages,
        contextlib.suppress(KeyboardInterrupt),
    ):
        site.serve_manual(pages, host="127.0.0.1", port=port, ready=ready)
    return 0


def _show(url: str) -> None:
    """Open a page in a graphical browser or in the browser that the user chose; return at once."""
    if any(os.environ.get(name) for name in _BROWSERS):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


@click.command()
@STORE
@exits(DONE, INTERRUPTED)
def reindex(*, store: Path) -> int:
    """Rebuild the index of a store.

    The index is only a cache of the runs' folders.
    """
    with open_index(Store(store)) as index:
        runs = index.rebuild()
    click.echo(f"{many(runs, 'run')} in {store}")
    return 0
