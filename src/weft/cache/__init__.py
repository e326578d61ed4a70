# SPDX-License-Identifier: Apache-2.0
"""The cache on disk: its contents, and statistics of this process.

In: the folder of WEFT_CACHE_DIR. Out: figures, and an emptier folder. docs/cache.md explains it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from weft.cache import store
from weft.cache.store import File as File
from weft.cache.store import Stats as Stats


class Info(NamedTuple):
    """The user's cache.

    Attributes:
        folder: its path, or None without a home directory.
        entries: how many compiled functions it holds.
        size: their bytes.
        limit: how many bytes it may take.
    """

    folder: str | None
    entries: int
    size: int
    limit: int


def stats() -> Stats:
    """Counts of the cache in this process: `hits`, `misses`, `stored`, `not_kept`.

    Example:
        >>> weft.cache.stats().hits >= 0
        True
    """
    return store.stats()


def entries() -> list[File]:
    """Each entry's path, size in bytes and last use, the longest unused first.

    Example:
        >>> all(entry.size > 0 for entry in weft.cache.entries())
        True
    """
    folder = store.user_folder()
    return [] if folder is None else store.files(folder)


def info() -> Info:
    """Location and size of the user's cache.

    Example:
        >>> weft.cache.info().limit > 0
        True
    """
    found = entries()
    size = sum(file.size for file in found)
    return Info(store.user_folder(), len(found), size, store.limit_bytes())


def verify() -> tuple[int, int]:
    """Reads every entry and removes damaged ones; how many are whole, and how many were removed.

    Example:
        >>> whole, removed = weft.cache.verify()
    """
    folder = store.user_folder()
    return (0, 0) if folder is None else store.remove_damaged(folder)


def clear() -> int:
    """Removes every entry; how many they were.

    Example:
        >>> removed = weft.cache.clear()
    """
    folder = store.user_folder()
    return 0 if folder is None else store.sweep(folder, -1)


def pack(folder: str) -> int:
    """Copies the entries into a folder that travels with an application, for WEFT_CACHE_PACK; how many.

    Args:
        folder: made if it is not there.
    Raises:
        OSError: if it cannot be written.
    Example:
        >>> copied = weft.cache.pack("kernels")
    """
    import shutil

    found = entries()
    for file in found:
        place = os.path.join(folder, os.path.basename(os.path.dirname(file.path)))
        os.makedirs(place, exist_ok=True)
        shutil.copyfile(file.path, os.path.join(place, os.path.basename(file.path)))
    return len(found)
