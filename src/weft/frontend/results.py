# SPDX-License-Identifier: Apache-2.0
"""What a host function returns: numbers, tensors that it was given, tuples of these.

In: the value of the function's body. Out: the results of `func.func`, and the tree that the wrapper builds
from them (`dialects.ffi`). Next: trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.dialects.cuda.views import ViewOp
from weft.dialects.ffi.results import argument_result, none_result, scalar_result, tuple_result
from weft.errors import TypeMismatchError
from weft.language.constants import default_dtype
from weft.language.convert import constant
from weft.language.values import Scalar, Tensor, describe

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder


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

    def tree(self, value: Any) -> Attribute:
        """The description of a returned value; its scalars are added to `values`.

        Raises:
            TypeMismatchError: for what a host function cannot return.
        """
        if value is None:
            return none_result()
        if isinstance(value, tuple | list):
            return tuple_result([self.tree(item) for item in value])  # pyright: ignore[reportUnknownVariableType]
        is_argument = isinstance(value, Tensor) and not isinstance(value.ssa.owner, ViewOp)
        if is_argument and not value.type.is_pointer:
            self.has_tensors = True
            return argument_result(value.name)
        if isinstance(value, bool | int | float):
            value = constant(self._builder, value, default_dtype(value))
        if isinstance(value, Scalar):
            self.values.append(value.ssa)
            return scalar_result(len(self.values) - 1, value.dtype)
        raise TypeMismatchError(
            "RETURN_KIND",
            f"a host function cannot return {describe(value)}",
            hint="return numbers, tensors that it was given, and tuples of these",
        )
