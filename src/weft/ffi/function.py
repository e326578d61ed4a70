# SPDX-License-Identifier: Apache-2.0
"""Functions of the ABI: callable, and called back.

In: addresses of C functions, Python callables. Out: one callable type, a TVMFFIFunction to other languages. Calls never
run code of this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Function: Final = _native.Function
"""A function of the ABI: compiled by weft, foreign, or a wrapped Python callable.

Attributes:
    release_gil: whether a call releases the GIL. Foreign functions do unless `WEFT_HOLD_GIL` is set, since they may
        block or wait for a thread that needs it; compiled functions and wrapped callables do not. False makes calls of
        a short foreign function about 25 ns faster.
    writes: whether it may write into its array arguments; read-only ones are then refused, at any depth. True for
        foreign functions; set it to False for one that only reads. Compiled functions know which arguments they write,
        and Python callables receive arrays as they are.
    tensor_type: the class of returned tensors, such as ``numpy.ndarray``; None: that of the first tensor argument, else
        `weft.ffi.Tensor`.
    objects: ``"values"`` returns arrays and maps as tuples and dicts, ``"objects"`` all containers as
        classes of weft.ffi, ``"tvm_ffi"`` objects as classes of that package, which must be imported.
    __name__: its name in errors, from the signature if there is one.

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

    Exceptions become FFI errors, and the same exceptions again when they reach Python. Any thread may release the
    function, even after the interpreter has ended; calling it then is an error.

    Args:
        callable: called with the arguments as Python values. Tensors arrive as the caller's own array if
            the call came from weft, else as the array type of the call's first tensor.
        tensor_type: the class to pass tensors as instead.
        objects: how objects arrive; see `Function`.
        views: arguments arrive as unconverted `AnyView`s, valid until the callable returns.

    Raises:
        TypeError: if `callable` is not callable or `tensor_type` is not an array class.
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
    """A function over a C function ``int (void* handle, const TVMFFIAny*, int32_t, TVMFFIAny*)``.

    Args:
        safe_call: its address.
        handle: its first argument.
        keep: the owner of the code, kept alive as long as the function or any object made from it.

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
    """The same function with named parameters, so that it takes keywords and defaults.

    Args:
        function: a function of the ABI, which has no names itself.
        name: its name in errors.
        parameters: one name for each argument, in order.
        defaults: by parameter.
        keyword_only: how many of the last parameters are keyword-only.

    Raises:
        ValueError: if two parameters share a name, a default names no parameter, or `keyword_only` exceeds their
            number.

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
                f"name_parameters: expected distinct names, received {parameter!r} twice"
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
