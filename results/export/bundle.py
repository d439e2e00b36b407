"""Bundles: a run packed into one `.tar.gz` file, to judge and show it on another machine.

The bundle depends only on the run's files: the same run always gives the same bytes. The import
trusts nothing in a bundle:

- It accepts only plain files and folders, with names that occur in runs.
- File sizes must match the sizes announced in the first member, `bundle.json`.
- The run appears in the store completely or not at all.
- The import never replaces a run that is already in the store.
"""

import contextlib
import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from results.export.contents import MANIFEST, Contents, belongs, contents_of, is_folder
from results.export.unpacking import unpacking_folder
from results.record.atomic import StoreError, store_error
from results.record.hidden import file_without_secrets, hides
from results.record.paths import RunPaths
from results.record.reading import open_file, read_bytes
from results.record.tables import SCHEMA_VERSION
from results.record.whole import written_whole
from results.store import LATEST, Store, is_alive
from results.trust import make_shared_as

SUFFIX = ".logquake.tar.gz"
MAX_FILES = 200_000
MAX_BYTES = 64 << 30
_MANIFEST_BYTES = 65_536
_EXPANDS = 200
"""The unpacked size may be at most this many times the packed size. Deflate reaches at most 1,032
times, and only for a file of gigabytes of zeros."""
_ALWAYS_FINE = 64 << 20
_CHUNK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
_LEVEL = 6
_BROKEN = (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, ValueError)


class Manifest(BaseModel):
    """The first member of a bundle. It describes the bundle.

    Attributes:
        schema_version: Version of the record's schema.
        run_id: `<name>/<UTC time>-<seed>`, the run's place in a store.
        files: Number of files that follow.
        size_bytes: Total size of these files, unpacked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: int
    run_id: str
    files: int = Field(ge=1, le=MAX_FILES)
    size_bytes: int = Field(ge=0, le=MAX_BYTES)


class _PlainMember(tarfile.TarInfo):
    """A tar member that is a file or a folder. Any other member type raises `StoreError`."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE) or member.size < 0:
            raise StoreError("the bundle is refused: it has links, devices, or hidden headers")
        return member


def bundle_name(paths: RunPaths) -> str:
    """Return the file name of a run's bundle: `log-20261122T010203Z-1.logquake.tar.gz`."""
    return f"{paths.root.parent.name}-{paths.root.name}{SUFFIX}"


def write_bundle(
    paths: RunPaths, target: Path | BinaryIO, *, with_nodes: bool = False, with_logs: bool = True
) -> Contents:
    """Write the bundle of a run. Equal files give equal bytes.

    Args:
        paths: The run.
        target: A path, or a binary file object.
        with_nodes: Whether to add live streams and log segments (see `contents_of`).
        with_logs: Whether to add the nodes' log files.

    Returns:
        The contents of the bundle.

    Raises:
        StoreError: The run is still running or was never judged, or the file cannot be written.
    """
    contents = _bundled(paths, with_nodes=with_nodes, with_logs=with_logs)
    if not isinstance(target, Path):
        _pack(paths, contents, target)
        return contents
    with written_whole(target) as file:
        _pack(paths, contents, file)
    return contents


def _bundled(paths: RunPaths, *, with_nodes: bool, with_logs: bool) -> Contents:
    if is_alive(paths):
        raise StoreError(f"{paths.run_id} is still running: wait for its end, or stop it")
    judged = paths.verdict.exists() and (paths.record / "ingest.json").exists()
    if not judged and not with_nodes:
        raise StoreError(
            f"{paths.run_id} was never judged, so it has no tables: run `logquake check` first,"
            " or include the live streams and the nodes' files (--with-nodes)"
        )
    contents = contents_of(paths, with_nodes=with_nodes, with_logs=with_logs)
    if contents.size_bytes > MAX_BYTES:
        raise StoreError(
            f"{paths.run_id} has files of {contents.size_bytes:,} bytes, but a bundle may have at"
            f" most {MAX_BYTES:,}; omit the nodes' files, or remove files that do not belong to"
            " the run"
        )
    return contents


def _pack(paths: RunPaths, contents: Contents, file: BinaryIO) -> None:
    shown = _shown(paths, contents)
    more = sum(len(text) - (paths.root / each).stat().st_size for each, text in shown.items())
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        run_id=paths.run_id,
        files=len(contents.files),
        size_bytes=contents.size_bytes + more,
    )
    text = f"{manifest.model_dump_json(indent=1)}\n".encode()
    root = PurePosixPath(paths.run_id)
    with (
        gzip.GzipFile(
            filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0
        ) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
    ):
        archive.addfile(_member(root / MANIFEST, len(text)), io.BytesIO(text))
        for folder in contents.folders:
            archive.addfile(_member(root / folder, None))
        for each in contents.files:
            if each in shown:
                text = shown[each]
                archive.addfile(_member(root / each, len(text)), io.BytesIO(text))
                continue
            with open_file(paths.root / each, root=paths.root) as source:
                size = os.fstat(source.fileno()).st_size
                archive.addfile(_member(root / each, size), source)


def _shown(paths: RunPaths, contents: Contents) -> dict[PurePosixPath, bytes]:
    """Return settings files that have passwords or keys: their contents without these secrets."""
    settings = {
        each: read_bytes(paths.root / each, root=paths.root)
        for each in contents.files
        if hides(each)
    }
    shown = {each: file_without_secrets(each, text) for each, text in settings.items()}
    return {each: text for each, text in shown.items() if text != settings[each]}


def _member(path: PurePosixPath, size: int | None) -> tarfile.TarInfo:
    """Return a tar header without owner and time. It is for a folder if `size` is None."""
    member = tarfile.TarInfo(str(path))
    member.type = tarfile.DIRTYPE if size is None else tarfile.REGTYPE
    member.mode = 0o755 if size is None else 0o644
    member.size = size or 0
    return member


def read_bundle(file: Path, store: Store) -> RunPaths:
    """Unpack a bundle into a store.

    Args:
        file: The bundle.
        store: The store. The run goes to `STORE/<name>/<UTC time>-<seed>/`; the `latest` link does
            not change.

    Returns:
        The run's paths in the store.

    Raises:
        StoreError: The file is damaged, is not a bundle, or contains a forbidden member, or the
            store already has this run. In each case, the store is not changed.
    """
    if not file.is_file():
        raise StoreError(f"there is no file {file}")
    store.check_usable()
    try:
        with (
            unpacking_folder(store.root) as temporary,
            file.open("rb") as packed,
            gzip.GzipFile(fileobj=packed) as unpacked,
        ):
            manifest = _unpack(cast("BinaryIO", unpacked), temporary, os.fstat(packed.fileno()))
            return _settle(temporary, store.root / manifest.run_id)
    except _BROKEN as broken:
        raise StoreError(f"{file} is not a bundle, or is damaged: {broken}") from broken
    except OSError as refused:
        raise store_error(Path(refused.filename or file), refused) from refused


def _settle(folder: Path, target: Path) -> RunPaths:
    """Move an unpacked run to its place in the store."""
    make_shared_as(target.parent, target.parent.parent)
    try:
        target.mkdir()
    except FileExistsError as there:
        raise StoreError(
            f"the store already has a run {RunPaths(target).run_id}, which was not changed:"
            " import the bundle into another store with --store"
        ) from there
    folder.chmod(0o755)
    folder.replace(target)  # Replaces the empty folder atomically.
    return RunPaths(target)


def _unpack(file: BinaryIO, folder: Path, packed: os.stat_result) -> Manifest:
    with tarfile.open(fileobj=file, mode="r|", tarinfo=_PlainMember) as archive:
        manifest = _manifest(archive, folder)
        _check_size(manifest, packed.st_size, folder)
        left, files = manifest.size_bytes, 0
        for member in _members(archive):
            path = _inside(member, PurePosixPath(manifest.run_id))
            if member.isdir():
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            left, files = left - member.size, files + 1
            if left < 0 or files > manifest.files:
                raise StoreError("the bundle is refused: it has more data than it announced")
            _copy(archive, member, folder / path)
    if left or files != manifest.files:
        raise StoreError("the bundle is damaged: it has less data than it announced")
    if len(file.read(_CHUNK)) == _CHUNK:  # Read to the end, where gzip checks its checksum.
        raise StoreError("the bundle is refused: it has data after its end")
    if not (folder / "plan.toml").is_file():
        raise StoreError("the bundle is refused: it has no plan.toml")
    return manifest


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members after the first one."""
    for _ in range(2 * MAX_FILES):
        member = archive.next()
        if member is None:
            return
        archive.members = []  # type: ignore[attr-defined]  # Else tarfile keeps all.
        yield member
    raise StoreError("the bundle is refused: it has too many members")


def _manifest(archive: tarfile.TarFile, folder: Path) -> Manifest:
    first = archive.next()
    if first is None or PurePosixPath(first.name).name != MANIFEST:
        raise StoreError("this is not a Logquake bundle: its first member is not bundle.json")
    if not first.isreg() or first.size > _MANIFEST_BYTES:
        raise StoreError("the bundle is refused: its bundle.json is too large")
    source = archive.extractfile(first)
    assert source is not None
    text = source.read()
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as wrong:
        raise StoreError(f"the bundle is refused: its bundle.json is not valid: {wrong}") from wrong
    if manifest.schema_version > SCHEMA_VERSION:
        raise StoreError(
            f"the bundle has records of version {manifest.schema_version}, but this Logquake"
            f" supports version {SCHEMA_VERSION}: install a newer Logquake"
        )
    parts = manifest.run_id.split("/")
    if len(parts) != 2 or not all(map(_NAME.fullmatch, parts)) or parts[0] == LATEST:  # noqa: PLR2004 - <name>/<time>-<seed>
        raise StoreError(f"the bundle is refused: {manifest.run_id!r} cannot be the name of a run")
    (folder / MANIFEST).write_bytes(text)
    return manifest


def _check_size(manifest: Manifest, packed: int, folder: Path) -> None:
    """Raise an error if a bundle is too large for the disk or for its compressed size."""
    if manifest.size_bytes > max(_ALWAYS_FINE, _EXPANDS * packed):
        raise StoreError(
            f"the bundle is refused: its {packed:,} bytes would unpack to {manifest.size_bytes:,}"
            " bytes"
        )
    free = shutil.disk_usage(folder).free
    if manifest.size_bytes >= free:
        raise StoreError(
            f"the bundle needs {manifest.size_bytes:,} bytes, but the disk has only {free:,} free"
            " bytes: free some space, or choose another disk with --store"
        )


def _inside(member: tarfile.TarInfo, root: PurePosixPath) -> PurePosixPath:
    """Return a member's path in the run's folder. Raise an error if no run has such a file."""
    path = PurePosixPath(member.name)
    below = PurePosixPath(*path.parts[2:])
    known = is_folder(below) if member.isdir() else belongs(below)
    if path.parts[:2] != root.parts or not known:
        raise StoreError(f"the bundle is refused: {member.name!r} is not a file of a run")
    return below


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = target.open("xb")
    except FileExistsError as twice:
        raise StoreError(f"the bundle is refused: it contains {member.name!r} twice") from twice
    with file, contextlib.closing(source):
        shutil.copyfileobj(source, file, _CHUNK)
