# SPDX-License-Identifier: Apache-2.0
"""A host function's parameters and results.

In: a signature; the value of the function's body. Out: the function's block arguments and the value of each parameter;
the results of `func.func`, their tree for the wrapper (`dialects.ffi`), and the conversions of its tuples in Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.ir import BlockArgument

from weft.arguments.base import MISSING
from weft.arguments.complex import ComplexKind
from weft.arguments.constant import ConstantKind, NoneKind
from weft.arguments.container import ContainerKind
from weft.arguments.pointer import PointerKind
from weft.arguments.records import is_record, record_of, restorer
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import ShapeKind, SizeKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.builder import name_value
from weft.dialects.ffi.function import (
    argument_result,
    chosen_result,
    none_result,
    scalar_result,
    tuple_result,
)
from weft.dialects.flow import origins
from weft.dialects.simt.memory import ArgumentNumberOp, ScratchOp
from weft.errors import REPORT_HINT, InternalCompilerError, TypeMismatchError
from weft.language.ir_types import ir_type_of
from weft.language.numbers.complex import is_complex, join
from weft.language.numbers.convert import constant, default_dtype
from weft.language.numbers.promises import promise_tensor, promised
from weft.language.values import Scalar, Stream, Tensor, describe
from weft.types.dims import Dim
from weft.types.dtype import f64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.arguments.base import ArgumentKind
    from weft.arguments.signature import Signature
    from weft.dialects.builder import Builder

_UNPRINTABLE: Final = re.compile(r"\W+")  # of a path such as `t[1].x`

# The conversion of a returned tuple in Python: a function from its items to a list or record, or None to keep the
# tuple; and the same for each item. None if nothing is converted at any depth.
RestoredResult = tuple[
    "Callable[[tuple[Any, ...]], Any] | None", tuple["RestoredResult | None", ...]
]


def host_parameters(builder: Builder, signature: Signature) -> Iterator[tuple[str, Any]]:
    """Name and value of each parameter; adds the function's arguments."""
    for parameter in signature.parameters:
        yield parameter.name, _value(builder, parameter.kind, parameter.name)


def _value(builder: Builder, kind: ArgumentKind, path: str) -> Any:
    match kind:
        case TensorKind():
            argument = _argument(builder, kind, path)
            strides = [_divisor(stride) for stride in kind.strides or ()]
            promise_tensor(builder, argument, [_divisor(dim) for dim in kind.dims], strides)
            return Tensor(argument, kind.dtype, path)
        case PointerKind():
            return Tensor(_argument(builder, kind, path), kind.dtype, path)
        case ScalarKind():
            return Scalar(_argument(builder, kind, path), kind.dtype)
        case StreamKind() | EnvironmentStreamKind():
            return Stream(_argument(builder, kind, path))
        case ShapeKind():
            return _shape(builder, kind, path)
        case SizeKind():
            return _size(builder, kind, path)
        case ComplexKind():
            parts = [_value(builder, item, path + label) for label, item in kind.parts]
            return join(builder, *parts)
        case ContainerKind():
            return kind.make([_value(builder, item, path + label) for label, item in kind.parts])
        case ConstantKind():
            return kind.value
        case NoneKind():
            return None
        case _:
            raise InternalCompilerError(
                "ARGUMENT_KIND", f"no meaning for the argument kind {kind!r}", hint=REPORT_HINT
            )


def _shape(builder: Builder, kind: ShapeKind, path: str) -> tuple[int | Scalar, ...]:
    """Ints where the signature requires them, else scalars with their promises."""
    sizes = {
        leaf.path: Scalar(_argument(builder, leaf.kind, leaf.path), leaf.kind.dtype)
        for leaf in kind.host_arguments(path)
        if isinstance(leaf.kind, ScalarKind)
    }
    return tuple(
        dim
        if isinstance(dim, int)
        else promised(builder, sizes[f"{path}[{index}]"], dim.divisibility)
        for index, dim in enumerate(kind.dims)
    )


def _divisor(dim: Dim | int | None) -> int:
    """The divisor of a dim or stride in a signature; 1 for one that it leaves open."""
    if dim is None:
        return 1
    return dim.divisibility if isinstance(dim, Dim) else dim


def _size(builder: Builder, kind: SizeKind, path: str) -> int | Scalar:
    """An int where the signature requires it, else a scalar with its promise."""
    for leaf in kind.host_arguments(path):
        assert isinstance(leaf.kind, ScalarKind) and isinstance(kind.dim, Dim)
        scalar = Scalar(_argument(builder, leaf.kind, path), leaf.kind.dtype)
        return promised(builder, scalar, kind.dim.divisibility)
    assert isinstance(kind.dim, int)
    return kind.dim


def _argument(builder: Builder, kind: ArgumentKind, path: str) -> SSAValue:
    entry = builder.entry
    argument_type = ir_type_of(kind)
    assert argument_type is not None  # only kinds with run-time values get here
    argument = entry.insert_arg(argument_type, len(entry.args))
    name_value(argument, _UNPRINTABLE.sub("_", path).strip("_"))
    return argument


def _is_kept(owner: object) -> bool:
    return isinstance(owner, ScratchOp) and owner.kept is not None


class Results:
    """The results of a host function.

    Args:
        builder: of the function.
        signature: names its arguments.

    Attributes:
        values: of `func.return`, scalars only.
        has_tensors: whether an argument may be returned, which must then be passed as an object.
        has_new: whether a tensor may be returned that the call has made.
    """

    __slots__ = ("_builder", "_names", "has_new", "has_tensors", "values")

    def __init__(self, builder: Builder, signature: Signature) -> None:
        self._builder = builder
        self._names = [leaf.path for leaf in signature.host_arguments()]
        self.values: list[SSAValue] = []
        self.has_tensors = self.has_new = False

    def describe(self, value: Any) -> tuple[Attribute, RestoredResult | None]:
        """The description of a returned value, whose scalars are added to `values`, and its conversion in Python.

        Raises:
            TypeMismatchError: if a host function cannot return it.
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

    def _tensor(self, tensor: SSAValue, chosen: Iterable[SSAValue]) -> Attribute:
        """The argument that a tensor is, or the one of several, or new tensor, that is known only at run time."""
        indices = sorted(one.index for one in chosen if isinstance(one, BlockArgument))
        is_new = any(not isinstance(one, BlockArgument) for one in chosen)
        self.has_tensors |= bool(indices)
        self.has_new |= is_new
        if len(indices) == 1 and not is_new:
            return argument_result(self._names[indices[0]])
        self.values.append(self._builder.emit(ArgumentNumberOp(tensor)).result)
        numbers = {self._names[index]: index for index in indices}
        return chosen_result(numbers, len(self.values) - 1, may_be_new=is_new)

    def _can_return(self, tensor: SSAValue) -> bool:
        """Whether it is an argument, or a tensor that the call has made for its caller."""
        owner = tensor.owner
        return owner is self._builder.entry or _is_kept(owner)

    def _leaf(self, value: Any) -> Attribute:
        if value is None:
            return none_result()
        if isinstance(value, Tensor) and not value.type.is_pointer:
            chosen = origins(value.ssa, through_views=False)
            if all(map(self._can_return, chosen)):
                return self._tensor(value.ssa, chosen)
        if isinstance(value, bool | int | float):
            dtype = f64 if isinstance(value, float) else default_dtype(value)
            value = constant(self._builder, value, dtype)
        if is_complex(value):
            raise TypeMismatchError(
                "RETURN_KIND",
                f"a host function cannot return a complex number, {describe(value)}",
                hint="return its parts, z.real and z.imag, or store it in a tensor",
            )
        if isinstance(value, Scalar):
            self.values.append(value.ssa)
            return scalar_result(len(self.values) - 1, value.dtype)
        found = origins(value.ssa) if isinstance(value, Tensor) else ()
        if any(isinstance(one.owner, ScratchOp) and not _is_kept(one.owner) for one in found):
            raise TypeMismatchError(
                "RETURN_SCRATCH",
                "a host function cannot return its scratch memory, which the call gives back",
                hint="make the tensor by weft.empty(shape, dtype), which the caller then has",
            )
        if found and not value.type.is_pointer and all(map(self._can_return, found)):
            raise TypeMismatchError(
                "RETURN_VIEW",
                f"a host function cannot return a view, {describe(value)}",
                hint="return the tensor, of which the caller takes the view; or copy it into one of weft.empty",
            )
        raise TypeMismatchError(
            "RETURN_KIND",
            f"a host function cannot return {describe(value)}",
            hint="return numbers, arguments, tensors of weft.empty, and tuples, named tuples or frozen dataclasses of "
            "these",
        )
