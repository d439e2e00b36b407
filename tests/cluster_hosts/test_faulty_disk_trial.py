"""Whether a machine can have file systems below data, as it is told to who asks."""

import os
from pathlib import Path

import pytest

from cluster.hosts import examine


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
    assert whose[1].startswith("run as root, or have udev let every user open /dev/fuse")
