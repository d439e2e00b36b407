"""Whether a machine can have file systems below data, as it is told to who asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.hosts import examine
from cluster.hosts.faulty_disk import reason
from cluster.hosts.faulty_disks import PROGRAM, own_mounts
from cluster.hosts.namespace import SHARED_MEMORY
from tests.machine import needs

WARNING = "Ignoring invalid max threads value 4294967295 > max (100000)."
"""What libfuse 3.14 says at each start, also if all is well."""


def test_others_than_root_are_told_whose_the_device_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(examine, "FUSE", f"{tmp_path}/fuse")
    finding = examine.faulty_disk_trial.__wrapped__()
    assert not finding.works
    assert finding.detail == f"there is no {tmp_path}/fuse"
    assert finding.remedy.startswith("type as root: modprobe fuse; in a container")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    device = tmp_path / "device"
    device.touch(0o600)
    whose = examine._refused(f"{device}", PermissionError(13, "no"), examine.OPEN_FUSE, "")
    assert whose[0] == f"{device} belongs to uid {os.getuid()}, mode 0600"
    assert whose[1].startswith("run as root, or let every user open /dev/fuse")


@needs("fuse")
@pytest.mark.parametrize(
    ("library", "told"),
    [
        ("ImportError('no module')", ("mfusepy is missing (no module)", "type: ./setup")),
        ("OSError('none')", ("libfuse is missing (none)", "type: apt-get install fuse3")),
        ("AttributeError('it is too old')", ("it is too old", examine.NO_REMEDY)),
    ],
)
def test_what_is_missing_is_named_with_its_own_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str, told: tuple[str, str]
) -> None:
    (tmp_path / "mfusepy.py").write_text(f"raise {library}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}")
    finding = examine.faulty_disk_trial.__wrapped__()
    assert not finding.works
    assert (finding.detail, finding.remedy) == told


@needs("fuse")
@pytest.mark.parametrize("why", ["", "fuse: mount failed: Operation not permitted"])
def test_a_warning_of_libfuse_is_not_taken_for_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    says = [WARNING, why] if why else [WARNING]
    said = "".join(f"{line}\n" for line in says)
    (tmp_path / "mfusepy.py").write_text(
        "import sys\nfuse_version_major, fuse_version_minor = 3, 14\n"
        f"def FUSE(*_, **__):\n    sys.stderr.write({said!r})\n    raise RuntimeError(1)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}")
    finding = examine.faulty_disk_trial.__wrapped__()
    assert not finding.works
    ours = f"libfuse cannot mount a file system at {SHARED_MEMORY}/trial (code 1)"
    assert finding.detail == (why or ours)


def test_of_a_stack_the_last_line_is_the_reason() -> None:
    assert reason(f"{WARNING}\nTraceback (most recent call last):\n  ...\nTypeError: no\n") == (
        "TypeError: no"
    )
    assert reason(f"{WARNING}\n") == reason("") == "the program printed nothing"


@needs("fuse")
def test_why_libfuse_does_not_mount_is_what_it_says(tmp_path: Path) -> None:
    nowhere = f"{tmp_path}/nowhere"
    program = [sys.executable, "-P", f"{PROGRAM}", f"{tmp_path}", nowhere, f"{tmp_path}/orders"]
    done = subprocess.run([*own_mounts(), *program], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert reason(done.stderr) == f"fuse: bad mount point `{nowhere}': No such file or directory"
