"""What tests of systems share: kfake, built of the project's own source."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.systems.by_template import ROOT

BUILD_LIMIT_S = 400


@pytest.fixture(scope="session")
def kfake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of kfake, beside its program."""
    folder = tmp_path_factory.mktemp("kfake")
    (folder / "kfake").mkdir()
    subprocess.run(
        ["go", "build", "-o", str(folder / "kfake" / "kfake"), "."],
        cwd=ROOT / "docs/systems/kfake",
        env=os.environ | {"CGO_ENABLED": "0"},  # Containers have other libraries.
        check=True,
        timeout=BUILD_LIMIT_S,
    )
    text = (ROOT / "docs/systems/kfake.toml").read_text(encoding="utf-8")
    (folder / "kfake.toml").write_text(text, encoding="utf-8")
    return folder / "kfake.toml"
