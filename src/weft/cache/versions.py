# SPDX-License-Identifier: Apache-2.0
"""Versions that a compilation depends on: weft itself, LLVM, Python, the CPU, the assembler.

In: the installed files. Out: digests of their content, never of their place or time. Imports none of them; files of a
checkout are read again only after a change.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

from weft.cache import store
from weft.cache.entry import blake2b, encode
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES: Final = ("llvmlite", "xdsl")
_SAMPLE_BYTES: Final = 1 << 16
_NOTE: Final = ".sources"
_STEP_NS: Final = 2_000_000_000
# Lines of /proc/cpuinfo that identify the CPU; others are its clock and its place.
_CPU_LINES: Final = (
    *(b"vendor_id", b"cpu family", b"model", b"model name", b"stepping", b"flags"),
    *(b"Features", b"CPU implementer", b"CPU architecture", b"CPU variant", b"CPU part"),
)
_CPUINFO_BYTES: Final = 1 << 14


@kept
def compiler_version() -> str | None:
    """Digest of the compiler's packages; None if one cannot be found."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = blake2b(digest_size=16)
    python = sys.implementation.cache_tag, sys.version_info.releaselevel, sys.flags.optimize
    digest.update(repr(python).encode())
    try:
        for package in _PACKAGES:
            release = _release(package)
            if release is None:
                return None
            digest.update(release.encode())
        digest.update(_record(own) or _sources(own))
    except OSError:
        return None
    return digest.hexdigest()


def _release(package: str) -> str | None:
    """The name and version of an installed package, by the folder of its metadata."""
    found = PathFinder.find_spec(package)
    for folder in (found.submodule_search_locations or ()) if found else ():
        for name in os.listdir(os.path.dirname(folder)):
            if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                return name
    return None


def _record(package: str) -> bytes | None:
    """pip's record of an installed weft: a digest of each file. None for a checkout."""
    place = os.path.dirname(package)
    for name in os.listdir(place):
        if name.startswith("weft_lang-") and name.endswith(".dist-info"):
            record = _content(os.path.join(place, name, "RECORD"))
            if b"weft/api.py," in record:
                return record
    return None


def _sources(package: str) -> bytes:
    """Digest of a checkout's files, as they are; from the cache's note if none was changed since."""
    found = sorted(_source_files(package))
    state = blake2b(repr(found).encode(), digest_size=16).digest()
    name = f"{blake2b(os.fsencode(package), digest_size=16).hexdigest()}{_NOTE}"
    note = store.read_note(name)
    if note is not None and note.get("state") == state:
        return note["content"]
    started = time.time_ns()
    digest = blake2b(digest_size=16)
    for path, *_ in found:
        content = _content(path) if path.endswith(".py") else sample(path)
        digest.update(f"{os.path.relpath(path, package)} {len(content)}\n".encode())
        digest.update(content)
    # A file that is changed twice within the clock's step may show the same times.
    newest = max(changed for *_, changed in found)
    if newest < started - _STEP_NS:
        store.write_note(name, encode({"state": state, "content": digest.digest()}))
    return digest.digest()


def _source_files(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Path, number, size, and times of change of each file: of its content, and of anything (no program sets that)."""
    tag = f".{sys.implementation.cache_tag}-"
    with os.scandir(folder) as items:
        for item in items:
            name = item.name
            if name.endswith(".py") or (name.endswith(".so") and tag in name):
                s = item.stat()
                yield item.path, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns
            elif "." not in name and name != "__pycache__" and item.is_dir():
                yield from _source_files(item.path)


def sample(path: str) -> bytes:
    """A program or library by its size, beginning and end, which hold its build's number and tables.

    Raises:
        OSError: if it cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(_SAMPLE_BYTES)
        file.seek(max(size - _SAMPLE_BYTES, 0))
        return b"%d " % size + first + file.read(_SAMPLE_BYTES)


@kept
def tool_version(path: str) -> str | None:
    """Digest of a program or library; None if it cannot be read."""
    try:
        return blake2b(sample(path), digest_size=16).hexdigest()
    except OSError:
        return None


@kept
def cpu_version() -> str | None:
    """Digest of what Linux says this CPU is and has; None elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(_CPUINFO_BYTES).partition(b"\n\n")[0]
    except OSError:
        return None
    lines = [line for line in first.splitlines() if line.partition(b":")[0].strip() in _CPU_LINES]
    return blake2b(b"\n".join(lines), digest_size=16).hexdigest() if lines else None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
