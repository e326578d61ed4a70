# SPDX-License-Identifier: Apache-2.0
"""The types of a function's arguments as text: ``a:f32[n,4],b:f32[n] strided,scale:f32,tile=16``.

In: the text. Out: parameter → `TensorSpec`, `DType` (a number of that type) or `Value`. docs/command-line.md
has the language; names of types and layouts, and what a size may be, are those of `weft.Tensor[...]`.
"""

from __future__ import annotations

import ast
import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from weft.arguments.tensor_spec import MAX_RANK, TensorSpec, fake_tensor
from weft.types.dtype import DTYPES, DType, bool_, f32, i32
from weft.types.layout import CONTIGUOUS, LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Parameter → what is said of it, in order.

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
        """What comes next, which is expected to match."""
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
