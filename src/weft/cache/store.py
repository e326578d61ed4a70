# SPDX-License-Identifier: Apache-2.0
"""The folders of the cache: entries found, added, checked and removed.

In: a key, a file's name, its bytes. Out: bytes. A folder that fails in any way counts as empty, and there are no locks:
a file appears whole under its name, or not at all.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.cache.entry import SUFFIX, decode, is_of_another_version
from weft.config import cache_home, config
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEGABYTE: Final = 1 << 20
_DEFAULT_LIMIT: Final = 1024
_STORES_PER_SWEEP: Final = 32
_TEMPORARY: Final = ".tmp"
_ABANDONED_SECONDS: Final = 3600
_TOUCH_SECONDS: Final = 3600
_FOREIGN_WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Stats:
    """Counts of the cache in this process.

    Attributes:
        hits, misses, stored: compilations found, not found, and kept.
        not_kept: reason → number of compilations that were not kept for it.
    """

    __slots__ = ("hits", "misses", "not_kept", "stored")

    def __init__(self) -> None:
        self.hits = self.misses = self.stored = 0
        self.not_kept: dict[str, int] = {}

    def __repr__(self) -> str:
        reasons = "".join(f", {number} not kept: {why}" for why, number in self.not_kept.items())
        return (
            f"<weft cache: {self.hits} hits, {self.misses} misses, {self.stored} stored{reasons}>"
        )

    def refuse(self, reason: str) -> None:
        """Counts a compilation that was not kept."""
        self.not_kept[reason] = self.not_kept.get(reason, 0) + 1


@kept
def stats() -> Stats:
    """Count hits, misses and stores of this process."""
    return Stats()


class File(NamedTuple):
    """A file of the cache.

    Attributes:
        path: of the file.
        size: in bytes.
        used: when it was last found or written, in seconds since 1970.
    """

    path: str
    size: int
    used: float


def user_folder() -> str | None:
    """The folder of the user's cache: WEFT_CACHE_DIR, else ``~/.cache/weft``; None without a home directory."""
    if config.cache_dir is not None:
        try:
            return os.path.abspath(config.cache_dir)
        except OSError:
            return None  # a relative path, and the working directory is gone
    home = cache_home()
    return None if home is None else os.path.join(home, "weft")


def limit_bytes() -> int:
    """Size limit of the user's cache."""
    return (config.cache_limit or _DEFAULT_LIMIT) * _MEGABYTE


def _folders() -> Iterator[str]:
    """The packs, then the user's folder."""
    packs = (config.cache_pack or "").split(os.pathsep)
    yield from (pack for pack in packs if pack and _is_trusted_pack(pack))
    own = user_folder()
    if own is not None and _is_trusted(own):
        yield own


def others_can_write(folder: str) -> bool:
    """Whether another user can write to a folder, so that its entries are not run; False if there is no folder yet."""
    try:
        status = os.stat(folder)
    except OSError:
        return False  # it is made by the first entry
    return status.st_uid not in (os.geteuid(), 0) or bool(status.st_mode & _FOREIGN_WRITERS)


@kept
def _is_trusted(folder: str) -> bool:
    """Whether only this user can write to a folder, or it can be made; else warns, once."""
    if not others_can_write(folder):
        return True
    import warnings

    warnings.warn(
        f"weft does not use its cache {folder}, which other users can write to: chmod go-w, or set WEFT_CACHE_DIR",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


@kept
def _is_trusted_pack(folder: str) -> bool:
    """Whether not all users can write to a pack, which may be of the user that installed it; else warns, once."""
    try:
        is_open = os.stat(folder).st_mode & stat.S_IWOTH
    except OSError:
        return True  # not there: without entries
    if is_open:
        import warnings

        warnings.warn(
            f"weft does not use the pack {folder}, which all users can write to: chmod o-w",
            RuntimeWarning,
            stacklevel=2,
        )
    return not is_open


def names(key: str) -> list[tuple[str, str]]:
    """Folder and name of each entry under a key."""
    found: list[tuple[str, str]] = []
    for folder in _folders():
        place = _place(folder, key)
        try:
            found += [(place, name) for name in os.listdir(place) if name.endswith(SUFFIX)]
        except OSError:
            continue
    return found


def read(place: str, name: str) -> dict[str, bytes] | None:
    """The sections of an entry; None if it is gone or damaged, and then it is removed, unless it is of a pack."""
    path = os.path.join(place, name)
    try:
        with open(path, "rb") as file:
            data = file.read()
            used = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    sections = decode(data)
    if not _is_own(place):
        return sections
    if sections is None:
        _remove(path)
    elif abs(time.time() - used) > _TOUCH_SECONDS:
        try:
            os.utime(path)
        except OSError:
            pass  # a file system that is read only
    return sections


def write(key: str, name: str, data: bytes) -> bool:
    """Adds an entry to the user's folder, atomically; whether it is there."""
    folder = user_folder()
    if folder is None or not _is_trusted(folder):
        return False
    place = _place(folder, key)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        os.makedirs(place, 0o700, exist_ok=True)
    except OSError:
        return False
    if not _put(place, name, data):
        return False
    count = stats()
    if count.stored % _STORES_PER_SWEEP == 0:
        sweep(folder, limit_bytes())
    count.stored += 1
    return True


def read_note(name: str) -> dict[str, bytes] | None:
    """The sections of a note in the user's folder; None if it is not there."""
    folder = user_folder()
    return read(folder, name) if folder is not None and _is_trusted(folder) else None


def write_note(name: str, data: bytes) -> None:
    """Keeps a file that only saves time beside the entries, if there are any; a lost one is made again."""
    folder = user_folder()
    if folder is not None and os.path.isdir(folder) and _is_trusted(folder):
        _put(folder, name, data)


def _put(place: str, name: str, data: bytes) -> bool:
    """Writes a file that appears whole under its name; whether it is there."""
    temporary = os.path.join(place, f"{os.urandom(8).hex()}{_TEMPORARY}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, os.path.join(place, name))
    except OSError:
        _remove(temporary)
        return False
    except BaseException:
        _remove(temporary)  # interrupted
        raise
    return True


def files(folder: str) -> list[File]:
    """The entries in a folder, the longest unused first."""
    return sorted(_all(folder, SUFFIX), key=lambda file: file.used)


def sweep(folder: str, limit: int) -> int:
    """Removes the longest unused entries until the rest fits, and what killed processes left; how many it removed.

    Args:
        folder: of the cache.
        limit: bytes that may stay.
    """
    for left in _all(folder, _TEMPORARY):
        if abs(time.time() - left.used) > _ABANDONED_SECONDS:  # the clock may have been put back
            _remove(left.path)
    found = files(folder)
    total, removed = sum(file.size for file in found), 0
    for file in found:
        if total <= limit:
            break
        _remove(file.path)
        total -= file.size
        removed += 1
    return removed


def remove_damaged(folder: str) -> tuple[int, int]:
    """Reads every entry and removes the damaged ones; how many are whole, and how many were removed.

    Those of another version of weft, which may use the same folder, count as whole.
    """
    found = files(folder)
    whole = sum(_is_whole(file.path) for file in found)
    return whole, len(found) - whole


def _is_whole(path: str) -> bool:
    """Whether an entry can be read; removes it if its content is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    if is_of_another_version(data) or decode(data) is not None:
        return True
    _remove(path)
    return False


def _all(folder: str, suffix: str) -> Iterator[File]:
    for place, _, found in os.walk(folder):
        for name in found:
            path = os.path.join(place, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            if name.endswith(suffix):
                yield File(path, status.st_size, status.st_mtime)


def _is_own(place: str) -> bool:
    """Whether a folder is in the user's cache, not in a pack."""
    folder = user_folder()
    return folder is not None and os.path.join(place, "").startswith(os.path.join(folder, ""))


def _place(folder: str, key: str) -> str:
    return os.path.join(folder, key)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # gone already, or not ours to remove
