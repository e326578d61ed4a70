# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a tensor: `weft.Tensor[...]`, `weft.fake_tensor(...)`, and examples; of a tensor map, the annotation.

In: annotations, calls of `fake_tensor`, tensors of any library. Out: `TensorSpec`, with None for the unknown;
`TensorMap`, of kernel parameters: host functions make maps with `weft.tensor_map`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft import _native
from weft.arguments.base import Annotation, describe, items_of
from weft.errors import SignatureError, brief
from weft.types.device import device_name, parse_device
from weft.types.dims import CONTIGUOUS, INNER, LAYOUTS, MAX_RANK, STRIDED, Dim
from weft.types.dtype import DType, as_dtype, dlpack_name, dtype_from_dlpack

if TYPE_CHECKING:
    from collections.abc import Sequence


class TensorSpec(Annotation):
    """Known facts of a tensor; None for the rest.

    Attributes:
        dtype, layout, strides, alignment_bytes, device_type, device_index: as in `TensorKind`.
        dims: as in `TensorKind`; a `Dim` without a name is an independent symbol.
        example_device: DLDeviceType and ordinal of an example, None for annotations and fakes.
        example_alignment: of an example's address in bytes, 0 if it is less than an element needs.
        shape: sizes of an example, None for annotations and fakes.
        example_strides: strides of an example in elements, None if contiguous or no example.
    """

    dtype: DType | None = None
    dims: tuple[int | Dim, ...] | None = None
    layout: str | None = None
    strides: tuple[int | Dim | None, ...] | None = None
    alignment_bytes: int | None = None
    device_type: int | None = None
    device_index: int | None = None
    shape: tuple[int, ...] | None = None
    example_strides: tuple[int, ...] | None = None
    example_device: tuple[int, int] | None = None
    example_alignment: int = 0

    def __repr__(self) -> str:
        return tensor_text(self)


def dims_text(dims: Sequence[int | Dim | None]) -> str:
    """A shape or strides in a printed signature.

    Example:
        >>> dims_text((Dim("n"),)), dims_text((4, None))
        ('(n,)', '(4, None)')
    """
    parts = [dim.text if isinstance(dim, Dim) else str(dim) for dim in dims]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def tensor_text(spec: TensorSpec) -> str:
    """The description as printed in a signature: `Tensor[f32, (n, 4), strided]`."""
    parts: list[str] = []
    if spec.dtype is not None or spec.dims is not None or spec.layout is not None:
        parts.append(spec.dtype.name if spec.dtype else "None")
    if spec.dims is not None:
        parts.append(dims_text(spec.dims))
    elif spec.layout is not None:
        parts.append("...")
    if spec.layout is not None:
        parts.append(spec.layout)
    if spec.strides is not None:
        parts.append(f"strides={dims_text(spec.strides)}")
    if spec.alignment_bytes is not None:
        parts.append(f"alignment_bytes={spec.alignment_bytes}")
    if spec.device_type is not None:
        device = device_name(spec.device_type, spec.device_index)
        parts.append(f"device={device}")
    return f"Tensor[{', '.join(parts)}]" if parts else "Tensor"


class Tensor:
    """Annotation of a tensor parameter: `Tensor`, `Tensor[dtype]`, `Tensor[dtype, dims, layout]`.

    The rest is taken from the example. `dims` is a tuple with one entry per dimension: an int, a
    name, a `weft.sym(...)`, or None for an independent symbol; `...` leaves the rank to the example.
    `layout` is ``"contiguous"``, ``"inner"`` (last stride 1) or ``"strided"`` (any).
    For strides, alignment and device use `weft.fake_tensor`, which is an annotation too.

    Inside kernels and host functions a tensor has `shape`, `strides`, `ndim`, `dtype` and `size`.

    Example:
        >>> weft.Tensor[weft.f32, ("n", 4, None)]
        Tensor[f32, (n, 4, None)]
    """

    def __class_getitem__(cls, items: object) -> TensorSpec:
        said: list[object] = list(items_of(items) or (items,))
        if len(said) > 3:
            raise _spec_error(
                f"Tensor[...] takes dtype, dims and layout, received {len(said)} items"
            )
        dims = said[1] if len(said) > 1 else ...
        return TensorSpec(
            _check_dtype(said[0]),
            None if dims is ... else check_dims(dims, "dims"),
            _check_layout(said[2]) if len(said) > 2 else None,
        )


def fake_tensor(
    dtype: DType,
    shape: tuple[int | str | Dim | None, ...],
    layout: str = CONTIGUOUS,
    strides: tuple[int | str | Dim | None, ...] | None = None,
    alignment_bytes: int | None = None,
    device: str | None = None,
) -> TensorSpec:
    """A tensor without data, to compile with or to annotate a parameter with.

    Args:
        dtype: of the elements.
        shape: per dimension an int, a name, a `weft.sym(...)`, or None for an independent symbol.
        layout: ``"contiguous"``, ``"inner"`` (last stride 1) or ``"strided"`` (any).
        strides: in elements, per dimension an int, a name, a `weft.sym(...)`, or None for any; each int
            and each symbol is checked at each call. They make the layout ``"inner"`` if the last one is
            the int 1, else ``"strided"``.
        alignment_bytes: alignment of the first element, a power of two; by default the size of an element. Checked at
            each call.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; None follows the target.

    Raises:
        SignatureError: if one of them is invalid.

    Example:
        >>> weft.fake_tensor(weft.f32, ("n", 8), strides=("s", 1), alignment_bytes=16, device="cuda")
        Tensor[f32, (n, 8), inner, strides=(s, 1), alignment_bytes=16, device=cuda]
    """
    checked_dtype = _check_dtype(dtype)
    if checked_dtype is None:
        raise _spec_error("fake_tensor needs a dtype, received None")
    dims = check_dims(shape, "shape")
    checked_strides = None
    checked_layout = _check_layout(layout)
    if strides is not None:
        checked_strides = _check_strides(strides, len(dims))
        checked_layout = INNER if checked_strides[-1:] == (1,) else STRIDED
    device_type, index = None, None
    if device is not None:
        try:
            device_type, index = parse_device(device)
        except (ValueError, AttributeError):
            raise _spec_error(
                f"device is {brief(device)}, expected 'cpu', 'cuda', 'cuda:<index>' or None"
            ) from None
    alignment = None if alignment_bytes is None else check_alignment(alignment_bytes)
    return TensorSpec(
        checked_dtype, dims, checked_layout, checked_strides, alignment, device_type, index
    )


def example_spec(value: object) -> TensorSpec | None:
    """Take the facts that an example tensor fixes; None if it is not a tensor.

    Raises:
        ValueError: if weft does not support its dtype, rank or device.
        TypeError: if its memory is not what its description says (conjugate views, ...).
    """
    info = _native.tensor_info(value)
    if info is None:
        return None
    dtype = dtype_from_dlpack(info.dtype_code, info.dtype_bits, info.dtype_lanes)
    if dtype is None:
        name = dlpack_name(info.dtype_code, info.dtype_bits, info.dtype_lanes)
        raise ValueError(f"weft has no element type {name}")
    if len(info.shape) > MAX_RANK:
        raise ValueError(f"the tensor's rank is {len(info.shape)}, expected at most {MAX_RANK}")
    return TensorSpec(
        dtype,
        tuple(Dim(None) for _ in info.shape),
        info.layout,
        shape=info.shape,
        example_strides=info.strides,
        example_device=(info.device_type, info.device_id),
        example_alignment=info.alignment,
    )


def _spec_error(message: str, hint: str = "") -> SignatureError:
    return SignatureError("TENSOR_SPECIFICATION", message, hint=hint)


def _check_dtype(dtype: object) -> DType | None:
    dtype = as_dtype(dtype)
    if dtype is None or isinstance(dtype, DType):
        return dtype
    raise _spec_error(
        f"the dtype must be one of weft's types, such as weft.f32; received {describe(dtype)}"
    )


def _check_layout(layout: object) -> str:
    if isinstance(layout, str) and layout in LAYOUTS:
        return layout
    raise _spec_error(
        f"the layout is {brief(layout)}, expected one of {', '.join(map(repr, LAYOUTS))}"
    )


def check_dims(dims: object, what: str) -> tuple[int | Dim, ...]:
    """The entries of a user's shape; None becomes an independent symbol.

    Raises:
        SignatureError: if it is not a tuple, is too long, or has an invalid entry.
    """
    entries = items_of(dims)
    if entries is None:
        raise _spec_error(
            f"{what} is {brief(dims)}, expected a tuple with one entry per dimension",
            hint='write ("n",) for one dimension, () for none',
        )
    if len(entries) > MAX_RANK:
        raise _spec_error(f"{what} has {len(entries)} dimensions, expected at most {MAX_RANK}")
    return tuple(
        Dim(None) if dim is None else _check_entry(dim, f"{what}[{index}]", 0)
        for index, dim in enumerate(entries)
    )


def _check_strides(strides: object, rank: int) -> tuple[int | Dim | None, ...]:
    entries = items_of(strides)
    if entries is None or len(entries) != rank:
        raise _spec_error(
            f"strides is {brief(strides)}, expected a tuple of {rank}, one per dimension"
        )
    return tuple(
        None if stride is None else _check_entry(stride, f"strides[{index}]", -(1 << 63))
        for index, stride in enumerate(entries)
    )


def _check_entry(entry: object, what: str, least: int) -> int | Dim:
    if isinstance(entry, Dim):
        return entry
    if isinstance(entry, str) and entry.isidentifier():
        return Dim(entry)
    if type(entry) is int and least <= entry < 1 << 63:
        return entry
    size = "a size of at least 0" if least == 0 else "an int"
    raise _spec_error(f"{what} is {brief(entry)}, expected {size}, a name, a weft.sym(...) or None")


def check_alignment(alignment_bytes: object) -> int:
    """An alignment in bytes as users give it.

    Raises:
        SignatureError: if it is not a power of two from 1 to 2**20.
    """
    if type(alignment_bytes) is int and 1 <= alignment_bytes <= 1 << 20:
        if alignment_bytes & (alignment_bytes - 1) == 0:
            return alignment_bytes
    raise _spec_error(
        f"alignment_bytes is {brief(alignment_bytes)}, expected a power of two from 1 to 1048576"
    )


class TensorMap:
    """Annotation of a kernel's parameter that takes what `weft.tensor_map` makes in a host function.

    A tensor map tells the TMA unit of Hopper and later GPUs where a tensor is and how large the boxes are that
    it copies at once (`weft.tma`). The kernel is compiled for the map's element type, box and swizzle.

    Example:
        ``def copy_kernel(a: weft.TensorMap, b: weft.TensorMap): ...``
    """
