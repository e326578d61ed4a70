# SPDX-License-Identifier: Apache-2.0
"""The function that a command names, ``file.py::function``, its arguments' types and values, and its compilation.

In: words of the command line; types as text: ``a:f32[n,4],b:f32[n] strided,scale:f32,tile=16``, of which
docs/command-line.md has the language; names of types and layouts, and sizes, are those of
`weft.Tensor[...]`; sizes by name. Out: a host function, or a compiled one; its arguments as tensors of weft on the CPU
or on a GPU with random elements, and numbers; a summary of their contents after a call. A wrong word is a
`WrongCommandError`.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import shlex
import sys
import zlib
from argparse import ArgumentTypeError
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import SizeKind
from weft.arguments.tensor import TensorKind
from weft.arguments.tensor_spec import TensorSpec, fake_tensor
from weft.errors import OptionError
from weft.types.device import CPU
from weft.types.dims import CONTIGUOUS, LAYOUTS, MAX_RANK, Dim
from weft.types.dtype import DTYPES, DType, bool_, f32, i32

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from types import ModuleType


class WrongCommandError(Exception):
    """A malformed command line; the text says what to write."""


_HOST_FUNCTION: Final = """\
'{name}' is a kernel, which only runs when a host function launches it; add one to the file, and name that:

    @weft.jit
    def launch_{name}({parameters}):
        {name}({parameters}).launch(grid=..., block=...)"""


def add_function_arguments(parser: argparse.ArgumentParser) -> None:
    """The function, the types of its arguments, and options for compiling it."""
    parser.add_argument(
        "function", metavar="file.py::function", help="a @weft.jit function of a file"
    )
    parser.add_argument(
        "--spec",
        type=parse_spec,
        default={},
        help="types of the arguments, such as 'a:f32[n],b:f32[n]'; those left out have annotations",
    )
    parser.add_argument("--gpu-arch", metavar="ARCH", help="compile for a GPU, such as sm_90a")
    parser.add_argument("--target", help="compile for cpu, cuda or another backend")
    parser.add_argument(
        "--options", default="", help="more options of weft.compile: --options='--opt-level 2'"
    )


def find_function(words: str) -> Any:
    """The host function that ``file.py::function`` names; its name may be left out if the file has only one.

    Raises:
        WrongCommandError: if there is no such file or function, or if it is a kernel.
        OSError: if the file cannot be read.
    """
    from weft.api import JitFunction, Kernel

    file, _, name = words.partition("::")
    module = _import_file(Path(file))
    functions = {key: each for key, each in vars(module).items() if isinstance(each, JitFunction)}
    listed = (
        f"{file} has the host functions {', '.join(functions)}"
        if functions
        else (f"{file} has no host function: decorate one with @weft.jit")
    )
    if not name:
        if len(functions) == 1:
            return next(iter(functions.values()))
        raise WrongCommandError(f"name a function, as in {file}::function; {listed}")
    found = getattr(module, name, None)
    if isinstance(found, JitFunction):
        return found
    if isinstance(found, Kernel):
        code = found.function.__code__
        parameters = ", ".join(code.co_varnames[: code.co_argcount])
        raise WrongCommandError(_HOST_FUNCTION.format(name=name, parameters=parameters))
    if found is not None:
        raise WrongCommandError(f"{name} is not a host function; {listed}")
    near = get_close_matches(name, functions, n=1)
    raise WrongCommandError(
        f"{file} has no {name}; {f'did you mean {near[0]}?' if near else listed}"
    )


def _import_file(path: Path) -> ModuleType:
    """Runs a file as a module; what lies beside it, and in the current folder, can be imported."""
    if not path.is_file():
        raise WrongCommandError(f"there is no file {path}")
    name = f"{path.stem} of weft's command line"  # never another module's, such as inspect.py
    specification = importlib.util.spec_from_file_location(name, path.resolve())
    if specification is None or specification.loader is None:
        raise WrongCommandError(f"{path} is not a Python file")
    sys.path[:0] = [str(path.resolve().parent), str(Path.cwd())]
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses ask for it
    specification.loader.exec_module(module)
    return module


def compile_named(arguments: argparse.Namespace, function: Any, *more: str) -> Any:
    """Compiles a function for the types of ``--spec``.

    Args:
        arguments: as `add_function_arguments` describes them.
        function: from `find_function`.
        more: words of further options.
    Raises:
        WrongCommandError: for an unknown or wrong option, or a specification of no parameter of the function.
        WeftError: if it cannot be compiled.
    """
    import weft

    code = function.function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in arguments.spec:
        if name not in parameters:
            raise WrongCommandError(
                f"--spec names '{name}'; {function.function.__name__} has the parameters "
                f"{', '.join(parameters)}"
            )
    words = list(more)
    for option, value in (("--gpu-arch", arguments.gpu_arch), ("--target", arguments.target)):
        words += [option, value] if value else []
    examples = {name: example_of(said) for name, said in arguments.spec.items()}
    options = f"{arguments.options} {shlex.join(words)}".strip()
    try:
        return weft.compile(function, options=options, **examples)
    except OptionError as error:
        raise WrongCommandError(str(error)) from None


_TYPES: Final[Mapping[str, DType]] = {dtype.name: dtype for dtype in DTYPES}
_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_SIZE: Final = re.compile(r"\d+|[^\W\d]\w*")
_VALUE: Final = re.compile(r"""\([^()]*\)|'[^']*'|"[^"]*"|[^,]+""")
# Python's numbers are examples of these types; the other types need NumPy's.
_PYTHON_ZEROS: Final = {bool_: False, i32: 0, f32: 0.0}


class Value(NamedTuple):
    """A value that was given with ``name=value``: a constant, or an example."""

    value: Any


Said = TensorSpec | DType | Value


def parse_spec(text: str) -> dict[str, Said]:
    """Parameter → its description, in order.

    Raises:
        ArgumentTypeError: if it is not in the language; with a caret under the place.
    Example:
        >>> parse_spec("a:f32[n,4], scale:f32, tile=16")
        {'a': Tensor[f32, (n, 4), contiguous], 'scale': weft.f32, 'tile': Value(value=16)}
    """
    reader = _Reader(text)
    found: dict[str, Said] = {}
    while True:
        start = reader.skip()
        name = reader.take(_NAME, "the name of a parameter")
        if name in found:
            reader.refuse(f"one type of '{name}', which is here twice", start)
        if reader.takes("="):
            found[name] = _value(reader)
        elif reader.takes(":"):
            found[name] = _type(reader)
        else:
            reader.refuse("':' and a type, or '=' and a value")
        if reader.is_over():
            return found
        if not reader.takes(","):
            reader.refuse("',' and the next parameter")


class _Reader:
    """A text and a place in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def skip(self) -> int:
        """The place after white space."""
        if match := _SPACE.match(self.text, self.place):
            self.place = match.end()
        return self.place

    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.skip() == len(self.text)

    def takes(self, word: str) -> bool:
        """Whether this word comes next; then it is passed."""
        is_next = self.text.startswith(word, self.skip())
        self.place += len(word) if is_next else 0
        return is_next

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        """Next token, which is expected to match."""
        match = pattern.match(self.text, self.skip())
        if match is None:
            self.refuse(what)
        self.place = match.end()
        return match[0]

    def refuse(self, expected: str, place: int | None = None) -> NoReturn:
        """Says what was expected here, with a caret."""
        at = self.place if place is None else place
        raise ArgumentTypeError(f"expected {expected}\n  {self.text}\n  {' ' * at}^")


def _type(reader: _Reader) -> TensorSpec | DType:
    start = reader.skip()
    names = ", ".join(_TYPES)
    dtype = _TYPES.get(reader.take(_NAME, f"a type: {names}"))
    if dtype is None:
        reader.refuse(f"a type: {names}", start)
    if not reader.takes("["):
        return dtype
    shape: list[int | str | None] = []
    while not reader.takes("]"):
        if shape and not reader.takes(","):
            reader.refuse("',' or ']'")
        if len(shape) == MAX_RANK:
            reader.refuse(f"at most {MAX_RANK} dims")
        shape.append(_size(reader))
    layout = next(filter(reader.takes, LAYOUTS), CONTIGUOUS)
    return fake_tensor(dtype, tuple(shape), layout)


def _size(reader: _Reader) -> int | str | None:
    start = reader.skip()
    word = reader.take(_SIZE, "a size, a name, or None for a size of its own")
    if not word[0].isdecimal():
        return None if word == "None" else word
    if int(word) >= 1 << 63:
        reader.refuse("a size below 2**63", start)
    return int(word)


def _value(reader: _Reader) -> Value:
    start = reader.skip()
    word = reader.take(_VALUE, "a value")
    try:
        return Value(ast.literal_eval(word.strip()))
    except (ValueError, SyntaxError):
        reader.refuse("a Python literal, such as 16, 0.5, True, 'text' or (8, 8)", start)


def example_of(said: Said) -> Any:
    """An example to compile with.

    Raises:
        ImportError: if its type needs NumPy or ml_dtypes, and that is not installed.
    """
    if isinstance(said, Value):
        return said.value
    if isinstance(said, TensorSpec):
        return said
    if said in _PYTHON_ZEROS:
        return _PYTHON_ZEROS[said]
    return numpy_type(said).type(0)


def numpy_type(dtype: DType) -> Any:
    """NumPy's type of the same elements; that of ml_dtypes for bf16 and 8-bit floats.

    Raises:
        ImportError: if that package is not installed.
    """
    import importlib

    numpy, info = importlib.import_module("numpy"), dtype.info
    if info.is_of_ml_dtypes:
        return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), info.numpy))
    return numpy.dtype(info.numpy)


_DEFAULT_SIZE: Final = 1024
_MOST_ELEMENTS: Final = 1 << 30
_MOST_INTEGER: Final = 100


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """The sizes and the seed."""
    parser.add_argument(
        "--sizes",
        type=parse_sizes,
        default={},
        help=f"what named sizes are, such as n=4096,m=64 (default: {_DEFAULT_SIZE})",
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
            shape = tuple(_size_of(dim, sizes) for dim in kind.dims)
            arguments[name] = _tensor(name, random, shape, kind.dtype, device)
        elif isinstance(kind, ScalarKind):
            arguments[name] = _numbers(random, (), kind.dtype)[()].item()
        elif isinstance(kind, SizeKind):
            arguments[name] = _size_of(kind.dim, sizes)
        else:
            raise WrongCommandError(
                f"argument '{name}' is {kind.text}; this command makes tensors, numbers and sizes. "
                "Call the function from a program instead"
            )
    return arguments


def _size_of(dim: int | Dim, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim.name is not None and dim.name in sizes:
        return sizes[dim.name]
    return -(-_DEFAULT_SIZE // dim.divisibility) * dim.divisibility


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
