# SPDX-License-Identifier: Apache-2.0
"""TMA descriptors: a tensor in global memory and the box that TMA moves at once.

In: an address, shape and strides as Python and C order them (slowest first). Out: a descriptor that kernels receive by
value, re-encoded only when something changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft import _native
from weft.driver.library import as_int, as_ints, open_driver
from weft.errors import brief
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

# Element types by name: the driver's number, and bytes of an element.
ELEMENTS: Final[Mapping[str, tuple[int, int]]] = {
    **{
        name: (info.tensor_map, info.storage_bytes(1))
        for name, info in INFO.items()
        if info.tensor_map is not None and name != "bool_"
    },
    "f32_ftz": (10, 4),
    "tf32": (11, 4),
    "tf32_ftz": (12, 4),
}
INTERLEAVES: Final[Mapping[str, int]] = {"none": 0, "16B": 1, "32B": 2}
SWIZZLES: Final[Mapping[str, int]] = {
    "none": 0,
    "32B": 1,
    "64B": 2,
    "128B": 3,
    "128B_atom_32B": 4,
    "128B_atom_32B_flip_8B": 5,
    "128B_atom_64B": 6,
}
L2_PROMOTIONS: Final[Mapping[str, int]] = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS: Final[Mapping[str, int]] = {"zero": 0, "nan": 1}

_SWIZZLE_BYTES: Final = {"32B": 32, "64B": 64}  # the others: 128
# Offsets of an im2col box's corners, by the number of spatial dimensions.
_CORNER_LIMITS: Final = {1: (-32768, 32767), 2: (-128, 127), 3: (-16, 15)}

if TYPE_CHECKING:
    Numbers: TypeAlias = tuple[int, ...]


class TensorMap(_native.TensorMap):
    """A TMA descriptor and its parameters. Pass it to a launch as ``nvTmaDesc``.

    Attributes:
        element: the element type's name, a key of `ELEMENTS`; empty before it is filled.
        shape: sizes, slowest dimension first.
        strides: elements between adjacent ones in each dimension, the last one 1.
        box: sizes of one copy (tiled); empty for im2col.
        global_address: the tensor's address in device memory; the memory is the caller's.

    Example:
        >>> TensorMap()
        <TensorMap, not filled yet>
    """

    __slots__ = ("box", "element", "global_address", "shape", "strides")

    element: str
    shape: Numbers
    strides: Numbers
    box: Numbers
    global_address: int

    def __init__(self) -> None:
        super().__init__()
        self.element = ""
        self.shape = self.strides = self.box = ()
        self.global_address = 0

    def __repr__(self) -> str:
        if not self.element:
            return "<TensorMap, not filled yet>"
        return (
            f"<TensorMap of {self.element} at {self.global_address:#x}, shape={self.shape}, "
            f"strides={self.strides}, box={self.box or 'im2col'}>"
        )


def _choice(name: str, value: str, choices: Mapping[str, int]) -> int:
    if not isinstance(value, str) or value not in choices:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{name} is {brief(value)}, expected one of: {', '.join(choices)}")
    return choices[value]


def _address(descriptor: object, address: object) -> int:
    """The address as an int; refuses other objects."""
    if not isinstance(descriptor, TensorMap):
        raise TypeError(f"descriptor is {brief(descriptor)}, expected a weft.driver.TensorMap")
    return as_int(address, "address", 0, 2**64 - 1)


def _check_within(name: str, values: Sequence[int], least: int, most: int) -> None:
    for index, value in enumerate(values):
        if not least <= value <= most:
            raise ValueError(f"{name}[{index}] is {value}, expected {least} to {most}")


def _check_tensor(
    address: int, shape: Numbers, strides: Numbers, element_bytes: int, interleave: str, least: int
) -> Numbers:
    """Check the parameters common to both kinds; return the byte strides of all dimensions but the last."""
    rank = len(shape)
    if not least <= rank <= 5:
        raise ValueError(f"shape {shape} has rank {rank}, expected {least} to 5")
    if interleave != "none" and rank < 3:
        raise ValueError(
            f"shape {shape} has rank {rank}, expected 3 to 5 with interleave {interleave!r}"
        )
    if len(strides) != rank:
        raise ValueError(f"strides {strides} are {len(strides)}, expected {rank} as shape")
    if strides[-1] != 1:
        raise ValueError(
            f"strides[{rank - 1}] is {strides[-1]}, expected 1: the last dimension is dense"
        )
    alignment = 32 if interleave == "32B" else 16
    if address == 0:
        raise ValueError(
            "the address is 0, expected that of a tensor in device memory; an empty tensor has no descriptor"
        )
    if address % alignment != 0:
        raise ValueError(f"the address {address:#x} is not a multiple of {alignment} bytes")
    _check_within("shape", shape, 1, 2**32)
    byte_strides = tuple(stride * element_bytes for stride in strides[:-1])
    for index, stride in enumerate(byte_strides):
        if stride % alignment != 0 or not 0 <= stride < 2**40:
            raise ValueError(
                f"strides[{index}] is {strides[index]} elements, {stride} bytes; "
                f"expected a multiple of {alignment} bytes below 2**40"
            )
    return byte_strides


def _check_inner(inner: int, element_bytes: int, swizzle: str, interleave: str) -> None:
    """The bytes of the innermost dimension that one copy moves."""
    inner_bytes = inner * element_bytes
    if interleave == "none" and inner_bytes % 16 != 0:
        raise ValueError(
            f"the box is {inner} elements wide, {inner_bytes} bytes; expected a multiple of 16 bytes"
        )
    if interleave == "none" and swizzle != "none":
        most = _SWIZZLE_BYTES.get(swizzle, 128)
        if inner_bytes > most:
            raise ValueError(
                f"the box is {inner_bytes} bytes wide, the swizzle {swizzle} allows {most}"
            )
    if interleave == "32B" and swizzle != "32B":
        raise ValueError(f"swizzle is {swizzle!r}, expected '32B' with the interleave '32B'")


def _check_fill(element: str, fill: str) -> None:
    if fill == "nan" and element[0] in "iu":
        raise ValueError(f"fill is 'nan', expected 'zero' for elements of type {element}")


def _check_corners(lower: Sequence[int], upper: Sequence[int], sizes: Numbers) -> None:
    spatial = len(sizes)
    for name, corner in (("lower", lower), ("upper", upper)):
        if len(corner) != spatial:
            raise ValueError(
                f"{name} {tuple(corner)} has {len(corner)} offsets, expected {spatial}"
            )
        _check_within(name, corner, *_CORNER_LIMITS[spatial])
    for index, size in enumerate(sizes):
        extent = size + upper[index] - lower[index]
        if extent < 1:
            raise ValueError(
                f"the bounding box is {extent} wide in spatial dimension {index}: shape {size}, "
                f"lower {lower[index]}, upper {upper[index]}; expected at least 1"
            )


def _modes(
    interleave: str, swizzle: str, l2_promotion: str, fill: str
) -> tuple[int, int, int, int]:
    return (
        _choice("interleave", interleave, INTERLEAVES),
        _choice("swizzle", swizzle, SWIZZLES),
        _choice("l2_promotion", l2_promotion, L2_PROMOTIONS),
        _choice("fill", fill, FILLS),
    )


def fill_tma_descriptor_tiled(
    descriptor: TensorMap,
    address: int,
    element: str,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "128B",
    fill: str = "zero",
) -> TensorMap:
    """Encode a tiled descriptor, unless it is encoded with the same parameters.

    Args:
        descriptor: a `TensorMap`, new or used.
        address: the tensor's device address, 16-byte aligned; borrowed.
        element: a key of `ELEMENTS`.
        shape: 1 to 5 sizes, slowest first.
        strides: elements between adjacent ones, the last one 1; each multiple of 16 bytes.
        box: sizes of one copy, 1 to 256 each.
        element_strides: step within the box, 1 to 8 each; None is all ones.
        interleave, swizzle, l2_promotion, fill: keys of the tables above. `fill` makes out-of-bounds reads zeros or
            NaNs.

    Returns:
        The descriptor.

    Raises:
        ValueError: a number is out of range; the message has it and the limit.
        TypeError: an argument is of another kind.
        weft.CudaError: there is no usable driver, or it refuses the numbers.
    """
    number, element_bytes = _element(element)
    modes = _modes(interleave, swizzle, l2_promotion, fill)
    address = _address(descriptor, address)
    shape, strides, box = as_ints(shape, "shape"), as_ints(strides, "strides"), as_ints(box, "box")
    steps = _steps(element_strides, len(shape))
    byte_strides = _check_tensor(address, shape, strides, element_bytes, interleave, 1)
    if len(box) != len(shape) or len(steps) != len(shape):
        raise ValueError(
            f"box {box} and element_strides {steps}: expected {len(shape)} of each, as shape"
        )
    _check_within("box", box, 1, 256)
    _check_within("element_strides", steps, 1, 8)
    _check_inner(box[-1], element_bytes, swizzle, interleave)
    _check_fill(element, fill)
    open_driver()
    descriptor.fill_tiled(
        address, number, shape[::-1], byte_strides[::-1], box[::-1], steps[::-1], *modes
    )
    return _describe(descriptor, address, element, shape, strides, box)


def fill_tma_descriptor_im2col(
    descriptor: TensorMap,
    address: int,
    element: str,
    shape: Sequence[int],
    strides: Sequence[int],
    *,
    lower: Sequence[int],
    upper: Sequence[int],
    channels_per_pixel: int,
    pixels_per_column: int,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "128B",
    fill: str = "zero",
) -> TensorMap:
    """Encode an im2col descriptor of an N[D[H]]WC tensor, unless it is encoded with the same parameters.

    Args:
        descriptor: a `TensorMap`, new or used.
        address: the tensor's device address, 16-byte aligned; borrowed.
        element: a key of `ELEMENTS`.
        shape: 3 to 5 sizes: N, then one to three spatial ones, then C.
        strides: elements between adjacent ones, the last one 1.
        lower, upper: corners of the bounding box, one offset per spatial dimension in `shape`'s order.
        channels_per_pixel: elements along C, 1 to 256.
        pixels_per_column: elements along the others, 1 to 1024.
        element_strides: step in each dimension, 1 to 8; None is all ones.
        interleave, swizzle, l2_promotion, fill: as for the tiled one.

    Returns:
        The descriptor.

    Raises:
        ValueError: a number is out of range; the message has it and the limit.
        TypeError: an argument is of another kind.
        weft.CudaError: there is no usable driver, or it refuses the numbers.
    """
    number, element_bytes = _element(element)
    modes = _modes(interleave, swizzle, l2_promotion, fill)
    address = _address(descriptor, address)
    shape, strides = as_ints(shape, "shape"), as_ints(strides, "strides")
    lower, upper = as_ints(lower, "lower"), as_ints(upper, "upper")
    channels_per_pixel = as_int(channels_per_pixel, "channels_per_pixel")
    pixels_per_column = as_int(pixels_per_column, "pixels_per_column")
    steps = _steps(element_strides, len(shape))
    byte_strides = _check_tensor(address, shape, strides, element_bytes, interleave, 3)
    _check_corners(lower, upper, shape[1:-1])
    _check_fill(element, fill)
    if len(steps) != len(shape):
        raise ValueError(f"element_strides {steps}: expected {len(shape)}, as shape")
    _check_within("element_strides", steps, 1, 8)
    _check_within("channels_per_pixel", (channels_per_pixel,), 1, 256)
    _check_within("pixels_per_column", (pixels_per_column,), 1, 1024)
    _check_inner(channels_per_pixel, element_bytes, swizzle, interleave)
    open_driver()
    descriptor.fill_im2col(
        address,
        number,
        shape[::-1],
        byte_strides[::-1],
        lower[::-1],
        upper[::-1],
        channels_per_pixel,
        pixels_per_column,
        steps[::-1],
        *modes,
    )
    return _describe(descriptor, address, element, shape, strides, ())


def _steps(element_strides: Sequence[int] | None, rank: int) -> Numbers:
    return (1,) * rank if element_strides is None else as_ints(element_strides, "element_strides")


def _element(element: str) -> tuple[int, int]:
    if not isinstance(element, str) or element not in ELEMENTS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"element is {brief(element)}, expected one of: {', '.join(ELEMENTS)}")
    return ELEMENTS[element]


def _describe(
    descriptor: TensorMap,
    address: int,
    element: str,
    shape: Numbers,
    strides: Numbers,
    box: Numbers,
) -> TensorMap:
    descriptor.global_address = address
    descriptor.element = element
    descriptor.shape = shape
    descriptor.strides = strides
    descriptor.box = box
    return descriptor
