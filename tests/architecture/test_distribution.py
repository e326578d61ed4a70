# SPDX-License-Identifier: Apache-2.0
"""The distribution's name, weft-lang, wherever it is written; another project's is weft."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from weft.cache import versions

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# What would install the other project: `weft` as a requirement, with or without extras.
STRANGER = re.compile(
    rf"(?<!un)install (-\S+ )*[\"']?weft(?![-\w. ])|(?<![-\w])weft\\?\[({'|'.join(EXTRAS)})|version\([\"']weft[\"']\)"
)
TEXT = {
    ".py",
    ".pyi",
    ".md",
    ".txt",
    ".toml",
    ".yml",
    ".cpp",
    ".h",
    ".cmake",
    ".jl",
    ".rs",
    ".sh",
    "",
}


def tracked_files() -> list[Path]:
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize(
    "text",
    [
        "pip install weft`",
        "pip install -U weft",
        "pip install 'weft[cuda]'",
        "weft[plot]",
        r"weft\[plot\]",
        'version("weft")',
    ],
)
def test_what_would_install_a_stranger_is_recognized(text: str):
    assert STRANGER.search(text)
    assert not STRANGER.search(text.replace("weft", "weft-lang"))


def test_no_file_says_to_install_the_distribution_of_a_stranger():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked_files()
        if path.suffix in TEXT and path != Path(__file__) and path.is_file()
        for line in path.read_text(errors="replace").splitlines()
        if STRANGER.search(line)
    ]
    assert found == []


def test_the_distribution_is_called_weft_lang():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "weft-lang"
    assert project["scripts"] == {"weft": "weft.cli:main"}


def test_an_installed_weft_is_found_by_distribution(tmp_path: Path):
    for name, record in (
        ("weft-9.9.dist-info", "weft/agent.py,sha256=1,2\n"),
        ("weft_lang-0.1.0.dist-info", "weft/api.py,sha256=3,4\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "RECORD").write_text(record)
    found = versions._record(str(tmp_path / "weft"))  # pyright: ignore[reportPrivateUsage]
    assert found == b"weft/api.py,sha256=3,4\n"


def import_beside(site: Path, *folders: str) -> str:
    """What `import weft` of an installed copy prints on stderr, with those folders beside it."""
    (site / "weft").mkdir()
    shutil.copy(PACKAGE / "__init__.py", site / "weft")
    for folder in folders:
        (site / folder).mkdir()
    code = f"import sys; sys.path.insert(0, {str(site)!r})\nimport weft\nprint(weft.__file__)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=site)
    assert result.stdout.startswith(str(site))
    return result.stderr


@pytest.mark.parametrize("folder", ["weft-3.2.dist-info", "Weft-3.2-py3.11.egg-info"])
def test_a_foreign_weft_distribution_is_reported_at_import(tmp_path: Path, folder: str):
    said = import_beside(tmp_path, folder, "weft_lang-0.1.0.dist-info")
    assert (
        f"also holds {folder}, another project's distribution, whose import name is weft too"
        in said
    )
    assert "`pip uninstall weft`, then `pip install --force-reinstall weft-lang`" in said


def test_weft_alone_says_nothing(tmp_path: Path):
    beside = ["weft_lang-0.1.0.dist-info", "weft_more-1.dist-info", "weftish-1.dist-info"]
    assert import_beside(tmp_path, *beside) == ""


def test_a_file_that_another_distribution_removed_is_reported(tmp_path: Path):
    import_beside(tmp_path)
    for module in ("imports", "worker", "blame"):
        shutil.copy(PACKAGE / f"{module}.py", tmp_path / "weft")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport weft\nweft.jit"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "ImportError: weft.api is missing from" in result.stderr
    assert "`pip install --force-reinstall weft-lang` brings it back" in result.stderr
