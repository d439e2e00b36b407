"""Read and write `night.json`. It names the suite and the nightly run to which a run belongs."""

from pathlib import Path

from pydantic import ValidationError

from results.record.atomic import StoreError, write_atomically
from results.record.night import Night
from results.record.reading import read_bytes

MAX_BYTES = 65_536


def write_night(path: Path, night: Night) -> None:
    """Write `night.json` atomically.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(path, night.model_dump_json(indent=1) + "\n")


def read_night(path: Path) -> Night | None:
    """Return a run's `night.json`, or None if the run has no such file.

    Only the runs of a suite and the reruns of failed runs have this file.

    Raises:
        StoreError: The file exists, but cannot be read.
    """
    try:
        return Night.model_validate_json(read_bytes(path, max_bytes=MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as unreadable:
        raise StoreError(f"{path} cannot be read: {unreadable}") from unreadable
