# SPDX-License-Identifier: Apache-2.0
"""`kernel[grid, block](args)`: a launch without a host function of the user's.

In: a kernel, a grid and a block. Out: a callable. It writes the obvious host function, with the kernel's own
parameters and annotations, and lets the main path compile it. Next: pipeline.
"""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any, Final

from weft.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable

_AXES: Final = "xyz"


def bare_launch(
    kernel: Any, grid: object, block: object, make_host: Callable[..., Any]
) -> Callable[..., None]:
    """A callable that launches `kernel` with this grid and block on the arguments it is given.

    The block is part of what is compiled, as a constant; the grid is not.

    Args:
        kernel: what ``@weft.kernel`` made; the generated host function is kept on it.
        grid: blocks, an int or up to three.
        block: threads per block, an int or up to three.
        make_host: turns a Python function into a host function: ``weft.jit``.
    Raises:
        SignatureError: if grid or block is not one to three integers.
    """
    blocks, threads = _three("grid", grid), _three("block", block)
    host = getattr(kernel, "_bare_host", None)
    if host is None:
        host = kernel._bare_host = make_host(_host_function(kernel))

    def launch(*arguments: Any, **keywords: Any) -> None:
        host(*blocks, *threads, *arguments, **keywords)

    return launch


def _host_function(kernel: Any) -> Callable[..., Any]:
    """The text of a host function with the kernel's parameters behind grid and block, compiled by Python."""
    function = kernel.function
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    sizes = [f"_{what}_{axis}" for what in ("grid", "block") for axis in _AXES]
    parameters = [*sizes, *positional, *(["*", *keyword_only] if keyword_only else [])]
    passed = ", ".join([*positional, *(f"{name}={name}" for name in keyword_only)])
    text = (
        f"def {function.__name__}({', '.join(parameters)}):\n"
        f"    _kernel({passed}).launch(\n"
        f"        grid=(_grid_x, _grid_y, _grid_z), block=(_block_x, _block_y, _block_z)\n"
        f"    )\n"
    )
    file = f"<launch of {function.__qualname__} at {code.co_filename}:{code.co_firstlineno}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # The annotations are the kernel's, so its globals resolve them.
    namespace = dict(function.__globals__)
    namespace["_kernel"] = kernel
    exec(compile(text, file, "exec"), namespace)
    host = namespace[function.__name__]
    host.__annotations__ = {**_size_annotations(), **function.__annotations__}
    host.__defaults__ = function.__defaults__
    host.__kwdefaults__ = function.__kwdefaults__
    return host


def _size_annotations() -> dict[str, Any]:
    from weft.arguments.constant import Constexpr
    from weft.types.dtype import i64

    annotations: dict[str, Any] = {f"_grid_{axis}": i64 for axis in _AXES}
    annotations |= {f"_block_{axis}": Constexpr for axis in _AXES}
    return annotations


def _three(what: str, size: object) -> tuple[int, ...]:
    items: tuple[object, ...] = size if isinstance(size, tuple) else (size,)  # pyright: ignore[reportUnknownVariableType]
    integers = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
    if not 1 <= len(items) <= 3 or len(integers) != len(items):
        raise SignatureError(
            "LAUNCH_CONFIGURATION",
            f"{what} is an int or a tuple of one to three, received {size!r}",
        )
    return (*integers, 1, 1)[:3]
