"""The site, built once for all tests of it."""

from pathlib import Path

import pytest

from harness.manual import build_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    build_site(folder, strict=True)
    return folder
