"""Copies the documentation's sources into the wheel; `pyproject.toml` says all else."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = Path("harness", "shipped")


class WithDocs(build_py):
    """Adds what `harness/manual.py` reads; an editable install reads the checkout."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            shutil.rmtree(self.shipped(), ignore_errors=True)
            for page in (*self.docs(), *self.pages()):
                (self.shipped() / page).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, self.shipped() / page)

    def shipped(self) -> Path:
        """Return where the wheel has them."""
        return Path(self.build_lib) / SHIPPED

    def docs(self) -> list[Path]:
        """Return the files of `docs/`; in a checkout only what git tracks, without drafts."""
        found = [path for path in Path("docs").rglob("*") if path.is_file()]
        git = shutil.which("git")
        if git is None:
            return found
        listed = subprocess.run(  # noqa: S603 - all words are fixed
            [git, "ls-files", "-z", "docs"], capture_output=True, check=False
        )
        tracked = {Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0")}
        return [path for path in found if path in tracked] or found

    def pages(self) -> list[Path]:
        """Return the files outside of `docs/` that the site is made of."""
        packages = {each.partition(".")[0] for each in self.packages} | {"tests"}
        readmes = [page for each in sorted(packages) for page in Path(each).rglob("README.md")]
        return [Path("mkdocs.yml"), *Path().glob("*.md"), *readmes]


setup(cmdclass={"build_py": WithDocs})
