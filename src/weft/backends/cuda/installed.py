# SPDX-License-Identifier: Apache-2.0
"""Files of NVIDIA's wheels, found through pip's installation records.

In: the name of a distribution and of a file. Out: the path in the newest installed release. A folder called
`nvidia` on the search path that no distribution owns, for example next to a script, is ignored.
`importlib.metadata` would give the same but takes 20 ms to import.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    releases = sorted(_releases(distribution, search_path), reverse=True)
    for _, folder in releases:
        for path in _recorded(folder):
            if re.search(f"(^|/){file}$", path) and (found := folder.parent / path).is_file():
                return str(found)
    raise LookupError(distribution)


def _releases(
    distribution: str, search_path: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], Path]]:
    """The version and the metadata's folder of each installed release."""
    name = distribution.replace("-", "[-_.]")
    metadata = re.compile(rf"(?i:{name})(?:[-_.]cu\d+)?-(\d[\d.]*)[^-]*\.dist-info")
    for place in search_path:
        if not os.path.isabs(place):  # noqa: PTH117  '' is wherever the program was started
            continue
        try:
            names = os.listdir(place)  # noqa: PTH208
        except OSError:
            continue  # an archive, or a folder that is not there
        for found in filter(None, map(metadata.fullmatch, names)):
            numbers = tuple(int(part) for part in found[1].split(".") if part)
            yield numbers, Path(place, found[0])


def _recorded(folder: Path) -> list[str]:
    """The paths in a distribution's installation record, relative to its folder."""
    try:
        with (folder / "RECORD").open(encoding="utf-8", newline="") as record:
            return [row[0] for row in csv.reader(record) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
