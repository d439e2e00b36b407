"""The user's own client settings. A plan refers to them by name and never contains them.

Certificates, keys and passwords are in `~/.config/logquake/clients.toml`, or in the file that
`LOGQUAKE_CONFIG` names. A plan, page, bundle or worker's file contains only the table's name:

    [lab]
    "security.protocol" = "sasl_ssl"
    "sasl.password" = "env:LAB_PASSWORD"         # or "file:/home/me/lab-password"
"""

import os
import re
import stat
import tomllib
from pathlib import Path

from results.record.plan import PlanError
from results.record.reading import open_file

VARIABLE = "LOGQUAKE_CONFIG"
_MAX_BYTES = 1 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_settings(name: str) -> dict[str, str]:
    """Return the settings of a table in the user's own file, with secrets instead of references.

    Raises:
        PlanError: The file, the table or a referenced secret is missing, or another user owns the
            file or may write it. The message contains no value of a setting.
    """
    path = own_file()
    table = tables_of(path).get(name)
    if not isinstance(table, dict):
        raise PlanError(
            f"the plan's clients {name!r} are not in {path}; add a table [{name}] with their"
            " settings to this file, or remove --clients"
        )
    wrong = [key for key, value in table.items() if not isinstance(value, str)]
    if wrong:
        raise PlanError(f"{path}: {wrong[0]} of [{name}] is not a string; put its value in quotes")
    return {key: value_of(path, key, value) for key, value in table.items()}


def own_file() -> Path:
    """Return the path of the user's own settings file, which need not exist.

    Raises:
        PlanError: The user has no home folder, and no environment variable names the file.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError as homeless:
        raise PlanError(
            f"this user has no home folder for personal settings; set {VARIABLE} to the path of"
            " the settings file"
        ) from homeless
    return folder / "logquake" / "clients.toml"


def tables_of(path: Path) -> dict[str, object]:
    """Return the contents of a TOML file of the user; empty if there is none.

    Raises:
        PlanError: The file cannot be read, or another user owns it or may write it. The message
            contains no value of a setting.
    """
    try:
        # The user may have made it a link.
        with open_file(path.resolve(), max_bytes=_MAX_BYTES) as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid():
                raise PlanError(f"{path} belongs to another user; type: sudo chown $USER {path}")
            if found.st_mode & _OTHERS_WRITE:
                raise PlanError(f"other users can write {path}; type: chmod go-w {path}")
            return tomllib.loads(file.read(_MAX_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as refused:
        raise PlanError(f"{path} cannot be read: {refused.strerror}") from refused
    except tomllib.TOMLDecodeError as broken:
        where = re.search(r"at line \d+, column \d+|at end of document", str(broken))
        told = where[0] if where else "somewhere"  # The rest of the message may hold a value.
        raise PlanError(f"{path} is not valid TOML {told}; fix the file") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not UTF-8 text; save the file as UTF-8") from None


def value_of(path: Path, key: str, value: str) -> str:
    """Return a setting's value; `env:NAME` and `file:PATH` are replaced by the secret.

    Args:
        path: The file with the setting. In `file:PATH`, a relative path starts at the folder of
            this file.
        key: Name of the setting.
        value: The text in the file.

    Raises:
        PlanError: The referenced variable or file is missing.
    """
    kind, _, where = value.partition(":")
    if kind == "env":
        if where not in os.environ:
            raise PlanError(f"{path}: {key} refers to the variable {where}, which is not set")
        return os.environ[where]
    if kind == "file":
        try:
            return (path.parent / where).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as refused:
            raise PlanError(f"{path}: {key} refers to {where}, which cannot be read") from refused
    return value
