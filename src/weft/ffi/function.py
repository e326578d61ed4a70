# SPDX-License-Identifier: Apache-2.0
"""Functions of the ABI: calling them, and being called.

In: addresses of C functions, Python callables. Out: one callable type, which other languages take as a TVMFFIFunction.
Calls never come through this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Function: Final = _native.Function
"""A function of the ABI: compiled by weft, foreign, or a wrapped Python callable.

Attributes:
    release_gil: whether a call gives up the GIL. Foreign functions do unless `WEFT_HOLD_GIL` is set, since
        they may block or wait for a thread that needs it; functions compiled by weft and wrapped callables
        do not. Set it to False for a short foreign function: a call is then some 25 ns faster.
    writes: whether it may write into the arrays it is given; read-only ones are then refused, at any depth.
        Foreign functions may, until it is set to False: the caller's word that this one only reads.
        Functions compiled by weft know which arguments they write, and Python gets arrays as they are.
    tensor_type: the class of the tensors it returns, such as ``numpy.ndarray``; None: that of the first
        tensor argument, and `weft.ffi.Tensor` where there is none.
    objects: ``"values"`` returns arrays and maps as tuples and dicts, ``"objects"`` all containers as
        classes of weft.ffi, ``"tvm_ffi"`` objects as classes of that package, which must be imported.
    __name__: what errors call it; of a function with a signature it is that one's.

Example:
    >>> shape = get_global("ffi.Shape")
    >>> isinstance(shape, Function), shape.release_gil, shape(2, 3)
    (True, True, Shape((2, 3)))
    >>> shape.release_gil = False
"""


def wrap_function(
    callable: Callable[..., Any],
    *,
    tensor_type: type | None = None,
    objects: str | None = None,
    views: bool = False,
) -> _native.Function:
    """A function of the ABI that calls a Python callable, from any language and any thread.

    What the callable raises becomes an FFI error; where that comes back to Python, it is the same
    exception again. The function may be released by any thread, also after the interpreter has ended;
    called after that, it fails with an error.

    Args:
        callable: called with the arguments as Python values. Tensors arrive as the caller's own array if
            the call came from weft, else as the array type of the call's first tensor.
        tensor_type: the class that tensors arrive as instead.
        objects: how objects arrive; see `Function`.
        views: arguments arrive as `AnyView`s, unconverted, which end when the callable returns.

    Raises:
        TypeError: if `callable` is not callable or `tensor_type` no class of arrays.
        ValueError: if `objects` is not one of the three words.

    Example:
        >>> add = wrap_function(lambda a, b: a + b)
        >>> add(2, 3)
        5
    """
    return _native.wrap_callable(callable, tensor_type, objects, views)


def function_at(
    safe_call: int, handle: int | None = None, *, keep: object = None
) -> _native.Function:
    """A function over a C function with the signature of `weft.ffi.abi.SAFE_CALL`.

    Args:
        safe_call: its address.
        handle: what it is called with first.
        keep: kept alive as long as the function, or any object made of it, is: who owns the code.

    Raises:
        ValueError: if the address is null.
        TypeError: if it is not an int.

    Example:
        >>> double = wrap_function(lambda x: 2 * x)
        >>> again = function_at(double.safe_call_address, double.handle_address, keep=double)
        >>> again(21)
        42
    """
    return _native.Function.from_address(safe_call, handle, keep)


def name_parameters(
    function: _native.Function,
    name: str,
    parameters: Iterable[str],
    *,
    defaults: Mapping[str, object] | None = None,
    keyword_only: int = 0,
) -> _native.Function:
    """The same function with names for its parameters, so that it takes keywords and defaults.

    Args:
        function: a function of the ABI, which itself knows no names.
        name: what errors call it.
        parameters: one name for each argument, in order.
        defaults: by parameter.
        keyword_only: how many of the last parameters are given by keyword only.

    Raises:
        ValueError: if two parameters have one name, a default names no parameter, or more are keyword-only
            than there are.

    Example:
        >>> power = wrap_function(lambda base, exponent: base**exponent)
        >>> power = name_parameters(power, "power", ("base", "exponent"), defaults={"exponent": 2})
        >>> power(3), power(base=2, exponent=5)
        (9, 32)
    """
    names = tuple(parameters)
    for index, parameter in enumerate(names):
        if parameter in names[:index]:
            raise ValueError(
                f"name_parameters: expected different names, received {parameter!r} twice"
            )
    plan = _native.CallPlan(
        name,
        f"{name}({', '.join(names)})",
        names,
        positional_count=len(names) - keyword_only,
        defaults=defaults,
        release_gil=function.release_gil,
        owned_tensors=True,
        foreign=True,
    )
    named = _native.Function.from_object(function.to_object(), borrowed=False, plan=plan)
    named.writes = function.writes
    return named
