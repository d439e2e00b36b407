"""Files that a group can write: they are their owner's alone only where nobody else is in it."""

import grp
import os
import pwd
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from results import trust

OWNER, OTHER, GROUP = 61001, 61002, 61001
AS_ROOT = pytest.mark.needs("root")


def user(uid: int, gid: int, name: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[pwd.struct_passwd]]:
    """Return the system's users, to be added to: one, whose group has his name."""
    known = [user(OWNER, GROUP, "ann")]
    monkeypatch.setattr(pwd, "getpwall", lambda: known)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {OWNER: known[0]}[uid])
    group = grp.struct_group(("ann", "x", GROUP, []))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: {GROUP: group}[gid])
    monkeypatch.setattr(os, "geteuid", lambda: OWNER)
    trust._is_private.cache_clear()
    yield known
    trust._is_private.cache_clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.toml"
    path.touch()
    os.chown(path, OWNER, GROUP)
    path.chmod(0o664)
    return path


@AS_ROOT
@pytest.mark.usefixtures("users")
def test_a_file_of_a_group_of_one_is_its_owner_s_alone(file: Path) -> None:
    assert trust.is_own_file(file)
    file.chmod(0o666)
    assert not trust.is_own_file(file)


@AS_ROOT
def test_a_group_has_members_whose_first_group_it_is(
    users: list[pwd.struct_passwd], file: Path
) -> None:
    users.append(user(OTHER, GROUP, "mallory"))
    assert not trust.is_own_file(file)
    assert not trust.is_closed(file)
    file.chmod(0o644)
    assert trust.is_own_file(file)


@AS_ROOT
@pytest.mark.usefixtures("users")
def test_an_access_control_list_may_name_others(file: Path) -> None:
    entries = [(1, 6, -1), (2, 6, OTHER), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(file, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    assert file.stat().st_mode & 0o777 == 0o664
    assert not trust.is_own_file(file)
    assert not trust.is_closed(file)
    with pytest.raises(PermissionError, match="another user may have written it"):
        trust.read_own_text(file)
    file.chmod(0o644)  # As the remedy says: what the list grants is bounded by it.
    assert trust.is_own_file(file)
