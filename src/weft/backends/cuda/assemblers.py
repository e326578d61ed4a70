# SPDX-License-Identifier: Apache-2.0
"""Paths of the tools for PTX and cubins; imports none of them.

In: the environment variables of `weft.config`, NVIDIA's installed wheels, PATH, CUDA's usual place. Out: paths. Wheels
are found through pip's installation records, in the newest installed release; a folder called `nvidia` on the search
path that no distribution owns, for example next to a script, is ignored. `importlib.metadata` would give the same but
takes 20 ms to import, `pathlib` and `csv` 5.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

from weft.config import config, search_path
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator


_USUAL_PLACE: Final = "/usr/local/cuda/bin"


def ptxas_path() -> str | None:
    """Path of ptxas, which makes a cubin from PTX, or None; with WEFT_NVJITLINK alone it is not used."""
    if config.nvjitlink is not None and config.ptxas is None:
        return None
    return find_ptxas()


def find_ptxas() -> str | None:
    """Path of ptxas, or None."""
    return config.ptxas or _find_program("ptxas", "nvidia-cuda-nvcc")


def nvjitlink_path() -> str | None:
    """Path of nvJitLink from `WEFT_NVJITLINK` or NVIDIA's wheel, or None."""
    if config.nvjitlink is not None:
        return config.nvjitlink
    return find_installed("nvidia-nvjitlink", r"libnvJitLink\.so\.\d+")


def find_fatbinary() -> str | None:
    """Path of fatbinary, which joins the code of several architectures, or None."""
    return _find_program("fatbinary", "nvidia-cuda-nvcc")


def find_nvdisasm() -> str | None:
    """Path of nvdisasm, or None."""
    return config.nvdisasm or _find_program("nvdisasm", "nvidia-cuda-nvdisasm")


def _find_program(name: str, distribution: str) -> str | None:
    installed = find_installed(distribution, f"bin/{name}")
    if installed is not None:
        return installed
    for folder in [*search_path().split(os.pathsep), _USUAL_PLACE]:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def find_installed(distribution: str, file: str) -> str | None:
    """The path of a file of the newest installed release of a distribution, or None.

    Args:
        distribution: its name without the release of CUDA: ``nvidia-nvjitlink`` stands for
            ``nvidia-nvjitlink-cu12`` too.
        file: a regular expression for the end of the file's path, such as ``"bin/ptxas"``.
    """
    try:
        return _newest(distribution, file, tuple(sys.path))
    except LookupError:
        return None  # and searched again next time: it may be installed by then


@kept
def _newest(distribution: str, file: str, search_path: tuple[str, ...]) -> str:
    wanted = re.compile(f"(^|/){file}$")
    releases = sorted(_releases(distribution, search_path), reverse=True)
    for _, place, metadata in releases:
        for path in filter(wanted.search, _recorded(os.path.join(place, metadata, "RECORD"))):
            if os.path.isfile(found := os.path.join(place, path)):
                return found
    raise LookupError(distribution)


def _releases(
    distribution: str, search_path: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], str, str]]:
    """The version of each installed release, where it is, and the name of its metadata's folder."""
    name = distribution.replace("-", "[-_.]")
    metadata = re.compile(rf"(?i:{name})(?:[-_.]cu\d+)?-(\d[\d.]*)[^-]*\.dist-info")
    for place in search_path:
        if not os.path.isabs(place):  # '' is wherever the program was started
            continue
        try:
            names = os.listdir(place)
        except OSError:
            continue  # an archive, or a folder that is not there
        for found in filter(None, map(metadata.fullmatch, names)):
            numbers = tuple(int(part) for part in found[1].split(".") if part)
            yield numbers, place, found[0]


def _recorded(record: str) -> list[str]:
    """The paths in a distribution's installation record, relative to its place."""
    try:
        with open(record, encoding="utf-8") as file:
            return [_first_field(line) for line in file]
    except (OSError, UnicodeDecodeError):
        return []


def _first_field(line: str) -> str:
    """The first field of a line of comma-separated values, which is quoted if a comma is in it."""
    if not line.startswith('"'):
        return line.partition(",")[0].rstrip()
    path, _, _ = line[1:].replace('""', "\0").partition('"')
    return path.replace("\0", '"')
