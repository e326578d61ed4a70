# SPDX-License-Identifier: Apache-2.0
"""Source text as of decoration, so that later edits have no effect; and values of names in annotations kept as text.

In: a function. Out: its file's lines. Decorating costs a stat of the file; it is read once for all its functions, and
decoded when one is compiled. As a function is decorated, also name → value, from the enclosing functions and classes:
under ``from __future__ import annotations`` a function does not hold what its annotations name, and the enclosing
function's variables are gone when it is compiled.
"""

from __future__ import annotations
import __future__

import functools
import io
import itertools
import os
import sys
import time
from _frozen_importlib_external import SourceFileLoader
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType


LOADED_AT: Final = time.time()
"""Time when decorators became available: a file written since then may differ from the imported one."""

_MOST_ENDS: Final = 8  # tried for one statement
_FUTURE_FLAGS: Final = sum(
    {getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
)


class SourceText:
    """A file's lines at a point in time.

    Args:
        file: as Python knows it (``co_filename``).
        content: the lines, each with its line end, or the file's bytes.
    """

    __slots__ = ("_codes", "_content", "_verified", "file")

    def __init__(self, file: str, content: Sequence[str] | bytes) -> None:
        self.file = file
        self._content = content
        self._codes: dict[int, tuple[CodeType, ...]] = {}
        self._verified: set[CodeType] = set()

    @property
    def lines(self) -> Sequence[str]:
        """Each with its line end; empty without a text."""
        if isinstance(self._content, bytes):
            self._content = _decoded(self._content)
        return self._content

    def codes(self, flags: int) -> tuple[CodeType, ...]:
        """The code of everything the text defines, compiled with the ``__future__`` flags of `flags`."""
        flags &= _FUTURE_FLAGS
        if flags not in self._codes:
            self._codes[flags] = tuple(_codes_of("".join(self.lines), self.file, flags))
        return self._codes[flags]

    def has(self, code: CodeType) -> bool:
        """Whether the text compiles to exactly this code."""
        if code not in self._verified:
            whole = any(found == code for found in self._codes_around(code))
            if not whole and not any(found == code for found in self.codes(code.co_flags)):
                return False
            self._verified.add(code)
        return True

    def _codes_around(self, code: CodeType) -> Iterator[CodeType]:
        """The code of the outermost statement around a line, without the rest of the file, which takes 20 ms."""
        lines, line = self.lines, code.co_firstlineno - 1
        if line >= len(lines):
            return
        start = next((i for i in range(line, -1, -1) if _begins_statement(lines[i])), 0)
        ends = (i for i in range(line + 1, len(lines)) if _begins_statement(lines[i]))
        for end in itertools.islice(itertools.chain(ends, [len(lines)]), _MOST_ENDS):
            text = "\n" * start + "".join(lines[start:end])
            found = tuple(_codes_of(text, self.file, code.co_flags & _FUTURE_FLAGS))
            if len(found) > 1:  # else a decorator without its function, or the text has no end yet
                yield from found
                return

    def moved(self, code: CodeType) -> CodeType | None:
        """The code that differs from this one only in its lines; the nearest, if there are several."""
        wanted = _without_lines(code)
        found = [
            other
            for other in self.codes(code.co_flags)
            if other.co_qualname == code.co_qualname and _without_lines(other) == wanted
        ]
        line = code.co_firstlineno
        return min(found, key=lambda other: abs(other.co_firstlineno - line), default=None)


class SourceTexts:
    """The texts that a function needs, by file: its own from the start, others when first reached.

    Attributes:
        enclosing: function → the names of its annotations that enclosing scopes held when it was decorated.
    """

    __slots__ = ("_by_file", "enclosing")

    def __init__(self, function: Any) -> None:
        self._by_file: dict[str, SourceText] = {}
        self.enclosing: dict[FunctionType, dict[str, Any]] = {}
        if isinstance(function, FunctionType) and "." in function.__qualname__:
            from weft.language.source_text import enclosing_names

            self.enclosing = enclosing_names(function)
        code = getattr(function, "__code__", None)
        if code is not None:
            found = _read(code.co_filename)
            if found is not None:
                self._by_file[code.co_filename] = found

    def of(self, file: str, module_globals: dict[str, Any]) -> SourceText:
        """The text of a file as of the first request."""
        found = self._by_file.get(file)
        if found is None or not found.lines:
            found = self._by_file[file] = read_text(file, module_globals)
        return found

    def suggest(self, text: SourceText, others: SourceTexts) -> None:
        """Uses this text for its file, unless another is known; and the names that `others` has."""
        self._by_file.setdefault(text.file, text)
        self.enclosing.update(others.enclosing)

    def learn(self, text: SourceText) -> None:
        """Uses this text for its file from now on."""
        self._by_file[text.file] = text


def read_text(file: str, module_globals: dict[str, Any], *, again: bool = False) -> SourceText:
    """The current text of a file; linecache's for sources without a file, such as notebook cells.

    Args:
        file: as Python knows it.
        module_globals: of the module, whose loader may have the text.
        again: whether to read a file that seems to be as it was, by its time and size.
    """
    if again:
        _bytes_of.cache_clear()
    found = _read(file)
    if found is None:
        import linecache

        linecache.checkcache(file)
        found = SourceText(file, linecache.getlines(file, module_globals))
    return found


def _read(file: str) -> SourceText | None:
    """The text of a file; else linecache's, if it is loaded, since importing it takes a millisecond."""
    try:
        status = os.stat(file)  # noqa: PTH116
        return SourceText(file, _bytes_of(file, status.st_mtime_ns, status.st_size))
    except (OSError, ValueError):
        linecache = sys.modules.get("linecache")
        lines = linecache.getlines(file) if linecache is not None else None
        return SourceText(file, lines) if lines else None


@functools.lru_cache(maxsize=16)
def _bytes_of(file: str, _modified: int, _size: int) -> bytes:
    """The bytes of a file version, shared by the functions of a module."""
    with open(file, "rb") as opened:  # noqa: PTH123
        return opened.read()


def _decoded(content: bytes) -> Sequence[str]:
    try:
        lines = io.StringIO(_text_of(content)).readlines()
    except (SyntaxError, UnicodeDecodeError):
        return ()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _text_of(content: bytes) -> str:
    """As `importlib.util.decode_source`, which imports `tokenize` (1 ms), needed only for another encoding.

    Raises:
        SyntaxError, UnicodeDecodeError: as it does.
    """
    if content.startswith(b"\xef\xbb\xbf") or b"coding" in b"".join(content.split(b"\n", 2)[:2]):
        from importlib.util import decode_source

        return decode_source(content)
    return io.IncrementalNewlineDecoder(None, translate=True).decode(content.decode())


def _begins_statement(line: str) -> bool:
    return line[:1] not in "\n\r \t#)]}"


def is_compiled_as_written(module_globals: dict[str, Any]) -> bool:
    """Whether Python's own loader compiled a module, so that its code matches its text; other loaders rewrite it."""
    return type(module_globals.get("__loader__")) is SourceFileLoader


def may_have_changed(file: str) -> bool:
    """Whether a file was written since its first function could have been decorated."""
    try:
        return os.stat(file).st_mtime > LOADED_AT  # noqa: PTH116  pathlib takes long to import
    except OSError:
        return False  # text in linecache only, or a file inside an archive


def _codes_of(text: str, file: str, flags: int) -> Iterator[CodeType]:
    try:
        module: CodeType = compile(text, file, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    waiting = [module]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _without_lines(code: CodeType) -> CodeType:
    return code.replace(
        co_firstlineno=1,
        co_linetable=b"",
        co_consts=tuple(
            _without_lines(c) if isinstance(c, CodeType) else c for c in code.co_consts
        ),
    )


_TEXT_FLAG: Final = __future__.annotations.compiler_flag


def enclosing_names(function: FunctionType) -> dict[FunctionType, dict[str, Any]]:
    """The names of a function's annotations, and of the helpers in its closure, that enclosing scopes hold now.

    The calling frames include those scopes, since they run the decorator.
    """
    found: dict[FunctionType, dict[str, Any]] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if one in found or "." not in one.__qualname__:
            continue
        found[one] = _found_in(list(_scopes(one)), _names(one))
        waiting += _helpers(one)
    return {one: names for one, names in found.items() if names}


def _names(function: FunctionType) -> set[str]:
    # Python 3.14 evaluates other annotations when asked for them, in their scope.
    if not function.__code__.co_flags & _TEXT_FLAG and sys.version_info >= (3, 14):
        return set()
    names: set[str] = set()
    for text in function.__annotations__.values():
        if isinstance(text, str):
            try:
                names.update(compile(text, "<annotation>", "eval").co_names)
            except (SyntaxError, ValueError):
                continue  # reported when the parameters are read
    return names


def _scopes(function: FunctionType) -> Iterator[FrameType]:
    """The frames of the classes and functions around a function, from the innermost out."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        around = frame.f_code.co_qualname
        if frame.f_globals is function.__globals__ and _encloses(frame.f_code, around, function):
            yield frame
        frame = frame.f_back


def _encloses(code: CodeType, around: str, function: FunctionType) -> bool:
    name = function.__qualname__
    return (
        name.startswith((f"{around}.<locals>.", f"{around}."))
        and code.co_filename == function.__code__.co_filename
    )


def _found_in(scopes: list[FrameType], names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for frame in reversed(scopes) if names else ():
        own = frame.f_locals
        found |= {name: own[name] for name in names if name in own}
    return found


def _helpers(function: FunctionType) -> list[FunctionType]:
    helpers: list[FunctionType] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        if isinstance(value, FunctionType):
            helpers.append(value)
    return helpers
