# SPDX-License-Identifier: Apache-2.0
"""Random arguments for a compiled function, and a summary of what it left in them.

In: a compiled function, sizes by name. Out: its arguments as tensors of weft on the CPU or on a GPU, and numbers.
"""

from __future__ import annotations

import math
import zlib
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final

from weft.arguments.scalar import ScalarKind
from weft.arguments.size import SizeKind
from weft.arguments.tensor import TensorKind
from weft.cli.functions import WrongCommandError
from weft.cli.spec import Value, numpy_type, parse_spec
from weft.types.device import CPU
from weft.types.dims import Dim

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from weft.types.dtype import DType

_SIZE: Final = 1024
_MOST_ELEMENTS: Final = 1 << 30
_MOST_INTEGER: Final = 100


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """The sizes and the seed."""
    parser.add_argument(
        "--sizes",
        type=parse_sizes,
        default={},
        help=f"what named sizes are, such as n=4096,m=64 (default: {_SIZE})",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: 0)")


def parse_sizes(text: str) -> dict[str, int]:
    """Sizes by name.

    Raises:
        ArgumentTypeError: if one is not an integer of at least 0.
    Example:
        >>> parse_sizes("n=4096, m=64")
        {'n': 4096, 'm': 64}
    """
    sizes: dict[str, int] = {}
    for name, said in parse_spec(text).items():
        if not isinstance(said, Value) or type(said.value) is not int or said.value < 0:
            raise ArgumentTypeError(f"{name}: expected a size, such as {name}=4096")
        sizes[name] = said.value
    return sizes


def make_arguments(compiled: Any, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Random arguments by name, on the device that the function runs on; values with a default are left to it.

    Floats are normally distributed, integers are from 0 to 99.

    Raises:
        WrongCommandError: for an argument that is not a tensor, a number or a size, or is far too large.
        ImportError: without NumPy.
    """
    try:
        import numpy as np
    except ModuleNotFoundError:
        raise WrongCommandError("random data needs NumPy: pip install numpy") from None
    signature = compiled.signature
    device = "cpu" if signature.device_type in (None, CPU) else "cuda"
    random = np.random.default_rng(seed)
    arguments: dict[str, Any] = {}
    for parameter in signature.passed:
        name, kind = parameter.name, parameter.kind
        if name in compiled.plan.defaults:
            continue
        if isinstance(kind, TensorKind):
            shape = tuple(_size(dim, sizes) for dim in kind.dims)
            arguments[name] = _tensor(name, random, shape, kind.dtype, device)
        elif isinstance(kind, ScalarKind):
            arguments[name] = _numbers(random, (), kind.dtype)[()].item()
        elif isinstance(kind, SizeKind):
            arguments[name] = _size(kind.dim, sizes)
        else:
            raise WrongCommandError(
                f"argument '{name}' is {kind.text}; this command makes tensors, numbers and sizes. "
                "Call the function from a program instead"
            )
    return arguments


def _size(dim: int | Dim, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim.name is not None and dim.name in sizes:
        return sizes[dim.name]
    return -(-_SIZE // dim.divisibility) * dim.divisibility


def _tensor(name: str, random: Any, shape: Sequence[int], dtype: DType, device: str) -> Any:
    import weft

    elements = math.prod(shape)
    if elements > _MOST_ELEMENTS:
        raise WrongCommandError(f"'{name}' would have {elements:,} elements; give its --sizes")
    # A tensor of weft is aligned to 64 bytes, and to 256 on a GPU.
    return weft.copy(weft.empty(tuple(shape), dtype, device), _numbers(random, shape, dtype))


def _numbers(random: Any, shape: Sequence[int], dtype: DType) -> Any:
    if dtype.kind == "float":
        return random.standard_normal(shape).astype(numpy_type(dtype))
    most = 2 if dtype.kind == "bool" else _MOST_INTEGER
    return random.integers(0, most, shape).astype(numpy_type(dtype))


def summary_of(tensor: Any, dtype: DType) -> str:
    """Type, shape, extremes, mean and checksum of a tensor, which is copied from its device.

    Example:
        >>> import weft
        >>> summary_of(weft.full(4, 0.5, weft.f32), weft.f32)
        'f32 (4,)  min 0.5  max 0.5  mean 0.5  crc32 a82d7e26'
    """
    import numpy as np

    import weft

    values = weft.copy(np.empty(tuple(tensor.shape), numpy_type(dtype)), tensor)
    text = f"{dtype.name} {values.shape}"
    if values.size:
        wide = values.astype(np.float64)
        for name, figure in (("min", wide.min()), ("max", wide.max()), ("mean", wide.mean())):
            text += f"  {name} {figure:.6g}"
    return f"{text}  crc32 {zlib.crc32(values.tobytes()):08x}"
