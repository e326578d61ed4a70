# SPDX-License-Identifier: Apache-2.0
"""The text of a user's function: found, parsed, and described.

In: a Python function from a file, a notebook, the prompt, or `exec` with a linecache entry. Out: `FunctionSource`
with its syntax tree, globals, closure and parameters. Of text that Python does not keep (typed at the prompt, given
with ``-c``, or read from standard input), source lines, verified by compiling them.
"""

from __future__ import annotations

import _ast
import os
import stat
import sys
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.arguments.base import MISSING, DeclaredParameter
from weft.blame import is_of_a_handler, is_of_weft
from weft.errors import CompileError, NameResolutionError, UnsupportedSyntaxError
from weft.imports import imported
from weft.language.functions import BoundFunction, StagedFunction
from weft.language.source_text import (
    SourceText,
    SourceTexts,
    is_compiled_as_written,
    may_have_changed,
    read_text,
)
from weft.location import SourceLocation
from weft.types.dtype import library_dtype

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence
    from types import CellType

    from weft.frontend.syntax import NameAnalysis, Names


FunctionNode = _ast.FunctionDef | _ast.Lambda

_GENERATOR_FLAGS: Final = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
_LAMBDA: Final = "<lambda>"
_NO_SOURCE_HINT: Final = (
    "write the function in a file, a notebook cell or at the prompt; text made at run time needs a name of its own: "
    """name = f"<text {hash(text)}>"; linecache.cache[name] = (len(text), None, text.splitlines(True), name); """
    """exec(compile(text, name, "exec"), namespace)"""
)


class FunctionSource:
    """A Python function for the front end.

    Attributes:
        name: of the function; ``lambda`` for a lambda.
        function: the Python function itself.
        file: as Python knows it (``co_filename``).
        first_line: of the function, from 1; the first decorator's line.
        texts: of the function's file and of those it has reached.
        lines: of the file when the function was decorated.
        text: the lines of the function.
        tree: the `def` or `lambda` node. Its lines count from `line_offset`.
        line_offset: to add to a node's line to get the file's.
        globals: the namespace of the function's module.
        closure: name → cell of each free variable.
        private_class: name of the enclosing class, which Python adds to names such as ``__x``; else "".
    """

    def __init__(self, found: _Found, text: str, tree: FunctionNode, line_offset: int) -> None:
        function, code = found.function, found.code
        self.function: Any = function
        self.texts = found.texts
        self.lines: Sequence[str] = found.lines
        self.name = "lambda" if code.co_name == _LAMBDA else code.co_name
        self.file = code.co_filename
        self.first_line = code.co_firstlineno
        self.text = text
        self.tree = tree
        self.line_offset = line_offset
        self.lines_are_ascii = text.isascii()
        self.globals: dict[str, Any] = function.__globals__
        cells: tuple[CellType, ...] = function.__closure__ or ()
        self.closure = dict(zip(code.co_freevars, cells, strict=True))
        self._analysis: NameAnalysis | None = None
        self.private_class = _class_around(function.__qualname__)
        self._parameters: tuple[DeclaredParameter, ...] | None = None

    @property
    def analysis(self) -> NameAnalysis:
        """The names that the function's statements assign and read."""
        if self._analysis is None:
            make: type[NameAnalysis] = imported("weft.frontend.syntax").NameAnalysis
            self._analysis = make(has_walrus=":=" in self.text)
        return self._analysis

    def mangled(self, name: str) -> str:
        """A name after Python's mangling of private names."""
        if not self.private_class or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.private_class}{name}"

    def local_names(self, node: FunctionNode) -> Names:
        """Every name bound in the function or a nested one: parameters and assigned names."""
        arguments = node.args
        declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        declared += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        body = node.body if isinstance(node, _ast.FunctionDef) else [node.body]
        for part in body:
            self.analysis.read(part)  # what its nested functions read, before they are reached
        return self.analysis.assigned(body) | {argument.arg for argument in declared}

    def __repr__(self) -> str:
        return f"FunctionSource({self.name} at {self.file}:{self.first_line})"

    @property
    def parameters(self) -> tuple[DeclaredParameter, ...]:
        """The declared parameters, with annotations as objects, even under ``from __future__ import annotations``.

        Raises:
            UnsupportedSyntaxError: for ``*args`` and ``**kwargs``.
            NameResolutionError: for an annotation that cannot be evaluated.
        """
        if self._parameters is None:
            self._parameters = tuple(self._declared())
        return self._parameters

    def _declared(self) -> Iterator[DeclaredParameter]:
        arguments = self.tree.args
        for starred in (arguments.vararg, arguments.kwarg):
            if starred is not None:
                raise UnsupportedSyntaxError(
                    "STARRED_PARAMETER",
                    f"'{starred.arg}' takes any number of arguments; a compiled function has a fixed list",
                    hint="name each parameter, or pass a tuple",
                    location=self.locate(starred),
                )
        function: FunctionType = self.function
        defaults = function.__defaults__ or ()
        positional = [*arguments.posonlyargs, *arguments.args]
        first_default = len(positional) - len(defaults)
        for index, argument in enumerate(positional):
            default = defaults[index - first_default] if index >= first_default else MISSING
            positional_only = index < len(arguments.posonlyargs)
            yield self._parameter(argument, default, positional_only=positional_only)
        keyword_defaults = function.__kwdefaults__ or {}
        for argument in arguments.kwonlyargs:
            default = keyword_defaults.get(argument.arg, MISSING)
            yield self._parameter(argument, default, keyword_only=True)

    def _parameter(self, argument: ast.arg, default: object, **kind: bool) -> DeclaredParameter:
        annotation, location = self._annotation(argument), self.locate(argument)
        annotation = library_dtype(annotation) or annotation
        return DeclaredParameter(argument.arg, annotation, default, location=location, **kind)

    def _annotation(self, argument: ast.arg) -> object:
        annotation: object = MISSING
        try:
            # Python 3.14 evaluates annotations here, not where the function is defined.
            annotation = self.function.__annotations__.get(argument.arg, MISSING)
            if not isinstance(annotation, str):
                return annotation
            enclosing = self.texts.enclosing.get(self.function, {})
            return eval(annotation, self.globals, self._closure_values() | enclosing)
        except Exception as error:
            if is_of_a_handler(error):
                raise
            # An annotation set later is not in the source.
            import ast

            written = ast.unparse(argument.annotation) if argument.annotation else None
            text = annotation if isinstance(annotation, str) else written or "which was set later"
            raise NameResolutionError(
                "ANNOTATION_UNRESOLVED",
                f"the annotation of '{argument.arg}', {text}, cannot be evaluated: {error}",
                hint="annotations are evaluated in the function's module, at compile time; a variable of an enclosing "
                "function is known if this one is decorated there",
                location=self.locate(argument),
            ) from error

    def _closure_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, cell in self.closure.items():
            try:
                values[name] = cell.cell_contents
            except ValueError:
                continue  # a variable that is not assigned yet
        return values

    def locate(
        self, node: ast.AST, function: str | None = None, caller: SourceLocation | None = None
    ) -> SourceLocation:
        """The location of a node of this function."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        end_line: int = getattr(node, "end_lineno", None) or line
        end_column: int = getattr(node, "end_col_offset", None) or column + 1
        if not self.lines_are_ascii:
            column = self._characters(line, column)
            end_column = self._characters(end_line, end_column)
        return SourceLocation(
            self.file,
            line + self.line_offset,
            column,
            end_line + self.line_offset,
            end_column,
            self.name if function is None else function,
            caller,
            self.lines,
        )

    def _characters(self, line: int, column: int) -> int:
        """A column in characters, from ast's column in UTF-8 bytes."""
        text = self.lines[line + self.line_offset - 1]
        return len(text.encode()[:column].decode(errors="replace"))


class _Found(NamedTuple):
    """A function with its source text.

    Attributes:
        function: the Python function.
        code: compiled from the text, with its lines.
        lines: the text.
        texts: where texts are remembered.
    """

    function: Any
    code: CodeType
    lines: Sequence[str]
    texts: SourceTexts


def read_source(function: object, texts: SourceTexts | None = None) -> FunctionSource:
    """Finds and parses the text of a function.

    Args:
        function: a plain Python function, a method, or one decorated by weft, which has its text.
        texts: cache of other functions' texts.
    Raises:
        UnsupportedSyntaxError: for a generator, a coroutine, or an ambiguous lambda.
        CompileError: if there is no text, or it no longer matches the function.
    """
    plain = plain_function(function)
    if plain is None:
        raise CompileError(
            "SOURCE_NOT_A_FUNCTION",
            f"expected a Python function, received {type(function).__name__} {function!r}",
            hint="C functions and classes have no source to compile",
        )
    own = _texts_of(function)
    found = _find(plain, own or texts or SourceTexts(None))
    if texts is not None and own is not None:
        texts.suggest(own.of(plain.__code__.co_filename, plain.__globals__), own)
    if len(found.lines) < found.code.co_firstlineno:
        raise CompileError(
            "SOURCE_MISSING",
            f"the source of '{plain.__name__}' cannot be found in {found.code.co_filename!r}",
            hint=_NO_SOURCE_HINT,
        )
    find = _find_lambda if found.code.co_name == _LAMBDA else _find_def
    source = find(found)
    if found.code.co_flags & _GENERATOR_FLAGS:
        raise _generator_error(source)
    return source


def _find(function: FunctionType, texts: SourceTexts) -> _Found:
    """A function's source text: cached, current, or moved to other lines."""
    code, module_globals = function.__code__, function.__globals__
    file = code.co_filename
    known = texts.of(file, module_globals)
    if not known.lines:
        return _Found(function, code, find_unsaved(code), texts)
    is_sure = is_compiled_as_written(module_globals) and not is_of_weft(function)
    if not (is_sure or may_have_changed(file)) or known.has(code):
        return _Found(function, code, known.lines, texts)
    now = read_text(file, module_globals, again=True)
    moved = code if now.has(code) else now.moved(code)
    if moved is None:
        raise _changed(function)
    texts.learn(now)
    return _Found(function, moved, now.lines, texts)


def _texts_of(function: object) -> SourceTexts | None:
    if isinstance(function, BoundFunction):
        function = function.function
    return function.texts if isinstance(function, StagedFunction) else None


def _class_around(qualified_name: str) -> str:
    """The innermost enclosing class of a function, without leading underscores."""
    for part in reversed(qualified_name.split(".<locals>.")):
        names = part.split(".")
        if len(names) > 1:
            return names[-2].lstrip("_")
    return ""


def plain_function(function: object) -> FunctionType | None:
    """The Python function inside a method or a decorated function; None if there is none."""
    if isinstance(function, BoundFunction):
        function = function.function
    if isinstance(function, StagedFunction):
        function = function.function
    if isinstance(function, MethodType):
        function = function.__func__
    return function if isinstance(function, FunctionType) else None


def is_generated(function: FunctionType) -> bool:
    """Whether `dataclass` made it for a class: such a method has no text, unlike those of ``python -c`` or `exec`."""
    code = function.__code__
    return code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")


def _find_def(found: _Found) -> FunctionSource:
    code, lines = found.code, found.lines
    start = code.co_firstlineno - 1
    for end in _block_ends(lines, start):
        text = "".join(lines[start:end])
        indented = text[:1] in (" ", "\t")
        try:
            module = _parsed("if 1:\n" + text if indented else text)
        except SyntaxError:
            continue  # the end was inside a string or bracket
        # The extra line keeps the file's columns; dedenting would break strings.
        body = cast("ast.If", module.body[0]).body if indented else module.body
        node = body[0] if body else None
        offset = start - 1 if indented else start
        if isinstance(node, _ast.FunctionDef | _ast.AsyncFunctionDef) and _matches(
            node, code, offset
        ):
            return FunctionSource(found, text, cast("ast.FunctionDef", node), offset)
        break
    raise _changed(found.function)


def _changed(function: FunctionType) -> CompileError:
    code = function.__code__
    return CompileError(
        "SOURCE_CHANGED",
        f"line {code.co_firstlineno} of {code.co_filename!r} no longer defines '{function.__name__}'",
        hint="the file was edited after it was imported; import it again",
    )


def _parsed(text: str) -> ast.Module:
    """As `ast.parse`, without importing `ast`, which takes 1 ms.

    Raises:
        SyntaxError: as it does.
    """
    return cast("ast.Module", compile(text, "<unknown>", "exec", _ast.PyCF_ONLY_AST))


def _block_ends(lines: Sequence[str], start: int) -> Iterator[int]:
    """Lines where the definition starting at `start` may end: the first ones not indented deeper."""
    margin = _indentation(lines[start])
    in_body = False
    for index in range(start, len(lines)):
        line = lines[index]
        stripped = line.lstrip()
        if not stripped or stripped[0] == "#":
            continue
        if _indentation(line) > margin:
            in_body = True
        elif in_body:
            yield index
        elif ":" in stripped and stripped.startswith(("def ", "async ")):
            in_body = True
    yield len(lines)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _matches(
    node: ast.FunctionDef | ast.AsyncFunctionDef, code: CodeType, line_offset: int
) -> bool:
    """Whether a definition matches the code's place, name and parameters."""
    first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
    if first + line_offset != code.co_firstlineno:
        return False
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    # Inside a class Python mangles names with two leading underscores.
    declared = [name.rpartition("__")[2] for name in names]
    compiled = [name.rpartition("__")[2] for name in code.co_varnames[:count]]
    return node.name == code.co_name and declared == compiled


def _find_lambda(found: _Found) -> FunctionSource:
    code = found.code
    text = "".join(found.lines)
    import ast

    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise CompileError(
            "SOURCE_CHANGED",
            f"{code.co_filename!r} cannot be parsed: {error}",
            hint="the file was edited after it was imported; import it again",
        ) from error
    nodes = [n for n in ast.walk(module) if isinstance(n, ast.Lambda)]
    nodes = [n for n in nodes if n.lineno == code.co_firstlineno]
    if len(nodes) > 1:
        nodes = _with_same_body(nodes, code)
    if len(nodes) == 1:
        return FunctionSource(found, text, nodes[0], 0)
    raise UnsupportedSyntaxError(
        "LAMBDA_AMBIGUOUS",
        f"{len(nodes) or 'no'} lambdas on line {code.co_firstlineno} match this one",
        hint="give it a name with def, or a line of its own",
        location=SourceLocation(code.co_filename, code.co_firstlineno),
    )


def _with_same_body(nodes: list[ast.Lambda], code: CodeType) -> list[ast.Lambda]:
    """The innermost lambda whose body contains all of the code's instructions; all if it cannot be known."""
    # Instructions without a place, such as the first, have no columns.
    places = {(p[0], p[2]) for p in code.co_positions() if p[0] and p[2] and p[1] and p[3]}
    found: list[ast.Lambda] = []
    for node in nodes:
        body = node.body
        first = (body.lineno, body.col_offset)
        last = (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)
        if places and all(first <= place <= last for place in places):
            found.append(node)
    # A nested lambda's instructions are in the outer one's body too; `ast.walk` finds the outer one first.
    return found[-1:] or nodes


def _generator_error(source: FunctionSource) -> UnsupportedSyntaxError:
    import ast

    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    node = next((n for n in ast.walk(source.tree) if isinstance(n, kinds)), source.tree)
    return UnsupportedSyntaxError(
        "GENERATOR",
        f"'{source.name}' is a generator or a coroutine, which cannot be compiled",
        hint="return a tuple, or store the values in a tensor",
        location=source.locate(node),
    )


_COMMAND_LINE: Final = "<string>"
_STANDARD_INPUT: Final = "<stdin>"
_LONGEST_STATEMENT: Final = 1000  # lines tried as one statement of the prompt
_LONGEST_HISTORY: Final = 5000
_MOST_BYTES: Final = 1 << 24
_GOES_ON: Final = (
    " ",
    "\t",
    "else:",
    "elif ",
    "except",
    "finally:",
)  # a line that cannot begin a statement


def find_unsaved(code: CodeType) -> Sequence[str]:
    """The lines of the text that defines this code, which has no file; empty if they are gone."""
    name = code.co_filename
    if name == _COMMAND_LINE:
        candidates = _given_with_c()
    elif name == _STANDARD_INPUT:
        candidates = [*_standard_input(), *_typed(code)] if not _is_prompt() else _typed(code)
    else:
        return []
    for candidate in candidates:
        text = SourceText(name, candidate.splitlines(keepends=True))
        if text.has(code):
            return text.lines
    return []


def _given_with_c() -> list[str]:
    arguments = sys.orig_argv
    if "-c" not in arguments[:-1]:
        return []
    return [arguments[arguments.index("-c") + 1] + "\n"]


def _is_prompt() -> bool:
    return hasattr(sys, "ps1")


def _standard_input() -> list[str]:
    """All of standard input, if it is a file that can be read again."""
    try:
        if not stat.S_ISREG(os.fstat(0).st_mode):
            return []
        return [os.pread(0, _MOST_BYTES, 0).decode()]
    except (OSError, UnicodeDecodeError):
        return []


def _typed(code: CodeType) -> Iterator[str]:
    """Statements in the prompt's history that may define this code, newest first.

    The prompt counts the lines of each statement from 1. Parsing shows which lines form a statement.
    """
    history = _history()
    first = code.co_firstlineno - 1
    for start in range(len(history) - 1 - first, -1, -1):
        line = history[start + first].lstrip()
        if not line.startswith(("@", "def ", "async ")) and "lambda" not in line:
            continue
        text = _statement(history, start, start + first + 1)
        if text is not None:
            yield text


def _statement(history: list[str], start: int, least: int) -> str | None:
    """The statement that begins at a line of the history and contains a line before `least`."""
    for end in range(least, min(len(history), start + _LONGEST_STATEMENT) + 1):
        if end < len(history) and history[end].startswith(_GOES_ON):
            continue
        text = "\n".join(history[start:end]) + "\n"
        try:
            _parsed(text)
        except (SyntaxError, ValueError):
            continue  # a decorator without its function, or an open bracket
        return text
    return None


def _history() -> list[str]:
    readline: Any = sys.modules.get("readline")
    if readline is None:
        return []
    count = readline.get_current_history_length()
    first = max(1, count - _LONGEST_HISTORY)
    lines = (readline.get_history_item(index) for index in range(first, count + 1))
    return [line or "" for line in lines]
