# SPDX-License-Identifier: Apache-2.0
"""What a host function returns: numbers, tensors that it was given, tuples and records of these.

In: the value of the function's body. Out: the results of `func.func`, the tree that the wrapper builds from them
(`dialects.ffi`), and what Python makes of its tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from weft.arguments.base import MISSING
from weft.arguments.records import is_record, record_of, restorer
from weft.dialects.ffi.results import argument_result, none_result, scalar_result, tuple_result
from weft.dialects.simt.views import ViewOp
from weft.errors import TypeMismatchError
from weft.language import values
from weft.language.numbers.constants import default_dtype
from weft.language.numbers.convert import constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder


# What the tuple that a function returns is to Python: a function of its items that makes a list or a record of them, or
# None where it stays a tuple; and the same for each item. None where there is nothing to make at any depth.
RestoredResult = tuple[
    "Callable[[tuple[Any, ...]], Any] | None", tuple["RestoredResult | None", ...]
]


class Results:
    """The results of a host function.

    Attributes:
        values: what `func.return` returns, scalars only.
        has_tensors: whether a tensor is returned, which must then have arrived as an object.
    """

    __slots__ = ("_builder", "has_tensors", "values")

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.values: list[SSAValue] = []
        self.has_tensors = False

    def describe(self, value: Any) -> tuple[Attribute, RestoredResult | None]:
        """The description of a returned value, whose scalars are added to `values`, and what Python makes of it.

        Raises:
            TypeMismatchError: for what a host function cannot return.
        """
        kind = cast("type[Any]", type(value))
        if is_record(kind):
            return self._record(kind, value)
        if issubclass(kind, tuple | list):
            return self._items(value, list if kind is list else None)
        return self._leaf(value), None

    def _record(self, kind: type[Any], value: Any) -> tuple[Attribute, RestoredResult | None]:
        record = record_of(kind)
        fields = {name: getattr(value, name) for name in record.names}
        returned = [field for name, field in fields.items() if name not in record.constants]
        known = {name: fields[name] if name in record.constants else MISSING for name in fields}
        return self._items(returned, restorer(kind, known))

    def _items(
        self, items: Sequence[Any], make: Callable[[tuple[Any, ...]], Any] | None
    ) -> tuple[Attribute, RestoredResult | None]:
        described = [self.describe(item) for item in items]
        restored = tuple(child for _, child in described)
        is_plain = make is None and all(child is None for child in restored)
        return tuple_result([tree for tree, _ in described]), None if is_plain else (make, restored)

    def _leaf(self, value: Any) -> Attribute:
        if value is None:
            return none_result()
        is_argument = isinstance(value, values.Tensor) and not isinstance(value.ssa.owner, ViewOp)
        if is_argument and not value.type.is_pointer:
            self.has_tensors = True
            return argument_result(value.name)
        if isinstance(value, bool | int | float):
            value = constant(self._builder, value, default_dtype(value))
        if isinstance(value, values.Scalar):
            self.values.append(value.ssa)
            return scalar_result(len(self.values) - 1, value.dtype)
        raise TypeMismatchError(
            "RETURN_KIND",
            f"a host function cannot return {values.describe(value)}",
            hint="return numbers, tensors that it was given, and tuples, named tuples or frozen dataclasses of these",
        )
