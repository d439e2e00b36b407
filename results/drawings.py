"""Write the drawings of a scripted run as separate files, for use in handwritten pages."""

from pathlib import Path

from results.engine import template_engine
from results.page.drawing import Drawing
from results.page.story import drawings_of
from results.record.atomic import StoreError, write_atomically
from results.record.paths import RunPaths


def write_drawings(paths: RunPaths, folder: Path) -> list[Path]:
    """Write the drawing of each step as an SVG file, `<scenario>-<rule>-step-01.svg`.

    Args:
        paths: A scripted run.
        folder: The folder for the files. It is created if it does not exist.

    Returns:
        The written files.

    Raises:
        StoreError: This is not a scripted run, or the folder cannot be written.
    """
    drawings = drawings_of(paths)
    if not drawings:
        raise StoreError(
            f"the run {paths.run_id} has no drawings, because it is not the run of a scenario"
        )
    files = [folder / f"{name}.svg" for name in drawings]
    for file, drawing in zip(files, drawings.values(), strict=True):
        write_atomically(file, _standalone(drawing))
    return files


def _standalone(drawing: Drawing) -> str:
    """Return a drawing as a complete SVG file, coloured for the viewer's light or dark scheme."""
    template = template_engine().get_template("standalone.svg")
    return template.render(drawing=drawing)
