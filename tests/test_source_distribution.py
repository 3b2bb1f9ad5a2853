"""The source distribution holds the whole project: whoever has it can run its tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "build", "dist",
    "out", ".coverage*",
)  # fmt: skip


def test_it_holds_every_file(tmp_path: Path) -> None:
    tree = tmp_path / "peffects"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=tree, check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    files = [path for path in _files(tree) if not path.startswith("peffects.egg-info")]
    assert len(files) > 500
    assert set(files) - packed == set()


def _files(tree: Path) -> list[str]:
    """The files of a copy of the project, as paths in it."""
    return [str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
