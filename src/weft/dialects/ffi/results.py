# SPDX-License-Identifier: Apache-2.0
"""The result of a host function: a tree of numbers, arguments, tuples and None, as an attribute.

In: a traced result. Out: `weft.result` on the host function, and the property of `ffi.return`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute

    from weft.types.dtype import DType

RESULT_ATTRIBUTE: Final = "weft.result"
"""Attribute of the host's `func.func` that describes its result."""


def scalar_result(index: int, dtype: DType) -> DictionaryAttr:
    """The host function's result number `index`, a number of that type."""
    return DictionaryAttr({"value": IntegerAttr(index, i64), "dtype": StringAttr(dtype.name)})


def argument_result(name: str) -> DictionaryAttr:
    """The argument of that name, as passed."""
    return DictionaryAttr({"argument": StringAttr(name)})


def chosen_result(numbers: Mapping[str, int], index: int) -> DictionaryAttr:
    """One of several arguments, as passed: the one whose number is the host function's result number `index`."""
    arguments = {name: IntegerAttr(number, i32) for name, number in numbers.items()}
    return DictionaryAttr(
        {"arguments": DictionaryAttr(arguments), "value": IntegerAttr(index, i64)}
    )


def argument_numbers(result: DictionaryAttr) -> dict[str, int]:
    """The arguments that a result may be, with their numbers; a single one has none that matters."""
    single, several = result.data.get("argument"), result.data.get("arguments")
    if isinstance(several, DictionaryAttr):
        entries = cast("Mapping[str, IntegerAttr]", several.data)
        return {name: number.value.data for name, number in entries.items()}
    return {single.data: 0} if isinstance(single, StringAttr) else {}


def tuple_result(items: Sequence[Attribute]) -> ArrayAttr[Any]:
    """A tuple of results."""
    return ArrayAttr(items)


def tuple_items(result: Attribute | None) -> tuple[Attribute, ...] | None:
    """The items of a tuple of results, or None if it is not a tuple."""
    if isinstance(result, ArrayAttr):
        return cast("ArrayAttr[Attribute]", result).data
    return None


def none_result() -> UnitAttr:
    """None, the result of a host function that returns nothing."""
    return UnitAttr()


def check_result(result: Attribute) -> None:
    """Checks that an attribute is a tree of the five above.

    Raises:
        VerifyException: if it is not.
    """
    items = tuple_items(result)
    if items is not None:
        for item in items:
            check_result(item)
        return
    if isinstance(result, DictionaryAttr):
        entries = result.data
        if set(entries) in ({"argument"}, {"arguments", "value"}, {"value", "dtype"}):
            return
    elif isinstance(result, UnitAttr):
        return
    raise VerifyException(f"not a description of a result: {result}")
