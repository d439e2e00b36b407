"""The wheel, installed by pip into another folder's environment, as an ordinary user has it.

The libraries are those of this environment that `requirements/plain.lock` names, so that nothing is
downloaded; pip still compares them with what the wheel asks for. A library that only tests name is
missing here.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cluster_hosts.hubs import as_ordinary_user
from tests.machine import needs, require
from tests.results.serving import listening
from tests.shells import shell

ROOT = Path(__file__).parent.parent
SIMULATED = ("--system", "reference", "--hosts", "simulated")
LIMIT_S = 300

pytestmark = pytest.mark.night


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An ordinary user's environment with the wheel.

    Attributes:
        home: The user's home folder, which no folder of the repository is in or above.
    """

    home: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Nothing of this process's environment but what a login has."""
        paths = f"{self.home}/env/bin:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": paths, "LANG": "C.UTF-8", "TERM": "dumb"}

    def argv(self, *words: str) -> list[str]:
        """Return what runs a command as the user; root becomes one."""
        return [*words] if os.geteuid() else as_ordinary_user([*words], self.home)

    def types(self, *words: str, code: int = 0) -> str:
        """Run a command in the home folder; return what it prints."""
        done = subprocess.run(
            self.argv(*words),
            cwd=self.home, env=self.environment, check=False, timeout=LIMIT_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout


@pytest.fixture(scope="module", name="installed")
def a_user_with_the_wheel() -> Iterator[Installed]:
    if os.geteuid() == 0:
        require("namespaces")  # The user sees the interpreter, also where root's home has it.
    # Others may not enter the folders that pytest makes.
    with tempfile.TemporaryDirectory(prefix="logquake-wheel-") as name:
        home = Path(name)
        user = Installed(home=home)
        (wheel,) = (_built(home / "dist")).glob("*.whl")
        user.types(f"{sys.base_exec_prefix}/bin/python3", "-m", "venv", "env")
        _libraries_into(next((home / "env" / "lib").glob("python3*/site-packages")))
        user.types("env/bin/pip", "install", "--no-index", str(wheel))
        yield user


def _built(folder: Path) -> Path:
    """Return the folder with the wheel, built from a copy, where no older build is left over."""
    ignored = [each.strip("/") for each in (ROOT / ".gitignore").read_text().split()]
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", *ignored))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(source)],
        check=True,
    )  # fmt: skip
    return folder


def _libraries_into(folder: Path) -> None:
    lock = (ROOT / "requirements" / "plain.lock").read_text(encoding="utf-8")
    for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE):
        with suppress(PackageNotFoundError):  # Of another version of Python.
            found = distribution(name)
            for top in {each.parts[0] for each in found.files or ()} - {"..", "__pycache__"}:
                source, target = Path(str(found.locate_file(top))), folder / top
                if source.is_dir():
                    shutil.copytree(source, target, copy_function=_link, dirs_exist_ok=True)
                elif not target.exists():
                    _link(str(source), str(target))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:  # Another file system.
        shutil.copy2(source, target)


def test_the_wheel_brings_all_that_it_imports(installed: Installed) -> None:
    said = installed.types("env/bin/python", "-c", "import harness; print(harness.__file__)")
    assert said.startswith(f"{installed.home}/env/lib/")
    installed.types("env/bin/pip", "check")
    assert "duckdb" not in installed.types("env/bin/pip", "list"), "a library of tests"


def test_runs_and_scenarios_play_and_are_shown(installed: Installed, tmp_path: Path) -> None:
    said = installed.types("logquake", "run", "example:acks-1", *SIMULATED, "--rate", "20", code=1)
    assert "Invalid:" in said
    assert "lost" in installed.types("logquake", "show", "latest")
    loss = ("leader-epoch-1", "--rule", "high-watermark")
    assert "Invalid:" in installed.types("logquake", "scenario", "run", *loss, *SIMULATED, code=1)
    processes = ("--system", "reference", "--hosts", "process", "--nemesis", "pause")
    times = ("--time-limit", "10", "--warmup", "1", "--seed", "1")
    assert "Valid:" in installed.types("logquake", "run", *processes, *times)
    page = (installed.home / "runs" / "latest" / "report.html").read_text(encoding="utf-8")
    assert "<h1" in page
    program = installed.argv(
        "logquake", "serve", "--port", "0", "--store", f"{installed.home}/runs"
    )
    with listening(tmp_path / "log", program=program, env=installed.environment) as (url, _):
        assert b"acks-1" in urlopen(f"{url}/").read()  # noqa: S310 - of this machine


def test_examples_and_the_documentation_are_in_it(installed: Installed) -> None:
    assert "example:half-hour" in installed.types("logquake", "init", "--list")
    assert "log" in installed.types("logquake", "suite", "run", "example:half-hour", "--dry-run")
    installed.types("logquake", "docs", "--build", "site")
    for page in ("index.html", "reference/plan.html", "internals/harness.html"):
        assert "<h1" in (installed.home / "site" / page).read_text(encoding="utf-8"), page


@pytest.mark.parametrize("name", ["bash", pytest.param("zsh", marks=needs("zsh"))])
def test_a_shell_completes_after_one_command(name: str, installed: Installed) -> None:
    installed.types("logquake", "completion", name, "--install")
    with (installed.home / f".{name}rc").open("a") as file:
        file.write("PS1='ready> '\n")
    with shell(installed.argv(name, "-i"), installed.environment) as typed:
        typed.shows("ready> ")
        typed.types("logquake show sample:vali\t")
        typed.shows("show sample:valid")
        typed.types("\x15logquake comple\t")
        typed.shows("logquake completion")
