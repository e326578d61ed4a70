# SPDX-License-Identifier: Apache-2.0
"""Staged values: values of a traced function known only at run time.

In: an SSA value of the IR and its type in weft. Out: `Scalar`, `Tensor`, `TensorMap`, `Fragment`, `Stream`. All
other Python objects are compile-time values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from weft.arguments.pointer import Pointer as PointerAnnotation
from weft.arguments.stream import Stream as StreamAnnotation
from weft.arguments.tensor_spec import Tensor as TensorAnnotation
from weft.arguments.tensor_spec import TensorMap as TensorMapAnnotation
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.fragment import FragmentType
from weft.dialects.simt.types import TensorType
from weft.errors import TypeMismatchError, brief
from weft.language import LanguageName

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


_FRAGMENT: Final = LanguageName("Fragment")


class Staged:
    """Base of staged values: Python can neither compare them nor test their truth.

    The front end and operations compare in the kernel. Python's containers would compare objects, which says nothing
    about numbers, so all such attempts are refused.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        raise self._refusal()

    def __bool__(self) -> bool:
        raise self._refusal()

    def __eq__(self, other: object) -> bool:
        raise self._refusal()

    def __ne__(self, other: object) -> bool:
        raise self._refusal()

    def __lt__(self, other: object) -> bool:
        raise self._refusal()

    def __le__(self, other: object) -> bool:
        raise self._refusal()

    def __gt__(self, other: object) -> bool:
        raise self._refusal()

    def __ge__(self, other: object) -> bool:
        raise self._refusal()

    def _refusal(self) -> TypeMismatchError:
        return TypeMismatchError(
            "LOOKUP_STAGED",
            f"Python would compare, hash or test {describe(self)} at compile time, when its value is not known",
            hint="write x == y, 'x in (a, b)' or table.get(x, default), which compare at run time",
        )


class Scalar(Staged):
    """A number known at run time.

    IR integers have no sign, so `dtype` interprets the bits; a ``bool_`` is an i1.

    Attributes:
        ssa: the value in the IR; its type is `ir_type(dtype)`.
        dtype: the element type.
    """

    __slots__ = ("dtype", "ssa")

    def __init__(self, ssa: SSAValue, dtype: DType) -> None:
        self.ssa = ssa
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Scalar({self.dtype})"

    @property
    def constant(self) -> int | float | bool | None:
        """The value if it is a constant of the IR, interpreted by its dtype; else None."""
        owner = self.ssa.owner
        if not isinstance(owner, arith.ConstantOp) or self.dtype.is_complex:
            return None
        if isinstance(owner.value, FloatAttr):
            return owner.value.value.data
        if not isinstance(owner.value, IntegerAttr):
            return None
        number = owner.value.value.data
        if self.dtype.is_bool:
            return bool(number)
        wrapped = number & ((1 << self.dtype.bits) - 1)
        return wrapped - (1 << self.dtype.bits) if wrapped > self.dtype.maximum else wrapped


class Tensor(Staged):
    """A view of elements in memory.

    Attributes:
        ssa: the value in the IR; its type is a `TensorType`.
        dtype: type of the elements, with their sign.
        name: its parameter or variable, for messages and printed IR.
    """

    __slots__ = ("dtype", "name", "ssa")

    def __init__(self, ssa: SSAValue, dtype: DType, name: str = "tensor") -> None:
        self.ssa = ssa
        self.dtype = dtype
        self.name = name

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {describe(self)})"

    @property
    def type(self) -> TensorType:
        """The type in the IR: shape, layout class, address space, widths."""
        found = self.ssa.type
        assert isinstance(found, TensorType)
        return found

    @property
    def rank(self) -> int:
        """Number of dimensions, 0 to 8."""
        return self.type.rank


class Fragment(Staged):
    """A tile that the threads of a warp or a warpgroup hold together, in the registers of the tensor cores.

    Attributes:
        ssa: the value in the IR; its type is a `FragmentType`.
        dtype: type of the elements, with their sign.
    """

    __slots__ = ("dtype", "ssa")

    def __init__(self, ssa: SSAValue, dtype: DType) -> None:
        self.ssa = ssa
        self.dtype = dtype

    def __repr__(self) -> str:
        return describe(self)

    @property
    def type(self) -> FragmentType:
        """The type in the IR: shape, who multiplies, and as what."""
        found = self.ssa.type
        assert isinstance(found, FragmentType)
        return found


class Stream(Staged):
    """A CUDA stream given to a host function; the CPU target ignores it.

    Attributes:
        ssa: the value in the IR, a `!simt.stream`.
    """

    __slots__ = ("ssa",)

    def __init__(self, ssa: SSAValue) -> None:
        self.ssa = ssa

    def __repr__(self) -> str:
        return "Stream()"


class TensorMap(Staged):
    """A tensor in global memory as TMA sees it: its elements, and the boxes that are copied at once.

    Attributes:
        ssa: the value in the IR; its type is a `TensorMapType`.
        dtype: type of the elements, with their sign.
        name: its parameter or variable, for messages and printed IR.
        source: the tensor that a host function makes it of; None in kernels.
        shape_of: emits the tensor's shape, or None where it is not known: of a map that a kernel chooses or writes.
    """

    __slots__ = ("dtype", "name", "shape_of", "source", "ssa")

    def __init__(
        self,
        ssa: SSAValue,
        dtype: DType,
        name: str = "map",
        *,
        source: Tensor | None = None,
        shape_of: Callable[[Builder], tuple[int | Scalar, ...]] | None = None,
    ) -> None:
        self.ssa = ssa
        self.dtype = dtype
        self.name = name
        self.source = source
        self.shape_of = shape_of

    def __repr__(self) -> str:
        return f"TensorMap({self.name}: {describe(self)})"

    @property
    def type(self) -> TensorMapType:
        """The type in the IR: elements, box and swizzle."""
        found = self.ssa.type
        assert isinstance(found, TensorMapType)
        return found


class StagedNamespace:
    """A compile-time object whose attributes are staged values, such as ``thread_idx``.

    Families subclass it; `access.attribute` calls `attribute`.
    """

    __slots__ = ()

    def attribute(self, builder: Builder, name: str) -> object:
        """The attribute's value, emitted if it needs operations.

        Raises:
            NameResolutionError: if there is not one of that name.
        """
        raise AttributeError(name)


class StagedIndex(StagedNamespace):
    """A compile-time object that stands for an index inside brackets.

    Attributes:
        index: an i32.
    """

    __slots__ = ()

    index: Scalar


class StagedSequence(StagedNamespace):
    """A compile-time object with items."""

    __slots__ = ()

    def item(self, builder: Builder, index: object) -> object:
        """``value[index]``."""
        raise TypeError(f"{type(self).__name__} has no items")


class SharedSequence(StagedSequence):
    """Items that are kept in an array of shared memory.

    Attributes:
        array: which takes the name of the first variable it is assigned to.
    """

    __slots__ = ()

    array: Tensor


class StagedContext:
    """A compile-time object for `with` in compiled code, such as ``p.range(Event.LOAD)``."""

    __slots__ = ()

    def enter(self, builder: Builder) -> object:
        """Emits code before the body; returns the value for ``as``."""
        raise TypeError(f"{type(self).__name__} cannot be entered")

    def leave(self, builder: Builder) -> None:
        """Emits code after the body, however control leaves it."""
        raise TypeError(f"{type(self).__name__} cannot be left")


class RunTimeIterable:
    """Base of run-time iterables of `for` loops; its repr is the user's source text."""

    __slots__ = ()


def is_staged(value: object) -> bool:
    """Whether a value is known only at run time.

    Example:
        >>> is_staged(3)
        False
    """
    return isinstance(value, Staged)


def is_instance(value: object, kind: Any) -> bool:
    """``isinstance(value, kind)`` in a kernel.

    A scalar counts as the Python number it stands for; a tensor, pointer or stream as its annotation.

    Example:
        >>> is_instance(3, int)
        True
    """
    if isinstance(kind, tuple):
        return any(is_instance(value, one) for one in cast("tuple[Any, ...]", kind))
    if kind == _FRAGMENT:
        return isinstance(value, Fragment)
    if isinstance(value, Scalar):
        standing_for = True if value.dtype.is_bool else 0 if value.dtype.is_integer else 0.0
        return isinstance(standing_for, kind) or kind is Scalar
    if isinstance(value, Stream):
        value = StreamAnnotation.__new__(StreamAnnotation)
    elif isinstance(value, TensorMap):
        value = TensorMapAnnotation()
    elif isinstance(value, Tensor):
        stands_for = PointerAnnotation if value.type.is_pointer else TensorAnnotation
        value = stands_for.__new__(stands_for)
    return isinstance(value, kind)


def describe(value: object) -> str:
    """A value in words, for messages: ``f32``, ``Tensor[f32, (?, 4)]``, ``the constant 3``.

    Example:
        >>> describe(3), describe("a"), describe((1, 2))
        ('the constant 3', "the str 'a'", 'the tuple (1, 2)')
    """
    if isinstance(value, Scalar):
        return value.dtype.name
    if isinstance(value, Tensor):
        if value.type.is_pointer:
            return f"Pointer[{value.dtype}]"
        return f"Tensor[{value.dtype}, {shape_text(value)}]"
    if isinstance(value, Fragment):
        kind = value.type
        return f"Fragment[{value.dtype}, {kind.dims}, {kind.unit.data} {kind.role.data}]"
    if isinstance(value, TensorMap):
        swizzle = f", swizzle {value.type.swizzle}" if value.type.swizzle else ""
        memory = ", in memory" if value.type.in_memory else ""
        return f"TensorMap[{value.dtype}, box {value.type.box}{swizzle}{memory}]"
    if isinstance(value, Stream):
        return "a stream"
    if isinstance(value, bool | int | float):
        return f"the constant {brief(value)}"
    if isinstance(value, RunTimeIterable | StagedNamespace | StagedSequence):
        return repr(value)
    text = item_text(value)
    return f"the {type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def tensor_text(tensor: Tensor, name: str = "") -> str:
    """A tensor's type in full: also its layout class and its memory, unless contiguous and global.

    Args:
        tensor: to describe.
        name: added to it: ``the Tensor[f32, (64,)] 'tile' in shared memory``.
    """
    text = describe(tensor)
    layout, space = tensor.type.layout.data, tensor.type.space.data
    if layout != "contiguous":
        text = f"{text[:-1]}, {layout}]"
    if name:
        text = f"the {text} '{name}'"
    return text if space == "global" else f"{text} in {space} memory"


def item_text(value: object) -> str:
    """A value inside a longer text: the type of a staged one, else the value.

    Example:
        >>> item_text((1, "a")), item_text((2,))
        ("(1, 'a')", '(2,)')
    """
    if isinstance(value, Staged):
        return describe(value)
    if type(value) is tuple:
        items = [item_text(item) for item in cast("tuple[object, ...]", value)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(item_text, cast('list[object]', value)))}]"
    return brief(value) if isinstance(value, int) else repr(value)


def shape_text(tensor: Tensor) -> str:
    """A tensor's shape, with ``?`` for dims known only at run time."""
    dims = ["?" if dim < 0 else str(dim) for dim in tensor.type.dims]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"
