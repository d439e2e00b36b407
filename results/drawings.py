"""The drawings of a scripted run as files of their own, for pages that are written by hand."""

from pathlib import Path

from results.engine import template_engine
from results.page.drawing import Drawing
from results.page.story import drawings_of
from results.record.atomic import StoreError, write_atomically
from results.record.paths import RunPaths


def write_drawings(paths: RunPaths, folder: Path) -> list[Path]:
    """Write each step's drawing as an SVG file, `<scenario>-<rule>-step-01.svg`.

    Args:
        paths: A scripted run.
        folder: Where to; made if it is not there.

    Returns:
        The files.

    Raises:
        StoreError: It is no scripted run, or the folder cannot be written.
    """
    drawings = drawings_of(paths)
    if not drawings:
        raise StoreError(f"the run {paths.run_id} has no drawings: it is not a scenario's")
    files = [folder / f"{name}.svg" for name in drawings]
    for file, drawing in zip(files, drawings.values(), strict=True):
        write_atomically(file, _standalone(drawing))
    return files


def _standalone(drawing: Drawing) -> str:
    """Return a drawing that stands alone, in the viewer's light or dark scheme."""
    template = template_engine().get_template("standalone.svg")
    return template.render(drawing=drawing)
