# SPDX-License-Identifier: Apache-2.0
"""The machine that a kernel is compiled for: ``weft.target``, and ``inline_ptx``, instructions without a name in weft.

In: a feature's name. Out: a bool or a string, so that an ``if`` keeps one branch alone. In: PTX with places ``$0``,
``$1``, …; scalars, constants and tensors. Out: scalars of the requested types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.errors import NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import (
    constant,
    convert,
    default_dtype,
    materialize,
    named_dtype,
    operand,
)
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace, Tensor, describe
from weft.types.capabilities import FEATURES, capabilities
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


@operation(name="target.has", on_host=True)
def has(builder: Builder, feature: str) -> bool:
    """Whether the target runs operations that need a feature; a compile-time value.

    In kernels, host functions and the functions that they call, so that one source serves several architectures. The
    CPU target runs all operations of the language, and so has what they need, such as ``"wgmma"``; it has no
    instructions of a GPU's own, such as ``"packed_f32x2"``. docs/architectures.md lists the features.

    Args:
        feature: a name known at compile time: ``"tma"``, ``"wgmma"``, ``"clusters"``.

    Raises:
        ValueRangeError: for an unknown name.

    Example:
        ``if weft.target.has("wgmma"): ...``
    """
    if not isinstance(feature, str) or feature not in FEATURES:
        from difflib import get_close_matches  # only a mistake needs it

        near = get_close_matches(feature, FEATURES, 1) if isinstance(feature, str) else ()
        raise ValueRangeError(
            "TARGET_FEATURE",
            f"target.has: expected the name of a feature, received {describe(feature)}",
            hint=f"{f'did you mean {near[0]!r}? ' if near else ''}there are: {', '.join(FEATURES)}",
        )
    return capabilities(builder.architecture).has(feature)


_HAS: Final = has


class Target(StagedNamespace):
    """The machine that a kernel is compiled for, as compile-time values.

    Attributes:
        arch: the architecture, such as ``"sm_90a"``; ``"cpu"``.
        is_cpu: whether it is the CPU target.

    Example:
        ``if weft.target.is_cpu or weft.target.has("wgmma"): ...``
    """

    name = "target"
    on_host = True

    if TYPE_CHECKING:  # the front end uses `attribute`
        arch: str
        is_cpu: bool
        has: Any

    def __repr__(self) -> str:
        return "weft.target"

    def attribute(self, builder: Builder, name: str) -> object:
        """``arch``, such as ``"sm_90a"`` or ``"cpu"``; ``is_cpu``; ``has``.

        Raises:
            NameResolutionError: for another name.
        """
        if name == "arch":
            return builder.architecture
        if name == "is_cpu":
            return builder.architecture == "cpu"
        if name == "has":
            return _HAS
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"weft.target has no attribute {name!r}",
            hint="write weft.target.arch, .is_cpu or .has(feature)",
        )


target: Final = Target()


_PLACE: Final = re.compile(r"\$(\$|\d+)?")


@operation
def inline_ptx(
    builder: Builder,
    text: object,
    *operands: object,
    result: object = None,
    cpu: Callable[..., Any] | None = None,
) -> Scalar | tuple[Scalar, ...] | None:
    """GPU instructions in PTX; on the CPU a function with the same meaning, if one is given.

    ``$0``, ``$1``, … stand for the results, then for the operands, each in a register of its type:
    ``.b16`` for 16 bits, ``.b32``, ``.b64``, ``.f32``, ``.f64``. ``$$`` is a dollar sign. A tensor is the
    address of its first element: 64 bits in global memory; for a shared array 32 bits in the shared window.
    Pass a view, such as ``a[i:]``, for another element.

    The instructions may write any memory: tensors among the operands count as written. They are never dropped, nor
    moved across other memory accesses.

    Args:
        text: PTX, a string known at compile time; several instructions end with ``;`` each. Put braces
            around registers of your own: ``{ .reg .pred p; … }``.
        operands: scalars of 16 bits and more, constants (i32, f32), tensors.
        result: an element type, a tuple of them, or None.
        cpu: called with the operands in place of the PTX where the kernel is compiled for the CPU; returns the result.

    Returns:
        A scalar of that type, a tuple of scalars, or None.

    Raises:
        TypeMismatchError: for a text that is not a string, an operand or result of 8 bits or ``bool_``, or any other
            type without a register.
        ValueRangeError: for an unknown place, a result that the text does not mention, or a NUL.
        UnavailableError: on the CPU without `cpu`.

    Example:
        ``sum = weft.inline_ptx("vabsdiff4.u32.u32.u32.add $0, $1, $2, $3;", word, mask, bits, result=weft.u32)``
    """
    if not isinstance(text, str):
        raise TypeMismatchError(
            "PTX_TEXT",
            f"inline_ptx: the text must be a string known at compile time, received {describe(text)}",
        )
    if "\0" in text:
        raise ValueRangeError("PTX_TEXT", "inline_ptx: the text holds a NUL character")
    types = _result_types(result)
    inputs = [_input(builder, number, value) for number, value in enumerate(operands)]
    _check_places(text, len(types), len(inputs))
    if cpu is not None and builder.architecture == "cpu":
        return _computed(builder, cpu(*operands), types, result)
    made = builder.emit(InlinePtxOp(text, inputs, [ir_type(dtype) for dtype in types]))
    values = tuple(Scalar(ssa, dtype) for ssa, dtype in zip(made.outputs, types, strict=True))
    if result is None:
        return None
    return values if isinstance(result, tuple | list) else values[0]


def _computed(
    builder: Builder, value: Any, types: Sequence[DType], result: object
) -> Scalar | tuple[Scalar, ...] | None:
    """The value of the CPU's function in the types of the results."""
    if result is None:
        return None
    is_tuple = isinstance(result, tuple | list)
    values = cast("tuple[object, ...]", value if is_tuple else (value,))
    if not isinstance(values, tuple | list) or len(values) != len(types):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeMismatchError(
            "PTX_RESULT",
            f"inline_ptx: the function for the CPU returns {describe(value)}, expected results: {len(types)}",
            hint="return a number for each type in result",
        )
    numbers = [operand(builder, one) for one in values]
    found = tuple(
        convert(builder, number, dtype)
        if isinstance(number, Scalar)
        else materialize(builder, number, dtype)
        for number, dtype in zip(numbers, types, strict=True)
    )
    return found if is_tuple else found[0]


def _result_types(result: object) -> list[DType]:
    if result is None:
        return []
    parts = cast("tuple[object, ...]", result) if isinstance(result, tuple | list) else (result,)
    found: list[DType] = []
    for part in parts:
        part = named_dtype(part)
        if not isinstance(part, DType):
            raise TypeMismatchError(
                "PTX_RESULT",
                f"inline_ptx: result must be an element type or a tuple of them, received {describe(part)}",
                hint='write inline_ptx("...", x, result=weft.u32)',
            )
        found.append(_in_register(part, "result"))
    return found


def _in_register(dtype: DType, what: str) -> DType:
    if dtype.bits < 16:
        raise TypeMismatchError(
            "PTX_TYPE",
            f"inline_ptx: {what} is {dtype}; a register has 16, 32 or 64 bits",
            hint=f"use weft.u32 and convert: weft.{'u32(x)' if what != 'result' else f'{dtype}(...)'}",
        )
    return dtype


def _input(builder: Builder, number: int, value: object) -> SSAValue:
    what = f"operand {number}"
    if isinstance(value, Tensor):
        if value.type.space.data == "local":
            raise TypeMismatchError(
                "PTX_TYPE",
                f"inline_ptx: {what} is {value.name}, an array in the thread's own memory, which "
                "has no address",
                hint="pass its elements",
            )
        return value.ssa
    try:
        found = operand(builder, value)
    except TypeMismatchError:
        raise TypeMismatchError(
            "PTX_TYPE",
            f"inline_ptx: {what} must be a number or a tensor, received {describe(value)}",
        ) from None
    if not isinstance(found, Scalar):
        found = constant(builder, found, default_dtype(found))
    _in_register(found.dtype, what)
    return found.ssa


def _check_places(text: str, results: int, operands: int) -> None:
    """Checks that each place exists, and that each result is written."""
    mentioned: set[int] = set()
    for match in _PLACE.finditer(text):
        place = match[1]
        if place == "$":
            continue
        if place is None or int(place) >= results + operands:
            raise ValueRangeError(
                "PTX_PLACE",
                f"inline_ptx: the text has {match[0]!r}, with results: {results}, operands: {operands}",
                hint="results come first, from $0 on; write $$ for a dollar sign",
            )
        mentioned.add(int(place))
    missing = [number for number in range(results) if number not in mentioned]
    if missing:
        raise ValueRangeError(
            "PTX_PLACE",
            f"inline_ptx: the text does not mention ${missing[0]}, which is a result",
            hint="results come first, from $0 on, then operands",
        )
