# SPDX-License-Identifier: Apache-2.0
"""`kernel[grid, block, stream](args)` and `kernel.over(n)(args)`: a launch without a host function of the user's.

In: a kernel, a grid and a block, or a number of iterations; a stream. Out: a callable. It generates a host function
with the kernel's own parameters and annotations, and compiles that by the main path; for a host function called with
``stream=``, one that calls it.
"""

from __future__ import annotations

import inspect
import linecache
import math
import operator
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from weft import _native
from weft.arguments.constant import Constexpr
from weft.arguments.stream import Stream
from weft.errors import ArgumentValueError, SignatureError, WeftError, brief
from weft.frontend.source import read_source
from weft.frontend.state.captured import places_of_staged
from weft.language.functions import HostFunction
from weft.location import SourceLocation
from weft.runtime.specializations import identifier, make_binder
from weft.tracebacks import leave_the_users_frames
from weft.types.dtype import i64
from weft.types.launch_limits import BLOCK, GRID, as_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from weft.arguments.base import DeclaredParameter

__tracebackhide__ = True  # for pytest

STREAM: Final = "stream"
# The kinds of `_native.set_generated_host`, one more on a stream.
_KINDS: Final = {"grid": 0, "over": 2, STREAM: 0}


class BareHost:
    """The host function of a kernel's bare launches, or of a host function's calls on a stream.

    Args:
        kernel: made by ``@weft.kernel``, or by ``@weft.jit``.
        sizes: the annotations of its extra parameters, by the names of the launch's arguments.
        make_host: turns a Python function into a host function.

    Attributes:
        kernel: as given.
        names: of its extra parameters, by those of the launch's arguments.
        guards: of the parts of the kernel's function that it repeats, which may be replaced in place.
    """

    def __init__(
        self, kernel: Any, sizes: Mapping[str, Any], make_host: Callable[..., Any]
    ) -> None:
        self.guards = _native.Guards(places_of_staged(kernel))
        code = kernel.function.__code__
        self.names = {size: _free(size, code) for size in sizes}
        function = _host_function(kernel, self.names)
        given = {self.names[size]: annotation for size, annotation in sizes.items()}
        function.__annotations__ = {**_annotations_of(kernel), **given}
        self.kernel = kernel
        self.name: str = kernel.function.__name__
        self.file: str = function.__code__.co_filename
        self.call = make_host(function)
        self.bind = make_binder(kernel.function)
        self.count: int = code.co_argcount


def bare_launch(
    kernel: Any, grid: object, block: object, stream: object, make_host: Callable[..., Any]
) -> Callable[..., None]:
    """A callable that launches `kernel` with this grid and block.

    The block is compiled in as a constant; the grid is not.

    Args:
        kernel: made by ``@weft.kernel``; it keeps the generated host function.
        grid: blocks, an int or up to three; a grid without blocks launches nothing.
        block: threads per block, an int or up to three.
        stream: whatever `weft.Stream` accepts; None: the current one of the arguments' library.
        make_host: turns a Python function into a host function: ``weft.jit``.
    Raises:
        SignatureError: if grid or block is not one to three integers.
        ArgumentValueError: if one of them is out of range.
    """
    name: str = kernel.function.__name__
    try:
        blocks, threads = as_sizes(grid, "grid", GRID), as_sizes(block, "block", BLOCK)
    except TypeError as error:
        hint = f"write {name}[grid, block](...); weft.ceil_div divides up to an int"
        raise SignatureError("LAUNCH_CONFIGURATION", f"{name}[...]: {error}", hint=hint) from None
    except ValueError as error:
        hint = "use a smaller block and a larger grid" if "threads" in str(error) else ""
        raise ArgumentValueError(
            "LAUNCH_CONFIGURATION", f"{name}[...]: {error}", hint=hint
        ) from None
    given = {} if stream is None else {STREAM: stream}
    return _launch(kernel, {"grid": blocks, "block": threads, **given}, make_host)


def bare_launch_over(kernel: Any, over: Any, make_host: Callable[..., Any]) -> Callable[..., None]:
    """A callable that launches `kernel` on a grid for that many iterations of its ``weft.each``.

    Args:
        kernel, make_host: as for `bare_launch`.
        over: the number of iterations, or a tuple of extents.
    Raises:
        SignatureError: if it is neither.
        ArgumentValueError: if it is negative, or i64 does not hold it.
    """
    name: str = kernel.function.__name__
    parts: Any = over if type(over) in (tuple, list) else (over,)
    try:
        if any(isinstance(part, bool) for part in parts):
            raise TypeError
        numbers = [operator.index(part) for part in parts]
    except TypeError:
        raise SignatureError(
            "LAUNCH_OVER",
            f"{name}.over: expected a number of iterations or a tuple of them, received {brief(over)}",
            hint=f"write {name}.over(n)(...) or {name}.over(a.shape)(...)",
        ) from None
    iterations = math.prod(numbers)
    if min(numbers, default=0) < 0 or iterations >= 1 << 63:
        raise ArgumentValueError(
            "LAUNCH_OVER", f"{name}.over: {brief(over)} iterations, expected 0 to 2**63 - 1"
        )
    return _launch(kernel, {"over": iterations}, make_host)


def call_on_stream(
    function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], make_host: Any
) -> Any:
    """``function(*arguments, **keywords, stream=...)`` of a host function that has no such parameter.

    Args:
        function: made by ``@weft.jit``; it keeps the generated host function.
        arguments, keywords: of the call.
        make_host: as for `bare_launch`.
    """
    given = dict(keywords)
    stream = given.pop(STREAM)
    if stream is None:
        return function(*arguments, **given)
    own = [one.name for one in read_source(function).parameters if one.annotation is Stream]
    if own:
        name = function.function.__name__
        raise SignatureError(
            "LAUNCH_CONFIGURATION",
            f"{name} received stream=, but its stream is the argument '{own[0]}'",
            hint=f"write {name}(..., {own[0]}=...)",
        )
    return _launch(function, {STREAM: stream}, make_host)(*arguments, **given)


def takes_stream(function: Any) -> bool:
    """Whether ``stream=`` of a call is not one of the function's own parameters."""
    code = function.function.__code__
    return STREAM not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _launch(
    kernel: Any, sizes: Mapping[str, Any], make_host: Callable[..., Any]
) -> Callable[..., Any]:
    _ = _host_of(kernel, tuple(sizes), make_host)  # which refuses some kernels

    def launch(*arguments: Any, **keywords: Any) -> Any:
        host = _host_of(kernel, tuple(sizes), make_host)
        if STREAM in keywords and takes_stream(kernel):
            stream = keywords.pop(STREAM)
            if STREAM in sizes:
                raise SignatureError(
                    "LAUNCH_CONFIGURATION",
                    f"{host.name} received a stream in its brackets, and stream= in the call",
                    hint="give one of them",
                )
            if stream is not None:
                with_stream = _launch(kernel, {**sizes, STREAM: stream}, make_host)
                return with_stream(*arguments, **keywords)
        try:
            if keywords or len(arguments) != host.count:
                # Python's own error, with the kernel's name and parameters, if they do not fit.
                host.bind(*arguments, **keywords)
            own = {host.names[size]: value for size, value in sizes.items()}
            return host.call(*arguments, **keywords, **own)
        except Exception as error:
            if isinstance(error, WeftError):
                trace = error.__traceback__
                _place(error, host, trace.tb_frame.f_back if trace is not None else None)
            leave_the_users_frames(error)
            raise

    return launch


def _host_of(kernel: Any, sizes: tuple[str, ...], make_host: Callable[..., Any]) -> BareHost:
    name = f"_bare_host_{sizes[0]}{'_on_stream' if STREAM in sizes else ''}"
    kept = cast("dict[str, BareHost]", vars(kernel))
    host = kept.get(name)
    if host is None:
        # If two threads come first, both use the stored one.
        host = kept.setdefault(name, BareHost(kernel, _annotations(sizes), make_host))
    if not host.guards.is_current():
        host = kept[name] = BareHost(kernel, _annotations(sizes), make_host)
    kind = _KINDS[sizes[0]] | (STREAM in sizes)
    _native.set_generated_host(kernel, kind, host.call, (*host.names.values(),), host.guards, host)
    return host


def place_error(error: Exception, host: BareHost) -> None:
    """Moves an error of a call that native code made; its caller's frame is the launching one."""
    if isinstance(error, WeftError):
        _place(error, host, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


def _place(error: WeftError, host: BareHost, caller: FrameType | None) -> None:
    """Moves an error of the generated host function to the launching line."""
    if error.location is None or error.location.file != host.file or caller is None:
        return
    error.location = _parameter_of(error, host) or _call_in(caller)
    if error.code == "LAUNCH_SHARED_MEMORY":
        error.hint = (
            f"{host.name}[grid, block] has no dynamic shared memory; in a @weft.jit function, "
            f"{host.name}(...).launch(grid=..., block=..., shared_memory_bytes=...) does"
        )


def _annotations_of(kernel: Any) -> dict[str, Any]:
    """A kernel's annotations, those kept as texts evaluated where the kernel was defined."""
    annotations: dict[str, Any] = kernel.function.__annotations__
    if not any(isinstance(text, str) for text in annotations.values()):
        return annotations
    evaluated = {one.name: one.annotation for one in read_source(kernel).parameters}
    return {name: evaluated[name] for name in annotations if name in evaluated}


def _parameter_of(error: WeftError, host: BareHost) -> SourceLocation | None:
    """The kernel's parameter that an error is about; None if it is about the launch."""
    if not error.code.startswith("ANNOTATION_"):
        return None
    declared = read_source(host.call).parameters
    names = {one.name for one in declared if _is_at(one, error)}
    kernels = read_source(host.kernel).parameters
    return next((one.location for one in kernels if one.name in names), None)


def _is_at(parameter: DeclaredParameter, error: WeftError) -> bool:
    one, other = parameter.location, error.location
    return one is not None and other is not None and one.column == other.column


def _call_in(frame: FrameType) -> SourceLocation:
    """The call that a frame is in; without columns (``python -X no_debug_ranges``) the start of its line."""
    code = frame.f_code
    file, first = code.co_filename, frame.f_lineno
    line, end_line, column, end_column = list(code.co_positions())[frame.f_lasti // 2]
    function = "" if code.co_name == "<module>" else code.co_name
    if line is None or end_line is None or column is None or end_column is None:
        return SourceLocation(file, first, function=function)
    column, end_column = (
        len(linecache.getline(file, number).encode()[:offset].decode(errors="replace"))
        for number, offset in ((line, column), (end_line, end_column))
    )
    return SourceLocation(file, line, column, end_line, end_column, function)


def _host_function(kernel: Any, names: Mapping[str, str]) -> Callable[..., Any]:
    """A host function with the kernel's parameters before those of the launch, generated as text."""
    function = kernel.function
    code = function.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        _ = read_source(kernel).parameters  # raises for unsupported parameters
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    parameters = [*positional, "*", *keyword_only, *names.values()]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    name = identifier(function.__name__)
    passed = ", ".join([*positional, *(f"{name}={name}" for name in keyword_only)])
    callee = "_kernel"
    while callee in (name, *parameters):
        callee = f"_{callee}"
    sizes = ", ".join(f"{size}={own}" for size, own in names.items())
    does = f"{callee}({passed}).launch({sizes})"
    if isinstance(kernel, HostFunction):  # whose launches are on this one's stream
        does = f"return {callee}({passed})"
    text = f"def {name}({', '.join(parameters)}):\n    {does}\n"
    file = f"<launch of {function.__qualname__} at {code.co_filename}:{code.co_firstlineno}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # The kernel's globals resolve its annotations.
    namespace = dict(function.__globals__)
    namespace[callee] = kernel
    exec(compile(text, file, "exec"), namespace)
    host = namespace[name]
    host.__defaults__ = function.__defaults__
    host.__kwdefaults__ = function.__kwdefaults__
    return host


def _free(name: str, code: Any) -> str:
    """A parameter name not used by the kernel."""
    while name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        name = f"_{name}"
    return name


def _annotations(sizes: tuple[str, ...]) -> dict[str, Any]:
    known = {"grid": tuple[i64, i64, i64], "block": Constexpr, "over": i64, STREAM: Stream}
    return {size: known[size] for size in sizes}
