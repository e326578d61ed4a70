# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tools are those of the newest installed distribution, and of nothing else on the search path."""

from __future__ import annotations

import sys

import pytest

from tests.architecture.source_tree import run_python
from weft.backends.cuda import toolchain
from weft.backends.cuda.assemblers import find_installed

LIBRARY = r"libnvJitLink\.so\.\d+"


@pytest.fixture
def search_path(monkeypatch):
    """An empty search path, to which folders can be added."""
    path: list[str] = []
    monkeypatch.setattr(sys, "path", path)
    return path


def install(place, distribution: str, version: str, *files: str) -> None:
    """A distribution with these files, as pip leaves it; the folders already there stay."""
    folder = place / f"{distribution.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(version)
    quoted = [f'"{file}"' if "," in file else file for file in (*files, f"{folder.name}/RECORD")]
    rows = [f"{file},sha256=0,1" for file in quoted]
    (folder / "RECORD").write_text("\r\n".join(rows))


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_release_wins_wherever_it_stands(tmp_path, search_path, order):
    old, new = tmp_path / "old", tmp_path / "new"
    install(old, "nvidia-nvjitlink-cu12", "12.9.86", "nvidia/nvjitlink/lib/libnvJitLink.so.12")
    install(new, "nvidia-nvjitlink", "13.10.1", "nvidia/cu13/lib/libnvJitLink.so.13")
    install(new, "nvidia-nvjitlink-cu13", "13.9.2", "nvidia/other/lib/libnvJitLink.so.13")
    search_path.extend([str(old), str(new)][::order])
    assert (
        find_installed("nvidia-nvjitlink", LIBRARY) == f"{new}/nvidia/cu13/lib/libnvJitLink.so.13"
    )


def test_two_releases_in_one_folder_are_distinguished(tmp_path, search_path):
    install(tmp_path, "nvidia-cuda-nvcc-cu12", "12.8.93", "nvidia/cuda_nvcc/bin/ptxas")
    install(tmp_path, "nvidia-cuda-nvcc", "13.0.1", "nvidia/cu13/bin/ptxas")
    search_path.append(str(tmp_path))
    assert find_installed("nvidia-cuda-nvcc", "bin/ptxas") == f"{tmp_path}/nvidia/cu13/bin/ptxas"


def test_a_path_with_a_comma(tmp_path, search_path):
    place = tmp_path / "a, b"
    install(place, "nvidia-cuda-nvcc", "13.0.1", "nvidia/a,b/readme", "nvidia/cu,13/bin/ptxas")
    search_path.append(str(place))
    assert find_installed("nvidia-cuda-nvcc", "bin/ptxas") == f"{place}/nvidia/cu,13/bin/ptxas"


def test_what_an_installer_recorded_but_is_gone_does_not_count(tmp_path, search_path):
    install(tmp_path, "nvidia-cuda-nvcc", "13.0.1", "nvidia/cu13/bin/ptxas")
    search_path.append(str(tmp_path))
    (tmp_path / "nvidia/cu13/bin/ptxas").unlink()
    assert find_installed("nvidia-cuda-nvcc", "bin/ptxas") is None
    # It is looked for again.
    (tmp_path / "nvidia/cu13/bin/ptxas").write_text("")
    assert find_installed("nvidia-cuda-nvcc", "bin/ptxas") is not None


@pytest.mark.parametrize(
    ("distribution", "version"),
    [("nvidia-nvjitlink-extras", "14.0"), ("my-nvidia-nvjitlink", "14.0"), ("nvidia", "14.0")],
)
def test_another_distribution_is_not_it(tmp_path, search_path, distribution, version):
    install(tmp_path, distribution, version, "nvidia/cu14/lib/libnvJitLink.so.14")
    search_path.append(str(tmp_path))
    assert find_installed("nvidia-nvjitlink", LIBRARY) is None


def test_what_is_on_the_search_path_and_no_folder_is_passed_over(tmp_path, search_path):
    (tmp_path / "archive.zip").write_bytes(b"PK")
    search_path.extend([str(tmp_path / "archive.zip"), str(tmp_path / "nowhere"), ""])
    assert find_installed("nvidia-nvjitlink", LIBRARY) is None


def test_a_folder_beside_a_script_does_not_bring_its_own_tools(tmp_path):
    for file in ("lib/libnvJitLink.so.99", "bin/ptxas", "bin/nvdisasm"):
        path = tmp_path / "nvidia/cu99" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not a tool")
    (tmp_path / "script.py").write_text(
        "from weft.backends.cuda import toolchain\n"
        "library = toolchain.find_nvjitlink()\n"
        "print(library and library.path, toolchain.find_ptxas(), toolchain.find_nvdisasm())\n"
    )
    program = f"import runpy, sys\nsys.path[0] = {str(tmp_path)!r}\n"
    program += f"runpy.run_path({str(tmp_path / 'script.py')!r})"
    library = toolchain.find_nvjitlink()
    expected = (library and library.path, toolchain.find_ptxas(), toolchain.find_nvdisasm())
    assert run_python(program).split() == [str(path) for path in expected]


def test_looking_does_not_import_what_takes_long():
    program = (
        "import sys; from weft.backends.cuda import toolchain; toolchain.find_ptxas(); "
        "toolchain.find_nvjitlink(); print('importlib.metadata' in sys.modules)"
    )
    assert run_python(program).strip() == "False"
