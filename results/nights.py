"""`night.json` of a run: written by who plays it, read by the index and the pages."""

from pathlib import Path

from pydantic import ValidationError

from results.record.atomic import StoreError, write_atomically
from results.record.night import Night
from results.record.reading import read_bytes

MAX_BYTES = 65_536


def write_night(path: Path, night: Night) -> None:
    """Write `night.json`, whole or not at all.

    Raises:
        StoreError: It cannot be written.
    """
    write_atomically(path, night.model_dump_json(indent=1) + "\n")


def read_night(path: Path) -> Night | None:
    """Read `night.json` of a run; None if it is no suite's, and no repeat.

    Raises:
        StoreError: The file is there, but cannot be read.
    """
    try:
        return Night.model_validate_json(read_bytes(path, max_bytes=MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as unreadable:
        raise StoreError(f"{path} cannot be read: {unreadable}") from unreadable
