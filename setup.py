"""Copies the documentation's sources into the wheel; `pyproject.toml` says all else."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = Path("harness", "shipped")
PACKAGES = (
    "logquake",
    "harness",
    "workloads",
    "nemesis",
    "checkers",
    "cluster",
    "results",
    "tests",
)


class WithDocs(build_py):
    """Adds what `harness/manual.py` reads; an editable install reads the checkout."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            shutil.rmtree(self.shipped(), ignore_errors=True)
            shutil.copytree("docs", self.shipped() / "docs")
            for page in self.pages():
                (self.shipped() / page).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, self.shipped() / page)

    def shipped(self) -> Path:
        """Return where the wheel has them."""
        return Path(self.build_lib) / SHIPPED

    def pages(self) -> list[Path]:
        """Return the files outside of `docs/` that the site is made of."""
        readmes = [page for each in PACKAGES for page in Path(each).rglob("README.md")]
        return [Path("mkdocs.yml"), *Path().glob("*.md"), *readmes]


setup(cmdclass={"build_py": WithDocs})
