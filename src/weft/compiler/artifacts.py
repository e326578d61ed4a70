# SPDX-License-Identifier: Apache-2.0
"""What a compilation leaves behind: each stage's text and time, kept small, written out when asked.

In: stages as they run. Out: texts by stage name (compressed in memory), files in the dump directory, a table
of times. Next: pipeline.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

    from weft.compiler.options import CompileOptions

DEFAULT_DUMP_DIR: Final = "weft-dump"

# Stage name -> suffix of its file.
SUFFIXES: Final = {
    "ir": ".mlir",
    "llvm": ".ll",
    "llvm-host": ".host.ll",
    "ptx": ".ptx",
    "cubin": ".cubin",
    "sass": ".sass",
}


class Artifacts:
    """The texts and times of one compilation.

    A text is kept compressed (add_one's take two kilobytes), so that `fn.ptx` and its like work without
    any option. Recording is thread-safe: the assembler runs on a thread of its own.

    Args:
        name: the function's name; files in the dump directory begin with it.
        options: which stages to write out, and where.
    """

    __slots__ = ("_lock", "_texts", "name", "options", "times")

    def __init__(self, name: str, options: CompileOptions) -> None:
        self.name = name
        self.options = options
        self.times: list[tuple[str, float]] = []
        self._texts: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Adds the time of the `with` block, in milliseconds, under that name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.times.append((name, (time.perf_counter() - started) * 1e3))

    def record(self, stage: str, content: str | bytes) -> None:
        """Keeps a stage's text or bytes, and writes its file if the options ask for it."""
        data = content.encode() if isinstance(content, str) else content
        with self._lock:
            self._texts[stage] = zlib.compress(data, 1)
        if self.writes(stage):
            directory = Path(self.options.dump_dir or DEFAULT_DUMP_DIR)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{self.name}{SUFFIXES[stage]}").write_bytes(data)

    def writes(self, stage: str) -> bool:
        """Whether the options ask for a file of this stage."""
        keep = self.options.keep
        if keep:
            return stage.partition("-")[0] in keep
        return self.options.dump_dir is not None

    def text(self, stage: str) -> str | None:
        """A stage's text, or None if this compilation had no such stage."""
        data = self.data(stage)
        return None if data is None else data.decode()

    def data(self, stage: str) -> bytes | None:
        """A stage's bytes, or None if this compilation had no such stage."""
        with self._lock:
            found = self._texts.get(stage)
        return None if found is None else zlib.decompress(found)

    def report(self) -> str:
        """The times as a table; stages on other threads overlap, so they do not add up to the total."""
        width = max((len(name) for name, _ in self.times), default=0)
        lines = [f"weft: {self.name}: stages in milliseconds"]
        lines += [f"  {name:<{width}}  {milliseconds:8.2f}" for name, milliseconds in self.times]
        return "\n".join(lines)

    def print_report(self) -> None:
        """Prints the table to standard error; only ``--time`` calls it."""
        print(self.report(), file=sys.stderr)
