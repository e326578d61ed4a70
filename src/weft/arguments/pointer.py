# SPDX-License-Identifier: Apache-2.0
"""The argument kind of bare addresses of elements of one type; the caller knows how many.

In: `weft.Pointer[dtype]` as an annotation or stand-in. Out: `PointerKind`; kernels index it as an unbounded
one-dimensional tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import (
    MISSING,
    Annotation,
    ArgumentKind,
    annotation_text,
    describe,
    is_c_pointer,
    items_of,
)
from weft.arguments.tensor_spec import check_alignment
from weft.errors import SignatureError, brief
from weft.types.dtype import DType, as_dtype

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols


GLOBAL: Final = "global"
SHARED: Final = "shared"
LOCAL: Final = "local"

ADDRESS_SPACES: Final = (GLOBAL, SHARED, LOCAL)
"""global: device memory, where arguments point; shared: per block; local: per thread."""


_ADDRESS_PROTOCOL: Final = "__tvm_ffi_opaque_ptr__"


class PointerSpec(Annotation):
    """The value of `weft.Pointer[...]`; see `PointerKind`."""

    dtype: DType
    space: str
    alignment_bytes: int

    def __repr__(self) -> str:
        default = self.alignment_bytes == self.dtype.itemsize
        alignment = "" if default else f", {self.alignment_bytes}"
        space = f", {self.space}" if alignment or self.space != GLOBAL else ""
        return f"Pointer[{self.dtype.name}{space}{alignment}]"


class Pointer:
    """Annotation of a bare address: `Pointer[dtype]`, `Pointer[dtype, space]`, `Pointer[dtype, space, alignment]`.

    Callers pass an int (such as ``tensor.data_ptr()``), a `ctypes.c_void_p`, an object with
    `__tvm_ffi_opaque_ptr__`, or None for the null pointer. The address must be a multiple of `alignment` bytes,
    by default the size of an element; each call checks this. Nothing else can be checked: the caller vouches for the
    memory, the number of elements and the device. Inside a kernel ``p[i]`` reads and ``p[i] = x`` writes element `i`,
    which may be negative.

    `space` is ``"global"``, the only memory that outlives a kernel and can be passed.

    Example:
        >>> weft.Pointer[weft.f32], weft.Pointer[weft.f32, "global", 16]
        (Pointer[f32], Pointer[f32, global, 16])
    """

    def __class_getitem__(cls, items: object) -> PointerSpec:
        said: list[Any] = list(items_of(items) or (items,))
        if len(said) > 3:
            raise _spec_error(
                f"Pointer[...] takes dtype, space and alignment, received {len(said)} items"
            )
        dtype = as_dtype(said[0])
        if not isinstance(dtype, DType):
            raise _spec_error(
                f"the dtype must be one of weft's types, such as weft.f32; received {describe(dtype)}"
            )
        if dtype.is_packed:
            raise _spec_error(
                f"several {dtype} lie in a byte, so that an element has no address",
                f"pass Pointer[u8], or weft.packed(array, weft.{dtype}) for a Tensor[{dtype}, ...]",
            )
        space = said[1] if len(said) > 1 else GLOBAL
        if not isinstance(space, str) or space not in ADDRESS_SPACES:
            spaces = ", ".join(map(repr, ADDRESS_SPACES))
            raise _spec_error(f"the address space is {brief(space)}, expected one of {spaces}")
        if space != GLOBAL:
            raise _spec_error(
                f"no caller can have an address of {space} memory, which lives and dies with a block",
                f"pass a pointer to global memory, or make the array in the kernel with weft.{space}",
            )
        alignment = check_alignment(said[2]) if len(said) > 2 else dtype.itemsize
        return PointerSpec(dtype, space, alignment)


def _spec_error(message: str, hint: str = "") -> SignatureError:
    return SignatureError("POINTER_SPECIFICATION", message, hint=hint)


class PointerKind(ArgumentKind):
    """An address.

    Attributes:
        dtype: of the elements.
        space: of the memory: ``"global"``.
        alignment_bytes: alignment of the address.
    """

    title = "an address, for a parameter annotated weft.Pointer[dtype]"

    dtype: DType
    space: str = GLOBAL
    alignment_bytes: int = 0

    def __post_init__(self) -> None:
        if not self.alignment_bytes:
            object.__setattr__(self, "alignment_bytes", self.dtype.itemsize)

    @property
    def key(self) -> tuple[Any, ...]:
        return ("PointerKind", self.dtype.name, self.space, self.alignment_bytes)

    @property
    def text(self) -> str:
        return repr(PointerSpec(self.dtype, self.space, self.alignment_bytes))

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is Pointer or isinstance(annotation, PointerSpec)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return isinstance(value, PointerSpec)

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> PointerKind:
        given = value if isinstance(value, PointerSpec) else None
        declared = annotation if isinstance(annotation, PointerSpec) else given
        if declared is None:
            raise place.error(
                "ARGUMENT_MISSING",
                "weft.Pointer needs an element type",
                hint="annotate weft.Pointer[weft.f32]",
            )
        if given is not None and given != declared:
            raise place.value_error(
                "ARGUMENT_CONFLICT",
                f"it is {given!r}, but it is annotated {annotation_text(annotation)}",
            )
        kind = cls(declared.dtype, declared.space, declared.alignment_bytes)
        if value is not MISSING and given is None:
            _check_address(kind, annotation, value, place, symbols)
        return kind


def _check_address(
    kind: PointerKind, annotation: object, value: object, place: Place, symbols: Symbols
) -> None:
    address = value
    if is_c_pointer(value):
        address = cast("Any", value).value
    elif hasattr(type(value), _ADDRESS_PROTOCOL):
        address = getattr(value, _ADDRESS_PROTOCOL)()
    if address is None:
        return
    if not isinstance(address, int) or isinstance(address, bool):
        raise place.error(
            "ARGUMENT_NOT_POINTER",
            f"it is annotated {annotation_text(annotation)}, received {describe(value)}",
            hint="pass an address such as tensor.data_ptr(), or annotate weft.Tensor",
        )
    if symbols.is_refused_by_the_call(address):
        return
    if not 0 <= address < 1 << 64:
        raise place.value_error(
            "ARGUMENT_OUT_OF_RANGE", f"it is {address}, expected an address of 64 bits"
        )
    if address % kind.alignment_bytes:
        raise place.value_error(
            "ARGUMENT_NOT_ALIGNED",
            f"it is {address:#x}, expected an address divisible by {kind.alignment_bytes}",
        )
