# SPDX-License-Identifier: Apache-2.0
"""The argument kind of tensors: checks of the wrapper, on which compiled code relies.

In: a `TensorSpec` (annotation or fake) and an example tensor. Out: `TensorKind`: dtype, dims, layout, strides,
alignment, device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.arguments.base import MISSING, ArgumentKind, annotation_text, describe
from weft.arguments.tensor_spec import Tensor, TensorSpec, dims_text, example_spec, tensor_text
from weft.types.device import device_name
from weft.types.dims import CONTIGUOUS, STRIDED, Dim, layout_holds

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols
    from weft.types.dtype import DType

_LARGEST_32_BIT: Final = (1 << 31) - 1


class TensorKind(ArgumentKind):
    """A tensor.

    Attributes:
        dtype: of its elements.
        dims: one entry per dimension: an int, or a `Dim` that is known at run time.
        layout: ``"contiguous"``, ``"inner"`` or ``"strided"``.
        strides: None, or one entry per dimension in elements: an int, a `Dim`, or None for any.
        alignment_bytes: alignment of the first element.
        device_type: DLDeviceType, `types.device.CPU` or `CUDA`; None until the target is chosen, unless annotation or
            fake give it.
        device_index: the only device it may be on, or None.
        example_device: DLDeviceType and ordinal of the example, or None. It helps to choose target and architecture;
            comparison ignores it.
    """

    title = "a tensor (DLPack, the buffer protocol, __cuda_array_interface__, weft.fake_tensor)"

    dtype: DType
    dims: tuple[int | Dim, ...]
    layout: str = CONTIGUOUS
    strides: tuple[int | Dim | None, ...] | None = None
    alignment_bytes: int = 0
    device_type: int | None = None
    device_index: int | None = None
    example_device: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not self.alignment_bytes:
            object.__setattr__(self, "alignment_bytes", self.dtype.storage_bytes(1))

    @property
    def key(self) -> tuple[Any, ...]:
        return (
            "TensorKind",
            self.dtype.name,
            *(getattr(self, name) for name in self._fields[1:-1]),
        )

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def dim_bits(self) -> int:
        """Width of the integers that kernels see as this tensor's dims: 64 if any needs it, else 32."""
        wide = (
            dim.width == 64 if isinstance(dim, Dim) else dim > _LARGEST_32_BIT for dim in self.dims
        )
        return 64 if any(wide) else 32

    @property
    def offset_bits(self) -> int:
        """Width of element offsets: 32 only where the wrapper proves that they fit.

        That is a contiguous tensor of static extent, or with one dimension of at most 32 bits.
        """
        if self.layout != CONTIGUOUS:
            return 64
        extent = 1
        symbols = 0
        for dim in self.dims:
            if isinstance(dim, Dim):
                symbols += 1
            else:
                extent *= dim
        if self.dim_bits == 32 and symbols == 1 and extent <= 1:
            return 32
        return 32 if symbols == 0 and extent <= _LARGEST_32_BIT else 64

    @property
    def text(self) -> str:
        """As in `add_one(a: Tensor[f32, (n,)])`; defaults are left out.

        Example:
            >>> from weft.types.dtype import f32
            >>> TensorKind(f32, (Dim("n"), 4), "strided").text
            'Tensor[f32, (n, 4), strided]'
        """
        default = self.alignment_bytes == self.dtype.storage_bytes(1)
        return tensor_text(
            TensorSpec(
                self.dtype,
                self.dims,
                None if self.layout == CONTIGUOUS else self.layout,
                self.strides,
                None if default else self.alignment_bytes,
                self.device_type if self.device_index is not None else None,
                self.device_index,
            )
        )

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is Tensor or isinstance(annotation, TensorSpec)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return isinstance(value, TensorSpec) or example_spec(value) is not None

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> TensorKind:
        declared = annotation if isinstance(annotation, TensorSpec) else TensorSpec()
        if value is MISSING:
            given = TensorSpec()
        elif isinstance(value, TensorSpec):
            given = value
        else:
            example = example_spec(value)
            if example is None:
                raise place.error(
                    "ARGUMENT_NOT_TENSOR",
                    f"it is annotated {annotation_text(annotation)}, received {describe(value)}",
                )
            given = example
        return _Merge(declared, given, place, symbols).kind()

    def resolved(self, symbols: Symbols) -> TensorKind:
        return self.replaced(
            dims=tuple(symbols.resolve(d) if isinstance(d, Dim) else d for d in self.dims),
            strides=self.strides
            and tuple(symbols.resolve(s) if isinstance(s, Dim) else s for s in self.strides),
        )


class _Merge(NamedTuple):
    """Merges the facts of a tensor's annotation with those of its example or fake."""

    declared: TensorSpec
    given: TensorSpec
    place: Place
    symbols: Symbols

    def kind(self) -> TensorKind:
        dtype = self._equal("dtype", self.declared.dtype, self.given.dtype)
        if dtype is None:
            raise self._incomplete("dtype")
        dims = self._dims()
        strides = self._strides(len(dims))
        layout = self._layout(strides)
        alignment = max(self.declared.alignment_bytes or 0, self.given.alignment_bytes or 0)
        if self.symbols.has_addresses:
            alignment = max(alignment, self.given.example_alignment)
        if dtype.is_packed:
            dims = self._whole_rows(dtype, dims, layout)
            strides = self._whole_strides(dtype, strides, layout, len(dims))
        return TensorKind(
            dtype,
            dims,
            layout,
            strides,
            alignment,
            self._device_type(),
            self._equal("device index", self.declared.device_index, self.given.device_index),
            self.given.example_device,
        )

    def _whole_rows(
        self, dtype: DType, dims: tuple[int | Dim, ...], layout: str
    ) -> tuple[int | Dim, ...]:
        """The dims of packed elements; each row takes whole bytes."""
        each, name = dtype.info.in_whole_bytes, self.place.name
        if not dims or layout == STRIDED:
            raise self.place.error(
                "ARGUMENT_PACKED",
                f"several {dtype} lie in a byte, side by side in a row, but the tensor "
                f"{'has any strides' if dims else 'has rank 0'}",
                hint='pack along the last dimension, and annotate a layout of "contiguous" or "inner"',
            )
        last = dims[-1]
        example = self.given.shape[-1] if self.given.shape else last
        for size in (last, example):
            if isinstance(size, int) and size % each:
                raise self.place.value_error(
                    "ARGUMENT_PACKED",
                    f"{name}.shape[{len(dims) - 1}] is {size}; rows of {dtype} take whole bytes, of {each} each",
                    hint=f"pad the rows to a multiple of {each}",
                )
        return (*dims[:-1], self.symbols.divided(last, each) if isinstance(last, Dim) else last)

    def _whole_strides(
        self,
        dtype: DType,
        strides: tuple[int | Dim | None, ...] | None,
        layout: str,
        rank: int,
    ) -> tuple[int | Dim | None, ...] | None:
        """The strides of packed elements: each row begins with a byte."""
        if layout == CONTIGUOUS or rank < 2:
            return strides
        each = dtype.info.in_whole_bytes
        found: list[int | Dim | None] = []
        for index, stride in enumerate((strides or (None,) * (rank - 1))[: rank - 1]):
            if isinstance(stride, int) and stride % each:
                raise self.place.value_error(
                    "ARGUMENT_PACKED",
                    f"{self.place.name}.strides[{index}] is {stride}; rows of {dtype} begin with a byte, "
                    f"of {each} each",
                )
            known = Dim(None, 1, 64) if stride is None else stride
            found.append(self.symbols.divided(known, each) if isinstance(known, Dim) else known)
        return (*found, 1)

    def _incomplete(self, what: str) -> Exception:
        return self.place.error(
            "ARGUMENT_MISSING",
            f"no value was given, and {tensor_text(self.declared)} has no {what}",
            hint="give a tensor or weft.fake_tensor(dtype, shape), or annotate dtype and shape",
        )

    def _conflict(self, what: str, declared: object, given: object) -> Exception:
        return self.place.value_error(
            "ARGUMENT_CONFLICT",
            f"its {what} is {given}, but the annotation {tensor_text(self.declared)} "
            f"says {declared}",
        )

    def _equal(self, what: str, declared: Any, given: Any) -> Any:
        if declared is not None and given is not None and declared != given:
            raise self._conflict(what, declared, given)
        return given if declared is None else declared

    def _device_type(self) -> int | None:
        declared, said = self.declared.device_type, self.given.device_type
        given = self.given.example_device[0] if self.given.example_device else said
        if declared is not None and given is not None and declared != given:
            raise self._conflict("device", device_name(declared), device_name(given))
        return said if declared is None else declared

    def _dims(self) -> tuple[int | Dim, ...]:
        declared, given = self.declared.dims, self.given.dims
        if declared is None and given is None:
            raise self._incomplete("shape")
        for dims in (declared, given):
            for dim in dims or ():
                if isinstance(dim, Dim):
                    self.symbols.declare(dim, self.place)
        rank = len(given if declared is None else declared)  # pyright: ignore[reportArgumentType]
        if declared is not None and given is not None and len(declared) != len(given):
            raise self._conflict(
                "shape", dims_text(declared), dims_text(self.given.shape or self.given.dims or ())
            )
        return tuple(
            self._dim(
                index,
                None if declared is None else declared[index],
                None if given is None else given[index],
            )
            for index in range(rank)
        )

    def _dim(self, index: int, declared: int | Dim | None, given: int | Dim | None) -> int | Dim:
        what = f"{self.place.name}.shape[{index}]"
        if self.given.shape is not None:  # a real tensor: its sizes are only an example
            size = self.given.shape[index]
            if isinstance(declared, int):
                return self._equal(f"shape[{index}]", declared, size)
            return self.symbols.observe(declared or Dim(None), size, what, self.place)
        if isinstance(declared, Dim) and isinstance(given, int):
            self.symbols.fix(declared, given, what, self.place)
            return given
        if isinstance(declared, Dim) and isinstance(given, Dim):
            if declared.name is None or given.name is None:
                return _stronger(declared, given)
            return self._equal(f"shape[{index}]", declared.name, given.name) and declared
        if isinstance(declared, int) and isinstance(given, int):
            return self._equal(f"shape[{index}]", declared, given)
        if isinstance(declared, int) and isinstance(given, Dim):
            self.symbols.fix(given, declared, what, self.place)
            return declared
        return Dim(None) if declared is None and given is None else _known(declared, given)

    def _strides(self, rank: int) -> tuple[int | Dim | None, ...] | None:
        declared, given = self.declared.strides, self.given.strides
        strides = given if declared is None else declared
        if strides is None:
            return None
        if len(strides) != rank:
            raise self.place.error(
                "STRIDES_RANK", f"{len(strides)} strides for a tensor of rank {rank}"
            )
        if declared is not None and given is not None and declared != given:
            raise self._conflict("strides", dims_text(declared), dims_text(given))
        for stride in strides:
            if isinstance(stride, Dim):
                self.symbols.declare(stride, self.place)
        self._check_example_strides(strides)
        return strides

    def _check_example_strides(self, strides: tuple[int | Dim | None, ...]) -> None:
        example = self.given
        if example.shape is None or example.example_strides is None or 0 in example.shape:
            return
        for index, (stride, size, value) in enumerate(
            zip(strides, example.shape, example.example_strides, strict=True)
        ):
            if stride is None or size == 1:
                continue
            what = f"strides[{index}]"
            if isinstance(stride, int):
                self._equal(what, stride, value)
            else:
                self.symbols.observe(stride, value, f"{self.place.name}.{what}", self.place)

    def _layout(self, strides: tuple[int | Dim | None, ...] | None) -> str:
        declared, given = self.declared.layout, self.given.layout
        if declared is not None and given is not None and not layout_holds(declared, given):
            raise self.place.value_error(
                "ARGUMENT_CONFLICT",
                f"its layout is {given}, but the annotation {tensor_text(self.declared)} "
                f"says {declared}",
                hint=f"pass a {declared} tensor, or annotate the layout {given!r}",
            )
        if declared is not None:
            return declared
        if self.declared.strides is not None and strides:
            return "inner" if strides[-1] == 1 else "strided"
        # Annotated without a layout: the example's layout class is used.
        return given or CONTIGUOUS


def _stronger(first: Dim, second: Dim) -> Dim:
    """The named one of two mentions of a dimension; of two unnamed ones, the more specific."""
    if first.name is not None:
        return first
    if second.name is not None:
        return second
    return max(first, second, key=lambda dim: (dim.divisibility, dim.width))


def _known(declared: int | Dim | None, given: int | Dim | None) -> int | Dim:
    known = given if declared is None else declared
    return Dim(None) if known is None else known
