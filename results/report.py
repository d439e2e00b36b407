"""The HTML page of a run: one file, no script, nothing from elsewhere.

It is written from what is stored, so it can be written again at any time, and of a run that died:
what is missing is left out or said. All text of others passes `inert` and the template's escaping.
"""

import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from results.atomic import StoreError, write_atomically
from results.engine import size_words, template_engine
from results.environment import read_environment
from results.page.fault_kinds import kind_lines
from results.page.faults import fault_lines
from results.page.figures import figures
from results.page.headline import Headline, headline, ranked_anomalies
from results.page.inert import inert
from results.page.naming import with_names
from results.page.replicas import ReplicaWindow, replica_window
from results.page.story import story_page
from results.page.timeline import timeline
from results.page.twins import twin_of
from results.page.words import GLOSSARY, words_of
from results.plots.canvas import standalone
from results.plots.latency import latency_plot
from results.plots.rates import rates_plot
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.terms import F
from results.record.verdict import Example, Verdict
from results.samples import SAMPLE_PREFIX, is_sample
from results.store import is_alive
from results.tables import RunTables
from results.verdict_json import read_verdict

_MAX_FILES = 200
_UNLISTED = {"lock", "live"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLink:
    """A file of the run: how it is called, and how large it is."""

    name: str
    href: str | None
    size_bytes: int


def write_report(paths: RunPaths, *, output: Path | None = None) -> Path:
    """Write the page of a run, and its plots as files beside it.

    The page of a scripted run shows another run beside it, if there is one by another rule; then
    that run's page is written too, for it shows this one.

    Args:
        paths: The run.
        output: Another file than the run's `report.html`; the plots are then only in the page. A
            sample's page goes to the current folder by default.

    Returns:
        Where the page lies.

    Raises:
        StoreError: The page cannot be written.
    """
    if output is None and is_sample(paths):
        output = Path(f"{paths.root.name}.html")
    page = output or paths.report
    _write(paths, page=page)
    if output is None and (other := twin_of(paths)):
        _write(other, page=other.report)
    return page


def _write(paths: RunPaths, *, page: Path) -> None:
    plots = _plots(paths, RunTables(paths))
    if page == paths.report:
        for name, svg in plots.items():
            write_atomically(paths.root / "plots" / f"{name}.svg", standalone(svg))
    write_atomically(page, render_report(paths, page=page, plots=plots))


def render_report(
    paths: RunPaths, *, page: Path | None = None, plots: Mapping[str, str] | None = None
) -> str:
    """Return the page of a run.

    Args:
        paths: The run.
        page: Where the page will lie; links to the run's files start there.
        plots: SVG by name; None: drawn here.
    """
    tables = RunTables(paths)
    verdict, verdict_trouble = _verdict(paths)
    milestones = load_milestones(paths.milestones)
    faults = fault_lines(tables)
    head = headline(verdict, alive=is_alive(paths))
    drawn = _plots(paths, tables) if plots is None else plots
    story = story_page(paths, page=page or paths.report)
    context = {
        "paths": paths,
        "head": head,
        "story": story,
        "in_words": with_names if story else str,
        "verdict": verdict,
        "words_of": words_of,
        "id": id,
        "glossary": GLOSSARY,
        "window": _witness_window(tables, head),
        "anomalies": ranked_anomalies(verdict) if verdict else [],
        "windows": _windows(tables, verdict, head),
        "timeline": timeline(tables, milestones=milestones, faults=faults, verdict=verdict),
        "milestones": milestones,
        "troubled": [each for each in milestones if "failed" in each.detail],
        "faults": faults,
        "fault_kinds": kind_lines(faults),
        "plots": {name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704 - our own SVG
        "figures": figures(tables),
        "plan": _plan(paths),
        "plan_text": _text(paths.plan),
        "environment": _environment(paths),
        "files": _files(paths, (page or paths.report).absolute().parent),
        "command": run_name(paths),
        "plan_command": f"logquake run {_plan_name(paths)}",
        "troubles": list(
            dict.fromkeys(
                [
                    *verdict_trouble,
                    *(f"{each} is damaged" for each in tables.unreadable),
                    *(story.troubles if story else ()),
                ]
            )
        ),
    }
    return template_engine().get_template("report.html").render(context)


def run_name(paths: RunPaths) -> str:
    """Return how a run is called on the command line, quoted for a shell."""
    if is_sample(paths):
        return SAMPLE_PREFIX + paths.root.name
    return shlex.quote(inert(f"{paths.root.parent.parent.name}/{paths.run_id}"))


def _plan_name(paths: RunPaths) -> str:
    if is_sample(paths):
        return "plan.toml  # with the plan above, saved as plan.toml"
    return shlex.quote(inert(f"{paths.root.parent.parent.name}/{paths.run_id}/plan.toml"))


def _plots(paths: RunPaths, tables: RunTables) -> dict[str, str]:
    if paths.steps.exists():
        return {}  # A handful of messages has no rate.
    faults = fault_lines(tables)
    drawn = {"rates": rates_plot(tables, faults=faults)}
    for f in (F.SEND, F.POLL, F.TXN):
        drawn[f"latency-{f}"] = latency_plot(tables, f=f, faults=faults)
    return {name: svg for name, svg in drawn.items() if svg}


def _verdict(paths: RunPaths) -> tuple[Verdict | None, list[str]]:
    try:
        return read_verdict(paths.verdict), []
    except StoreError as trouble:
        return None, [str(trouble)]


def _witness_window(tables: RunTables, head: Headline) -> ReplicaWindow | None:
    return replica_window(tables, head.witness) if head.witness else None


def _windows(
    tables: RunTables, verdict: Verdict | None, head: Headline
) -> dict[int, ReplicaWindow]:
    """Return the drawings by the identity of their examples; each place is drawn once."""
    drawn = {_where(head.witness)} if head.witness else set()
    windows = {}
    for _, summary in ranked_anomalies(verdict) if verdict else ():
        for example in summary.examples:
            window = None if _where(example) in drawn else replica_window(tables, example)
            if window is not None:
                drawn.add(_where(example))
                windows[id(example)] = window
    return windows


def _where(example: Example) -> tuple[str, str, int, int]:
    return example.topic, example.topic_id, example.partition, example.offset


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _plan(paths: RunPaths) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(paths.plan))
    except tomllib.TOMLDecodeError:
        return {}


def _environment(paths: RunPaths) -> list[tuple[str, str]]:
    try:
        values = read_environment(paths.environment)
    except StoreError as trouble:
        return [("environment.json", str(trouble))]
    rows = []
    for key, value in values.items():
        if key == "memory_bytes" and isinstance(value, int):
            rows.append(("memory", size_words(value)))
        elif isinstance(value, dict):
            rows.append((key, "; ".join(f"{name} {each}" for name, each in value.items())))
        elif value is not None and key != "schema_version":
            rows.append((key.replace("_", " "), str(value)))
    return rows


def _files(paths: RunPaths, base: Path) -> list[FileLink]:
    """Return the run's files; links only for a page inside of the run's folder."""
    inside = base == paths.root.absolute()
    links = []
    for folder, folders, names in os.walk(paths.root):
        folders[:] = sorted(each for each in folders if each not in _UNLISTED)
        for name in sorted(names):
            path = Path(folder) / name
            if name in _UNLISTED or name.startswith(".") or path == paths.report:
                continue
            relative = path.relative_to(paths.root)
            links.append(_link(path, relative, inside=inside))
            if len(links) >= _MAX_FILES:
                return links
    return links


def _link(path: Path, relative: Path, *, inside: bool) -> FileLink:
    # A name that is no UTF-8 cannot be linked to; a leading "./" keeps "a:b" from being a scheme.
    name = relative.as_posix()
    href = f"./{name}" if inside and inert(name) == name else None
    return FileLink(name=name, href=href, size_bytes=path.lstat().st_size)
