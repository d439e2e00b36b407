"""Takes the screenshots in `docs/screenshots`: `python -m benchmarks.screenshots [FOLDER]`.

The store is the artificial store of the tests: three nights of a broken build, and the new failures
of the last night. `logquake serve` serves it, and a real browser takes the pictures. Run this
program again when pages change, and look at the new pictures.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.results.browser import NARROW, WIDE, reader
from tests.results.planted import NIGHTS
from tests.results.serving import served
from tests.results.test_site_in_browser import LATE_RUN, LOSS_RUN, planted_store

_TALLEST, _COLOURS = 1400, 160
_STORY_RUN = "/run/leader-epoch-1-high-watermark/20261122T014000Z-1/"
_SHOTS = (
    ("site-front", "/", WIDE, False),
    ("site-front-dark", "/", WIDE, True),
    ("site-front-narrow", "/", NARROW, False),
    ("site-night", f"/night/nightly/{NIGHTS[-1]}", WIDE, False),
    ("site-run", LOSS_RUN, WIDE, False),
    ("site-run-story", _STORY_RUN, WIDE, False),
    ("site-run-liveness", f"/run/{LATE_RUN}/", WIDE, True),
    ("site-failures", "/failures", WIDE, False),
    ("site-trends", "/trends", WIDE, False),
    ("site-compare", "/compare?left=log/20261122T011000Z-102&right=log/20261122T011200Z-202", WIDE,
     False),
)  # fmt: skip
"""The pictures: name, path, width in CSS pixels, and whether the page is dark."""


def main() -> None:
    """Take all pictures, and print their sizes."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        planted_store(store)
        with served(store, Path(folder) / "serve.log") as (url, _), reader() as somebody:
            for name, path, width, dark in _SHOTS:
                file = target / f"{name}.png"
                with somebody.opened(url + path, width=width, dark=dark) as sight:
                    tall = int(sight.page.evaluate("document.documentElement.scrollHeight"))
                    sight.page.set_viewport_size({"width": width, "height": min(tall, _TALLEST)})
                    _write(file, sight.page.screenshot())
                print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def _write(file: Path, png: bytes) -> None:
    """Write a picture with a small colour palette, which needs a third of the size."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    small = picture.quantize(colors=_COLOURS, dither=Image.Dither.NONE)
    small.save(file, optimize=True)


if __name__ == "__main__":
    main()
