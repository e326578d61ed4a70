# SPDX-License-Identifier: Apache-2.0
"""Artifacts of a compilation: each stage's text and time, compressed, written out on request.

In: stages as they run, or what another process kept of them. Out: texts by stage name (compressed in memory), files in
the dump directory, a table of times; what another process did not keep is made on request, which needs the compiler.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import zlib
from typing import TYPE_CHECKING, Final

from weft.blame import is_of_a_handler
from weft.errors import OptionError, ToolchainError, WeftError
from weft.imports import imported
from weft.runtime.compiled_function import times_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from pathlib import Path

    from weft.arguments.signature import Signature
    from weft.backends.base import Backend
    from weft.compiler.options import CompileOptions


if TYPE_CHECKING:
    Maker = Callable[["Artifacts"], Mapping[str, str | None]]

DEFAULT_DUMP_DIR: Final = "weft-dump"

# Characters avoided in file names, such as the brackets of <lambda>.
_UNREADABLE: Final = r"[^\w.-]+"
_LONGEST: Final = 200
"""Bytes of a file's name, out of 255 in file systems; suffix and temporary name need the rest."""

# Stage name -> suffix of its file; that of another backend's stage is its name.
SUFFIXES: Final = {
    "ir": ".mlir",
    "llvm": ".ll",
    "llvm-host": ".host.ll",
    "ptx": ".ptx",
    "cubin": ".cubin",
    "sass": ".sass",
    "object": ".o",
}


class Artifacts:
    """The texts and times of one compilation, for ``--keep``, ``--dump-dir`` and the function's attributes.

    Texts are kept compressed (add_one's take two kilobytes), so that `fn.ptx` and the like work without options;
    derived ones are made on request. Recording is thread-safe, since the assembler runs on its own thread: each step is
    a single dictionary or list operation, so a fork or signal leaves no lock behind.

    Args:
        name: the function's name; files in the dump directory begin with it.
        options: which stages to write out, and where.

    Attributes:
        modules: the stages of the module, in order: its trace, and after each pass.
        origin: the record that the function was loaded from, without texts; else None.
    """

    def __init__(self, name: str, options: CompileOptions) -> None:
        self.name = name
        self.options = options
        self.times: list[tuple[str, float]] = []
        self.modules: tuple[str, ...] = ()
        self.origin: bytes | None = None
        self._kept: dict[str, bytes | WeftError | Maker | None] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Adds the time of the `with` block, in milliseconds, under that name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.times.append((name, (time.perf_counter() - started) * 1e3))

    def record(self, stage: str, content: str | bytes) -> None:
        """Keeps a stage's text or bytes, and writes its file on request."""
        data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
        self._kept[stage] = zlib.compress(data, 1)
        self.write(stage, data)

    def refuse(self, stage: str, error: WeftError) -> None:
        """Records why this machine cannot make a stage; raises at once if its file is requested."""
        if stage in self.options.keep:
            raise error
        self._kept[stage] = error

    def offer(self, stages: Iterable[str], make: Maker) -> None:
        """Makes unrecorded stages, all at once, when one is requested."""
        for stage in stages:
            self._kept.setdefault(stage, make)

    def finish(self, target: str | None) -> None:
        """Writes the requested ones of the offered stages, and refuses those that cannot be made.

        Args:
            target: the name of the backend; None without kernels.
        Raises:
            OptionError: for ``--keep-ptx`` on the CPU and the like.
            ToolchainError: for ``--keep-sass`` if nvdisasm is not installed or fails.
        """
        for stage, kept in list(self._kept.items()):
            if callable(kept) and self.writes(stage):
                self._write_offered(stage)
        absent = sorted(stage for stage in self.options.keep if self._kept.get(stage) is None)
        if absent and target is not None:
            raise OptionError(
                "OPTION_CONFLICT",
                f"--keep-{absent[0]} asks for a text that the target {target} does not have",
                hint="leave it out; --dump-dir alone writes every stage of a target",
            )

    def _write_offered(self, stage: str) -> None:
        try:
            with self.stage(stage):
                data = self.data(stage)
        except ToolchainError as error:
            if stage in self.options.keep:
                raise
            # ``--dump-dir`` alone writes what this machine can make.
            import logging  # 4 ms, which a function found in the cache does not wait for

            logging.getLogger("weft").warning(
                "%s: no %s in the dump directory: %s", self.name, stage, error
            )
        else:
            if data is not None:
                self.write(stage, data)

    def writes(self, stage: str) -> bool:
        """Whether a file of this stage is requested."""
        keep = self.options.keep
        if keep:
            return stage.partition("-")[0] in keep
        return self.options.dump_dir is not None

    def write(self, stage: str, data: bytes) -> None:
        """Writes a stage's file on request, without keeping the text."""
        if not self.writes(stage):
            return
        from pathlib import Path  # 3 ms, which a function found in the cache does not wait for

        directory = Path(self.options.dump_dir or DEFAULT_DUMP_DIR)
        number = f".{self.modules.index(stage) + 1:02}-" if stage in self.modules else ""
        suffix = f"{number}{stage}.mlir" if number else SUFFIXES.get(stage, f".{stage}")
        path = directory / f"{_file_stem(self.name)}{suffix}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _replace(path, data)
        except OSError as error:
            if is_of_a_handler(error):
                raise
            raise OptionError(
                "OPTION_DUMP_DIR",
                f"cannot write {path}: {error.strerror or error}",
                hint="--dump-dir must name a writable directory; "
                f"without it files go to {DEFAULT_DUMP_DIR}/",
            ) from error

    def text(self, stage: str) -> str | None:
        """A stage's text, or None if this compilation had no such stage; that of a module is an `IRText`."""
        data = self.data(stage)
        if data is None:
            return None
        if stage not in (*self.modules, "ir"):
            return data.decode()
        return imported("weft.compiler.module_text").IRText(data.decode())

    def data(self, stage: str) -> bytes | None:
        """A stage's bytes, or None if this compilation had no such stage.

        Raises:
            WeftError: if the stage was refused, or cannot be made now.
        """
        kept = self._kept.get(stage)
        if callable(kept):
            for name, content in kept(self).items():
                if callable(self._kept.get(name)):
                    made = None if content is None else zlib.compress(content.encode(), 1)
                    self._kept[name] = made
            return self.data(stage)
        if isinstance(kept, WeftError):
            # A new one each time: exceptions collect the frames they pass through.
            raise type(kept)(kept.code, kept.message, hint=kept.hint)
        return None if kept is None else zlib.decompress(kept)

    def kept(self) -> dict[str, bytes | WeftError]:
        """Recorded and refused artifacts, texts compressed; without those made on request."""
        return {n: kept for n, kept in self._kept.items() if isinstance(kept, bytes | WeftError)}

    def restore(self, kept: Mapping[str, bytes | WeftError]) -> None:
        """Takes what `kept` gave in another process."""
        self._kept.update(kept)

    def module_texts(self) -> dict[str, str]:
        """The module's text at each stage, in order."""
        return {stage: self.text(stage) or "" for stage in self.modules}

    def report(self) -> str:
        """The times as a table; stages on other threads overlap, so they do not add up to the total."""
        return times_table(f"{self.name}: stages", self.times)

    def print_report(self) -> None:
        """Prints the table to standard error; for ``--time`` and WEFT_TIME."""
        print(self.report(), file=sys.stderr)


def _file_stem(name: str) -> str:
    """A function's name as a file's: readable, and short enough for every file system."""
    import re

    return re.sub(_UNREADABLE, "_", name).encode()[:_LONGEST].decode(errors="ignore")


def _replace(path: Path, data: bytes) -> None:
    """Replaces a file atomically, never writing through an existing one."""
    # Not tempfile's, which are readable by their owner only.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o666), "wb") as file:  # noqa: PTH123
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def restored_artifacts(
    name: str,
    options: CompileOptions,
    signature: Signature,
    backend: Backend,
    modules: tuple[str, ...],
    texts: Mapping[str, bytes | WeftError],
) -> Artifacts:
    """The artifacts of a compilation in another process; those made on request need the compiler.

    Args:
        name: the function's.
        options: it was compiled with.
        signature: of the function.
        backend: that compiled it.
        modules: names of the module's stages.
        texts: what `Artifacts.kept` gave.
    """
    artifacts = Artifacts(name, options)
    artifacts.modules = modules
    artifacts.restore(texts)

    def lower_again(kept: Artifacts) -> Mapping[str, str]:
        return imported("weft.compiler.pipeline").lower_again(signature, kept)

    if modules:
        artifacts.offer((*modules, "ir"), lower_again)
    artifacts.offer(("sass",), lambda kept: {"sass": backend.disassemble(kept)})
    return artifacts
