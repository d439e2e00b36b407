"""Passwords of a run, wherever a user may put them: nothing that is left or shown holds one."""

import contextlib
import gzip
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from results.record.clock import pause_until, stopwatch_s
from results.site import make_site
from results.store import Store
from tests.harness.commands import HERE, LOGQUAKE, RUN_LIMIT_S, logquake, newest

WORD = "hunter2"
OTHER_WORD = "swordfish"
"""Of another test, which may run beside the first and has it on its command line."""
TABLE = f"""\
[lab]
"sasl.username" = "{WORD}-user"
"sasl.password" = "{WORD}-in-the-file"
"ssl.key.password" = "env:LAB_PASSWORD"
"ssl.keystore.password" = "file:FILE"
"""
pytestmark = [
    pytest.mark.everything,
    pytest.mark.namespaces,
    pytest.mark.timeout(RUN_LIMIT_S + 20),
]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's own configuration: a password in each place that there is."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    (folder / "password").write_text(f"{WORD}-in-a-file-of-its-own\n")
    file = folder / "clients.toml"
    file.write_text(TABLE.replace("FILE", str(folder / "password")))
    file.chmod(0o600)
    monkeypatch.setenv("LOGQUAKE_CONFIG", str(file))
    monkeypatch.setenv("LAB_PASSWORD", f"{WORD}-in-the-environment")
    return folder


def command_lines() -> Iterator[str]:
    """Yield what `ps` shows of all processes."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield " ".join(process.cmdline())


def holding(folder: Path) -> list[Path]:
    """Return the files below a folder that hold a password, packed or not."""
    found = []
    for file in (each for each in folder.rglob("*") if each.is_file()):
        data = file.read_bytes()
        plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        if WORD.encode() in plain:
            found.append(file)
    return found


@pytest.mark.night
def test_a_run_leaves_and_shows_no_password(config: Path, tmp_path: Path) -> None:
    store, out = tmp_path / "runs", tmp_path / "out"
    out.mkdir()
    words = ["run", "--system", "reference", "--clients", "lab", "--time-limit", "5", *HERE]
    said = tmp_path / "said.log"
    with said.open("wb") as log:
        run = subprocess.Popen(
            [LOGQUAKE, *words, "--rate", "150", "--store", str(store)],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        looked = 0
        while run.poll() is None:
            assert not [each for each in command_lines() if WORD in each]
            looked += 1
            pause_until(stopwatch_s() + 1.0)
    assert looked > 3
    assert run.returncode in {0, 1, 2}, said.read_text()[-2000:]
    paths = newest(store)
    assert (paths.root / "workers" / "worker-0.json").read_text().count("lab")
    shown = said.read_text()
    for command in (
        ["show"], ["runs"], ["report"], ["timeline"], ["heal"],
        *(["export", "latest", "--as", form, "-o", str(out / form)]
          for form in ("bundle", "perfetto", "csv", "jepsen")),
        ["run", "--clients", "lab", "--dry-run"],
    ):  # fmt: skip
        done = logquake(*command, store=store)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        shown += done.stdout + done.stderr
    assert WORD not in shown
    assert holding(store) == holding(out) == []
    client = make_site(Store(store)).test_client()
    for url in ("/", f"/run/{paths.run_id}/report.html", f"/run/{paths.run_id}/plan.toml"):
        answer = client.get(url, buffered=True)
        assert answer.status_code == 200
        assert WORD not in answer.get_data(as_text=True)
    assert holding(config), "the user's own files are where they are"


@pytest.mark.parametrize("words", [
    ("--client", f"sasl.password={OTHER_WORD}"), ("--set", f"ssl.keystore.password={OTHER_WORD}"),
])  # fmt: skip
def test_a_password_where_none_belongs_is_refused_and_not_repeated(
    words: tuple[str, str], tmp_path: Path
) -> None:
    done = logquake("run", *words, store=tmp_path / "runs")
    assert done.returncode == 254, done.stderr
    assert OTHER_WORD not in done.stdout + done.stderr
    assert not list((tmp_path / "runs").rglob("plan.toml"))
