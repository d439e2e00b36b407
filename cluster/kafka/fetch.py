"""Downloads a version of Kafka from Maven Central once, and verifies every file.

For each tested version, `hashes/` has a file in the format of sha256sum. The file lists all needed
jars, and only these are downloaded. For any other version, the POMs in the repository list the
jars, and the repository has a checksum beside each jar. Logquake compares each jar with this
checksum. If a jar is downloaded again later, Logquake also compares it with the first download.

A manifest with the sizes and hashes of all jars is written last, in one atomic step. Without a
manifest a version counts as not downloaded. A file that differs from its manifest is downloaded
again. With a complete manifest, a run needs no network.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from xml.etree.ElementTree import ParseError

import requests
from jgo.maven import Dependency as Jar
from jgo.maven import MavenContext, PythonResolver

from cluster.cache import cache_folder, locked, refused
from cluster.kafka.versions import (
    jars_beside,
    jars_of_tools,
    jars_replaced,
    numbers_of,
    server_artifact,
)
from cluster.protocol import UserError

Progress = Callable[[str], None]
_Wanted = tuple[Jar, bool]
"""A jar, and whether only Kafka's tools need it."""

MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "LOGQUAKE_MAVEN_REPOSITORY"
"""The environment variable with the address of a Maven Central mirror, for closed networks."""
TIMEOUT_S = 20
PARALLEL_DOWNLOADS = 8
SAY_EVERY = 10
_HASHES = Path(__file__).parent / "hashes"
_KAFKA = Path("org/apache/kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A version of Kafka on this machine.

    Attributes:
        version: The version, such as `4.3.1`.
        classpath: The server's jars, all verified.
        tools: The additional jars for DumpLogSegments.
        commit: The commit of the build, if the jars name it; empty for a release, or if unknown.
        own: The server's jars that come from the user, not from the repository.
    """

    version: str
    classpath: tuple[Path, ...]
    tools: tuple[Path, ...] = ()
    commit: str = ""
    own: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    size: int
    sha256: str
    tool: bool = False

    def is_whole(self, maven: Path) -> bool:
        file = maven / self.path
        if not file.resolve().is_relative_to(maven.resolve()) or not file.is_file():
            return False
        return file.stat().st_size == self.size and _digest(file, "sha256") == self.sha256


class _ChecksumError(Exception):
    """A file was downloaded twice and had a wrong checksum both times."""


def fetch_kafka(version: str, *, progress: Progress, repository: str | None = None) -> Distribution:
    """Return a version of Kafka from the cache, or download it from Maven Central.

    Proxy and certificates come from the environment (`HTTPS_PROXY`, `REQUESTS_CA_BUNDLE`, ...).

    Args:
        version: The version, such as `4.3.1`.
        progress: Called with short progress messages.
        repository: The address of a Maven repository. None means the value of
            `LOGQUAKE_MAVEN_REPOSITORY`, or Maven Central.

    Raises:
        UserError: The version does not exist, or network or disk space is missing. The message
            names a remedy.
    """
    cache = cache_folder()
    at_hand = _from_manifest(version, cache)
    if at_hand and _has_tools(at_hand):
        return at_hand
    with locked(cache / "lock", progress), refused(cache):
        at_hand = _from_manifest(version, cache)
        if at_hand and _has_tools(at_hand):
            return at_hand
        address = repository or os.environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL
        try:
            with _explained(version, address):
                return _Fetch(version, cache, address, progress=progress).fetch()
        except UserError:
            if at_hand is None:
                raise
            return at_hand  # An older Logquake downloaded it; only the tools are missing.


def cached_versions() -> list[str]:
    """Return the versions in the cache, newest first."""
    found = [path.stem for path in (cache_folder() / "kafka").glob("*.json")]
    return sorted(found, key=_order, reverse=True)


def _from_manifest(version: str, cache: Path) -> Distribution | None:
    files, maven = _listed(_manifest(version, cache)), cache / "maven"
    shipped = _shipped(version)
    if not files or not all(file.is_whole(maven) for file in files):
        return None
    if shipped and any(shipped.get(file.path) != file.sha256 for file in files):
        return None
    return _distribution(version, maven, files)


def _listed(manifest: Path) -> list[_File]:
    """Return the files of a manifest; an empty list if it is missing or from an older Logquake."""
    try:
        return [_File(**row) for row in json.loads(manifest.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def _shipped(version: str) -> dict[str, str]:
    """Return the SHA-256 of each jar of a version, by path, from Logquake's own list, if any."""
    file = _HASHES / f"{version}.sha256"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    pairs = (line.split() for line in text.splitlines())
    return {path: digest for digest, path in pairs}


def _known(cache: Path) -> dict[str, str]:
    """Return the SHA-256 of each previously downloaded jar, by path."""
    manifests = sorted((cache / "kafka").glob("*.json"))
    return {file.path: file.sha256 for manifest in manifests for file in _listed(manifest)}


def _distribution(version: str, maven: Path, files: list[_File]) -> Distribution:
    return Distribution(
        version=version,
        classpath=tuple(maven / file.path for file in files if not file.tool),
        tools=tuple(maven / file.path for file in files if file.tool),
    )


def _has_tools(distribution: Distribution) -> bool:
    return len(distribution.tools) == len(jars_of_tools(numbers_of(distribution.version)))


def _manifest(version: str, cache: Path) -> Path:
    return cache / "kafka" / f"{version}.json"


class _Fetch:
    """The download of one version to the cache; the caller holds the cache's lock."""

    def __init__(self, version: str, cache: Path, address: str, *, progress: Progress) -> None:
        self._version = version
        self._numbers = numbers_of(version)
        self._cache = cache
        self._address = address.rstrip("/")
        self._progress = progress
        self._maven = cache / "maven"
        self._shipped = _shipped(version)
        self._known = self._shipped or _known(cache)
        self._context = MavenContext(
            resolver=PythonResolver(),
            repo_cache=self._maven,
            remote_repos={"central": self._address},
            timeout=TIMEOUT_S,
        )

    def fetch(self) -> Distribution:
        """Find the needed jars, download and verify them, and write the manifest last."""
        files = self._download(self._listed_jars() if self._shipped else self._asked_for())
        self._write_manifest(files)
        return _distribution(self._version, self._maven, files)

    def _say(self, what: str) -> None:
        self._progress(f"fetching Kafka {self._version}: {what}")

    def _listed_jars(self) -> list[_Wanted]:
        """Return the jars in Logquake's hash file of this version, with Kafka's own jars first."""
        tools = {jar.partition(":")[2].replace(":", "/") for jar in jars_of_tools(self._numbers)}
        paths = [Path(path).parent for path in self._shipped]
        paths.sort(key=lambda path: path.parent.parent != _KAFKA)  # Others keep their order.
        return [(self._jar_at(path), "/".join(path.parts[-2:]) in tools) for path in paths]

    def _jar_at(self, path: Path) -> Jar:
        """Return the jar at a repository path, which consists of group, name and version."""
        *group, name, version = path.parts
        return self._context.create_dependency(f"{'.'.join(group)}:{name}:{version}")

    def _asked_for(self) -> list[_Wanted]:
        self._say("asking the repository")
        self._say(
            "Logquake has no hashes of this version, so only the repository's own hashes"
            " are checked"
        )
        self._check_version()
        with self._no_half_descriptions():
            self._say("finding the jars that this version needs")
            return self._resolve()

    def _check_version(self) -> None:
        listed = self._listed_versions()
        if self._version not in listed:
            newest = sorted(filter(_is_release, listed), key=_order, reverse=True)[:8]
            examples = ", ".join(newest) or "none"
            raise UserError(
                f"Kafka {self._version} is not on Maven Central; it has, for example: {examples};"
                " use one of these, such as --system kafka:4.3.1"
            )

    def _listed_versions(self) -> list[str]:
        group, artifact = server_artifact(self._numbers).split(":")
        path = f"{group.replace('.', '/')}/{artifact}"
        answer = requests.get(f"{self._address}/{path}/maven-metadata.xml", timeout=TIMEOUT_S)
        answer.raise_for_status()
        return re.findall(r"<version>([^<]+)</version>", answer.text)

    @contextmanager
    def _no_half_descriptions(self) -> Iterator[None]:
        """Delete all POMs after an interrupted download, because one of them may be incomplete."""
        mark = self._maven / "unfinished"
        self._maven.mkdir(parents=True, exist_ok=True)
        if mark.exists():
            for pom in self._maven.rglob("*.pom"):
                pom.unlink()
        mark.touch()
        yield
        mark.unlink()

    def _resolve(self) -> list[_Wanted]:
        server = f"{server_artifact(self._numbers)}:{self._version}"
        roots, needed = self._context.resolver.resolve([self._context.create_dependency(server)])
        replaced = jars_replaced(self._numbers)
        kept = [jar for jar in needed if f"{jar.groupId}:{jar.artifactId}" not in replaced]
        beside = jars_beside(self._numbers, {jar.artifactId: jar.version for jar in needed})
        own = [*roots, *kept, *map(self._context.create_dependency, beside)]
        tools = map(self._context.create_dependency, jars_of_tools(self._numbers))
        return [*((jar, False) for jar in own), *((jar, True) for jar in tools)]

    def _download(self, jars: list[_Wanted]) -> list[_File]:
        done, received = count(1), 0
        with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
            tasks = [pool.submit(self._whole_file, jar, tool=tool) for jar, tool in jars]
            try:
                for task in as_completed(tasks):
                    received += task.result().size
                    number = next(done)
                    if number % SAY_EVERY == 0 or number == len(jars):
                        self._say(f"{number} of {len(jars)} files, {received / 1e6:.0f} MB")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [task.result() for task in tasks]

    def _whole_file(self, jar: Jar, *, tool: bool) -> _File:
        """Return a verified jar, downloading it if needed; retry once after a wrong checksum."""
        cached = self._maven / jar.artifact.component.path_prefix / jar.artifact.filename
        path = cached.relative_to(self._maven).as_posix()
        published = None if self._shipped else self._published_sha1(path)
        for _attempt in range(2):
            try:
                found = self._resolved(jar, path)
            except requests.exceptions.ChunkedEncodingError:
                cached.unlink(missing_ok=True)  # The connection ended early.
                continue
            if published in (None, _digest(found, "sha1")):
                sha256, size = _digest(found, "sha256"), found.stat().st_size
                known = self._shipped.get(path) if self._shipped else self._known.get(path, sha256)
                if known == sha256:
                    return _File(path=path, size=size, sha256=sha256, tool=tool)
            found.unlink()
        if self._shipped and path not in self._shipped:
            raise _ChecksumError(f"{path} is not in Logquake's list of the jars of this version")
        if path in self._known:
            raise _ChecksumError(f"{path} does not match its known SHA-256 {self._known[path]}")
        raise _ChecksumError(f"{path} does not match its published checksum")

    def _resolved(self, jar: Jar, path: str) -> Path:
        """Download a jar, and raise the real HTTP error if jgo reports it as missing.

        jgo reports every failed download as a missing file.
        """
        try:
            return jar.artifact.resolve()
        except RuntimeError:
            with requests.get(f"{self._address}/{path}", timeout=TIMEOUT_S, stream=True) as answer:
                if answer.status_code != requests.codes.not_found:
                    answer.raise_for_status()
            raise

    def _published_sha1(self, path: str) -> str:
        answer = requests.get(f"{self._address}/{path}.sha1", timeout=TIMEOUT_S)
        if answer.status_code == requests.codes.not_found:
            raise RuntimeError(f"the repository has no {path}")
        answer.raise_for_status()
        return answer.text.split()[0].lower()

    def _write_manifest(self, files: list[_File]) -> None:
        path = _manifest(self._version, self._cache)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(file) for file in files]
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)


@contextmanager
def _explained(version: str, address: str) -> Iterator[None]:
    """Convert download errors to user errors with a remedy."""
    try:
        yield
    except requests.exceptions.SSLError as untrusted:
        raise UserError(
            f"the certificate of {address} is not trusted on this machine; set REQUESTS_CA_BUNDLE"
            " to the file with your network's certificates"
        ) from untrusted
    except requests.RequestException as unreachable:
        raise UserError(
            f"Kafka {version} is not in the cache, and {address} cannot be reached"
            f" ({_reason(unreachable)}); connect to the network once, set HTTPS_PROXY, or name a"
            f" mirror in {REPOSITORY_VARIABLE}{_instead()}"
        ) from unreachable
    except ParseError as broken:
        raise UserError(
            f"the answer of {address} is not a Maven description ({broken}); it may be a login"
            " page or an answer of a proxy. Try again, or set HTTPS_PROXY"
        ) from broken
    except _ChecksumError as broken:
        raise UserError(
            f"the download of Kafka {version} is damaged: {broken}; try again later, or use"
            f" another repository ({REPOSITORY_VARIABLE}, now {address})"
        ) from broken
    except RuntimeError as missing:  # jgo raises this if a repository lacks a file.
        raise UserError(
            f"Kafka {version} is incomplete at {address}: {_lacking(missing)}; use another"
            " version, such as --system kafka:4.3.1"
        ) from missing


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"it answers {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy refuses"
    return "no connection"


def _lacking(error: RuntimeError) -> str:
    match = re.search(r"Artifact (\S+) not found", str(error))
    return f"{match[1]} is missing" if match else str(error)


def _instead() -> str:
    versions = cached_versions()
    return f"; the cache has {', '.join(versions)}" if versions else ""


def _is_release(version: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+", version) is not None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(
            opened, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()
